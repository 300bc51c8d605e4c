"""Worlds of hosted classes: opened from a task, called by name, judged turn by turn.

Owns the environment and its worlds. Two worlds share no object. Never shows the ground truth; never
takes what a class raises for a failure of infrastructure, unless it is `EnvError`: an agent decides
by its arguments on a refused connection and on a time-out.

    environment = ToolClasses("library", [Library])
    world = environment.open(task)
    world.begin_turn(0)
    world.call(ToolCall("lend", {"member_id": "M-104", "book_id": "B-12"}))
"""

from __future__ import annotations

import copy
import inspect
import json
import logging
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, cast

import numpy as np

from rods.envs.class_world import CLASSES, CONFIG, ClassTasks, ToolClassWorld
from rods.envs.judge import JudgedWorld, PreparedTask, PreparedTasks, State, refusal
from rods.envs.tool_classes import state
from rods.envs.tool_classes.schema import Tool, tools_of
from rods.envs.turns import named
from rods.errors import ConfigError, EnvError, TaskError
from rods.infra.dotted import nearest
from rods.infra.interrupt import error_text, shown, unless_ctrl_c
from rods.infra.text import same_value
from rods.task import BASE, Task
from rods.types import Json, ToolCall, ToolResult

_LOG = logging.getLogger(__name__)


class ToolClasses(ClassTasks, PreparedTasks["PreparedObjects"]):
    """An environment made of Python classes."""

    world_keys = CLASSES, CONFIG

    def __init__(
        self,
        name: str,
        classes: Sequence[type],
        *,
        hidden: Sequence[str] = (),
        knowledge: str | Path | None = None,
    ):
        """Read the classes, and refuse all that cannot be hosted in one message.

        Args:
            name: Short name; `task.env` must be equal to it.
            classes: Their public methods are the tools, their public attributes the state.
            hidden: Public methods that are not tools.
            knowledge: Folder of what the values mean and how people ask (`rods.abilities.Knowing`).

        Raises:
            ConfigError: no classes, methods that JSON cannot call, a name that stands twice, state
                that cannot be copied or compared.
        """
        super().__init__()
        _require_classes(f"environment {name!r}", classes)
        self.name = name
        self.knowledge = None if knowledge is None else Path(knowledge)
        self._kinds = {kind.__name__: kind for kind in classes}
        if len(self._kinds) < len(classes):
            raise ConfigError(f"environment {name!r}: two classes have one name; rename one.")
        self._tools: dict[str, dict[str, Tool]] = {}
        owners: dict[str, str] = {}
        faults: list[str] = []
        for kind in classes:
            try:
                self._tools[kind.__name__] = tools_of(kind, hidden)
            except ConfigError as error:
                faults.append(str(error))
                continue
            for tool in self._tools[kind.__name__]:
                if tool in owners:
                    raise ConfigError(
                        f"environment {name!r}: {owners[tool]} and {kind.__name__} both have a "
                        f"method {tool}; calls name only the tool. Rename one, or name it in "
                        "`hidden`."
                    )
                owners[tool] = kind.__name__
            try:
                _try_out(kind)
            except ConfigError as error:
                faults.append(str(error))
        self.blocking = any(t.awaited for found in self._tools.values() for t in found.values())
        unknown = [method for method in hidden if not any(hasattr(k, method) for k in classes)]
        if unknown:
            hint = nearest(unknown[0], {method for kind in classes for method in dir(kind)})
            what = f"hidden: no class has a method {unknown[0]!r}.{hint}"
            faults.append(f"environment {name!r}: {what}")
        if faults:
            raise ConfigError("\n".join(faults))

    def open(self, task: Task) -> ToolWorld:
        """A fresh world in the task's initial state; raises `TaskError` if it cannot be loaded."""
        return ToolWorld(self.prepare(task))

    def make_ready(self, task: Task) -> PreparedObjects:
        """Objects in the task's initial state, to be copied."""
        where, world = named(task), ToolClassWorld.of(task)
        for name in [*world.classes, *world.initial_config]:
            if name not in self._kinds:
                known = f"{', '.join(self._kinds)}.{nearest(name, [*self._kinds])}"
                raise TaskError(f"{where}: world: there is no class {name!r}; known: {known}")
        start: dict[str, Any] = {}
        for name in world.classes:
            given = world.initial_config.get(name) or {}
            if not isinstance(given, dict):
                raise TaskError(f"{where}: world.initial_config.{name} must be an object.")
            start[name] = state.make(self._kinds[name], given, where)
        tools = {t: tool for name in start for t, tool in self._tools[name].items()}
        try:
            return PreparedObjects(task, start, tools)
        except state.StateError as error:
            raise TaskError(f"{where}: {error}") from error

    def own_world(self) -> Mapping[str, Json]:
        """All classes as they are made without arguments, in full where a task can say it so."""
        bare: Json = {CLASSES: cast("Json", [*self._kinds]), CONFIG: {}}
        needed = {n: dict.fromkeys(_needed(k), "...") for n, k in self._kinds.items() if _needed(k)}
        if needed:
            line = json.dumps({**bare, CONFIG: needed})
            raise ConfigError(
                f"{', '.join(needed)} cannot be made without arguments. Give initial states, "
                f"--states FILE, one a line, with your values for the dots: {line}"
            )
        start = self.make_ready(Task(self.name, BASE, (), bare)).initial
        full = {**bare, CONFIG: cast("Json", start)}
        try:
            again = self.make_ready(Task(self.name, BASE, (), full)).initial
            restores = same_value(again, start)
        except TaskError:
            restores = False  # attributes that no configuration takes
        return full if restores else bare


