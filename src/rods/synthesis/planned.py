"""Planned turns become a task's turns: deliberate gaps are put in as the benchmark builds them.

Owns the two augmentations that add turns: a missing function (withheld, asked for, given back by a
blank turn) and a missing value (left open, then given). Long context needs none: the world pads
results itself.
"""

from __future__ import annotations

import dataclasses
import random
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import NamedTuple

from rods.synthesis.base import Unit
from rods.synthesis.rejection import ErrorClass, Rejection
from rods.synthesis.structure.trace import field_of, read_result
from rods.task import Provenance, Task, Turn
from rods.types import ToolCall, ToolSpec

LOOSE = frozenset({"", "id", "ident", "body"})
"""Kinds of which two values may be about quite different things."""


class Producer(NamedTuple):
    """An earlier call that a message may point back to."""

    call: ToolCall
    place: str = ""
    """Where the value stands in a list that it showed (`first`); empty: it showed one value."""
    only: bool = True
    """True if nothing else was called of its kind: else only words that point back fit."""


class CallRequest(NamedTuple):
    """One call that a message asks for."""

    call: ToolCall
    spec: ToolSpec
    shown: frozenset[str] = frozenset()
    """Arguments whose values results show and no text says: they may be referred to."""
    blurred: str = ""
    """An argument that the message leaves open on purpose."""
    producers: Mapping[str, Producer] = {}
    """The calls whose results show them, where they are known."""
    used: frozenset[str] = frozenset()
    """Arguments whose values were said or shown before: nobody introduces them again."""
    last: ToolCall | None = None
    """The call right before this one: only its results were `just` seen."""


class OpenArgument(NamedTuple):
    """An argument that the user leaves open at first."""

    request: int
    """Index of the call in its turn."""
    name: str


@dataclass(frozen=True)
class PlannedTurn:
    """The calls of one turn, executed, and what its message must say."""

    requests: tuple[CallRequest, ...]
    owner: str
    results: tuple[str, ...] = ()
    withheld: str = ""
    """A function that is missing at first."""
    left_open: OpenArgument | None = None
    """A value that is missing at first."""

    @property
    def worded(self) -> tuple[CallRequest, ...]:
        """The calls as the first message asks for them: the open value is blurred."""
        if self.left_open is None:
            return self.requests
        index, name = self.left_open
        return tuple(
            a._replace(blurred=name) if i == index else a for i, a in enumerate(self.requests)
        )


class TurnTexts(NamedTuple):
    """Texts of the user in one planned turn."""

    text: str
    answer: str = ""
    """The follow-up that gives the open value."""


def descent(seed: Task, recipe: str, number: int, donors: Sequence[Task] = ()) -> Provenance:
    """Where a variant of a seed comes from; `donors` gave turns, `number` is of its chance."""
    origin = seed.provenance
    sides = (origin, *(donor.provenance for donor in donors))
    scenarios = dict.fromkeys(n for p in sides for n in (p.scenario, *p.scenarios) if n)
    ancestors = dict.fromkeys((*origin.ancestors, seed.id, *(donor.id for donor in donors)))
    return Provenance(
        origin.origin, origin.scenario, tuple(ancestors), recipe, number, tuple(scenarios)
    )


def signed(draft: Task, seed: Task, origin: Provenance, recipe: str, number: int) -> Task:
    """A draft with its provenance.

    A seed task that was made for a stage belongs to the scenario whose world that is, else to one
    of its own. `origin`: where a variant's world comes from; `number` is of its chance.
    """
    if seed.is_stage:
        own = seed.provenance.scenario == seed.id
        origin = Provenance("", "" if own else seed.provenance.scenario)
        recipe = f"{recipe}+scratch"
    origin = dataclasses.replace(origin, recipe=recipe, seed=number)
    return dataclasses.replace(draft, provenance=origin)


