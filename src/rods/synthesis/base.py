"""Analysis of a replayed task, made on first use: units of turns, sources, links.

A link is a leaf of an earlier result that an argument follows: exactly, rounded, or inside a text.

    base = Base.of(environment, renamed)
    base.links[3]["loan_id", ()]                            # [Link(step=2, path=("loan_id",))]
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from functools import cached_property
from typing import NamedTuple, Protocol, Self, TypeAlias

from rods.abilities import initial_state
from rods.env import Environment, World
from rods.synthesis.structure.domains import domains_of
from rods.synthesis.structure.profile import Profile, profile
from rods.synthesis.structure.sources import Argument, Source, normal, numbers_of, sources
from rods.synthesis.structure.trace import Path, Trace, TraceStep, all_tools, owners, trace
from rods.task import Task
from rods.types import Json, ToolCall, ToolSpec

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


def _may_follow(argument: Argument) -> bool:
    """Tell whether a result is its source, or it is made of others or an id that people repeat."""
    text = str(argument.value)
    if argument.source is Source.RESULT and not argument.inside:
        return True
    if argument.source is Source.DERIVED:
        return isinstance(argument.value, str)
    return (
        argument.source in (Source.TURN, Source.EARLIER_TURN)
        and not isinstance(argument.value, float)
        and len(text) >= 5
        and any(char.isdigit() for char in text)
        and " " not in text
    )


def _links(
    argument: Argument, steps: Sequence[TraceStep], shown: Mapping[str, Sequence[Link]]
) -> list[Link]:
    """Leaves of earlier results that show an argument: exactly, else rounded, else in part."""
    value = argument.value
    exact = [k for k in shown.get(normal(value), ()) if k.step < argument.step]
    if exact:
        return exact
    earlier = [(n, leaf) for n in range(argument.step) for leaf in steps[n].leaves]
    if isinstance(value, str):  # numbers inside a text: `79` of `79.pdf`
        tokens = set(re.findall(r"(?<![\w.])\d+(?:\.\d+)?(?!\w)", value))
        pairs = ((n, leaf, numbers_of(leaf.value)) for n, leaf in earlier if tokens)
        return [
            Link(n, leaf.path, None, token)
            for n, leaf, numbers in pairs
            for token in tokens
            if float(token) in numbers
        ]
    if isinstance(value, bool) or value is None:
        return []
    decimals = len(repr(value).partition(".")[2]) if isinstance(value, float) else 0
    return [
        Link(n, leaf.path, decimals)
        for n, leaf in earlier
        if isinstance(leaf.value, float) and round(leaf.value, decimals) == value
    ]


class Unit(NamedTuple):
    """Turns that belong together: deliberate gaps and the turn that resolves them."""

    first: int
    last: int
    """Inclusive."""
    classes: frozenset[str]
    """Classes whose functions are called in it."""
    needs: frozenset[int]
    """Earlier turns that its arguments come from."""


class Readable(World, Protocol):
    """A world whose state can be looked up as plain values."""

    def public_state(self) -> Mapping[str, Json]:
        """Public state of each class."""
        ...


class Base:
    """A task with what is known of it, computed on first use."""

    def __init__(self, environment: Environment, task: Task):
        self.environment = environment
        self.task = task

    @classmethod
    def of(cls, environment: Environment, task: Task) -> Self:
        """Roll out a task at once; raises `TaskError` where its world cannot be made."""
        made = cls(environment, task)
        _ = made.trace
        return made

    @cached_property
    def trace(self) -> Trace:
        """The ground truth, executed in one fresh world and judged against another."""
        return trace(self.environment, self.task)

    @property
    def steps(self) -> tuple[TraceStep, ...]:
        """The executed ground truth."""
        return self.trace.steps

    @property
    def calls(self) -> list[ToolCall]:
        """The flattened ground truth."""
        return self.task.calls

    @cached_property
    def specs(self) -> Mapping[str, ToolSpec]:
        """Every tool of its world."""
        return all_tools(self.environment, self.task)

    @cached_property
    def owners(self) -> Mapping[str, str]:
        """The class of each tool."""
        return owners(self.environment, self.task)

    @cached_property
    def start(self) -> Mapping[str, Json]:
        """Start values of its world, by owner."""
        return initial_state(self.environment, self.task).values

    @property
    def number_words(self) -> bool:
        """Tell whether its messages may say numbers by words."""
        return domains_of(self.environment).number_words

    @cached_property
    def arguments(self) -> tuple[Argument, ...]:
        """Every argument with its source."""
        return sources(self.task, self.steps, self.specs, self.number_words)

    @cached_property
    def profile(self) -> Profile:
        """Complexity profile of the base."""
        return profile(self.environment, self.task, self.steps, self.arguments)

    @cached_property
    def links(self) -> Links:
        """Leaves of earlier results that arguments follow, by step, where they follow any."""
        shown: dict[str, list[Link]] = {}
        for index, step in enumerate(self.steps):
            for leaf in step.leaves:
                shown.setdefault(normal(leaf.value), []).append(Link(index, leaf.path))
        links: dict[int, dict[Place, Sequence[Link]]] = {}
        for argument in filter(_may_follow, self.arguments):
            if found := _links(argument, self.steps, shown):
                links.setdefault(argument.step, {})[argument.name, argument.path] = found
        return links

    @cached_property
    def units(self) -> tuple[Unit, ...]:
        """Turns of the base, grouped: the structure that a plan fills."""
        turns = self.task.turns
        needs: dict[int, set[int]] = {}
        for argument in self.arguments:
            if argument.feeder is not None:
                needs.setdefault(argument.turn, set()).add(self.steps[argument.feeder].turn)
            elif argument.source is Source.EARLIER_TURN:
                needs.setdefault(argument.turn, set()).update(range(argument.turn))
        units: list[Unit] = []
        first = 0
        for index, turn in enumerate(turns):
            if not turn.ground_truth and index + 1 < len(turns):
                continue
            inner = range(first, index + 1)
            classes = {self.owners.get(c.name, "") for i in inner for c in turns[i].ground_truth}
            needed = {n for i in inner for n in needs.get(i, ())} - set(inner)
            units.append(Unit(first, index, frozenset(classes), frozenset(needed)))
            first = index + 1
        return tuple(units)
