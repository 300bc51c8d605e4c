"""Environments and worlds: what a tool environment fulfils.

An `Environment` makes worlds; a `World` belongs to one trajectory, is used once and never shared.

    world = environment.open(task)
    world.begin_turn(0)
    result = world.call(ToolCall("ls", {}))
    verdict = world.end_turn()          # judged against the ground truth, which stays inside
    world.close()

A call that fails, or raises, is a `ToolResult` with `failed=True`. A world that breaks, not by what
the policy did, raises `EnvError`: the trajectory is then invalid, it is not worth 0.

An ability is a small protocol that only some fulfil. Those of worlds are here; `rods.abilities` has
those of environments.
"""

from __future__ import annotations

import inspect
import logging
from abc import ABC, abstractmethod
from asyncio import CancelledError
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from traceback import extract_tb
from typing import Any, Protocol, TypeAlias, runtime_checkable

from rods.abilities import ability, in_process
from rods.errors import ConfigError, RodsError
from rods.infra.interrupt import shown, unless_ctrl_c
from rods.infra.pycall import MAX_DEPTH
from rods.infra.text import has_numbers_of_json, levels, size_of, whole
from rods.registry import load, require
from rods.split import Split, split
from rods.task import Task, read_tasks
from rods.types import ToolCall, ToolResult, ToolSpec

STRAY = (SystemExit, KeyboardInterrupt, GeneratorExit, CancelledError, RecursionError)
"""Exceptions that a tool may raise by what it was called with, and that would end more than it."""
_warn = cache(logging.getLogger(__name__).warning)  # once of each place
MOST = 1 << 20
"""Characters of a call, and of a result."""


@dataclass(frozen=True, slots=True)
class TurnVerdict:
    """Verdict on one turn against the ground truth."""

    expects_calls: bool
    """False where the ground truth is empty: the agent must abstain."""
    calls: int
    """Calls that the agent tried in this turn, refused ones included."""
    state: bool
    """The public state of every involved API equals that of the ground truth's world."""
    executed: bool
    """Every ground-truth result of this turn is among the agent's results so far (multiset)."""
    official: bool
    """Verdict of the benchmark's own checker on this turn (it never judges abstention)."""
    answered: bool = True
    """The agent ended the turn by an answer (set by the rollout; a world cannot see it)."""
    ended: str = ""
    """Why the world ended the turn by itself (set by the rollout), such as `finish`, `stuck`."""
    correct: bool | None = None
    """True if the answer is right (set by the rollout); None: the world judges no answers."""

    @property
    def solved(self) -> bool:
        """Our verdict: state and results right after at least one call, or rightly abstained.

        To abstain is to call nothing and to answer; a turn that was closed by force has no answer.
        Where the answer itself is judged, only that counts: right, and given.
        """
        if self.correct is not None:
            return self.correct and self.answered
        if not self.expects_calls:
            return self.calls == 0 and self.answered
        return self.calls > 0 and self.state and self.executed


class World(Protocol):
    """The private state of one trajectory. Its methods may block; one thread calls them."""

    def begin_turn(self, index: int) -> None:
        """Enter turn `index` of the task; turns come in order, from 0."""

    def offered(self) -> tuple[ToolSpec, ...]:
        """Return the tools that the agent may call in the current turn."""
        ...

    def call(self, call: ToolCall) -> ToolResult:
        """Execute one call and return its result; refuse a tool that this turn does not offer."""
        ...

    def end_turn(self) -> TurnVerdict:
        """Judge the current turn; called once for each turn that was begun."""
        ...

    def snapshot(self) -> object:
        """Return a copy of the public state; two snapshots are compared with `==`."""
        ...

    def close(self) -> None:
        """Release what the world holds; may be called more than once."""


def called(world: World, call: ToolCall, contained: bool = True) -> ToolResult:
    """Execute a call that a policy wrote, with the same result wherever the world is.

    The world gets whole characters (`rods.infra.text`). A call or a result of more than `MOST`
    characters, or with a number that JSON cannot say, counts as a failed call. So does a call that
    is nested deeper than a dialect reads, and one that raises: its place is logged once, or, where
    it is not to be `contained`, an `Exception` is raised again.

    Raises:
        EnvError: the world broke, and says so by this very error.
        KeyboardInterrupt: Ctrl-C was pressed.
    """
    deep = sum(1 for _ in levels(call)) > MAX_DEPTH + 1
    if deep or size_of(call) > MOST:
        what = f"{MAX_DEPTH} levels" if deep else f"{MOST:,} characters"
        return ToolResult(f"Error: this call has more than {what}; nothing was executed.", True)
    if not has_numbers_of_json(call):
        text = "Error: a number of this call is infinite, NaN or too long; nothing was executed."
        return ToolResult(text, failed=True)
    try:
        result = world.call(whole(call))
    except (Exception, *STRAY) as error:  # whatever the world's code raises is the call's answer
        unless_ctrl_c(error)
        if isinstance(error, RodsError) or not (contained or isinstance(error, STRAY)):
            raise
        place = extract_tb(error.__traceback__)[-1]
        where = f"{type(error).__name__} at {place.filename}:{place.lineno}"
        _warn("a call raised %s; the agent reads it as a failed call", where)
        return ToolResult(f"Error: {shown(error)}", failed=True)
    if len(result.content) <= MOST:
        return result
    return ToolResult(f"Error: the result has {len(result.content):,} characters.", failed=True)


Wrapper: TypeAlias = Callable[[World], World]
"""Puts something between a trajectory and its world, such as hints (`rods.envs.hints.hinted`)."""


# -- what only some worlds can do ----------------------------------------------------------------


