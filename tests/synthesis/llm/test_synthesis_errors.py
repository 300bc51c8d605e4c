"""All twelve classes of error occur, and the four that a patch may answer are answered by one."""

from __future__ import annotations

import dataclasses
import json
import random
from collections.abc import Callable
from typing import Any

import pytest

from one_outcome import synthesize
from rods.errors import WriterError
from rods.synthesis.chat import LlmWriterSettings
from rods.synthesis.chat.replies import find_json
from rods.synthesis.llm.critique import MEANINGS
from rods.synthesis.llm.execute import planned_of
from rods.synthesis.llm.writer import LlmWriter
from rods.synthesis.planned import missing_function
from rods.synthesis.rejection import ErrorClass, Rejection, blocked_by
from rods.task import Task, Turn
from rods.types import ToolCall
from scripted_chat import Chat
from synthesis_cases import ENVIRONMENT, graph_writer, keeper, sides, writer

Twist = Callable[[str, str], str]
BALANCE = 7_654_321.0
PATCH = {
    "action": "patch",
    "path": "TradingBot.account_info.balance",
    "value": BALANCE,
    "hint": "the account was too small",
}


def trader() -> Task:
    return next(
        t
        for t in sides().train
        if t.category == "base" and t.world["classes"][:1] == ["TradingBot"]  # type: ignore[index]
    )


def _plan(change: Callable[[list[Any]], Any]) -> Twist:
    """A plan whose turns are changed."""

    def twist(stage: str, text: str) -> str:
        if stage != "plan":
            return text
        plan: Any = find_json(text)
        return json.dumps({"narrative": "", "turns": change(plan["turns"])})

    return twist


def _arguments(**arguments: Any) -> Twist:
    answer = json.dumps({"arguments": arguments})
    return lambda stage, text: answer if stage == "execute" else text


def _lost(stage: str, text: str) -> str:
    """Valid arguments that name what is not there."""
    if stage != "execute":
        return text
    given: Any = find_json(text)
    changed = {k: "nought" if isinstance(v, str) else v for k, v in given["arguments"].items()}
    return json.dumps({"arguments": changed})


BREAKS: dict[ErrorClass, Twist] = {
    ErrorClass.PARAM_GEN_FAILED: _arguments(nothing=1),
    ErrorClass.DECOMPOSE_FAILED: _plan(lambda turns: turns[:-1]),
    ErrorClass.FUNC_SAMPLE_FAILED: _plan(
        lambda turns: [{"functions": ["fly_to_the_moon"]}, *turns[1:]]
    ),
    ErrorClass.VM_EXEC_FAILED: _lost,
}


def failing(reason: ErrorClass, critic: str) -> tuple[Chat, list[Rejection]]:
    """Two attempts that fail for this reason, with what the critic answers."""
    chat = Chat(lambda stage, text: critic if stage == "critic" else BREAKS[reason](stage, text))
    made = LlmWriter(ENVIRONMENT, chat, LlmWriterSettings(), graph_writer())
    for number in range(20):
        outcome = synthesize(trader(), made, keeper(), number, 2)
        if [r.reason for r in outcome.rejections] == [reason, reason]:
            return chat, list(outcome.rejections)
    raise AssertionError(f"no attempt fails with {reason}")


def test_four_classes_may_be_answered_by_a_patch() -> None:
    assert MEANINGS.keys() == BREAKS.keys()


@pytest.mark.parametrize("reason", BREAKS)
def test_a_patch_answers_it_and_reaches_the_next_attempt(reason: ErrorClass) -> None:
    chat, rejections = failing(reason, json.dumps(PATCH))
    assert rejections[0].patch == {PATCH["path"]: BALANCE}
    assert str(PATCH["hint"]) in rejections[0].detail
    critics = [text for stage, text in chat.prompts if stage == "critic"]
    assert MEANINGS[reason] in critics[0]
    plans = [text for stage, text in chat.prompts if stage == "plan"]
    assert str(BALANCE) not in plans[0]
    assert str(BALANCE) in plans[-1]
    assert "Never plan these" not in plans[-1], "what a patch fixes may be planned again"


@pytest.mark.parametrize("reason", BREAKS)
def test_a_patch_that_does_not_fit_is_none(reason: ErrorClass) -> None:
    wrong = json.dumps({**PATCH, "value": "a lot"})
    assert not any(r.patch for r in failing(reason, wrong)[1])


