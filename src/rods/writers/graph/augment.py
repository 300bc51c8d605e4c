"""Planned turns become a task's turns: deliberate gaps are put in as the benchmark builds them.

Owns `PlannedTurn` (executed calls and what is to be said) and the two augmentations that add turns:
a missing function (withheld, asked for, given back by a blank turn) and a missing value (left open,
then given). Long context needs none: the world pads results itself. Never words a message.

    turns = assemble(planned, [TurnTexts("Please list the files.")])
"""

from __future__ import annotations

import dataclasses
import random
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import NamedTuple

from rods.synthesis.rejection import ErrorClass, Rejection
from rods.synthesis.templates.wording import CallRequest
from rods.task import Task, Turn

FUNCTION, VALUE = "function", "value"


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
    """Class of the first call."""
    results: tuple[str, ...] = ()
    """What the calls returned."""
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
    """What the user says in one planned turn."""

    text: str
    answer: str = ""
    """The follow-up that gives the open value."""


def gap_of(task: Task, first: int, last: int) -> str:
    """Which gap the unit of turns `first` to `last` has: none (empty), `function` or `value`.

    A function is missing where the turn withholds tools.
    """
    if first == last:
        return ""
    return FUNCTION if task.turns[first].withheld else VALUE


def with_gap(
    gap: str,
    turn: PlannedTurn,
    earlier: Sequence[PlannedTurn],
    may_blur: Callable[[str, str], bool],
    rng: random.Random,
) -> PlannedTurn | Rejection:
    """The turn with the gap that its seed has (`gap_of`), or why it cannot have it."""
    if gap == FUNCTION:
        return missing_function(turn, earlier, rng)
    if gap == VALUE:
        return missing_value(turn, earlier, may_blur, rng)
    return turn


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
    rng: random.Random,
) -> PlannedTurn | Rejection:
    """Leave one required value open that nothing before it tells, in this turn or earlier.

    `may_blur` says of a tool and its argument whether words can leave it open.
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
    ]
    if not places:
        return Rejection("augment", ErrorClass.QUERY_GEN_FAILED, "no value can be left open")
    return dataclasses.replace(turn, left_open=rng.choice(places))


def assemble(planned: Sequence[PlannedTurn], texts: Sequence[TurnTexts]) -> tuple[Turn, ...]:
    """The turns of a task."""
    turns: list[Turn] = []
    for turn, words in zip(planned, texts, strict=True):
        calls = tuple(request.call for request in turn.requests)
        if turn.withheld:
            withheld = (turn.withheld,)
            turns = [dataclasses.replace(t, withheld=withheld) for t in turns]
            turns += [Turn(words.text, (), withheld), Turn("", calls)]
        elif turn.left_open is not None:
            turns += [Turn(words.text, ()), Turn(words.answer, calls)]
        else:
            turns.append(Turn(words.text, calls))
    return tuple(turns)