def _require_classes(where: str, given: object) -> None:
    """Raise `ConfigError` for anything but a list of classes, with what to write instead."""
    if isinstance(given, type):
        raise ConfigError(f"{where}: expected a list of classes. Write [{given.__name__}].")
    rows: list[object] = [*given] if isinstance(given, list | tuple) else [given]
    if not rows:
        raise ConfigError(f"{where}: no classes were given; expected at least one.")
    for one in (one for one in rows if not isinstance(one, type)):
        kind = type(one).__name__
        own = type(one).__module__ != "builtins"  # else it is a function, a module or a text
        how = f"Write {kind}, not {kind}()." if own else f"A {kind} is none."
        raise ConfigError(f"{where}: expected classes, got {one!r:.60}. {how}")


def _needed(kind: type[object]) -> list[str]:
    """Names of the arguments without which no object of a class can be made."""
    found = [p for p in inspect.signature(kind).parameters.values() if p.default is p.empty]
    return [p.name for p in found if p.kind not in (p.VAR_POSITIONAL, p.VAR_KEYWORD)]


def _try_out(kind: type[object]) -> None:
    """Copy and read the state of a class that can be made without arguments."""
    if state.hides(kind):
        raise ConfigError(
            f"class {kind.__name__}: it derives from a built-in type, whose contents are not "
            "attributes and can be neither compared nor shown. Hold them in an attribute."
        )
    if _needed(kind):
        return  # tasks give it
    try:
        made = kind()
    except BaseException as error:  # the user's constructor may raise anything
        unless_ctrl_c(error)
        raise ConfigError(
            f"class {kind.__name__}: an object cannot be made: {shown(error)}."
        ) from error
    try:
        found = state.plain_state(state.copied(made))
    except state.StateError as error:
        raise ConfigError(str(error)) from error
    if state.attributes(made) and not found:
        _LOG.warning(
            "class %s: all its attributes begin with an underscore, so its state is not compared; "
            "a call is judged only by its result.",
            kind.__name__,
        )


class PreparedObjects(PreparedTask):
    """A task made ready: objects to copy, and their tools."""

    def __init__(self, task: Task, start: Mapping[str, object], tools: Mapping[str, Tool]):
        super().__init__(task, {name: tool.spec for name, tool in tools.items()})
        self.start, self.tools = start, tools
        kinds = {kind for one in start.values() for kind in type(one).__mro__[:-1]}
        beside = [{**vars(k), **vars(sys.modules.get(k.__module__, k))}.values() for k in kinds]
        kinds |= {one for row in beside for one in row if isinstance(one, type)}
        self.kinds = [kind for kind in kinds if not state.installed(kind)]
        self.initial: Mapping[str, State] = {
            name: state.plain_state(state.copied(made)) for name, made in start.items()
        }

    def machine(self) -> Objects:
        """Copies of the objects."""
        return Objects(self)


