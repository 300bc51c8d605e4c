"""Ground-truth calls do what they are asked to, and act for the account that the world holds."""

from __future__ import annotations

import dataclasses
import functools
import json
import random
from typing import Any

import pytest

from rods.synthesis.base import Base
from rods.synthesis.gates.case import Facts
from rods.synthesis.gates.keeper import GATES
from rods.synthesis.rejection import Rejection
from rods.synthesis.structure.domains import domains_of
from rods.synthesis.structure.trace import (
    TraceStep,
    all_tools,
    failure_fields,
    owners,
    read_result,
    reports_failure,
    stage_world,
    usual_failures,
)
from rods.task import Task, Turn
from rods.types import Json, ToolCall, ToolResult
from rods.writers.graph import walk
from rods.writers.graph.ground import Grounder
from rods.writers.graph.live import Live
from sweeps import slow
from synthesis_cases import ENVIRONMENT, graph_writer, keeper, named, sides, with_calls

CALL = ToolCall("act", {"name": "x"})


@pytest.mark.parametrize(
    "result",
    [
        {"authentication_status": False},
        {"success": False},
        {"isVerified": False},
        {"follow_status": False},
        {"login_failed": True},
        {"verification_failure": "The passport is not known."},
        {"error": "no such file"},
        {"status": "Denied by the bank."},
        {"message": "Already logged in"},
        {"result": "Not found."},
    ],
)
def test_a_result_that_reports_failure_is_one(result: dict[str, object]) -> None:
    assert reports_failure(CALL, ToolResult(json.dumps(result)))


@pytest.mark.parametrize(
    "result",
    [
        {"authentication_status": True},
        {"login_failed": False},
        {"error": ""},
        {"canDrive": False},
        {"healthy_tire_pressure": False},
        {"description": "Error reports of the week", "title": "Failed login"},
        {"status": "Open"},
        {"orders": [{"status": "failed"}]},
        "denied",
    ],
)
def test_an_answer_of_no_is_no_failure(result: object) -> None:
    assert not reports_failure(CALL, ToolResult(json.dumps(result)))


@pytest.mark.parametrize(
    ("result", "failure"),
    [
        ({"login_status": False}, False),
        ({"status": "denied"}, False),
        ({"valid": False}, False),
        ({"last_error": "E5"}, False),
        ({"was_successful": False}, False),
        ({"success": True}, False),
        ({"error": ""}, False),
        ({"success": False}, True),
        ({"Success": False}, True),
        ({"succeeded": False}, True),
        ({"error": "the engine is off"}, True),
    ],
)
def test_a_call_without_arguments_may_be_answered_with_no_but_not_fail(
    result: dict[str, object], failure: bool
) -> None:
    call = ToolCall("log_out")
    assert reports_failure(call, ToolResult(json.dumps(result))) is failure
    assert reports_failure(call, ToolResult("no", failed=True))


@pytest.mark.parametrize(
    ("arguments", "result", "fields"),
    [
        ({"note": "broken"}, {"fault": "broken"}, []),
        ({"note": "broken"}, {"fault": "F-1"}, ["fault"]),
        ({"marks": ["denied"]}, {"status": "denied"}, []),
        ({"valid": False}, {"valid": False}, []),
        ({"paid": False}, {"valid": False}, ["valid"]),
    ],
)
def test_a_field_that_repeats_an_argument_is_no_failure(
    arguments: dict[str, Any], result: dict[str, object], fields: list[str]
) -> None:
    call = ToolCall("act", arguments)
    assert sorted(failure_fields(call, ToolResult(json.dumps(result)))) == fields


def test_what_every_call_of_a_tool_reports_is_no_failure_of_it() -> None:
    texts = [("report", {"fault": "F-1"}), ("report", {"fault": "F-2"})]
    texts += [("pay", {"error": "no money"}), ("pay", {"error": ""})]
    made = [(ToolCall(n, {"id": "x"}), ToolResult(json.dumps(r))) for n, r in texts]
    done = [TraceStep(0, call, result, *read_result(result.content)) for call, result in made]
    usual = usual_failures(done)
    assert usual == {"report": {"fault"}}
    assert not reports_failure(*made[0], usual["report"])
    assert reports_failure(made[0][0], ToolResult("no", failed=True), usual["report"])


@pytest.mark.parametrize("result", [{"success": False}, {"status": "denied"}, {"ok": False}])
def test_a_bad_outcome_is_never_a_tool_s_result(result: dict[str, object]) -> None:
    call, content = ToolCall("pay", {"id": "x"}), ToolResult(json.dumps(result))
    steps = [TraceStep(0, call, content, *read_result(content.content))] * 2
    assert reports_failure(call, content) and usual_failures(steps) == {}