def with_gap(
    task: Task,
    unit: Unit,
    turn: PlannedTurn,
    earlier: Sequence[PlannedTurn],
    may_blur: Callable[[str, str], bool],
    kind_of: Callable[[str, str], str],
    rng: random.Random,
) -> PlannedTurn | Rejection:
    """The turn with the gap that a unit of a task has, or why it cannot have it.

    A function is missing where the unit's last turn gives tools back, else a value.
    """
    if unit.first == unit.last:
        return turn
    if task.given_back(unit.last):
        return missing_function(turn, earlier, rng)
    return missing_value(turn, earlier, may_blur, kind_of, rng)


def missing_function(
    turn: PlannedTurn, earlier: Sequence[PlannedTurn], rng: random.Random
) -> PlannedTurn | Rejection:
    """Withhold a function of this turn that was not called before."""
    before = {request.call.name for other in earlier for request in other.requests}
    free = [request.call.name for request in turn.requests if request.call.name not in before]
    if not free:
        detail = "every function of the turn was called before"
        return Rejection("augment", ErrorClass.DUPLICATE_FUNC, detail)
    return dataclasses.replace(turn, withheld=rng.choice(free))


def missing_value(
    turn: PlannedTurn,
    earlier: Sequence[PlannedTurn],
    may_blur: Callable[[str, str], bool],
    kind_of: Callable[[str, str], str],
    rng: random.Random,
    near: int = 1,
) -> PlannedTurn | Rejection:
    """Leave one required value open that nothing before it tells, in this turn or earlier.

    `may_blur` says of a tool and its argument whether words can leave it open, `kind_of` of what
    kind it is (`Domains.parameter`). Another value of its kind rivals it in the `near` last turns.
    """
    texts = [str(request.call) for other in earlier for request in other.requests]
    known = "\n".join([*texts, *(text for other in earlier for text in other.results)]).lower()
    calls = [str(request.call) for request in turn.requests]
    places = [
        OpenArgument(index, name)
        for index, request in enumerate(turn.requests)
        for name, value in request.call.arguments.items()
        if name in request.spec.required
        and name not in request.shown
        and may_blur(request.call.name, name)
        and isinstance(value, str | int | float)
        and not isinstance(value, bool)
        and str(value).lower() not in known
        and not any(str(value).lower() in text.lower() for text in turn.results[:index])
        and sum(str(value) in call for call in calls) == 1
        and not _has_rival(turn, earlier[-near:], index, name, kind_of)
    ]
    if not places:
        return Rejection("augment", ErrorClass.QUERY_GEN_FAILED, "no value can be left open")
    return dataclasses.replace(turn, left_open=rng.choice(places))


def _has_rival(
    turn: PlannedTurn,
    before: Sequence[PlannedTurn],
    index: int,
    name: str,
    kind_of: Callable[[str, str], str],
) -> bool:
    """Tell whether another value of an open one's kind stands in its turn or the one before.

    An honest agent takes that one: `Fetch item 3, and add a note` speaks of one item.
    """
    kind = kind_of(turn.requests[index].call.name, name)
    others = [request.call for i, request in enumerate(turn.requests) if i != index]
    others += [request.call for other in before for request in other.requests]
    shown = [*turn.results[:index], *(text for other in before for text in other.results)]
    fields = {field_of(leaf.path) for text in shown for leaf in read_result(text)[1]}
    return bool(fields & {name, name.rpartition("_")[2]}) or any(
        other == name or (kind not in LOOSE and kind_of(call.name, other) == kind)
        for call in others
        for other in call.arguments
    )


def assemble(planned: Sequence[PlannedTurn], texts: Sequence[TurnTexts]) -> tuple[Turn, ...]:
    """The turns of a task."""
    turns: list[Turn] = []
    for turn, words in zip(planned, texts, strict=True):
        calls = tuple(request.call for request in turn.requests)
        if turn.withheld:
            # It was missing from the start, beside what earlier turns lacked.
            turns = [dataclasses.replace(t, withheld=(*t.withheld, turn.withheld)) for t in turns]
            turns += [Turn(words.text, (), (turn.withheld,)), Turn("", calls)]
        elif turn.left_open is not None:
            turns += [Turn(words.text, ()), Turn(words.answer, calls)]
        else:
            turns.append(Turn(words.text, calls))
    return tuple(turns)
