"""Stage 3, rewrite: a message a turn, then the whole conversation once for one voice.

Checks what comes back: a message states every needed value and no other number, names no function
or parameter, and leaves open what is to be left open.
"""

from __future__ import annotations

import json
import re
from collections.abc import Mapping, Sequence
from typing import Any

from rods.synthesis.llm.plan import Chat
from rods.synthesis.llm.prompting import Pointer, References, pointers, render, schema, summary
from rods.synthesis.planned import CallRequest, PlannedTurn, TurnTexts
from rods.synthesis.rejection import ErrorClass, Rejection
from rods.synthesis.structure.sources import Shown, numbers_in, numbers_taken
from rods.synthesis.structure.trace import leaves
from rods.synthesis.structure.words import noun
from rods.types import ToolSpec, Value

WRITES = 3
"""Requests until a message passes its checks."""
MESSAGES = schema({"messages": {"type": "array", "items": {"type": "string"}}})
_CODE = re.compile(r"[a-z]+_[a-z_]+|[a-z]+[A-Z]\w*")


def write(
    chat: Chat,
    planned: Sequence[PlannedTurn],
    narrative: str,
    seed: int,
    problem: str = "",
    references: References | None = None,
) -> list[TurnTexts] | Rejection:
    """One message for each planned turn, whose calls were executed.

    `narrative` is the story, if there is one; `problem` what a judge found wrong with an earlier
    wording; `references` the words in which a planner without a model refers to results.
    """
    texts: list[TurnTexts] = []
    for index, turn in enumerate(planned):
        known = pointers(planned, index, references)
        requests = [_row(*both) for both in zip(turn.worded, known, strict=True)]
        problems = [problem] if problem else []
        reason = ErrorClass.NO_PROMPTS
        for number in range(WRITES):
            messages = render(
                "rewrite",
                narrative=narrative,
                texts=[s.text for s in texts],
                requests=requests,
                problems=problems,
                open=_open(turn),
            )
            text = chat.ask("rewrite", messages, seed=seed + number).text
            message, answer = _tagged(text, "message"), _tagged(text, "answer")
            if message is None or (turn.left_open is not None and not answer):
                problems = ["the message must stand between <message> and </message>"]
                continue
            reason = ErrorClass.QUERY_GEN_FAILED
            words = TurnTexts(message, answer or "")
            if not (problems := faults(turn, words, texts)):
                texts.append(words)
                break
        else:
            return Rejection("rewrite", reason, problems[0])
    return texts


def _row(request: CallRequest, known: Mapping[str, Pointer]) -> dict[str, Any]:
    arguments = [
        {
            "noun": noun(name),
            "value": json.dumps(value, ensure_ascii=False, default=str),
            "pointer": known.get(name),
            "open": name == request.blurred,
        }
        for name, value in request.call.arguments.items()
    ]
    return {"summary": summary(request.spec.description), "arguments": arguments}


def _open(turn: PlannedTurn) -> str:
    if turn.left_open is None:
        return ""
    index, name = turn.left_open
    return f"the {noun(name)} is {turn.requests[index].call.arguments[name]}"


def _tagged(text: str, tag: str) -> str | None:
    found = re.findall(rf"<{tag}>(.*?)</{tag}>", text, re.S)
    return found[-1].strip() if found and found[-1].strip() else None


def faults(turn: PlannedTurn, words: TurnTexts, before: Sequence[TurnTexts]) -> list[str]:
    """Return what is wrong with a wording, for the next request; empty: nothing is."""
    observed = " ".join([*(s.text + " " + s.answer for s in before), words.text])
    found = [
        f"it does not say the {noun(name)}: {value!r}"
        for request in turn.worded
        for name, value in request.call.arguments.items()
        if name not in request.shown and name != request.blurred
        for value in _unsaid(value, observed)
    ]
    found += [f"it names {name}" for name in leaked(words.text + " " + words.answer, turn)]
    allowed = numbers_taken(request.call for request in turn.requests)
    values = " ".join(str(request.call) for request in turn.requests)
    allowed |= numbers_in(" ".join(s.text + " " + s.answer for s in before))
    allowed |= {float(n) for n in re.findall(r"\d+(?:\.\d+)?", values)}
    extra = sorted(n for n in numbers_in(words.text) - allowed if abs(n) > len(turn.requests))
    found += [f"it says {n:g}, which no call needs" for n in extra]
    if turn.left_open is not None:
        index, name = turn.left_open
        value = turn.requests[index].call.arguments[name]
        if _says(words.text, value):
            found.append(f"it says {value!r}, which must be left open")
        if not _says(words.answer, value):
            found.append(f"the answer does not say {value!r}")
    return found


def _says(text: str, value: Value) -> bool:
    """Tell whether a text says a value as the gates read it: 1,500 and `two` are numbers."""
    shown = Shown(words=True)
    shown.hear(text)
    return any(shown.turn_with(leaf.value) is not None for leaf in leaves(value))


def _unsaid(value: object, observed: str) -> list[object]:
    lower, numbers = observed.lower().replace("_", " "), numbers_in(observed)
    missing: list[object] = []
    for leaf in leaves(value):
        item = leaf.value
        if isinstance(item, bool) or item is None or item == "":
            continue
        if isinstance(item, int | float):
            present = float(item) in numbers
        else:
            present = item.lower().lstrip("#@").rstrip(".").replace("_", " ") in lower
            present = present or bool(_WORDLIKE.fullmatch(item))
        if not present:
            missing.append(item)
    return missing


_WORDLIKE = re.compile(r"[A-Za-z]{1,6}|\.{1,2}|/")
"""Enumerations and paths that people say in other words (`START`, `..`); the gates decide."""


def leaked(text: str, turn: PlannedTurn) -> list[str]:
    """Names of functions and parameters that a text contains, as one writes them in code."""
    specs: dict[str, ToolSpec] = {request.spec.name: request.spec for request in turn.requests}
    names = set(specs)
    for spec in specs.values():
        names |= set(spec.properties)
    values = {
        word
        for request in turn.requests
        for leaf in leaves(dict(request.call.arguments))
        for word in _CODE.findall(str(leaf.value))
    }
    return sorted({w for w in _CODE.findall(text) if w in names} - values)


def cohere(
    chat: Chat,
    planned: Sequence[PlannedTurn],
    texts: Sequence[TurnTexts],
    narrative: str,
    seed: int,
) -> list[TurnTexts] | None:
    """The whole conversation rewritten once; None where the result breaks a check."""
    parts = [part for words in texts for part in words if part]
    messages = render("coherence", texts=parts, narrative=narrative)
    data = chat.ask("coherence", messages, seed=seed, schema=MESSAGES).data
    rows = data.get("messages") if isinstance(data, dict) else data
    if not isinstance(rows, list) or len(rows) != len(parts):
        return None
    fresh = iter(str(row).strip() for row in rows)
    result: list[TurnTexts] = []
    for turn, words in zip(planned, texts, strict=True):
        renewed = TurnTexts(next(fresh), next(fresh) if words.answer else "")
        if not renewed.text or faults(turn, renewed, result):
            return None
        result.append(renewed)
    return result
