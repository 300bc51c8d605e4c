"""Stage 4, critique: a judge with five criteria, behind the deterministic gates.

Owns the judge's request, with results and state, and how its answer is read. Never rewrites.

    verdict = judge(chat, environment, variant, seed=7)
    verdict.accepted, verdict.fault, verdict.problem
"""

from __future__ import annotations

from dataclasses import dataclass

from rods.abilities import initial_state
from rods.env import Environment
from rods.synthesis.llm.plan import Chat
from rods.synthesis.llm.prompting import RESULT_CHARS, render, schema, shortened
from rods.synthesis.rejection import ErrorClass, Rejection
from rods.synthesis.structure.trace import trace
from rods.task import Task

CRITERIA = ("matches", "values", "coherent", "natural", "gaps")
"""Message matches calls; values match; coherent across turns; natural; gaps are real."""
JUDGEMENT = schema(
    {
        **{name: {"type": "boolean"} for name in CRITERIA},
        "turn": {"type": "integer"},
        "problem": {"type": "string"},
        "fault": {"type": "string", "enum": ["message", "calls", "none"]},
    },
    [*CRITERIA, "problem", "fault"],
)
ASKS = 2
"""Requests until a judgement can be read."""


@dataclass(frozen=True)
class JudgeAnswer:
    """What the judge said."""

    failed: tuple[str, ...]
    """Criteria that do not hold."""
    problem: str = ""
    fault: str = "none"
    """Where the fault lies: `message` can be repaired, `calls` cannot."""

    @property
    def accepted(self) -> bool:
        """Whether all five criteria hold."""
        return not self.failed

    def rejection(self) -> Rejection:
        """As the pipeline counts it."""
        detail = f"{', '.join(self.failed)}: {self.problem}"
        return Rejection("judge", ErrorClass.QUERY_VERIFY_FAILED, detail)


def judge(
    chat: Chat, environment: Environment, variant: Task, seed: int, problem: str = ""
) -> JudgeAnswer | Rejection:
    """Ask the judge, who sees what the calls gave and the world at the start.

    The variant passed every gate; `problem` says why it was refined, empty the first time.

    Returns:
        A judgement; a rejection of class `query_verify_no_tag` where none can be read.
    """
    steps = trace(environment, variant).steps
    rows = [
        {
            "user": turn.user,
            "calls": [
                {"call": str(step.call), "result": shortened(step.result.content, RESULT_CHARS)}
                for step in steps
                if step.turn == index
            ],
        }
        for index, turn in enumerate(variant.turns)
    ]
    state = shortened(dict(initial_state(environment, variant).values))
    messages = render("judge", turns=rows, state=state, problem=problem)
    for number in range(ASKS):
        data = chat.ask("judge", messages, seed=seed + number, schema=JUDGEMENT).data
        if isinstance(data, dict) and all(isinstance(data.get(c), bool) for c in CRITERIA):
            failed = tuple(name for name in CRITERIA if not data[name])
            fault = str(data.get("fault", "none"))
            return JudgeAnswer(failed, str(data.get("problem") or ""), fault)
    detail = "the judge's answer has not all five criteria"
    return Rejection("judge", ErrorClass.QUERY_VERIFY_NO_TAG, detail)


def repairable(judgement: JudgeAnswer) -> bool:
    """Whether other words can fix it."""
    return judgement.fault != "calls" and "gaps" not in judgement.failed
