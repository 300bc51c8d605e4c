"""Objects of hosted classes: made from a configuration, copied for each world, read as values.

Owns what public state is (attributes without a leading underscore) and its plain form, by which it
is compared. Never judges, never calls a tool.

    start = make(Library, {"members": {...}}, "task 12")
    plain_state(copied(start))                              # {"members": {...}, ...}
"""

from __future__ import annotations

import copy
import dataclasses
import datetime
import decimal
import difflib
import enum
import inspect
import math
import sys
import typing
import uuid
from collections import deque
from collections.abc import Mapping, MutableMapping, MutableSequence, MutableSet
from pathlib import PurePath
from typing import Any, cast

from pydantic import PydanticUserError, TypeAdapter, ValidationError

from rods.envs.tool_classes.schema import loads
from rods.errors import EnvError, RodsError, TaskError

_TEXTS = (datetime.date, datetime.time, decimal.Decimal, uuid.UUID, PurePath)
_MUTABLE = (MutableMapping, MutableSequence, MutableSet, deque, bytearray)
_DEPTH = 60


class StateError(EnvError):
    """State that cannot be copied, written as JSON, or that holds itself."""


def make(kind: type[Any], config: Mapping[str, Any], where: str) -> Any:
    """An object in the state of a configuration.

    Its `load(config)` is used where it has one, else keyword arguments of its constructor; what
    neither takes is set as an attribute. Values become what the class's hints say (dataclasses,
    integer keys).

    Raises:
        TaskError: the class does not accept it; names `where`, class and attribute.
    """
    here = f"{where}: world.initial_config.{kind.__name__}"
    own = copy.deepcopy(dict(config))
    try:
        if loads(kind):
            made = kind()
            made.load(own)
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
    except Exception as error:  # whatever the user's class raises says what is wrong with the task
        raise TaskError(f"{here} cannot be loaded: {type(error).__name__}: {error}.") from error
    return made


def _known(made: object, name: str, here: str) -> None:
    if name.startswith("_") or not hasattr(made, name) or callable(getattr(made, name)):
        near = difflib.get_close_matches(name, attributes(made), 1)
        hint = f" Did you mean {near[0]!r}?" if near else ""
        known = ", ".join(sorted(public(made))) or "none"
        raise TaskError(f"{here}: there is no attribute {name!r}.{hint} Known: {known}.")


def _typed(kind: type[Any], name: str, value: Any, here: str) -> Any:
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


def _hints(what: Any) -> dict[str, Any]:
    try:
        return typing.get_type_hints(what)
    except (NameError, TypeError, AttributeError):
        return {}


def attributes(made: object) -> dict[str, Any]:
    """All attributes of an object, those in slots included."""
    found: dict[str, Any] = dict(getattr(made, "__dict__", {}))
    for base in type(made).__mro__:
        slots = vars(base).get("__slots__", ())
        for name in (slots,) if isinstance(slots, str) else cast("tuple[str, ...]", slots):
            if name not in ("__dict__", "__weakref__") and hasattr(made, name):
                found.setdefault(name, getattr(made, name))
    return found


def public(made: object) -> dict[str, Any]:
    """Public attributes of an object."""
    return {name: value for name, value in attributes(made).items() if name[0] != "_"}


def copied(made: Any) -> Any:
    """A copy that shares nothing; containers that the class holds become the object's own.

    Raises:
        StateError: an attribute cannot be copied; names it.
    """
    try:
        fresh = copy.deepcopy(made)
        for base in reversed(type(made).__mro__[:-1]):
            for name, value in vars(base).items():
                shared = not name.startswith("__") and isinstance(value, _MUTABLE)
                if shared and name not in attributes(fresh):
                    setattr(fresh, name, copy.deepcopy(value))
    except Exception as error:  # copying runs the user's code
        raise StateError(_uncopyable(made, error)) from error
    return fresh


def _uncopyable(made: object, error: Exception) -> str:
    name = type(made).__name__
    for attribute, value in attributes(made).items():
        try:
            copy.deepcopy(value)
        except Exception as fault:  # noqa: BLE001 (copying runs the user's code)
            return (
                f"class {name}, attribute {attribute}: a {type(value).__name__} cannot be copied "
                f"({fault}), and each world needs a copy of its own. Keep plain values; make "
                "connections, locks and files where they are used."
            )
    return f"class {name}: its objects cannot be copied ({error}); each world needs a copy."


def plain_state(made: object) -> dict[str, Any]:
    """Public state as plain values that share nothing with the object.

    Raises:
        StateError: an attribute holds itself, or what has no plain form; names class and place.
    """
    name = type(made).__name__
    return {key: plain(value, f"{name}.{key}") for key, value in public(made).items()}


def plain(value: Any, where: str, above: tuple[int, ...] = ()) -> Any:
    """A value as JSON could say it: objects become dictionaries, sets sorted lists.

    Raises:
        StateError: it holds itself, or has no plain form; names `where`.
    """
    if isinstance(value, enum.Enum):
        return plain(value.value, where, above)
    if value is None or isinstance(value, bool | str):
        return value
    if isinstance(value, int):
        return int(value)
    if isinstance(value, float):
        return float(value) if math.isfinite(value) else str(float(value))
    if isinstance(value, _TEXTS):
        return str(value)
    if id(value) in above or len(above) > _DEPTH:
        raise StateError(
            f"{where}: it holds itself (circular state), so it can be neither compared nor shown. "
            "Refer to other objects by an id instead."
        )
    return _container(value, where, (*above, id(value)))


def _container(value: Any, where: str, above: tuple[int, ...]) -> Any:
    if isinstance(value, Mapping):
        items = cast("Mapping[Any, Any]", value).items()
        return {_key(key, where): plain(item, f"{where}.{key}", above) for key, item in items}
    if isinstance(value, list | tuple | deque):
        row = enumerate(cast("list[Any]", value))
        return [plain(item, f"{where}[{index}]", above) for index, item in row]
    if isinstance(value, set | frozenset):
        members = (plain(item, f"{where}[...]", above) for item in cast("set[Any]", value))
        return sorted(members, key=repr)
    if not callable(value) and (dataclasses.is_dataclass(value) or _is_record(value)):
        found = public(value)
        return {key: plain(item, f"{where}.{key}", above) for key, item in found.items()}
    raise StateError(
        f"{where}: a {type(value).__name__} has no plain form, so it can be neither compared nor "
        "shown. Keep text, numbers, lists, dictionaries, sets, dates, enumerations or objects of "
        "your own classes; other things belong in an attribute with a leading underscore."
    )


def _is_record(value: object) -> bool:
    """An object of a class written in Python, all of whose state is in its attributes."""
    bases = type(value).__mro__[:-1]
    return bool(bases) and not any(_compiled(base.__module__) for base in bases)


def _compiled(module: str) -> bool:
    """Whether a module is no Python: the state of its objects is hidden."""
    if module in sys.builtin_module_names:
        return True
    return str(getattr(sys.modules.get(module), "__file__", "")).endswith((".so", ".pyd"))


def _key(key: Any, where: str) -> Any:
    if isinstance(key, enum.Enum):
        key = key.value
    if isinstance(key, _TEXTS):
        return str(key)
    if isinstance(key, tuple):
        return ", ".join(str(part) for part in cast("tuple[Any, ...]", key))
    if key is None or isinstance(key, bool | int | float | str):
        return key
    raise StateError(f"{where}: a key of type {type(key).__name__} has no plain form; use text.")
