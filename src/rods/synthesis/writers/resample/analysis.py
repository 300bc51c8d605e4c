"""What holds a task's values together: which arguments follow results, which numbers are computed.

Owns the reading of a task's trace for the resample writer. Never changes a task.

    knowledge = analyse(task, steps, arguments, domains)
    knowledge.links[3]["booking_id", ()]                    # results that show this argument
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import NamedTuple, TypeAlias

from rods.synthesis.structure.correspondence import TANK
from rods.synthesis.structure.domains import NUMERIC, Domains
from rods.synthesis.structure.sources import NUMBER, Argument, Source, normal, numbers_in
from rods.synthesis.structure.trace import Path, Scalar, Step, leaves
from rods.synthesis.writers.resample.assign import Limits
from rods.synthesis.writers.resample.entities import configurations
from rods.task import Task

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


class Fill(NamedTuple):
    """A fuel amount computed as a wanted level less the present one."""

    target: float
    level: float


@dataclass(frozen=True)
class Knowledge:
    """What the writer must know of a task to change it safely."""

    steps: tuple[Step, ...]
    links: Mapping[int, Mapping[Place, Sequence[Link]]]
    fills: Mapping[int, Fill]
    extra: Mapping[float, str]
    limits: Limits


def analyse(
    task: Task, steps: Sequence[Step], arguments: Sequence[Argument], domains: Domains
) -> Knowledge:
    """Find links, computed numbers and pinned values of a task.

    Args:
        task: Any task whose ground truth replays.
        steps: Its trace.
        arguments: Its arguments with their sources.
        domains: Kinds and tables of its environment.
    """
    links: dict[int, dict[Place, Sequence[Link]]] = {}
    frozen: set[float] = set()
    pinned: set[str] = set()
    fills: dict[int, Fill] = {}
    extra: dict[float, str] = {}
    index = _Index(steps)
    for argument in arguments:
        call = steps[argument.step].call
        kind = domains.parameter(call.name, argument.name)
        computed = argument.source is Source.DERIVED or argument.inside
        told = isinstance(argument.value, str) and argument.source is Source.DERIVED
        if (argument.source is Source.RESULT and not computed) or _distinctive(argument) or told:
            found = index.links(argument)
            if found:
                links.setdefault(argument.step, {})[argument.name, argument.path] = found
                if any(steps[link.step].call.name in domains.constant for link in found):
                    pinned.add(str(argument.value))
        if not isinstance(argument.value, int | float) or isinstance(argument.value, bool):
            continue
        if kind not in NUMERIC:
            frozen.add(float(argument.value))
        if computed or argument.source is Source.CONFIGURATION:
            fill = _fill(task, argument, kind)
            if fill is not None:
                fills[argument.step] = fill
                extra[fill.target] = "fuel"
                frozen |= {TANK} if fill.target == TANK else set()
            elif computed:
                frozen |= _inputs(task, argument.turn) | {float(argument.value)}
        if kind == "id" and argument.source is not Source.RESULT and not argument.configured:
            frozen.add(float(argument.value))
    limits = _limits(task, steps, arguments, domains, frozenset(pinned), frozenset(frozen))
    return Knowledge(tuple(steps), links, fills, extra, limits)


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

    def __init__(self, steps: Sequence[Step]):
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


def _token_links(argument: Argument, steps: Sequence[Step]) -> list[Link]:
    """Numbers inside a text argument that earlier results show (`79` of `79.pdf`)."""
    found: list[Link] = []
    tokens = {m.group() for m in re.finditer(r"(?<![\w.])\d+(?:\.\d+)?(?!\w)", str(argument.value))}
    if not tokens:
        return found
    for index in range(argument.step):
        for leaf in steps[index].leaves:
            shown = _numbers(leaf.value)
            found += [Link(index, leaf.path, None, t) for t in tokens if float(t) in shown]
    return found


def _numbers(value: Scalar) -> set[float]:
    if isinstance(value, bool) or value is None:
        return set()
    return {float(value)} if isinstance(value, int | float) else numbers_in(value)


def _fill(task: Task, argument: Argument, kind: str) -> Fill | None:
    """`amount = target - level`: the target is a full tank or stands in the text."""
    config = configurations(task).get("VehicleControlAPI")
    if kind != "fuel" or not isinstance(config, dict) or argument.name != "fuelAmount":
        return None
    level = config.get("fuelLevel")
    if not isinstance(level, int | float) or isinstance(level, bool):
        return None
    target = float(argument.value or 0) + level
    said = numbers_in("\n".join(t.user for t in task.turns[: argument.turn + 1]))
    return Fill(target, float(level)) if target == TANK or target in said else None


def _inputs(task: Task, turn: int) -> set[float]:
    """Numbers that a computed argument may depend on: those said so far and those configured."""
    said = numbers_in("\n".join(t.user for t in task.turns[: turn + 1]))
    for leaf in leaves(dict(configurations(task))):
        if isinstance(leaf.value, str):
            said |= {float(m.replace(",", "")) for m in NUMBER.findall(leaf.value)}
        elif isinstance(leaf.value, int | float) and not isinstance(leaf.value, bool):
            said.add(float(leaf.value))
    return said


def _limits(
    task: Task,
    steps: Sequence[Step],
    arguments: Sequence[Argument],
    domains: Domains,
    pinned: frozenset[str],
    frozen: frozenset[float],
) -> Limits:
    prose = "\n".join(turn.user for turn in task.turns)
    legs: set[tuple[str, str]] = set()
    spans: set[tuple[str, str]] = set()
    for step in steps:
        given = step.call.arguments
        if not step.result.failed and "travel_from" in given and "travel_to" in given:
            legs.add((str(given["travel_from"]), str(given["travel_to"])))
        if not step.result.failed and step.call.name == "estimate_distance":
            spans.add((str(given.get("cityA")), str(given.get("cityB"))))
    loose_ids = any(
        domains.parameter(steps[a.step].call.name, a.name) == "id"
        and isinstance(a.value, int)
        and a.value < 10
        and a.source is not Source.RESULT
        for a in arguments
    )
    alphabet = re.search(
        r"alphabet\w*.{0,30}\b(?:first|last)|(?:first|last)\b.{0,30}alphabet", prose
    )
    return Limits(
        pinned=pinned,
        frozen=frozen,
        keep_counters=loose_ids,
        keep_names=alphabet is not None,
        legs=frozenset(legs),
        spans=frozenset(spans),
        landmarks=(30.0, 35.0, *sorted(n for n in numbers_in(prose) if 20 <= n <= 60)),
    )
