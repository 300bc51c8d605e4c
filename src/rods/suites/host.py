"""Classes of a user's folder, in a process of their own that has the folder as its place.

Owns that process: its start, its end, and what comes back of values that are no JSON. A request
names a module, a class, a method and plain values; no text is ever evaluated. Output of the
folder's code is dropped.

    host = Host(Path("api-bank"), "api-bank")
    made = host.new("apis.check_token", "CheckToken", [accounts])
    host.do(made, "check_token", {"token": "x"}).value
    host.close()
"""

from __future__ import annotations

import contextlib
import importlib
import json
import multiprocessing
import os
import pkgutil
import signal
import sys
import threading
import time
from collections.abc import Callable, Mapping, Sequence
from multiprocessing.connection import Connection
from pathlib import Path
from typing import Any, NamedTuple

from rods.errors import EnvError
from rods.infra.interrupt import shown
from rods.infra.text import levels

SECONDS = 60.0  # Seconds that one question may take; the classes of these suites take milliseconds
START_SECONDS = 120.0  # Seconds that the first import may take


class ObjectRef(NamedTuple):
    """An object that stays in the process; it may stand among arguments."""

    number: int


class CallResult(NamedTuple):
    """Result of a call."""

    ref: ObjectRef
    value: Any
    """Plain JSON, or its text where it is none."""
    text: str
    """A text as it is, an object as JSON, anything else by `str`."""


class Catalog(NamedTuple):
    """Classes of a package of the folder."""

    classes: Mapping[str, Mapping[str, Any]]
    """By name: `module`, and the class attributes that were asked for, as plain JSON."""
    failed: Mapping[str, str]
    """Modules that cannot be imported, and why."""


class RaisedError(Exception):
    """The folder's code raised; its error's name and text."""


class Host:
    """One process of one folder. Threads may share it; it starts at the first question."""

    def __init__(self, folder: Path, suite: str) -> None:
        """`folder` is where modules are imported from; it becomes the working directory."""
        self._folder, self._suite = folder.absolute(), suite
        self._lock = threading.Lock()
        self._pipe: Connection | None = None
        self._process: Any = None

    def catalog(self, package: str, base: str, attributes: Sequence[str]) -> Catalog:
        """Subclasses of `package.base` in the package's modules."""
        return Catalog(*self._ask("catalog", package, base, list(attributes)))

    def new(self, module: str, name: str, arguments: Sequence[object] = ()) -> ObjectRef:
        """An object; raises `RaisedError` as its class does."""
        return ObjectRef(self._ask("new", module, name, list(arguments)))

    def do(self, of: ObjectRef, method: str, arguments: Mapping[str, object]) -> CallResult:
        """Call a public method by name; raises `RaisedError` as the method does."""
        number, value, text = self._ask("do", of, method, dict(arguments))
        return CallResult(ObjectRef(number), value, text)

    def methods(self, of: ObjectRef) -> frozenset[str]:
        """Names of an object's public methods."""
        return frozenset(self._ask("methods", of))

    def state(self, of: ObjectRef, names: Sequence[str]) -> dict[str, Any]:
        """Return the named attributes that an object has, as plain JSON."""
        return self._ask("state", of, list(names))

    def drop(self, refs: Sequence[ObjectRef]) -> None:
        """Let go of objects."""
        self._ask("drop", [ref.number for ref in refs])

    def close(self) -> None:
        """End the process; the next question starts another."""
        with self._lock:
            self._end()

    def _ask(self, what: str, *arguments: object) -> Any:
        with self._lock:
            pipe = self._pipe or self._start()
            values = (value for level in levels([*arguments]) for value in level)
            if any(isinstance(value, ObjectRef) and value.number < self._began for value in values):
                raise EnvError(f"{self._suite}: the process with the objects of this world died.")
            try:
                pipe.send((what, arguments))
                if not pipe.poll(SECONDS if what != "catalog" else START_SECONDS):
                    self._end()
                    raise EnvError(f"{self._suite}: {what} {arguments!r:.120} took too long.")
                kind, payload = pipe.recv()
            except (EOFError, OSError) as error:
                self._end()
                raise EnvError(
                    f"{self._suite}: the process of {self._folder} died at {what} "
                    f"{arguments!r:.120}."
                ) from error
        if kind == "raised":
            raise RaisedError(payload)
        return payload

    def _start(self) -> Connection:
        context, self._began = multiprocessing.get_context("spawn"), time.time_ns()
        self._pipe, theirs = context.Pipe()
        self._process = context.Process(
            target=_serve, args=(theirs, str(self._folder)), daemon=True
        )
        self._process.start()
        theirs.close()
        return self._pipe

    def _end(self) -> None:
        if self._pipe is not None:
            self._pipe.close()
            self._process.kill()
            self._process.join()
            self._process.close()
            self._pipe = None


