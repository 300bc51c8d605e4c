"""Abilities that only some environments have: small protocols, and one function to ask for them.

An environment has an ability where its class fulfils the protocol; nothing is declared. A wrapper
has the abilities of what it wraps, too. Abilities of worlds stand beside `rods.env.World`.

    source = ability(environment, QuestionSource)
    more = source.another(task, rng) if source else None
"""

from __future__ import annotations

import random
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Generic, Protocol, TypeVar, runtime_checkable

from rods.infra.text import by_value
from rods.task import Task
from rods.types import Json

Wrapped = TypeVar("Wrapped")
Able = TypeVar("Able")


class Wrapper(Generic[Wrapped]):
    """Base of a world or an environment around another one, whose abilities it then has too."""

    def __init__(self, inner: Wrapped) -> None:
        self.inner = inner
        """The other one."""


def ability(thing: object, kind: type[Able]) -> Able | None:
    """A world or an environment as one that has an ability; None: it has not.

    Args:
        thing: asked first; then what it wraps, from the outside in.
        kind: a protocol that can be looked for at run time.
    """
    found: Any = thing
    while not isinstance(found, kind):
        if not isinstance(found, Wrapper):
            return None
        found = found.inner
    return found


def in_process(environment: Wrapped) -> Wrapped:
    """The environment with its worlds in this process, which writers can read."""
    found: Any = environment
    while isinstance(found, Wrapper):
        found = found.inner
    return found


@runtime_checkable
class Bounded(Protocol):
    """An environment that has so many worlds open at most; who wants one more waits."""

    capacity: int


@runtime_checkable
class ProgramRunner(Protocol):
    """An environment whose worlds run programs of the policy."""

    program_seconds: float
    """Time limit of one program, in seconds."""


@runtime_checkable
class StepRule(Protocol):
    """An environment that says what follows a turn which took all its steps without an answer."""

    gives_up: bool
    """The conversation ends; else, and without this rule, the next turn begins."""


@runtime_checkable
class Variability(Protocol):
    """An environment that says whether writers can make variants of its tasks; else they can."""

    varies: bool


@runtime_checkable
class WorldKeys(Protocol):
    """An environment that names the keys of its worlds; a task file with others is refused."""

    world_keys: Sequence[str]


@runtime_checkable
class Knowing(Protocol):
    """An environment that says what its values mean."""

    knowledge: Path | None
    """Folder of `domains.toml` (meaning of values) and `phrases/*.toml` (how people ask for tools).
    Without a file, RODS infers kinds of values, or words messages by the tools' descriptions."""


def knowledge_of(environment: object) -> Path | None:
    """The folder of what an environment's values mean; None: it brings none."""
    knowing = ability(environment, Knowing)
    return knowing.knowledge if knowing else None


@runtime_checkable
class ResultRule(Protocol):
    """An environment that compares results by a rule of its own; others compare values."""

    def result_key(self, content: str) -> str:
        """Return a key that is the same for results that count as equal."""
        ...


def result_key(environment: object) -> Callable[[str], str]:
    """Return the function whose values are equal for results that count as equal."""
    rule = ability(environment, ResultRule)
    return rule.result_key if rule else by_value


@runtime_checkable
class Exporting(Protocol):
    """An environment that can write its tasks in formats of its own."""

    def exporters(self) -> Mapping[str, Callable[[Path, Sequence[Task]], None]]:
        """Functions that write tasks to a path, by the format's name."""
        ...


@runtime_checkable
class Fetching(Protocol):
    """An environment that has to fetch something."""

    def needs(self) -> str:
        """Describe it and whether it is here, as a line of `rods doctor`."""
        ...


@runtime_checkable
class CallBound(Protocol):
    """An environment that knows how few calls can solve a task."""

    def calls_needed(self, task: Task) -> int | None:
        """Calls without which the task cannot be solved; None: not known."""
        ...


@runtime_checkable
class QuestionSource(Protocol):
    """An environment that makes its questions, so it can make more of them."""

    def another(self, task: Task, rng: random.Random) -> Task | None:
        """Another question of the same family, difficulty and side.

        None: the task is of no family (it comes from a file), or there is no other question.
        """
        ...

    def is_held_out(self, task: Task) -> bool:
        """Return True for a question of the held-out split."""
        ...

    def replay(self, task: Task) -> str | None:
        """Re-compute a task's answer; return what is wrong with it, or None (also if unknown)."""
        ...


@dataclass(frozen=True, slots=True)
class InitialState:
    """Initial state of a world, as far as writers may read and change it."""

    owners: tuple[str, ...] = ()
    """Owners of its tools, such as classes; empty if all worlds offer the same tools."""
    values: Mapping[str, Json] = field(default_factory=dict[str, Json])
    """Plain values that the world is set to, by owner."""


@runtime_checkable
class StateAccess(Protocol):
    """An environment whose worlds' start can be read off a task and replaced in it."""

    def initial_state(self, task: Task) -> InitialState:
        """Return the state that the task's world starts from."""
        ...

    def with_initial_state(self, task: Task, state: InitialState) -> Task:
        """The task with another start of its world; all else stays, the provenance too."""
        ...


@runtime_checkable
class OwnStart(Protocol):
    """An environment whose worlds start in a state of their own, without any task."""

    def own_world(self) -> Mapping[str, Json]:
        """Data of such a world, as in `Task.world`."""
        ...


class _NoStart:
    """Abilities of an environment whose initial states cannot be read."""

    def initial_state(self, task: Task) -> InitialState:
        return InitialState()

    def with_initial_state(self, task: Task, state: InitialState) -> Task:
        return task


def state_access(environment: object) -> StateAccess:
    """The start of an environment's worlds; nothing to read and to change where it has none."""
    return ability(environment, StateAccess) or _NoStart()


def unvaried(environment: object) -> str:
    """Return what to add to an environment whose initial states writers cannot read; else empty."""
    if any(ability(environment, kind) for kind in (StateAccess, QuestionSource, Variability)):
        return ""
    return (
        f"The environment {type(in_process(environment)).__name__} does not show the initial state "
        "of its worlds, so variants keep its values. Define initial_state and with_initial_state "
        "in it (rods.abilities.StateAccess), or train with --curriculum static."
    )


def initial_state(environment: object, task: Task) -> InitialState:
    """Return a task's initial state; empty if the environment does not show it."""
    return state_access(environment).initial_state(task)
