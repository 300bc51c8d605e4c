"""A model's word on what is asserted of a conversation, where a task's reward is based on it.

Owns the question and the reading of its answer. All assertions must hold.

    holds(judge, "assistant: Hi!\nuser: ...", ["The agent offers a refund."])
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, cast

from rods.envs.suites.chat import Speaker, TextRefused
from rods.errors import EnvError
from rods.synthesis.chat.json_text import find_json
from rods.types import Json

QUESTION = (
    "You read a conversation between an agent and a customer, and outcomes that were expected of "
    "the agent. Judge each outcome by itself: did the agent meet it? Answer with a JSON object "
    '{"results": [{"expectedOutcome": "...", "reasoning": "...", "metExpectation": true}]}, one '
    "result for each expected outcome, in their order; the reasoning is short."
)
_RESULT: Mapping[str, Json] = {
    "type": "object",
    "properties": {
        "expectedOutcome": {"type": "string"},
        "reasoning": {"type": "string"},
        "metExpectation": {"type": "boolean"},
    },
    "required": ["expectedOutcome", "reasoning", "metExpectation"],
    "additionalProperties": False,
}
SCHEMA: Mapping[str, Json] = {
    "type": "object",
    "properties": {"results": {"type": "array", "items": dict(_RESULT)}},
    "required": ["results"],
    "additionalProperties": False,
}


def holds(judge: Speaker, conversation: str, assertions: Sequence[str]) -> bool:
    """Whether the judge finds all assertions met; not where the conversation keeps it from judging.

    Raises:
        EnvError: the judge does not answer, or gives no verdict on each assertion even where
            nothing was said.
    """
    found = _asked(judge, conversation, assertions)
    if isinstance(found, str) and isinstance(_asked(judge, "", assertions), str):
        raise EnvError(
            f"tau2-retail: the judge gave no verdict on each of {len(assertions)} assertions: "
            f"{found!r:.120}"
        )
    return not isinstance(found, str) and all(found)


def _asked(judge: Speaker, conversation: str, assertions: Sequence[str]) -> list[bool] | str:
    """A verdict on each assertion, or what was answered instead."""
    numbered = "\n".join(f"{n}. {text}" for n, text in enumerate(assertions, 1))
    asked = f"Conversation:\n{conversation}\n\nExpected outcomes:\n{numbered}"
    messages = [{"role": "system", "content": QUESTION}, {"role": "user", "content": asked}]
    try:
        said = judge.says(messages, SCHEMA)
    except TextRefused as error:
        return str(error)
    found = [one for one in _verdicts(find_json(said)) if isinstance(one, bool)]
    return found if len(found) == len(assertions) else said


def _verdicts(answer: Json) -> list[object]:
    data = cast("dict[str, Any]", answer) if isinstance(answer, dict) else {}
    rows = data.get("results")
    if not isinstance(rows, list):
        return []
    found = cast("list[Any]", rows)
    return [one.get("metExpectation") if isinstance(one, dict) else None for one in found]
