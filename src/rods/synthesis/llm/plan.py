"""Stage 1, plan: which functions each turn calls, and the story around them.

A plan that cannot match the seed's profile is refused before anything is executed.
"""

from __future__ import annotations

import functools
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, Protocol, cast

from rods.synthesis.base import Base
from rods.synthesis.chat.replies import Reply
from rods.synthesis.llm.prompting import render, schema, shortened, summary
from rods.synthesis.rejection import ErrorClass, Rejection, blocked_by
from rods.synthesis.structure.profile import MAX_DISTANCE, ProfileWeights, aligned
from rods.types import Json

PARSES = 3
"""Requests until a plan can be parsed."""
UNPARSED = "no answer could be parsed"
"""Fault where nothing was planned at all: no other world could fix that."""
QUOTE = 200  # characters of such an answer that are shown
MOST = 3
"""Functions of a turn, unless the seed's turn has more."""

FREE = range(2, 5)
"""Turns of a conversation that has no seed."""


class Chat(Protocol):
    """A chat server, asked synchronously."""

    def ask(
        self,
        stage: str,
        messages: Sequence[Mapping[str, str]],
        *,
        seed: int = 0,
        schema: Mapping[str, Json] | None = None,
    ) -> Reply:
        """One request."""
        ...


@dataclass(frozen=True)
class CallPlan:
    """Functions of each turn and the story around them, without arguments."""

    narrative: str
    turns: tuple[tuple[str, ...], ...]
    """Functions of each turn that has calls, in order."""


SCHEMA = schema(
    {
        "narrative": {"type": "string"},
        "turns": {
            "type": "array",
            "items": schema({"functions": {"type": "array", "items": {"type": "string"}}}),
        },
    }
)


def make_plan(
    chat: Chat,
    base: Base,
    state: object,
    history: Sequence[Rejection],
    seed: int,
    *,
    narrative: bool = True,
) -> CallPlan | Rejection:
    """Ask for a plan until one can be parsed and fits.

    `state` is the world's at the start, `seed` the sampling's. The tools of earlier attempts are
    blocked unless a patch fixes them, their details are hints. `narrative`: it tells a story.
    """
    blocked = sorted(blocked_by(history))
    hints = [failure.detail for failure in history if failure.detail][-3:]
    messages = render(
        "plan",
        shape=_shape(base),
        example="; ".join(str(c) for turn in base.task.turns for c in turn.ground_truth),
        tools=[
            {
                "name": spec.name,
                "owner": base.owners.get(name, ""),
                "summary": summary(spec.description),
            }
            for name, spec in base.specs.items()
            if name not in blocked
        ],
        blocked=blocked,
        hints=hints,
        state=shortened(state),
        narrative=narrative,
    )
    problem = Rejection("plan", ErrorClass.DECOMPOSE_FAILED, UNPARSED)
    for number in range(PARSES):
        answer = chat.ask("plan", messages, seed=seed + number, schema=SCHEMA)
        if (plan := parse_plan(answer.data)) is None:
            if problem.detail == UNPARSED:
                problem = replace(problem, message=shortened(answer.text, QUOTE))
            continue
        if (fault := misfit(plan, base, frozenset(blocked))) is None:
            return plan if narrative else CallPlan("", plan.turns)
        problem = fault
    return problem


def parse_plan(data: Json) -> CallPlan | None:
    """A plan from JSON; None where it has another form."""
    if not isinstance(data, dict) or not isinstance(data.get("turns"), list):
        return None
    turns: list[tuple[str, ...]] = []
    for row in cast("list[Any]", data["turns"]):
        names = cast("dict[str, Any]", row).get("functions") if isinstance(row, dict) else row
        if not isinstance(names, list) or not all(isinstance(n, str) for n in cast("Any", names)):
            return None
        turns.append(tuple(cast("list[str]", names)))
    return CallPlan(str(data.get("narrative") or ""), tuple(turns))


def misfit(plan: CallPlan, base: Base, blocked: frozenset[str]) -> Rejection | None:
    """Why a plan cannot be executed or cannot come near the seed; None: it can."""
    names = {name for turn in plan.turns for name in turn}
    refused = functools.partial(Rejection, "plan", ErrorClass.DECOMPOSE_FAILED)
    if unknown := sorted(names - base.specs.keys()):
        detail = f"there is no function {', '.join(unknown[:3])}"
        return Rejection("plan", ErrorClass.FUNC_SAMPLE_FAILED, detail)
    if again := sorted(blocked & names):
        detail = f"{', '.join(again)} failed before and must not be planned"
        return Rejection("plan", ErrorClass.FUNC_SAMPLE_FAILED, detail, tool=again[0])
    shape = [turn.ground_truth for turn in base.task.turns if turn.ground_truth]
    if not plan.turns or not all(plan.turns):
        return refused("a turn without functions")
    if base.task.is_stage:
        most = max(map(len, plan.turns))
        fits = len(plan.turns) in FREE and most <= MOST
        return None if fits else refused(f"{len(plan.turns)} turns of up to {most} functions")
    if len(plan.turns) != len(shape):
        return refused(f"{len(plan.turns)} turns were planned, {len(shape)} are needed")
    for functions, calls in zip(plan.turns, shape, strict=True):
        if len(functions) > max(MOST, len(calls)):
            return refused(f"{len(functions)} functions in one turn")
        repeats = len({c.name for c in calls}) < len(calls)
        if len(set(functions)) < len(functions) and not repeats:
            detail = f"a function stands twice in one turn: {', '.join(functions)}"
            return Rejection("plan", ErrorClass.DUPLICATE_FUNC, detail)
    bound = nearest(plan, base)
    far = f"the profile cannot come nearer than {bound:.2f} (at most {MAX_DISTANCE})"
    return refused(far) if bound > MAX_DISTANCE else None


def nearest(plan: CallPlan, base: Base) -> float:
    """The smallest profile distance that calls and classes of a plan allow, in [0, 1]."""
    weights = ProfileWeights()
    shape = [turn.ground_truth for turn in base.task.turns if turn.ground_truth]
    calls = aligned([len(turn) for turn in plan.turns], [len(turn) for turn in shape])
    mine = [len({base.owners.get(name, "") for name in turn}) for turn in plan.turns]
    theirs = [len({base.owners.get(call.name, "") for call in turn}) for turn in shape]
    return weights.calls * calls + weights.classes * aligned(mine, theirs)


def _shape(base: Base) -> list[Mapping[str, object]]:
    rows: list[Mapping[str, object]] = []
    step = 0
    for turn in base.task.turns:
        if not turn.ground_truth:
            continue
        edges: list[str] = []
        for number, _ in enumerate(turn.ground_truth, 1):
            for (name, _), links in base.links.get(step, {}).items():
                earlier = base.steps[links[-1].step].call.name
                edges.append(f"call {number} takes a {name} that an earlier {earlier} gave")
            step += 1
        owned = sorted({base.owners.get(c.name, "") for c in turn.ground_truth})
        rows.append({"calls": len(turn.ground_truth), "owners": owned, "edges": edges})
    return rows
