"""Objects of hosted classes: made from a configuration, copied for each world, read as values.

Owns what public state is (attributes without a leading underscore) and its plain form, by which it
is compared. Never judges, never calls a tool.

    start = make(Library, {"members": {...}}, "task 12")
    plain_state(copied(start))                              # {"members": {...}, ...}
"""

from __future__ import annotations

import asyncio
import copy
import datetime
import decimal
import enum
import fractions
import inspect
import ipaddress
import itertools
import json
import math
import random
import re
import struct
import sys
import sysconfig
import typing
import uuid
import zoneinfo
from array import array
from collections import abc, deque
from collections.abc import Callable, Mapping
from contextlib import suppress
from functools import partial
from pathlib import PurePath
from typing import Any, TypeVar, cast

import numpy as np
from pydantic import BaseModel, PydanticUserError, TypeAdapter, ValidationError
from pydantic_core import to_jsonable_python

from rods.errors import EnvError, RodsError, TaskError
from rods.infra.dotted import nearest
from rods.infra.interrupt import error_text, run_to_end, shown, unless_ctrl_c

_TEXTS: tuple[Any, ...] = (
    datetime.datetime, datetime.date, datetime.time, datetime.timedelta, datetime.timezone,
    zoneinfo.ZoneInfo, decimal.Decimal, fractions.Fraction, complex, uuid.UUID, PurePath, range,
    ipaddress.IPv4Interface, ipaddress.IPv4Address, ipaddress.IPv4Network,
    ipaddress.IPv6Interface, ipaddress.IPv6Address, ipaddress.IPv6Network,
    np.datetime64, np.timedelta64, np.longdouble, np.clongdouble,
)  # fmt: skip
"""Types whose `str` says all of a value; one that derives from another comes before it."""
_SCALARS: tuple[Any, ...] = (str, int, float, bytes, bytearray, *_TEXTS)
_ROWS = (list, tuple, deque, array, abc.MappingView)
_SETS = (set, frozenset)
CONTAINERS = (abc.MutableMapping, abc.MutableSequence, abc.MutableSet, deque, bytearray)
_MUTABLE = (*CONTAINERS, itertools.count, itertools.cycle, random.Random, np.random.Generator)
_DEPTH = 150
_HELD = {"data", "maps"}  # Attributes in which mappings of the standard library keep what they hold
_LIBRARIES = tuple(sysconfig.get_path(name) for name in ("stdlib", "purelib", "platlib"))
Plain = TypeVar("Plain")
_POINTER = struct.calcsize("P")


class StateError(EnvError):
    """State that cannot be copied, written as JSON, or that holds itself."""


class Awaiting:
    """Runs what `async def` methods give to their end, in an event loop of its own for each."""

    def __init__(self) -> None:
        self._task: asyncio.Task[Any] | None = None

    def result(self, given: object) -> Any:
        """Result of a method, awaited where it can be; what it leaves running is cancelled."""
        if not inspect.isawaitable(given):
            return given

        async def main() -> Any:
            self._task = asyncio.current_task()
            return await given

        return run_to_end(main())

    def cancel(self) -> None:
        """Cancel what is awaited, from any thread."""
        if self._task is not None and not self._task.done():
            with suppress(RuntimeError):  # its loop has ended meanwhile
                self._task.get_loop().call_soon_threadsafe(self._task.cancel)


def make(kind: type[Any], config: Mapping[str, object], where: str) -> Any:
    """An object in the state of a configuration.

    Its `load(config)` is used where it has one, else keyword arguments of its constructor; what
    neither takes is set as an attribute. Values become what the class's hints say (dataclasses,
    integer keys).

    Raises:
        TaskError: the class does not accept it; names `where`, class and attribute.
    """
    here = f"{where}: world.initial_config.{kind.__name__}"
    try:
        own = copy.deepcopy(dict(config))
        if loads(kind):
            made = kind()
            Awaiting().result(made.load(own))
            return made
        accepted = inspect.signature(kind).parameters
        every = any(p.kind is p.VAR_KEYWORD for p in accepted.values())
        typed = {name: _typed(kind, name, value, here) for name, value in own.items()}
        made = kind(**{n: v for n, v in typed.items() if every or n in accepted})
        for name, value in typed.items():
            if not every and name not in accepted:
                _known(made, name, here)
                setattr(made, name, value)
    except RodsError:
        raise
    except BaseException as error:  # whatever the user's class raises says what is wrong
        unless_ctrl_c(error)
        raise TaskError(f"{here} cannot be loaded: {shown(error)}.") from error
    return made


