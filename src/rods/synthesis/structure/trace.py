"""A ground truth executed: each call with its result, and the scalars that the result holds."""

from __future__ import annotations

import ast
import dataclasses
import functools
import itertools
import json
import re
from collections.abc import Callable, Collection, Generator, Iterable, Mapping, Set
from contextlib import closing, contextmanager, suppress
from dataclasses import dataclass, field
from typing import NamedTuple, TypeAlias, TypeVar, cast
from weakref import WeakKeyDictionary

from rods.abilities import InitialState, initial_state, state_access
from rods.env import Environment, TurnVerdict, World, called
from rods.task import Task, Turn
from rods.types import Json, ToolCall, ToolResult, ToolSpec

Path: TypeAlias = tuple[str | int, ...]
Scalar: TypeAlias = "bool | int | float | str | None"


class Leaf(NamedTuple):
    """One scalar inside a value."""

    path: Path
    value: Scalar


@dataclass(frozen=True, slots=True)
class TraceStep:
    """One executed ground-truth call."""

    turn: int
    call: ToolCall
    result: ToolResult
    parsed: Json
    """The result's content as JSON; the text itself where it is none."""
    leaves: tuple[Leaf, ...] = field(repr=False, default=())


def leaves(value: object, path: Path = ()) -> list[Leaf]:
    """All scalars of a JSON value, in order; a nested call contributes its arguments."""
    if isinstance(value, ToolCall):
        return leaves(dict(value.arguments), (*path, "$call"))
    inner: Iterable[tuple[str | int, object]]
    if isinstance(value, dict):
        inner = value.items()
    elif isinstance(value, list):
        inner = enumerate(value)
    else:
        return [Leaf(path, cast("Scalar", value))]
    return [leaf for key, item in inner for leaf in leaves(item, (*path, key))]


def field_of(path: Path) -> str:
    """The innermost name on the way to a leaf; empty where there are only places in lists."""
    return next((part for part in reversed(path) if isinstance(part, str)), "")


@functools.lru_cache(maxsize=4096)
def read_result(content: str) -> tuple[Json, tuple[Leaf, ...]]:
    """A result's content as JSON (or the text where it is none), and its scalars.

    Cached: many results, the long ones above all, come again and again. Treat it as frozen.
    """
    parsed = _parse(content)
    return parsed, tuple(leaves(parsed))


def _parse(text: str) -> Json:
    if text[:1] not in _OPENING:
        return text
    with suppress(ValueError):
        return json.loads(text)
    with suppress(ValueError, SyntaxError, MemoryError, RecursionError):
        if text[0] in "[{":  # lists are shown as Python writes them
            return ast.literal_eval(text)
    return text


_OPENING = frozenset('{["-0123456789ntf')

_OUTCOMES = {"ok", "okay", "done", "result", "status", "accepted", "allowed", "approved"} | {
    "authenticated", "authentication", "authorized", "completed", "confirmed", "succeeded",
    "success", "successful", "successfully", "valid", "validated", "verified",
}  # fmt: skip
"""Words of fields that state by a boolean whether a call did what it was asked to."""
_FAULTS = {"error", "errors", "exception", "failed", "failure", "fault"}
_OF_THE_CALL = {"success", "succeeded", "error", "exception"}
"""Fields that speak of the call itself, whatever it asked."""
_MESSAGES = {"message", "status", "result", "detail", "details", "reason", "response"}
_FAILED = re.compile(
    r"(?:error|fail(?:ed|ure)|invalid|denied|unable|cannot|can't|could not|no such|unauthori[sz]ed"
    r"|already|(?:access|permission) denied|not (?:found|allowed|authori[sz]ed|logged|possible))\b",
    re.I,
)
PARTS = re.compile(r"[A-Z]?[a-z]+|[A-Z]+")
"""The words of an identifier."""


def reports_failure(call: ToolCall, result: ToolResult, usual: Set[str] = frozenset()) -> bool:
    """Tell whether a call failed, or has one of the `failure_fields` that is not `usual`."""
    return result.failed or bool(failure_fields(call, result) - usual)


def failure_fields(call: ToolCall, result: ToolResult) -> frozenset[str]:
    """Names of the top-level fields of a result that say that the call failed.

    `success` is false, `failure` is filled, or `status` begins with a word such as `denied`. A call
    without arguments may be a question, to which `login_status: false` is an answer, so only
    `_OF_THE_CALL` counts there. A field that repeats an argument says nothing:
    `report_fault(note="broken")` may return `{"fault": "broken"}`.
    """
    given = leaves(dict(call.arguments))
    known = {leaf.value for leaf in given if isinstance(leaf.value, str)}
    return frozenset(
        str(leaf.path[0])
        for leaf in read_result(result.content)[1]
        if len(leaf.path) == 1 and _is_failure(leaf)
        if leaf.value not in known and leaf not in given
        if call.arguments or str(leaf.path[0]).lower() in _OF_THE_CALL
    )


