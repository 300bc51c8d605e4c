"""What holds a task's values together: which arguments follow results, which numbers are computed.

Owns the reading of a task's trace for the resample writer. Never changes a task.

    knowledge = analyse(Base(environment, task), domains)
    knowledge.links[3]["loan_id", ()]                       # results that show this argument
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import NamedTuple

from rods.synthesis.base import Base, Links
from rods.synthesis.structure.domains import Domains, Fill
from rods.synthesis.structure.sources import Argument, Source, numbers_in, numbers_of
from rods.synthesis.structure.trace import TraceStep, leaves
from rods.task import Task
from rods.types import Json
from rods.writers.resample.assign import FixedParts


class Filled(NamedTuple):
    """An argument that was computed as a wanted level less the present one."""

    argument: str
    target: float
    level: float


@dataclass(frozen=True)
class Knowledge:
    """What the writer must know of a task to change it safely."""

    steps: tuple[TraceStep, ...]
    links: Links
    fills: Mapping[int, Filled]
    extra: Mapping[float, str]
    limits: FixedParts


def analyse(base: Base, domains: Domains) -> Knowledge:
    """Find links, computed numbers and pinned values of a task."""
    task, steps, start = base.task, base.steps, base.start
    frozen: set[float] = set()
    pinned: set[str] = set()
    fills: dict[int, Filled] = {}
    extra: dict[float, str] = {}
    for argument in base.arguments:
        call = steps[argument.step].call
        kind = domains.parameter(call.name, argument.name)
        computed = argument.source is Source.DERIVED or argument.inside
        links = base.links.get(argument.step, {}).get((argument.name, argument.path), ())
        if any(steps[link.step].call.name in domains.constant for link in links):
            pinned.add(str(argument.value))
        if not isinstance(argument.value, int | float) or isinstance(argument.value, bool):
            continue
        if kind not in domains.numbers:
            frozen.add(float(argument.value))
        if computed or argument.source is Source.CONFIGURATION:
            fill = next((f for f in domains.fills if f.parameter == argument.name), None)
            filled = _filled(task, start, argument, fill) if fill is not None else None
            if fill is not None and filled is not None:
                fills[argument.step] = filled
                extra[filled.target] = kind
                frozen |= {fill.full} if filled.target == fill.full else set()
            elif computed:
                frozen |= _inputs(task, start, argument.turn) | {float(argument.value)}
        if kind == "id" and argument.source is not Source.RESULT and not argument.configured:
            frozen.add(float(argument.value))
    limits = _limits(base, domains, frozenset(pinned), frozenset(frozen))
    return Knowledge(steps, base.links, fills, extra, limits)


def _filled(task: Task, start: Mapping[str, Json], argument: Argument, fill: Fill) -> Filled | None:
    """`amount = target - level`: the target is the full level or stands in the text."""
    config = start.get(fill.owner)
    level = config.get(fill.field) if isinstance(config, dict) else None
    if not isinstance(level, int | float) or isinstance(level, bool):
        return None
    target = float(argument.value or 0) + level
    said = numbers_in("\n".join(t.user for t in task.turns[: argument.turn + 1]))
    wanted = target == fill.full or target in said
    return Filled(argument.name, target, float(level)) if wanted else None


def _inputs(task: Task, start: Mapping[str, Json], turn: int) -> set[float]:
    """Numbers that a computed argument may depend on: those said so far and those configured."""
    said = numbers_in("\n".join(t.user for t in task.turns[: turn + 1]))
    return said.union(*(numbers_of(leaf.value) for leaf in leaves(dict(start))))


def _limits(
    base: Base, domains: Domains, pinned: frozenset[str], frozen: frozenset[float]
) -> FixedParts:
    steps = base.steps
    prose = "\n".join(turn.user for turn in base.task.turns)
    pairs = {
        known.code: {
            (str(given[known.parameters[0]]), str(given[known.parameters[1]]))
            for given in (step.call.arguments for step in steps if not step.result.failed)
            if known.given(given)
        }
        for known in domains.pairs
    }
    small = (a for a in base.arguments if isinstance(a.value, int) and a.value < 10)
    loose_ids = any(
        domains.parameter(steps[a.step].call.name, a.name) == "id"
        for a in small
        if a.source is not Source.RESULT
    )
    alphabet = re.search(
        r"alphabet\w*.{0,30}\b(?:first|last)|(?:first|last)\b.{0,30}alphabet", prose
    )
    return FixedParts(
        pinned=pinned,
        frozen=frozen,
        keep_counters=loose_ids,
        keep_names=alphabet is not None,
        pairs=pairs,
        landmarks=tuple(_landmarks(prose, domains)),
    )


def _landmarks(prose: str, domains: Domains) -> Iterator[float]:
    """What readings are compared with: by the tools, and by people."""
    for kind in domains.numbers.values():
        yield from kind.landmarks
        if kind.compared is not None:
            low, high = kind.compared
            yield from sorted(n for n in numbers_in(prose) if low <= n <= high)