def loads(kind: type) -> bool:
    """True if a class has a method `load(self, config)`, which takes an initial state."""
    loader = getattr(kind, "load", None)
    return inspect.isfunction(loader) and [*inspect.signature(loader).parameters][1:] == ["config"]


def _known(made: object, name: str, here: str) -> None:
    if name.startswith("_") or not hasattr(made, name) or callable(getattr(made, name)):
        known = sorted(public(made))
        what = f"there is no attribute {name!r}.{nearest(name, known)}"
        raise TaskError(f"{here}: {what} Known: {', '.join(known) or 'none'}.")


def _typed(kind: type[object], name: str, value: object, here: str) -> Any:
    """The value as the class's or its constructor's hint wants it, where there is a hint."""
    try:
        hint = {**_hints(kind.__init__), **_hints(kind)}[name]
        adapter: TypeAdapter[Any] = TypeAdapter(hint)
    except (KeyError, PydanticUserError):
        return value
    try:
        return adapter.validate_python(value)
    except ValidationError as error:
        fault = error.errors()[0]
        at = ".".join(str(part) for part in (name, *fault["loc"]))
        got = str(fault["input"])[:80]
        raise TaskError(f"{here}.{at}: {fault['msg']}, got {got!r}.") from error


def _hints(what: object) -> dict[str, Any]:
    try:
        return typing.get_type_hints(what)
    except (NameError, TypeError, AttributeError):
        return {}


def attributes(made: object) -> dict[str, Any]:
    """All attributes of an object, those in slots included."""
    found: dict[str, Any] = dict(getattr(made, "__dict__", {}))
    for name in (name for base in type(made).__mro__ for name in _slots(base)):
        if hasattr(made, name):
            found.setdefault(name, getattr(made, name))
    return found


def public(made: object) -> dict[str, Any]:
    """Public attributes of an object."""
    return {name: value for name, value in attributes(made).items() if name[0] != "_"}


def copied(made: object) -> Any:
    """A copy with containers of its own; `StateError` names an attribute that has no copy."""
    try:
        fresh = copy.deepcopy(made)
        for base in reversed(type(made).__mro__[:-1]):
            for name, value in vars(base).items():
                # A public counter would become state, and a counter has no plain form.
                kinds = _MUTABLE if name[0] == "_" else CONTAINERS
                shared = not name.startswith(("__", "model_config")) and isinstance(value, kinds)
                if shared and name not in attributes(fresh):  # models and frozen ones refuse it
                    object.__setattr__(fresh, name, copy.deepcopy(value))
    except BaseException as error:  # copying runs the user's code
        unless_ctrl_c(error)
        raise StateError(_uncopyable(made, error)) from error
    return fresh


def _uncopyable(made: object, error: BaseException) -> str:
    name = type(made).__name__
    for attribute, value in attributes(made).items():
        try:
            copy.deepcopy(value)
        except BaseException as fault:  # noqa: BLE001 (copying runs the user's code)
            unless_ctrl_c(fault)
            return (
                f"class {name}, attribute {attribute}: a {type(value).__name__} cannot be copied "
                f"({error_text(fault)}), and each world needs its own copy. Keep plain values; "
                "make connections, locks and files where they are used."
            )
    return f"class {name}: its objects cannot be copied ({shown(error)}); each world needs a copy."


