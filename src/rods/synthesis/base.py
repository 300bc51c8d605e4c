"""What a plan is made on: a task whose structure is to be filled with other calls.

Owns its analysis: units of turns, links between calls, tools, the start of its world. Never plans.

    base = Base.of(environment, renamed)
    base.units[0].classes                                   # classes of the first turn's calls
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import NamedTuple, Protocol

from rods.abilities import initial_state
from rods.env import Environment, World
from rods.synthesis.structure.links import Links, links_of
from rods.synthesis.structure.sources import Argument, Source, sources
from rods.synthesis.structure.trace import TraceStep, all_tools, owners, trace
from rods.task import Task
from rods.types import Json, ToolSpec


class Unit(NamedTuple):
    """Turns that belong together: deliberate gaps and the turn that resolves them."""

    first: int
    last: int
    """Inclusive."""
    classes: frozenset[str]
    """Classes whose functions are called in it."""
    needs: frozenset[int]
    """Earlier turns that its arguments come from."""


def units_of(
    task: Task, arguments: Sequence[Argument], owners: Mapping[str, str]
) -> tuple[Unit, ...]:
    """Group the turns of a task into units and find what they need."""
    step_turns = [index for index, turn in enumerate(task.turns) for _ in turn.ground_truth]
    needs: dict[int, set[int]] = {}
    for argument in arguments:
        if argument.feeder is not None:
            needs.setdefault(argument.turn, set()).add(step_turns[argument.feeder])
        elif argument.source is Source.EARLIER_TURN:
            needs.setdefault(argument.turn, set()).update(range(argument.turn))
    units: list[Unit] = []
    first = 0
    for index, turn in enumerate(task.turns):
        if not turn.ground_truth and index + 1 < len(task.turns):
            continue
        inner = range(first, index + 1)
        classes = {owners.get(c.name, "") for i in inner for c in task.turns[i].ground_truth}
        needed = {n for i in inner for n in needs.get(i, ())} - set(inner)
        units.append(Unit(first, index, frozenset(classes), frozenset(needed)))
        first = index + 1
    return tuple(units)


class Readable(World, Protocol):
    """A world whose state can be looked up as plain values."""

    def public_state(self) -> Mapping[str, Json]:
        """Public state of each class."""
        ...


@dataclass(frozen=True)
class Base:
    """A renamed seed, analysed: the structure that a walk fills."""

    task: Task
    units: Sequence[Unit]
    steps: Sequence[TraceStep]
    links: Links
    linked: frozenset[int]
    """Steps that give a value to another step or take one."""
    owners: Mapping[str, str]
    specs: Mapping[str, ToolSpec]
    start: Mapping[str, Json]
    """What its world begins with, by owner."""

    @classmethod
    def of(cls, environment: Environment, task: Task) -> Base:
        """Play and analyse a task; raises `TaskError` where its world cannot be made."""
        steps = trace(environment, task).steps
        specs = all_tools(environment, task)
        arguments = sources(task, steps, specs)
        owned = owners(environment, task)
        return cls(
            task,
            units_of(task, arguments, owned),
            steps,
            links_of(steps, arguments),
            _linked(arguments),
            owned,
            specs,
            initial_state(environment, task).values,
        )


def _linked(arguments: Sequence[Argument]) -> frozenset[int]:
    found: set[int] = set()
    for argument in arguments:
        if argument.source is Source.RESULT and argument.feeder is not None:
            found |= {argument.step, argument.feeder}
    return frozenset(found)
