"""How a writer may point at a value that an earlier result showed, in plain words.

Owns what a prompt tells of such a value: which result showed it, where it stands there, and whether
pointing at it can mean nothing else. Never words a message: the model does.

    pointer(steps, 3, "loan_id")                # Pointer(step=1, message=2, where="loan id", ...)
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence, Set
from typing import NamedTuple, TypeAlias

from rods.synthesis.llm.prompting import POINTED_CHARS, shortened, summary
from rods.synthesis.planned import CallRequest, PlannedTurn
from rods.synthesis.structure.sources import fields_with, normal, place_of, values_of
from rods.synthesis.structure.trace import Scalar, TraceStep, field_of, leaves, read_result
from rods.synthesis.structure.words import noun
from rods.types import ToolCall, ToolResult, Value


class Pointer(NamedTuple):
    """Where a value was shown, so that it need not be said."""

    step: int
    """The call whose result shows it, counted from 0 over the conversation."""
    message: int
    """The message that asked for that call, counted from 1."""
    result: str
    """What it gave, cut to its beginning."""
    where: str
    """The value's place in the result: `order id`, `second name`."""
    call: str = ""
    """What the call does, in a sentence."""
    words: tuple[str, ...] = ()
    """References that a planner chose: `that order`."""


def executed(planned: Sequence[PlannedTurn]) -> list[TraceStep]:
    """The calls of planned turns with their results."""
    return [
        TraceStep(index, request.call, ToolResult(text), *read_result(text))
        for index, turn in enumerate(planned)
        for request, text in zip(turn.requests, turn.results, strict=False)
    ]


def pointer(steps: Sequence[TraceStep], number: int, name: str) -> Pointer | None:
    """How to point at an argument of a call; None: nothing but the value itself is clear.

    Clear is the latest result that shows the value under a name, if it shows no other value under
    it (or the value has a place in a list) and nothing after it takes or shows another one.
    """
    value = steps[number].call.arguments[name]
    if isinstance(value, bool | list | dict | ToolCall) or value in (None, ""):
        return None
    for producer in range(number - 1, -1, -1):
        fields = fields_with(steps[producer], value)
        if fields:
            taken = leaves(dict(steps[producer].call.arguments))
            if normal(value) in {normal(leaf.value) for leaf in taken}:
                return None  # it only repeats what somebody said
            where = _where(steps[producer], value, fields, name)
            later = steps[producer + 1 : number]
            if not where or any(_rival(step, fields | {name}, value) for step in later):
                return None
            return _pointer(steps, producer, where)
    return None


def _pointer(steps: Sequence[TraceStep], producer: int, where: str) -> Pointer:
    step = steps[producer]
    shown = shortened(step.result.content, POINTED_CHARS)
    return Pointer(producer, step.turn + 1, shown, where)


def _where(step: TraceStep, value: Scalar, fields: Set[str], name: str) -> str:
    """The name under which the result shows this value alone, or its place; empty: neither."""
    alone = [field for field in sorted(fields) if len(values_of(step, field)) == 1]
    field = next(
        (f for f in alone if f == name or (f and name.endswith(f))), next(iter(alone), None)
    )
    if field is not None:
        return noun(field or name)
    place = place_of(step, value)
    return f"{place} {noun(sorted(fields)[0] or name)}" if place else ""


def _rival(step: TraceStep, named: Set[str], value: Scalar) -> bool:
    """Whether a call takes or shows another value under one of these names."""
    names = named - {""}
    taken: list[Value] = [v for n, v in step.call.arguments.items() if n in names]
    plain = [v for v in taken if not isinstance(v, list | dict | ToolCall)]
    shown = [leaf.value for leaf in step.leaves if field_of(leaf.path) in names]
    return any(normal(other) != normal(value) for other in (*plain, *shown))


References: TypeAlias = Callable[[CallRequest, str], Sequence[str]]
"""Words that may stand for an argument of a planned call."""


def pointers(
    planned: Sequence[PlannedTurn], index: int, references: References | None = None
) -> list[dict[str, Pointer]]:
    """For each call of a planned turn: arguments that may be pointed at.

    `references`: those of a planner without a model, where one planned these calls.
    """
    steps = executed(planned)
    first = sum(len(turn.requests) for turn in planned[:index])
    told = {a.call.name: summary(a.spec.description) for turn in planned for a in turn.requests}
    return [
        {name: found._replace(call=told[steps[found.step].call.name]) for name, found in mine}
        for mine in (
            _of_request(steps, first + n, request, references)
            for n, request in enumerate(planned[index].worded)
        )
    ]


def _of_request(
    steps: Sequence[TraceStep], number: int, request: CallRequest, references: References | None
) -> Iterator[tuple[str, Pointer]]:
    for name in request.call.arguments:
        if name not in request.shown or name == request.blurred:
            continue
        known = pointer(steps, number, name)
        chosen = request.producers.get(name)
        if chosen is not None:
            producer = max(n for n, step in enumerate(steps[:number]) if step.call == chosen.call)
            where = known.where if known else f"{chosen.place} {noun(name)}".strip()
            words = tuple(references(request, name)) if references is not None else ()
            known = _pointer(steps, producer, where)._replace(words=words)
        if known is not None:
            yield name, known