def plain_state(made: object) -> dict[str, Any]:
    """Public state as plain values that share nothing with the object; raises as `plain`."""
    where, home = type(made).__name__, package_of(made)
    state = _guarded(lambda: public(made), where)
    return {key: plain(value, f"{where}.{key}", home) for key, value in state.items()}


class Record(dict[str, Any]):
    """Attributes of an object; equal to those of an object of the same class alone."""

    kind = ""

    def __eq__(self, other: object) -> bool:
        """True if class and attributes are equal; a mere dictionary has no class."""
        same = not isinstance(other, Record) or other.kind == self.kind
        return same and dict.__eq__(self, other)

    def __ne__(self, other: object) -> bool:
        """The opposite, which `dict` would decide by itself."""
        return not self == other


def plain(value: object, where: str, home: str = "") -> Any:
    """A value as JSON could say it: objects become dictionaries, sets sorted lists.

    `home` is the package of the tools: private attributes of its objects are not state.

    Raises:
        StateError: it holds itself, has no plain form, or its own code fails; names `where`.
        EnvError: something outside of it failed.
    """
    return _guarded(lambda: _plain(value, where, (), home), where)


def _guarded(read: Callable[[], Plain], where: str) -> Plain:
    try:
        return read()
    except StateError:
        raise
    except EnvError as error:  # the class says that something outside of it failed
        raise EnvError(f"{where}: {shown(error)}") from error
    except BaseException as error:  # reading runs the user's code: iterators, properties
        unless_ctrl_c(error)
        raise StateError(f"{where}: it cannot be read: {shown(error)}.") from error


def _plain(value: object, where: str, above: tuple[int, ...], home: str) -> Any:
    if value is None or type(value) in (str, bool, int):
        return value
    if isinstance(value, enum.Enum):  # a member may stand for nothing but itself
        named = value.name if type(value.value) is object else value.value
        return _plain(named, where, above, home)
    if isinstance(value, _SCALARS):
        _expect_no_more(value, _SCALARS, where)
        return _scalar(value)
    if id(value) in above:
        raise StateError(
            f"{where}: it holds itself (circular state), so it can be neither compared nor shown. "
            "Refer to other objects by an id instead."
        )
    if len(above) > _DEPTH:
        raise StateError(f"{where[:80]}: it is nested more than {_DEPTH} deep.")
    return _container(value, where, (*above, id(value)), home)


def _scalar(value: Any) -> Any:
    if isinstance(value, _TEXTS):  # some of NumPy's are numbers, too
        base = next(kind for kind in _TEXTS if isinstance(value, kind))
        value = datetime.timezone(value.utcoffset(None)) if base is datetime.timezone else value
        # A class of the user's may show less; one of a library may hold more.
        if type(value) is not base and installed(type(value)):
            return str(value)
        if base is datetime.timedelta:  # pydantic reads `-1 day, 23:30:00` as another one
            return to_jsonable_python(value)
        exact = base is decimal.Decimal and value.is_finite()
        if exact and decimal.Decimal(repr(float(value))) == value:
            return float(value)  # 1.5 and 1.50 are equal
        return base.__str__(value)
    if isinstance(value, bytes | bytearray):
        return value.hex()
    if isinstance(value, str):
        return str.__str__(value)
    if isinstance(value, int):
        return int(value)
    return float(value) if math.isfinite(value) else str(float(value))


def _expect_no_more(value: object, kinds: tuple[type[object], ...], where: str) -> None:
    """Raises `StateError` for a value of a user's class that adds attributes to a plain type."""
    base = next(kind for kind in kinds if isinstance(value, kind))
    if type(value) is base:
        return
    # A mapping of the user's own keeps what it holds in private attributes.
    found = public(value) if base is Mapping and not installed(type(value)) else attributes(value)
    more = sorted(set(found) - {n for kind in base.__mro__ for n in _slots(kind)} - _HELD)
    if more:
        raise StateError(
            f"{where}: a {type(value).__name__} is a {base.__name__} with attributes of its own "
            f"({', '.join(more)}), which would be lost. Make it a dataclass that holds the "
            f"{base.__name__}."
        )