class Objects:
    """The live objects of one world; copied when they are first called."""

    def __init__(self, prepared: PreparedObjects):
        self._prepared, self.initial = prepared, prepared.initial
        self._live: dict[str, Any] = {}
        self.version: dict[str, int] = {}
        self.awaiting = state.Awaiting()

    def run(self, call: ToolCall) -> ToolResult:
        """Return a call's result as JSON; `EnvError` where something outside the class failed."""
        tool = self._prepared.tools.get(call.name)
        if tool is None:  # of a ground truth; the policy's calls were looked at before
            return ToolResult(refusal(call.name, self._prepared.tools.keys()), failed=True)
        if tool.owner not in self._live:
            self._live[tool.owner] = state.copied(self._prepared.start[tool.owner])
        try:
            return self._run(tool, call)
        except BaseException as error:  # whatever the class raises is its answer
            unless_ctrl_c(error)
            if isinstance(error, EnvError) and not isinstance(error, state.StateError):
                raise EnvError(f"{tool.owner}.{call.name}: {shown(error)}") from error
            text = error_text(error) if " " in error_text(error) else shown(error)
            return ToolResult(json.dumps({"error": text}, ensure_ascii=False), failed=True)

    def _run(self, tool: Tool, call: ToolCall) -> ToolResult:
        bound = tool.bound(call.arguments)
        live = self._live[tool.owner]
        method = getattr(live, call.name)
        self.version[tool.owner] = self.version.get(tool.owner, 0) + 1
        where, home = f"the result of {tool.owner}.{call.name}", state.package_of(live)
        kept = _on_classes(self._prepared.kinds)
        kept = {at: _kept(value) for at, value in kept.items()}
        try:
            given = self.awaiting.result(method(*bound.args, **bound.kwargs))
        finally:  # also of a call that raises: no other world must see what it changed
            now = _on_classes(self._prepared.kinds)
            changed = [at for at in kept | now if not _same(now.get(at), kept.get(at))]
            for at in changed:
                setattr(*at, kept[at]) if at in kept else delattr(*at)
        for kind, name in changed:
            how = "on the class, which all worlds share. Set it on `self`"
            raise state.StateError(f"{kind.__name__}.{name}: {call.name} changed it {how}.")
        result = state.plain(given, where, home)
        held: State = result if isinstance(result, dict) else {}
        return ToolResult(json.dumps(result, ensure_ascii=False), bool(held.get("error")))

    def copy_state(self, name: str) -> State:
        """Public state of one class as plain values."""
        if name not in self._live:
            return copy.deepcopy(dict(self._prepared.initial[name]))
        return state.plain_state(self._live[name])

    def same(self, name: str, expected: State) -> bool:
        """True if a class has exactly these public attributes and values."""
        try:
            return same_value(self.copy_state(name), expected)
        except state.StateError:  # the ground truth's state can be read
            return False

    unchanged = same


def _on_classes(kinds: Sequence[type[object]]) -> dict[tuple[type[object], str], Any]:
    """Public attributes of classes that are no methods."""
    rows = ((kind, name, value) for kind in kinds for name, value in vars(kind).items())
    return {(k, n): v for k, n, v in rows if n[0] != "_" and not hasattr(v, "__get__")}


def _kept(value: object) -> object:
    """A copy to compare with and to restore: a deep one if that is equal, else a shallow one.

    Values of libraries that are no containers are kept as they are: loggers, paths.
    """
    container = isinstance(value, (*state.CONTAINERS, np.ndarray))
    if not container and state.installed(type(value)):
        return value
    try:
        if _same(deep := copy.deepcopy(value), value):
            return deep
    except BaseException as error:  # noqa: BLE001 (locks have no copy)
        unless_ctrl_c(error)
    return copy.copy(value) if container else value


def _same(one: object, other: object) -> bool:
    """True if two are one, or equal as plain values: few classes define when they are equal."""
    if one is other:
        return True
    try:
        return state.plain(one, "") == state.plain(other, "")
    except state.StateError:
        return one == other


class ToolWorld(JudgedWorld[PreparedObjects]):
    """One single-use world of one task."""

    def __init__(self, prepared: PreparedObjects):
        super().__init__(prepared)
        self.cancel = cast("Objects", self._machine).awaiting.cancel
