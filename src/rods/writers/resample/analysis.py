"""What holds a task's values together: which arguments follow results, which numbers are computed.

Owns the reading of a task's trace for the resample writer. Never changes a task.

    knowledge = analyse(Base(environment, task), domains)
    knowledge.links[3]["loan_id", ()]                       # results that show this argument
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping, Set
from dataclasses import dataclass
from typing import NamedTuple, TypeAlias

from rods.synthesis.base import Base, Links
from rods.synthesis.structure.domains import CodePairs, Domains, Fill
from rods.synthesis.structure.sources import Argument, Source, numbers_in, numbers_of
from rods.synthesis.structure.trace import TraceStep, leaves
from rods.task import Task

_ALPHABET = re.compile(r"alphabet\w*.{0,30}\b(?:first|last)|(?:first|last)\b.{0,30}alphabet")


class Filled(NamedTuple):
    """An argument that was computed as a wanted level less the present one."""

    argument: str
    target: float
    level: float


Together: TypeAlias = Mapping[str, Set[tuple[str, str]]]
"""Kind of a code to the pairs of codes that a task's ground truth calls with."""


@dataclass(frozen=True)
class Knowledge:
    """What the writer must know of a task to change it safely."""

    steps: tuple[TraceStep, ...]
    links: Links
    fills: Mapping[int, Filled]
    extra: Mapping[float, str]
    pinned: Set[str]
    """Codes and names that come from constants of the API."""
    frozen: Set[float]
    """Numbers that something is computed from."""
    keep_counters: bool
    keep_names: bool
    """The alphabetical order of names matters."""
    pairs: Together
    landmarks: tuple[float, ...]
    """Numbers of the texts that stay and that readings are compared with."""


def analyse(base: Base, domains: Domains) -> Knowledge:
    """Find links, computed numbers and pinned values of a task."""
    steps = base.steps
    frozen: set[float] = set()
    pinned: set[str] = set()
    fills: dict[int, Filled] = {}
    extra: dict[float, str] = {}
    loose_ids = False
    for argument in base.arguments:
        value, call = argument.value, steps[argument.step].call
        kind = domains.parameter(call.name, argument.name)
        computed = argument.source is Source.DERIVED or argument.inside
        links = base.links.get(argument.step, {}).get((argument.name, argument.path), ())
        if any(steps[link.step].call.name in domains.constant for link in links):
            pinned.add(str(value))
        loose = kind == "id" and argument.source is not Source.RESULT
        loose_ids = loose_ids or (loose and isinstance(value, int) and value < 10)
        if not isinstance(value, int | float) or isinstance(value, bool):
            continue
        if kind not in domains.numbers or (loose and not argument.configured):
            frozen.add(float(value))
        if computed or argument.source is Source.CONFIGURATION:
            fill = next((f for f in domains.fills if f.parameter == argument.name), None)
            filled = _filled(base, argument, fill) if fill is not None else None
            if fill is not None and filled is not None:
                fills[argument.step] = filled
                extra[filled.target] = kind
                frozen |= {fill.full} if filled.target == fill.full else set()
            elif computed:
                frozen |= _inputs(base, argument.turn) | {float(value)}
    prose = "\n".join(turn.user for turn in base.task.turns)
    return Knowledge(
        steps,
        base.links,
        fills,
        extra,
        pinned,
        frozen,
        keep_counters=loose_ids,
        keep_names=_ALPHABET.search(prose) is not None,
        pairs={known.code: _called_with(known, steps) for known in domains.pairs},
        landmarks=tuple(_landmarks(prose, domains)),
    )


def _filled(base: Base, argument: Argument, fill: Fill) -> Filled | None:
    """`amount = target - level`: the target is the full level or stands in the text."""
    config = base.start.get(fill.owner)
    level = config.get(fill.field) if isinstance(config, dict) else None
    if not isinstance(level, int | float) or isinstance(level, bool):
        return None
    target = float(argument.value or 0) + level
    wanted = target == fill.full or target in _said(base.task, argument.turn)
    return Filled(argument.name, target, float(level)) if wanted else None


def _inputs(base: Base, turn: int) -> set[float]:
    """Numbers that a computed argument may depend on: those said so far and those configured."""
    configured = (numbers_of(leaf.value) for leaf in leaves(dict(base.start)))
    return _said(base.task, turn).union(*configured)


def _said(task: Task, turn: int) -> set[float]:
    """Numbers that are said up to a turn."""
    return numbers_in("\n".join(t.user for t in task.turns[: turn + 1]))


def _called_with(known: CodePairs, steps: Iterable[TraceStep]) -> Set[tuple[str, str]]:
    """Pairs of codes that calls take together."""
    given = (step.call.arguments for step in steps if not step.result.failed)
    one, two = known.parameters
    return {(str(a[one]), str(a[two])) for a in given if known.given(a)}


def _landmarks(prose: str, domains: Domains) -> Iterator[float]:
    """What readings are compared with: by the tools, and by people."""
    for kind in domains.numbers.values():
        yield from kind.landmarks
        if kind.compared is not None:
            low, high = kind.compared
            yield from sorted(n for n in numbers_in(prose) if low <= n <= high)
