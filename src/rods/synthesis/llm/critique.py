"""The two critics: a judge behind the deterministic gates, and what a failure teaches.

Stage 4 of arXiv 2606.19047 and its error critic. A patch sets existing fields of the initial
configuration alone, in their type.
"""

from __future__ import annotations

import copy
import dataclasses
from collections.abc import Mapping
from typing import Any, NamedTuple

from rods.abilities import initial_state
from rods.env import Environment
from rods.synthesis.base import Base
from rods.synthesis.llm.plan import Chat
from rods.synthesis.llm.prompting import RESULT_CHARS, render, schema, shortened
from rods.synthesis.rejection import ErrorClass, Rejection
from rods.synthesis.structure.trace import trace
from rods.task import Task
from rods.types import Json

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


class JudgeAnswer(NamedTuple):
    """Answer of the judge."""

    rejection: Rejection | None
    """None: all five criteria hold."""
    problem: str = ""
    repairable: bool = False
    """True if other words can fix it."""


def judge(
    chat: Chat, environment: Environment, variant: Task, seed: int, problem: str = ""
) -> JudgeAnswer:
    """Ask the judge, who sees what the calls gave and the world at the start.

    The variant passed every gate; `problem` says why it was refined, empty the first time. An
    answer that cannot be read is a rejection of class `query_verify_no_tag`.
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
            failed = [name for name in CRITERIA if not data[name]]
            if not failed:
                return JudgeAnswer(None)
            problem = str(data.get("problem") or "")
            detail = f"{', '.join(failed)}: {problem}"
            rejection = Rejection("judge", ErrorClass.QUERY_VERIFY_FAILED, detail)
            repairable = data.get("fault") != "calls" and "gaps" not in failed
            return JudgeAnswer(rejection, problem, repairable)
    detail = "the judge's answer has not all five criteria"
    return JudgeAnswer(Rejection("judge", ErrorClass.QUERY_VERIFY_NO_TAG, detail))


CRITIC = schema(
    {
        "action": {"type": "string", "enum": ["patch", "block", "hint"]},
        "path": {"type": "string"},
        "value": {},
        "function": {"type": "string"},
        "hint": {"type": "string"},
    },
    ["action", "hint"],
)
MEANINGS: Mapping[str, str] = {
    ErrorClass.PARAM_GEN_FAILED: "no valid arguments could be found for a function",
    ErrorClass.DECOMPOSE_FAILED: "no plan came near the structure that is wanted",
    ErrorClass.FUNC_SAMPLE_FAILED: "functions were planned that may not or cannot be used",
    ErrorClass.VM_EXEC_FAILED: "a function call failed when it was executed",
}
"""Meanings of the classes that a patch may answer."""
HINTS: Mapping[str, str] = {
    ErrorClass.PARAM_GEN_FAILED: "plan functions for which this world has values",
    ErrorClass.DECOMPOSE_FAILED: "keep the number of turns and of calls in each turn",
    ErrorClass.FUNC_SAMPLE_FAILED: "plan functions of the list alone",
    ErrorClass.VM_EXEC_FAILED: "plan calls that succeed in this world",
}
"""Hints for the planner where the critic gives none."""


def learnt(chat: Chat, base: Base, failure: Rejection, seed: int) -> Rejection:
    """A failure with what the critic makes of it: a patch, a blocked function, or a hint.

    One that no patch may answer comes back as it is.
    """
    if failure.reason not in MEANINGS:
        return failure
    owner = base.owners.get(failure.tool, "")
    messages = render(
        "critic",
        kind=MEANINGS[failure.reason],
        function=failure.tool,
        error=failure.detail[:500],
        configuration=shortened({owner: base.start.get(owner, {})} if owner else dict(base.start)),
    )
    data = chat.ask("critic", messages, seed=seed, schema=CRITIC).data
    answer: Mapping[str, Json] = data if isinstance(data, dict) else {}
    hint = str(answer.get("hint") or HINTS[failure.reason])[:200]
    hinted = dataclasses.replace(failure, detail=f"{failure.detail}. {hint}")
    if answer.get("action") == "patch" and isinstance(answer.get("path"), str):
        path = str(answer["path"])
        known = path.split(".")[0] in base.start
        patch = {path if known or not owner else f"{owner}.{path}": answer.get("value")}
        if patched(base.start, patch) is not None:
            return dataclasses.replace(hinted, patch=patch)
    if answer.get("action") == "hint":
        return dataclasses.replace(hinted, tool="")
    named = str(answer.get("function") or "")
    return dataclasses.replace(hinted, tool=named) if named in base.specs else hinted


def patched(start: Mapping[str, Json], patch: Mapping[str, Json]) -> dict[str, Json] | None:
    """Another start of a world; None where a path or a type does not fit.

    Args:
        start: values by owner; not changed.
        patch: dotted paths, from the owner on. Only fields that exist are set; a value keeps its
            type; objects are merged, field by field, lists are replaced.
    """
    configuration = copy.deepcopy(dict(start))
    for path, value in patch.items():
        *parents, last = path.split(".")
        node: Any = configuration
        for part in parents:
            node = node.get(part) if isinstance(node, dict) else None
        if not isinstance(node, dict) or last not in node:
            return None
        fields: dict[str, Any] = node
        if (merged := _merged(fields[last], value)) is None:
            return None
        fields[last] = merged[0]
    return configuration


def _merged(old: object, new: object) -> tuple[Any] | None:
    """The new value in the old one's type, in a tuple; None where they do not fit."""
    if isinstance(old, dict) and isinstance(new, dict):
        result: dict[str, object] = dict(old)
        for key, value in new.items():
            inner = _merged(result[key], value) if key in result else None
            if inner is None:
                return None
            result[key] = inner[0]
        return (result,)
    if isinstance(old, bool) or isinstance(new, bool):
        return (new,) if isinstance(old, bool) and isinstance(new, bool) else None
    if isinstance(old, float) and isinstance(new, int):
        return (float(new),)
    return (new,) if type(old) is type(new) else None