def usual_failures(steps: Iterable[TraceStep]) -> dict[str, frozenset[str]]:
    """Fields by tool that are named like a fault in each of its calls: it has no other result.

    A bad outcome, such as `success: false` or `status: denied`, is a failure each time.
    """
    found: dict[str, frozenset[str]] = {}
    for step in steps:
        named = failure_fields(step.call, step.result)
        mine = frozenset(name for name in named if _words_of(name) & _FAULTS)
        found[step.call.name] = found.get(step.call.name, mine) & mine
    return {tool: fields for tool, fields in found.items() if fields}


def _words_of(name: str) -> set[str]:
    return {word.lower() for word in PARTS.findall(name)}


def _is_failure(leaf: Leaf) -> bool:
    words = _words_of(str(leaf.path[0]))
    if isinstance(leaf.value, bool):
        return leaf.value is bool(words & _FAULTS) if words & (_OUTCOMES | _FAULTS) else False
    if not isinstance(leaf.value, str) or not leaf.value:
        return False
    return bool(words & _FAULTS) or (
        bool(words & _MESSAGES) and _FAILED.match(leaf.value) is not None
    )


class Trace(NamedTuple):
    """A ground truth executed in one fresh world."""

    steps: tuple[TraceStep, ...]
    verdicts: tuple[TurnVerdict, ...]
    """The world's judge compared it with a second fresh world, turn by turn."""


def trace(environment: Environment, task: Task, left_out: Collection[int] = ()) -> Trace:
    """Execute the ground truth in a fresh world, without some calls, and have it judged.

    Raises `TaskError` where the world cannot be made. A failing call is not an error.
    """
    steps: list[TraceStep] = []
    verdicts: list[TurnVerdict] = []
    numbers = itertools.count()
    with closing(environment.open(task)) as world:
        for index, turn in enumerate(task.turns):
            world.begin_turn(index)
            for call in turn.ground_truth:
                if next(numbers) not in left_out:
                    result = called(world, call)
                    steps.append(TraceStep(index, call, result, *read_result(result.content)))
            verdicts.append(world.end_turn())
    return Trace(tuple(steps), tuple(verdicts))


K = TypeVar("K")
V = TypeVar("V")


def by_identity(make: Callable[[K], V]) -> Callable[[K], V]:
    """Cache a function by the identity of its argument, for arguments that cannot be hashed."""
    known: dict[int, tuple[K, V]] = {}

    @functools.wraps(make)
    def kept(thing: K) -> V:
        if (found := known.get(id(thing))) is None:
            if len(known) >= 4096:
                known.clear()
            found = known[id(thing)] = thing, make(thing)  # held, so that nothing else gets its id
        return found[1]

    return kept


_Offers: TypeAlias = dict[tuple[str, ...], Mapping[str, ToolSpec]]
_TOOLS: WeakKeyDictionary[Environment, _Offers] = WeakKeyDictionary()
"""Tools of each environment by their owners."""


def all_tools(environment: Environment, task: Task) -> Mapping[str, ToolSpec]:
    """Every tool of a task's world, withheld ones included, by name."""
    if not (key := initial_state(environment, task).owners):
        return _offered(environment, task)
    known = _TOOLS.setdefault(environment, {})
    if key not in known:
        known[key] = _offered(environment, task)
    return known[key]


def _offered(environment: Environment, task: Task) -> Mapping[str, ToolSpec]:
    with stage_world(environment, task) as world:
        return {spec.name: spec for spec in world.offered()}


@contextmanager
def stage_world(environment: Environment, task: Task) -> Generator[World]:
    """A fresh world of a task, in one turn that offers every tool.

    A gap in the conversation and a withheld tool change nothing there. Raises `TaskError` where the
    world cannot be made.
    """
    with closing(environment.open(dataclasses.replace(task, turns=(Turn(""),)))) as world:
        world.begin_turn(0)  # a world elsewhere learns its tools there
        yield world


def tool_group(environment: Environment, task: Task) -> str:
    """A name for all tools of a task's world: tasks with the same tools have the same."""
    owners = initial_state(environment, task).owners
    return f"{task.env}:{'+'.join(sorted(owners))}" if owners else task.env


def owners(environment: Environment, task: Task) -> Mapping[str, str]:
    """Owner of each function of a task's world; empty where the world names none."""
    access = state_access(environment)
    state = access.initial_state(task)
    return {
        function: name
        for name in state.owners
        for function in all_tools(
            environment, access.with_initial_state(task, InitialState((name,), state.values))
        )
    }
