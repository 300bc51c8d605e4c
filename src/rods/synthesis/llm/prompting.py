"""The prompts of the language-model writer: `prompts/*.jinja`, and what they are filled with.

Owns what a prompt reports of a value that an earlier result showed: which result, where it stands
there, and whether pointing at it can mean nothing else.
"""

from __future__ import annotations

import functools
import hashlib
import json
from collections.abc import Callable, Iterator, Mapping, Sequence, Set
from importlib.resources import files
from typing import Any, NamedTuple, TypeAlias

import jinja2

from rods.synthesis.planned import CallRequest, PlannedTurn
from rods.synthesis.structure.sources import fields_with, has_rival, normal, place_of, values_of
from rods.synthesis.structure.trace import Scalar, TraceStep, leaves, read_result
from rods.synthesis.structure.words import noun
from rods.types import ToolCall, ToolResult

STAGES = ("plan", "execute", "critic", "rewrite", "coherence", "judge")
"""One prompt each."""
STATE_CHARS = 12_000
"""Longest rendering of a world's state; what is cut is marked."""
TEXT_CHARS, ITEMS = 160, 40
"""Longest text, list and mapping inside a state; they are cut before the whole is."""
RESULT_CHARS = 400
POINTED_CHARS = 160
"""Longest rendering of a result that a message may point at."""


@functools.cache
def _environment() -> jinja2.Environment:
    folder = jinja2.PackageLoader("rods", "synthesis/llm/prompts")
    return jinja2.Environment(loader=folder, undefined=jinja2.StrictUndefined)


@functools.cache
def prompts_hash() -> str:
    """First 8 hex digits of a hash of all prompts."""
    folder = files("rods").joinpath("synthesis", "llm", "prompts")
    texts = {s: folder.joinpath(f"{s}.jinja").read_text(encoding="utf-8") for s in STAGES}
    return hashlib.sha256(json.dumps(texts, sort_keys=True).encode()).hexdigest()[:8]


def render(stage: str, **values: Any) -> list[Mapping[str, str]]:
    """The messages of one request; the first line of a prompt tells a server's log the stage."""
    return [
        {"role": "user", "content": _environment().get_template(f"{stage}.jinja").render(**values)}
    ]


def trimmed(value: object) -> object:
    """A state with long texts, lists and mappings cut, so that all its fields can be seen.

    Plain fields come first: a token must not be lost behind a long list of cards.
    """
    if isinstance(value, str) and len(value) > TEXT_CHARS:
        return f"{value[:TEXT_CHARS]} ... ({len(value) - TEXT_CHARS} characters left out)"
    if isinstance(value, dict):
        fields: dict[str, object] = value
        shown = {k: trimmed(v) for k, v in list(fields.items())[:ITEMS]}
        more = {"...": f"({len(fields) - ITEMS} more)"} if len(fields) > ITEMS else {}
        plain = {k: v for k, v in shown.items() if not isinstance(v, dict | list)}
        return plain | shown | more
    if isinstance(value, list):
        items: list[object] = value
        more = [f"({len(items) - ITEMS} more)"] if len(items) > ITEMS else []
        return [trimmed(item) for item in items[:ITEMS]] + more
    return value


def shortened(value: object, most: int = STATE_CHARS) -> str:
    """JSON (or text) of at most so many characters; a cut is marked."""
    plain = trimmed(value)
    text = plain if isinstance(plain, str) else json.dumps(plain, ensure_ascii=False, default=str)
    text = value if isinstance(value, str) else text
    cut = f"{text[:most]} ... ({len(text) - most} characters left out)"
    return text if len(text) <= most else cut


def summary(description: str) -> str:
    """The first sentence of a tool's description, without what is said of its class."""
    text = description.split("Tool description:", 1)[-1].strip()
    return text.split(". ", 1)[0].strip().rstrip(".") + "."


def schema(properties: Mapping[str, object], required: Sequence[str] = ()) -> dict[str, Any]:
    """A JSON schema of type object, for servers that support structured output."""
    return {
        "type": "object",
        "properties": dict(properties),
        "required": list(required or properties),
    }


class Pointer(NamedTuple):
    """Where a value was shown, so that it need not be said."""

    step: int
    """The call whose result shows it, counted from 0 over the conversation."""
    message: int
    """The message that asked for that call, counted from 1."""
    result: str
    """Result of a call, cut to its beginning."""
    where: str
    """The value's place in the result: `order id`, `second name`."""
    call: str = ""
    """Effect of the call, in a sentence."""
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
    """Return how to point at an argument of a call; None: nothing but the value itself is clear.

    Clear is the latest result that shows the value under a name, if it shows no other value under
    it (or the value has a place in a list) and nothing after it takes or shows another one.
    """
    value = steps[number].call.arguments[name]
    if isinstance(value, bool | list | dict | ToolCall) or value in (None, ""):
        return None
    for producer in range(number - 1, -1, -1):
        if fields := fields_with(steps[producer], value):
            taken = leaves(dict(steps[producer].call.arguments))
            if normal(value) in {normal(leaf.value) for leaf in taken}:
                return None  # it only repeats what somebody said
            where = _where(steps[producer], value, fields, name)
            later = steps[producer + 1 : number]
            if not where or any(has_rival(step, fields | {name}, value) for step in later):
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
    about = {a.call.name: summary(a.spec.description) for turn in planned for a in turn.requests}
    return [
        {name: found._replace(call=about[steps[found.step].call.name]) for name, found in mine}
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
        if (chosen := request.producers.get(name)) is not None:
            producer = max(n for n, step in enumerate(steps[:number]) if step.call == chosen.call)
            where = known.where if known else f"{chosen.place} {noun(name)}".strip()
            words = tuple(references(request, name)) if references is not None else ()
            known = _pointer(steps, producer, where)._replace(words=words)
        if known is not None:
            yield name, known