def _serve(pipe: Connection, folder: str) -> None:
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # Ctrl-C is the program's, which then ends this
    os.chdir(folder)
    sys.path.insert(0, folder)
    kept: dict[int, Any] = {}
    answers: Mapping[str, Callable[..., Any]] = {
        "catalog": _catalog,
        "new": lambda module, name, arguments: _keep(
            kept, getattr(importlib.import_module(module), name)(*_real(kept, arguments))
        ),
        "do": lambda of, method, arguments: _done(
            kept, getattr(kept[of.number], _public(method))(**_real(kept, arguments))
        ),
        "methods": lambda of: [
            n for n in dir(kept[of.number]) if n[0] != "_" and callable(getattr(kept[of.number], n))
        ],
        "state": lambda of, names: {
            n: _plain(vars(kept[of.number])[n]) for n in names if n in vars(kept[of.number])
        },
        "drop": lambda numbers: [kept.pop(number, None) for number in numbers] and None,
    }
    with open(os.devnull, "w") as nowhere, contextlib.redirect_stdout(nowhere):
        while True:
            try:
                what, arguments = pipe.recv()
            except EOFError:
                return
            try:
                answer = ("ok", answers[what](*arguments))
            except BaseException as error:  # noqa: BLE001 - whatever the folder's code raises is reported
                answer = ("raised", shown(error))
            pipe.send(answer)


def _catalog(package: str, base: str, attributes: list[str]) -> tuple[Any, Any]:
    home = importlib.import_module(package)
    root: type[Any] = getattr(home, base)
    classes: dict[str, dict[str, Any]] = {}
    failed: dict[str, str] = {}
    for found in pkgutil.iter_modules(home.__path__):
        name = f"{package}.{found.name}"
        try:
            module = importlib.import_module(name)
        except ImportError as error:
            failed[name] = str(error)
            continue
        for one in vars(module).values():
            if isinstance(one, type) and issubclass(one, root) and one.__module__ == name:
                values = {key: _plain(getattr(one, key)) for key in attributes if hasattr(one, key)}
                classes[one.__name__] = {"module": name, **values}
    classes.pop(base, None)
    return classes, failed


def _keep(kept: dict[int, object], value: object) -> int:
    number = max(kept, default=time.time_ns()) + 1  # none of a process that died before
    kept[number] = value
    return number


def _done(kept: dict[int, object], value: object) -> tuple[int, Any, str]:
    return _keep(kept, value), _plain(value), _text(value)


def _public(method: str) -> str:
    if method.startswith("__"):
        raise AttributeError(method)
    return method


def _real(kept: Mapping[int, object], value: object) -> Any:
    if isinstance(value, ObjectRef):
        return kept[value.number]
    if isinstance(value, dict):
        return {key: _real(kept, item) for key, item in value.items()}
    return [_real(kept, i) for i in value] if type(value) is list else value


def _plain(value: object) -> Any:
    try:
        return json.loads(json.dumps(value))
    except (TypeError, ValueError):
        return str(value)


def _text(value: object) -> str:
    if isinstance(value, dict):
        with contextlib.suppress(TypeError, ValueError):
            return json.dumps(value)
    return str(value)
