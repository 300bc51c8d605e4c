"""What a plan is made on: a task whose structure is to be filled with other calls.

Owns its analysis: units of turns, tools, the start of its world, and links between calls: the
leaves of earlier results that an argument follows (exactly, rounded, or inside a text). Never
plans, never changes a value.

    base = Base.of(environment, renamed)
    base.units[0].classes                                   # classes of the first turn's calls
    dict(linked(steps, arguments))[argument]                # [Link(step=2, path=("loan_id",))]
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import NamedTuple, Protocol, TypeAlias

from rods.abilities import initial_state
from rods.env import Environment, World
from rods.synthesis.structure.sources import Argument, Source, normal, numbers_of, sources
from rods.synthesis.structure.trace import Path, Scalar, TraceStep, all_tools, owners, trace
from rods.task import Task
from rods.types import Json, ToolSpec

Place: TypeAlias = tuple[str, Path]
"""An argument's name and the path inside its value."""


class Link(NamedTuple):
    """A leaf of an earlier result that shows an argument's value."""

    step: int
    path: Path
    decimals: int | None = None
    """The argument is the leaf rounded to so many decimals; None: as it is."""
    token: str = ""
    """The part of a text argument that the leaf shows; empty: the whole argument."""


Links: TypeAlias = Mapping[int, Mapping[Place, Sequence[Link]]]
"""What shows the arguments of each step."""


def linked(
    steps: Sequence[TraceStep], arguments: Iterable[Argument]
) -> Iterator[tuple[Argument, list[Link]]]:
    """Each argument with the leaves of earlier results that it follows; mostly none."""
    index = _Index(steps)
    for argument in arguments:
        computed = argument.source is Source.DERIVED or argument.inside
        derived = isinstance(argument.value, str) and argument.source is Source.DERIVED
        follows = argument.source is Source.RESULT and not computed
        found = index.links(argument) if follows or _distinctive(argument) or derived else []
        yield argument, found


def links_of(steps: Sequence[TraceStep], arguments: Iterable[Argument]) -> Links:
    """The same by step, name and path, without arguments that follow nothing."""
    links: dict[int, dict[Place, Sequence[Link]]] = {}
    for argument, found in linked(steps, arguments):
        if found:
            links.setdefault(argument.step, {})[argument.name, argument.path] = found
    return links


def _distinctive(argument: Argument) -> bool:
    """A generated id that people repeat: long and with a digit."""
    text = str(argument.value)
    return (
        argument.source in (Source.TURN, Source.EARLIER_TURN)
        and not isinstance(argument.value, float)
        and len(text) >= 5
        and any(char.isdigit() for char in text)
        and " " not in text
    )


class _Index:
    """The leaves of all results, by value."""

    def __init__(self, steps: Sequence[TraceStep]):
        self._steps = steps
        self._exact: dict[str, list[Link]] = {}
        for index, step in enumerate(steps):
            for leaf in step.leaves:
                self._exact.setdefault(normal(leaf.value), []).append(Link(index, leaf.path))

    def links(self, argument: Argument) -> list[Link]:
        """Leaves of earlier results that show an argument: exactly, else rounded, else in part."""
        value = argument.value
        exact = [k for k in self._exact.get(normal(value), ()) if k.step < argument.step]
        if exact:
            return exact
        if isinstance(value, str):
            return _token_links(argument, self._steps)
        decimals = len(repr(value).partition(".")[2]) if isinstance(value, float) else 0
        return [
            Link(index, leaf.path, decimals)
            for index in range(argument.step)
            for leaf in self._steps[index].leaves
            if _rounds(leaf.value, value, decimals)
        ]


def _rounds(leaf: Scalar, value: Scalar, decimals: int) -> bool:
    if not isinstance(leaf, float) or isinstance(value, bool | str) or value is None:
        return False
    return round(leaf, decimals) == value


def _token_links(argument: Argument, steps: Sequence[TraceStep]) -> list[Link]:
    """Numbers inside a text argument that earlier results show (`79` of `79.pdf`)."""
    found: list[Link] = []
    tokens = {m.group() for m in re.finditer(r"(?<![\w.])\d+(?:\.\d+)?(?!\w)", str(argument.value))}
    if not tokens:
        return found
    for index in range(argument.step):
        for leaf in steps[index].leaves:
            shown = numbers_of(leaf.value)
            found += [Link(index, leaf.path, None, t) for t in tokens if float(t) in shown]
    return found


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
            frozenset(
                step
                for argument in arguments
                if argument.source is Source.RESULT and argument.feeder is not None
                for step in (argument.step, argument.feeder)
            ),
            owned,
            specs,
            initial_state(environment, task).values,
        )
