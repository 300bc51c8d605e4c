"""A model's word on what is asserted of a conversation, where a task's reward is based on it.

Owns the question and the reading of its answer. All assertions must hold.

    holds(judge, "assistant: Hi!\nuser: ...", ["The agent offers a refund."])
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, cast

from rods.envs.suites.chat import Speaker
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
    """Whether the judge finds all assertions met.

    Raises:
        EnvError: the judge does not answer, or not with a verdict on each assertion.
    """
    numbered = "\n".join(f"{n}. {text}" for n, text in enumerate(assertions, 1))
    said = judge.says(
        [
            {"role": "system", "content": QUESTION},
            {
                "role": "user",
                "content": f"Conversation:\n{conversation}\n\nExpected outcomes:\n{numbered}",
            },
        ],
        SCHEMA,
    )
    found = _verdicts(find_json(said))
    if len(found) != len(assertions) or not all(isinstance(one, bool) for one in found):
        raise EnvError(
            f"tau2-retail: the judge gave no verdict on each of {len(assertions)} assertions: "
            f"{said!r:.120}"
        )
    return all(found)


def _verdicts(answer: Json) -> list[object]:
    data = cast("dict[str, Any]", answer) if isinstance(answer, dict) else {}
    rows = data.get("results")
    if not isinstance(rows, list):
        return []
    found = cast("list[Any]", rows)
    return [one.get("metExpectation") if isinstance(one, dict) else None for one in found]