def test_a_call_that_reports_failure_is_rejected_unless_its_seeds_does() -> None:
    seed, index, number = next(
        (task, index, number)
        for task in sides().train
        for index, turn in enumerate(task.turns)
        for number, call in enumerate(turn.ground_truth)
        if call.name == "authenticate_twitter"
    )
    calls = list(seed.turns[index].ground_truth)
    wrong = {**calls[number].arguments, "password": "somebody else's"}
    calls[number] = ToolCall("authenticate_twitter", wrong)
    broken = with_calls(seed, index, tuple(calls))
    gate = GATES["execution"]
    assert gate(keeper().case(seed, seed)) is None
    assert "authenticate_twitter" in str(gate(keeper().case(seed, broken))), "not what fails later"
    renamed = dataclasses.replace(broken, turns=(*broken.turns, broken.turns[-1]))  # not aligned
    assert gate(keeper().case(seed, renamed)) is not None
    assert gate(keeper().case(broken, broken)) is None


@pytest.mark.parametrize("share", [*slow(1), 10])
def test_originals_whose_calls_report_failure_are_tolerated_beside_themselves(share: int) -> None:
    for task in sides().train[::share]:
        assert GATES["execution"](keeper().case(task, task)) is None


@functools.cache
def steps() -> tuple[tuple[Task, TraceStep], ...]:
    """Calls of graph drafts, before any gate."""
    makers = [t for t in sides().train if {"TwitterAPI", "MessageAPI"} & set(t.world["classes"])]  # type: ignore[arg-type]
    drafts = [graph_writer().propose(t, random.Random(n)) for n, t in enumerate(makers[::3])]
    return tuple(
        (draft, step)
        for draft in drafts
        if not isinstance(draft, Rejection)
        for step in Facts(ENVIRONMENT, draft).steps
    )


@pytest.mark.slow
def test_the_graph_writer_plans_no_call_that_reports_failure() -> None:
    made = [step for _, step in steps() if not step.result.failed]
    assert [step.call for step in made if reports_failure(step.call, step.result)] == []


@pytest.mark.parametrize("done", [True, False])
def test_a_walk_takes_no_call_that_reports_failure(
    done: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    said = ToolResult(json.dumps({"success": done, "mentioned": "ann"}))
    monkeypatch.setattr(walk, "called", lambda *_: said)
    base = Base.of(ENVIRONMENT, named("multi_turn_base_3"))
    one: Any = walk.Walk(graph_writer().planner, base, random.Random(0))
    with stage_world(ENVIRONMENT, base.task) as one._world:
        one._began.append(0)
        assert one._execute(ToolCall("mkdir", {"dir_name": "plans"}), kept=False) is done


@pytest.mark.slow
@pytest.mark.parametrize(
    ("tool", "owner", "argument", "fields"),
    [
        ("authenticate_twitter", "TwitterAPI", "username", ("username",)),
        ("authenticate_twitter", "TwitterAPI", "password", ("password",)),
        ("message_login", "MessageAPI", "user_id", ("current_user", "user_map")),
    ],
)
def test_accounts_and_secrets_are_those_of_the_class_that_owns_the_tool(
    tool: str, owner: str, argument: str, fields: tuple[str, ...]
) -> None:
    found = 0
    for task, step in steps():
        if step.call.name != tool:
            continue
        config = task.world["initial_config"][owner]  # type: ignore[index, call-overload]
        held = next((config[name] for name in fields if config.get(name)), {})  # type: ignore[union-attr]
        known = list(held.values()) if isinstance(held, dict) else [held]
        assert step.call.arguments[argument] in known or not known
        found += 1
    assert found > 3


START: dict[str, Json] = {
    "TwitterAPI": {"username": "ann", "password": "secret"},
    "MessageAPI": {"user_map": {"Bo": "USR002"}, "current_user": "USR002"},
    "TicketAPI": {"current_user": "dee"},
}


def test_who_exists_in_one_class_exists_in_no_other() -> None:
    live = Live(START)
    live.look(domains_of(ENVIRONMENT))
    assert live.existing("user", "username", "TwitterAPI") == ["ann"]
    assert live.existing("user", "username", "TicketAPI") == ["dee"]
    assert live.existing("ident", "receiver_id", "MessageAPI") == ["USR002"]
    assert live.existing("ident", "receiver_id", "TwitterAPI") == []


AUTHENTICATED = ToolCall("authenticate_twitter", {"username": "ann", "password": "secret"})


@pytest.mark.parametrize(
    ("start", "before", "result", "tool", "foreign"),
    [
        (START, AUTHENTICATED, {"authentication_status": True}, "ticket_login", "secret"),
        (
            {**START, "TwitterAPI": {}},
            ToolCall("ticket_get_login_status"),
            {"username": "dee"},
            "get_user_stats",
            "dee",
        ),
    ],
)
def test_nobody_logs_in_with_what_another_class_took_or_showed(
    start: dict[str, Json], before: ToolCall, result: Json, tool: str, foreign: str
) -> None:
    world = Task("bfcl", "base", (Turn("x"),), {"classes": list(START), "initial_config": {}})
    planner, text = graph_writer().planner, json.dumps(result)
    specs, owned = all_tools(ENVIRONMENT, world), owners(ENVIRONMENT, world)
    grounder = Grounder(planner.domains, specs, planner.graph, planner.materials, owned)
    live = Live(start, [TraceStep(0, before, ToolResult(text), *read_result(text))])
    live.look(planner.domains)
    made = [grounder.fill(tool, live, random.Random(number)) for number in range(8)]
    assert any(made)
    assert not [call for call in made if call and foreign in call.arguments.values()]