def _container(value: object, where: str, above: tuple[int, ...], home: str) -> Any:
    inner = partial(_plain, above=above, home=home)
    if isinstance(value, Mapping):
        _expect_no_more(value, (dict, Mapping), where)
        items = list(value.items())
        found = {_key(key, where): inner(item, f"{where}.{key}") for key, item in items}
        if len({k if isinstance(k, str) else json.dumps(k) for k in found}) < len(items):
            raise StateError(f"{where}: two of its keys have the same text; use text for keys.")
        return found
    if isinstance(value, _ROWS + _SETS):
        _expect_no_more(value, _ROWS + _SETS, where)
        row = enumerate(cast("list[object]", value))
        if isinstance(value, _ROWS):
            return [inner(item, f"{where}[{index}]") for index, item in row]
        members = (inner(item, f"{where}[...]") for _, item in row)
        return sorted(members, key=lambda member: (repr(member), getattr(member, "kind", "")))
    if type(value) is np.ndarray:
        return inner(value[()] if value.ndim == 0 else list(value), where)
    if isinstance(value, np.generic) and not isinstance(value, np.void):
        return inner(value.item(), where)
    if isinstance(value, re.Pattern):
        return {"pattern": inner(value.pattern, where), "flags": value.flags}
    shown = _fields(value) if isinstance(value, BaseModel) else public(value)
    foreign = installed(type(value)) and package_of(value) != home
    model = isinstance(value, BaseModel)
    own = value.__pydantic_private__ if model else attributes(value).keys() - public(value).keys()
    hidden = own if not shown or (foreign and not model) else {}
    # Two that differ in what is hidden would be equal.
    if not (type(value) is object or callable(value) or hides(type(value)) or hidden):
        record = Record({key: inner(v, f"{where}.{key}") for key, v in shown.items()})
        record.kind = f"{type(value).__module__}.{type(value).__qualname__}"
        return record
    raise StateError(
        f"{where}: a {type(value).__name__} has no plain form, so it can be neither compared nor "
        "shown. Keep objects of your own classes with only public attributes, text, numbers, "
        "lists, dictionaries, sets, dates or enumerations. Put other things into an attribute "
        "with a leading underscore."
    )


def _fields(value: BaseModel) -> dict[str, Any]:
    """The fields of a model by the names that its JSON has."""
    known = type(value).model_fields
    return {(n in known and known[n].serialization_alias) or n: held for n, held in value}


def package_of(value: object) -> str:
    """The package of an object's class."""
    return type(value).__module__.partition(".")[0]


def installed(kind: type[object]) -> bool:
    """True if a class is a library's: nobody here chose what of it is private."""
    file = getattr(sys.modules.get(kind.__module__), "__file__", None) or ""
    return file.startswith(_LIBRARIES)


def hides(kind: type[object]) -> bool:
    """True if objects hold something in C: they are larger than their attributes."""
    slots = sum(len(_slots(base)) for base in kind.__mro__)
    room = slots + (kind.__dictoffset__ > 0) + (kind.__weakrefoffset__ > 0)
    return kind.__basicsize__ - object.__basicsize__ > room * _POINTER or kind.__itemsize__ > 0


def _slots(kind: type[object]) -> list[str]:
    found = vars(kind).get("__slots__", ())
    names = (found,) if isinstance(found, str) else tuple(found)
    return [name for name in names if name not in ("__dict__", "__weakref__")]


def _key(key: object, where: str) -> Any:
    if isinstance(key, enum.Enum):
        key = key.value
    if isinstance(key, tuple):
        return ", ".join(str(_key(part, where)) for part in key)
    if isinstance(key, np.generic) and not isinstance(key, _SCALARS):
        key = key.item()
    if key is None or isinstance(key, bool):
        return key
    if isinstance(key, _SCALARS):
        return _scalar(key)
    raise StateError(f"{where}: a key of type {type(key).__name__} has no plain form; use text.")