def test_a_function_can_be_blocked_and_a_hint_blocks_none() -> None:
    block = {"action": "block", "function": "get_watchlist", "hint": "leave it"}
    _, rejections = failing(ErrorClass.DECOMPOSE_FAILED, json.dumps(block))
    assert {r.tool for r in rejections} == {"get_watchlist"}
    _, rejections = failing(
        ErrorClass.PARAM_GEN_FAILED, json.dumps({"action": "hint", "hint": "other values"})
    )
    assert {r.tool for r in rejections} == {""}
    assert "other values" in rejections[0].detail


def test_a_patch_frees_a_tool_until_it_fails_again() -> None:
    failed = Rejection("execute", ErrorClass.VM_EXEC_FAILED, tool="buy")
    mended = dataclasses.replace(failed, patch={"Shop.stock": 3})
    assert blocked_by([failed]) == {"buy"}
    assert blocked_by([failed, mended]) == frozenset()
    assert blocked_by([mended, failed]) == {"buy"}


def proposed(twist: Twist, **settings: Any) -> list[Rejection]:
    """Rejections of some single attempts."""
    made = LlmWriter(ENVIRONMENT, Chat(twist), LlmWriterSettings(**settings), graph_writer())
    seeds = random.Random(3).sample(list(sides().train), 5)
    return [r for s in seeds for r in synthesize(s, made, keeper(), 3, 1).rejections]


def _judge(**changes: Any) -> Twist:
    row = dict.fromkeys(("matches", "values", "coherent", "natural", "gaps"), True)
    answer = json.dumps({**row, "problem": "no", "fault": "calls", **changes})
    return lambda stage, text: answer if stage == "judge" else text


OTHERS: dict[ErrorClass, Twist] = {
    ErrorClass.QUERY_GEN_FAILED: lambda s, t: "<message>Hi.</message>" if s == "rewrite" else t,
    ErrorClass.NO_PROMPTS: lambda s, t: "I cannot help with that." if s == "rewrite" else t,
    ErrorClass.QUERY_VERIFY_FAILED: _judge(matches=False),
    ErrorClass.QUERY_VERIFY_NO_TAG: lambda s, t: "fine by me" if s == "judge" else t,
    ErrorClass.DUPLICATE_FUNC: _plan(
        lambda turns: [{"functions": t["functions"][:1] * 2} for t in turns]
    ),
}


@pytest.mark.slow
@pytest.mark.parametrize("reason", OTHERS)
def test_it_occurs(reason: ErrorClass) -> None:
    assert reason in {r.reason for r in proposed(OTHERS[reason], planner="model")} | {
        r.reason for r in proposed(OTHERS[reason], planner="graph")
    }


def test_a_function_that_was_called_before_cannot_be_missing() -> None:
    planned = planned_of(ENVIRONMENT, trader())
    found = missing_function(planned[0], planned, random.Random(1))
    assert isinstance(found, Rejection) and found.reason == ErrorClass.DUPLICATE_FUNC


def test_a_seed_that_fails_cannot_be_constructed() -> None:
    seed = trader()
    broken = Turn("Please buy.", (ToolCall("place_order", {"order_type": "Buy"}),))
    found = writer().propose(dataclasses.replace(seed, turns=(broken,)), random.Random(1))
    assert isinstance(found, Rejection)
    assert found.reason == ErrorClass.CONVERSATION_CONSTRUCT_FAILED


def test_a_gap_that_nothing_follows_is_no_pattern() -> None:
    seed = trader()
    gap = Turn("Something is missing.")
    found = graph_writer().propose(
        dataclasses.replace(seed, turns=(*seed.turns, gap)), random.Random(1)
    )
    assert isinstance(found, Rejection) and found.reason == ErrorClass.NO_PATTERN


def test_a_lost_request_is_an_exception_of_the_pipeline() -> None:
    def lose(stage: str, text: str) -> str:
        raise WriterError("the answer was lost", fatal=False)

    assert {r.reason for r in proposed(lose)} == {ErrorClass.PIPELINE_EXCEPTION}


def test_these_are_all_twelve() -> None:
    rest = {
        ErrorClass.CONVERSATION_CONSTRUCT_FAILED,
        ErrorClass.NO_PATTERN,
        ErrorClass.PIPELINE_EXCEPTION,
    }
    assert BREAKS.keys() | OTHERS.keys() | rest == set(ErrorClass)
