"""Stage 2, execute: arguments from the live world, checked, and real calls, turn by turn."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping, Sequence, Set
from typing import cast

from rods.dialects.bounds import value_fault
from rods.env import Environment, called
from rods.synthesis.base import Base, Readable
from rods.synthesis.llm.plan import CallPlan, Chat
from rods.synthesis.llm.prompting import RESULT_CHARS, pointer, render, schema, shortened
from rods.synthesis.planned import CallRequest, OpenArgument, PlannedTurn
from rods.synthesis.rejection import ErrorClass, Rejection
from rods.synthesis.structure.sources import Source, sources
from rods.synthesis.structure.trace import TraceStep, read_result, reports_failure, usual_failures
from rods.synthesis.structure.typed import mistyped
from rods.task import Task, Turn
from rods.types import Json, ToolCall, ToolResult, ToolSpec, Value

FILLS = 3
"""Requests until the arguments of one call are valid."""
ARGUMENTS = schema({"arguments": {"type": "object"}})


def execute(
    chat: Chat, base: Base, world: Readable, plan: CallPlan, seed: int
) -> list[PlannedTurn] | Rejection:
    """Fill in and execute every call of a plan, in a fresh world that offers everything."""
    steps: list[TraceStep] = []
    usual = usual_failures(base.steps)
    for index, functions in enumerate(plan.turns):
        for name in functions:
            fields = usual.get(name, frozenset[str]())
            made = fill(chat, base.specs[name], world, plan.narrative, steps, seed, fields)
            if isinstance(made, Rejection):
                return made
            call, result = made
            if reports_failure(call, result, fields):
                failed = f"{call} failed: {result.content[:200]}"
                return Rejection("execute", ErrorClass.VM_EXEC_FAILED, failed, tool=call.name)
            steps.append(TraceStep(index, call, result, *read_result(result.content)))
    # Arguments that only results show are marked: nothing is said yet.
    calls = [tuple(s.call for s in steps if s.turn == index) for index in range(len(plan.turns))]
    silent = Task("", "", tuple(Turn("", made) for made in calls), base.task.world)
    return _turns(silent, steps, base)


def fill(
    chat: Chat,
    spec: ToolSpec,
    world: Readable,
    narrative: str,
    steps: Sequence[TraceStep],
    seed: int,
    usual: Set[str] = frozenset(),
) -> tuple[ToolCall, ToolResult] | Rejection:
    """One executed call and its result; the writer reads what was wrong, then tries again.

    `usual`: fields of its result that are no failure. Calls of the seed task show which.
    The result reports failure after the last try; a rejection: no arguments were valid.
    """
    problems: list[str] = []
    last: tuple[ToolCall, ToolResult] | None = None
    for number in range(FILLS):
        messages = render(
            "execute",
            name=spec.name,
            description=spec.description,
            parameters=shortened(spec.parameters),
            narrative=narrative,
            steps=[
                {"call": str(s.call), "result": shortened(s.result.content, RESULT_CHARS)}
                for s in steps
            ],
            state=shortened(world.public_state()),
            problems=problems,
        )
        answer = chat.ask("execute", messages, seed=seed + number, schema=ARGUMENTS)
        data = answer.data
        inner = data.get("arguments", data) if isinstance(data, dict) else None
        if not isinstance(inner, dict):
            problems = ["it was no JSON object with arguments"]
            continue
        if not (problems := faults(spec, inner)):
            call = ToolCall(spec.name, cast("Mapping[str, Value]", inner))
            last = (call, called(world, call))
            if not reports_failure(*last, usual):
                return last
            problems = [f"{call} failed: {shortened(last[1].content, RESULT_CHARS)}"]
    if last is not None:
        return last
    detail = f"{spec.name}: {problems[0]}"
    return Rejection("execute", ErrorClass.PARAM_GEN_FAILED, detail, tool=spec.name)


def faults(spec: ToolSpec, arguments: Mapping[str, Json]) -> list[str]:
    """Return what is wrong with arguments by their documentation: names, types, options, forms."""
    if fault := value_fault(arguments):
        return [fault]
    found = [f"{name} is missing" for name in spec.required if name not in arguments]
    found += [
        f"there is no parameter {name}; known: {', '.join(spec.properties)}"
        for name in arguments
        if name not in spec.properties
    ]
    return found + mistyped(spec, arguments)


def _turns(task: Task, steps: Sequence[TraceStep], base: Base) -> list[PlannedTurn]:
    """The turns of a task that have calls.

    `shown` are arguments that only results show, where pointing at one can mean nothing else: the
    others must be said.
    """
    shown: dict[int, set[str]] = {}
    for argument in sources(task, steps, base.specs, base.number_words):
        from_result = argument.source is Source.RESULT and not argument.path
        if from_result and pointer(steps, argument.step, argument.name) is not None:
            shown.setdefault(argument.step, set()).add(argument.name)
    planned: list[PlannedTurn] = []
    for index in range(len(task.turns)):
        mine = [(number, step) for number, step in enumerate(steps) if step.turn == index]
        if not mine:
            continue
        requests = tuple(
            CallRequest(step.call, base.specs[step.call.name], frozenset(shown.get(number, ())))
            for number, step in mine
        )
        results = tuple(step.result.content for _, step in mine)
        owner = base.owners.get(requests[0].call.name, "")
        planned.append(PlannedTurn(requests, owner, results))
    return planned


def planned_of(environment: Environment, variant: Task) -> list[PlannedTurn]:
    """The planned turns that a variant was made of, gaps included, to be worded again."""
    base = Base(environment, variant)
    planned = iter(_turns(variant, base.steps, base))
    result: list[PlannedTurn] = []
    for index, turn in enumerate(variant.turns):
        if not turn.ground_truth:
            continue
        made, gap = next(planned), variant.turns[index - 1] if index else turn
        if not gap.ground_truth:
            back = variant.given_back(index)
            made = (
                dataclasses.replace(made, withheld=back[0]) if back else _reopened(made, gap, turn)
            )
        result.append(made)
    return result


def _reopened(planned: PlannedTurn, gap: Turn, turn: Turn) -> PlannedTurn:
    for index, request in enumerate(planned.requests):
        for name, value in request.call.arguments.items():
            text = str(value).lower()
            if text in turn.user.lower() and text not in gap.user.lower():
                return dataclasses.replace(planned, left_open=OpenArgument(index, name))
    return planned