@runtime_checkable
class AnswerJudge(Protocol):
    """A world that judges what the agent says (question tasks).

    The rollout asks it once a turn, before `end_turn`; its word becomes `TurnVerdict.correct`.
    """

    def judge_answer(self, text: str) -> bool:
        """Return true if the answer in the text is right.

        Args:
            text: all that the policy wrote in this turn, its generations joined by line breaks;
                tool results and special tokens are not in it.
        """
        ...


@runtime_checkable
class HintSource(Protocol):
    """A world that can suggest how to repair a failed call.

    It is asked only where failed calls are answered with hints (`rods.envs.hints`).
    """

    def hint(self, call: ToolCall, result: ToolResult) -> str:
        """Explain in a sentence or two why the call failed and which call exists; may be empty.

        It changes nothing, names only tools that are offered now, and knows no ground truth.

        Args:
            call: the last call of this world.
            result: what it gave; failed.
        """
        ...


@runtime_checkable
class UserSimulator(Protocol):
    """A world in which somebody talks with the agent within a turn."""

    def opens(self) -> str:
        """Return the text at a turn's start, after the task's own text; called once a turn."""
        ...

    def reply(self, text: str) -> str | None:
        """Return the text after an answer; None: the turn is over.

        Args:
            text: what the user reads of the agent's answer.

        Raises:
            EnvError: nobody can answer; the trajectory is invalid.
        """
        ...


@runtime_checkable
class Ending(Protocol):
    """A world whose turns end by a call, or by a rule of its own."""

    def ended(self) -> str:
        """Why the current turn is over, in a word; empty: it is not. Asked after every call."""
        ...


@runtime_checkable
class Paced(Protocol):
    """A world that runs programs of the policy, which take as long as they do.

    A trajectory whose seconds were spent by them is cut and counts; else a policy could discard it
    by sleeping.
    """

    def ran(self) -> float:
        """Seconds that the policy's own programs have run so far."""
        ...


def seconds_ran(world: World | None) -> float:
    """Seconds of a world's calls that the policy decided on; 0 where it runs no programs."""
    paced = ability(world, Paced) if world else None
    return paced.ran() if paced else 0.0


class Environment(ABC):
    """Makes worlds for tasks. Your class defines `name` and `open`; the rest has defaults.

    `rods.abilities` has protocols for what only some environments can do.
    """

    name: str
    """Short name; the `env` of its tasks."""
    blocking: bool = False
    """True: its worlds wait for something, so each trajectory gets a thread of its own."""

    @abstractmethod
    def open(self, task: Task) -> World:
        """Return a fresh world in the initial state of one of its tasks, before the first turn.

        Raises:
            TaskError: the task's world data cannot be loaded.
        """

    def tasks(self, held_out: float) -> Sequence[Task]:
        """Return its own original tasks, of both splits. By default it has none.

        Args:
            held_out: share of these tasks to hold out, 0 to 1 (`env.held_out`).
        """
        return ()

    def load(self, path: Path) -> list[Task]:
        """Read a file that `env.tasks` names. By default it has one task of RODS per line.

        Raises:
            TaskError: the file is missing, or a row of it is broken.
        """
        return list(read_tasks(path))

    def part(self, tasks: Sequence[Task], held_out: float | None) -> Split:
        """Split original tasks into training tasks and held-out tasks.

        Args:
            tasks: its own or those of files.
            held_out: share of the scenarios, 0 to 1. None: the tasks are its own, and its
                own `part` decides.
        """
        return split(tasks, held_out_share=held_out or 0.0)

    def warm_up(self) -> None:  # noqa: B027 (most are ready at once)
        """Do slow work before the first trajectory, whose time is limited."""

    def close(self) -> None:  # noqa: B027 (most keep nothing running)
        """End what the environment keeps running, such as a sandbox."""


def own_split(environment: Environment, tasks: Sequence[Task], held_out: float) -> Split:
    """Split the environment's own tasks by its `part`, by default by the share."""
    splits_itself = type(in_process(environment)).part is not Environment.part
    return environment.part(tasks, None if splits_itself else held_out)


def load_environment(address: str, arguments: Mapping[str, object] | None = None) -> Environment:
    """The environment at `module:attribute`, or what a factory there makes of the arguments.

    Raises `ConfigError` for what cannot be imported or called so, or is no environment.
    """
    found = load("env.name", address)
    _refuse_tools(found, address)
    if isinstance(found, type) or not hasattr(found, "open"):
        found = _called(found, address, arguments or {})
        _refuse_tools(found, address)
    require("env.name", address, found, Environment)
    return found


def _refuse_tools(found: object, address: str) -> None:
    """Raise `ConfigError` for somebody's class, or an object of one, that is not an environment."""
    kind: type[Any] = found if isinstance(found, type) else type(found)
    makes = callable(found) and kind is not found
    if not (makes or hasattr(found, "warm_up") or kind.__module__ == "builtins"):
        raise ConfigError(
            f"env.name: {address!r} is {'a class' if kind is found else f'a {kind.__name__}'}, not "
            "an environment. If its methods are the tools, wrap it with rods.envs.tool_classes: "
            f'NAME = ToolClasses("name", [{kind.__name__}]). Then give FILE.py:NAME.'
        )


def _called(factory: object, name: str, arguments: Mapping[str, object]) -> Any:
    if not callable(factory):
        kind = type(factory).__name__
        raise ConfigError(
            f"env.name: {name!r} is a {kind}; expected an environment or a function that makes one."
        )
    try:
        inspect.signature(factory).bind(**arguments)
    except TypeError as error:
        raise ConfigError(
            f"env.options: {name!r} cannot be called with {sorted(arguments)}: {error}."
        ) from error
    return factory(**arguments)
