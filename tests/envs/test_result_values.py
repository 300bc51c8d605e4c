"""Results are compared by value wherever two are compared; BFCL's published rule compares texts."""

from __future__ import annotations

import itertools
import json
import random
from contextlib import closing, nullcontext
from dataclasses import dataclass, replace
from types import SimpleNamespace
from typing import Any, cast

import pytest

from rods.abilities import result_key
from rods.env import Environment
from rods.envs.bfcl.world import BfclEnvironment
from rods.envs.judge import Judge, replayed
from rods.envs.mcp.world import SERVER, PreparedServer
from rods.envs.mcp.world import Server as ServerMachine
from rods.envs.remote.messages import Hosted
from rods.envs.remote.processes import ProcessEnvironment
from rods.envs.tool_classes import ToolClasses
from rods.errors import ConfigError
from rods.evaluation.check import check_tasks
from rods.infra.text import by_value, same_value
from rods.synthesis.base import Base
from rods.synthesis.gates.case import Facts
from rods.synthesis.gates.structure import changes, superfluous
from rods.synthesis.structure.profile import ablate
from rods.task import Provenance, Task, Turn
from rods.types import Json, ToolCall, ToolResult
from rods.writers.graph.walk import Walk

SAME = [
    ('{"a": 1, "b": 2}', '{"b": 2, "a": 1}'),
    ('{"a":1}', '{"a": 1.0}'),
    ("1", "1.0"),
    ('[{"b": [0, -0.0], "a": 1e2}]', '[{"a": 100, "b": [0.0, 0]}]'),
    ('"\\u00e9"', '"\u00e9"'),
    ("no JSON", "no JSON"),
]
OTHER = [
    ("1", "true"), ("0", "false"), ("1", '"1"'), ("1", "1.5"), ("null", '"null"'), ("null", "0"),
    ("[1, 2]", "[2, 1]"), ('{"a": 1}', '{"a": true}'), ('{"a": 1}', '{"a": "1"}'),
    ('{"a": 1, "a": 2}', '{"a": 2}'), ("NaN", '"NaN"'), ("1e999", "2e999"),
    ("[" * 100_000, "[" * 100_001), ("9" * 5_000, "9" * 5_001), ("no JSON", '"no JSON"'),
]  # fmt: skip


@pytest.mark.parametrize(("one", "other"), SAME)
def test_equal_values_have_one_key(one: str, other: str) -> None:
    assert by_value(one) == by_value(other)


@pytest.mark.parametrize(("one", "other"), OTHER)
def test_other_values_have_other_keys(one: str, other: str) -> None:
    assert by_value(one) != by_value(other)


class Shelf:
    """One thing, shown in any way; hidden counts are no state."""

    answers = itertools.count()

    def __init__(self) -> None:
        self.thing = "milk"
        self._looked = 0

    def show(self, text: str) -> Any:
        """Show a value as it is."""
        return json.loads(text)

    def turn(self) -> Any:
        """Show the same object; the order of its keys alternates in this process."""
        rows = [("a", 1), ("b", 2.0)]
        return dict(rows if next(self.answers) % 2 else rows[::-1])

    def look(self) -> Any:
        """Show the same object; the order of its keys alternates in this world."""
        self._looked += 1
        rows: list[tuple[str, Any]] = [("a", 1), ("b", 2)]
        return dict(rows) if self._looked % 2 else {"b": 2.0, "a": 1.0}

    def put(self, thing: str) -> str:
        """Put another thing there."""
        self.thing = thing
        return "done"

    def hold(self, text: str) -> str:
        """Hold a value."""
        self.thing = json.loads(text)
        return "done"


@dataclass
class Box:
    """An object within a state."""

    held: Any


class Boxed(Shelf):
    """Holds what it is given within an object, a tuple and a mapping."""

    def hold(self, text: str) -> str:
        """Hold a value."""
        held = json.loads(text)
        self.thing = Box((held, {"in": held}))
        return "done"


SHELF = ToolClasses("shelf", [Shelf])


def show(value: Json) -> ToolCall:
    return ToolCall("show", {"text": json.dumps(value)})


def shelf_task(*calls: ToolCall) -> Task:
    world: dict[str, Json] = {"classes": ["Shelf"], "initial_config": {}}
    return Task("shelf", "base", (Turn("Look.", calls),), world, Provenance("s", "s"))


def executed(environment: Environment, task: Task, *calls: ToolCall) -> bool:
    with closing(environment.open(task)) as world:
        world.begin_turn(0)
        assert not any(world.call(call).failed for call in calls)
        return world.end_turn().executed


@pytest.mark.parametrize(
    ("wanted", "given", "equal"),
    [
        ({"a": 1, "b": 2}, {"b": 2, "a": 1}, True),
        (1, 1.0, True),
        ([{"a": 1}], [{"a": 1.0}], True),
        (1, True, False),
        (1, "1", False),
        ({"a": 0}, {"a": False}, False),
        ([1, 2], [2, 1], False),
    ],
)
def test_a_hosted_class_is_judged_by_the_value_of_results(
    wanted: Json, given: Json, equal: bool
) -> None:
    assert executed(SHELF, shelf_task(show(wanted)), show(given)) is equal
    assert executed(SHELF, shelf_task(show(given)), show(wanted)) is equal


def test_equal_values_are_a_multiset() -> None:
    twice = shelf_task(show({"a": 1, "b": 2}), show({"b": 2, "a": 1}))
    assert not executed(SHELF, twice, show({"a": 1.0, "b": 2}))
    assert executed(SHELF, twice, show({"a": 1.0, "b": 2}), show({"a": 1, "b": 2}))


def test_bfcl_compares_texts_in_verdicts_and_gates() -> None:
    environment = BfclEnvironment()
    world: dict[str, Json] = {"classes": ["MathAPI"], "initial_config": {}}
    whole, real = (ToolCall("add", {"a": a, "b": 5}) for a in (2, 2.0))
    task = Task("bfcl", "base", (Turn("Add.", (whole, real)),), world, Provenance("m", "m"))
    one = Task("bfcl", "base", (Turn("Add.", (whole,)),), world, Provenance("m", "m"))
    assert executed(environment, one, whole) and not executed(environment, one, real)
    assert superfluous(Facts(environment, task)) == []
    assert Base(environment, task).steps[0].result.content != (
        Base(environment, task).steps[1].result.content
    )
    # Its second judge, which is asked after a call of a withheld tool, has the same rule.
    prepared = environment.prepare(one)
    judge = Judge(prepared.machine(), prepared.key)
    judge.add(prepared.machine().run(real))
    assert not judge.executed(prepared.replay[0])


def test_the_judge_of_a_machine_compares_values_by_default() -> None:
    prepared = SHELF.prepare(shelf_task())
    (turn,) = replayed(prepared.machine(), [[show({"a": 1, "b": 2})]])
    judge = Judge(prepared.machine())
    judge.add(prepared.machine().run(show({"b": 2.0, "a": 1})))
    assert judge.executed(turn)


@pytest.mark.parametrize("environment", [SHELF, BfclEnvironment()])
def test_worlds_in_processes_are_compared_as_those_here(environment: Environment) -> None:
    def begin() -> Any:
        raise AssertionError("no process is needed")

    around = ProcessEnvironment(environment, begin, 1, 1.0)
    for text in ('{"b": 2, "a": 1.0}', "1.0"):
        assert result_key(around)(text) == result_key(environment)(text)


def test_two_replays_whose_keys_have_another_order_are_stable() -> None:
    assert check_tasks([shelf_task(ToolCall("turn"))], SHELF).rows == ()


def test_a_second_look_with_keys_in_another_order_is_superfluous() -> None:
    facts = Facts(SHELF, shelf_task(ToolCall("look"), ToolCall("look")))
    contents = {step.result.content for step in facts.steps}
    assert len(contents) == 2 and {*map(json.dumps, map(json.loads, contents))} == contents
    assert superfluous(facts) == [1]
    # Without the first look the second is shown as the first was: nothing that anybody needs.
    assert not changes(facts, [0])


def test_a_call_that_only_reorders_a_later_result_has_no_edge() -> None:
    found = ablate(SHELF, shelf_task(ToolCall("look"), ToolCall("look"), ToolCall("look")))
    assert found.edges == frozenset() and found.final == frozenset()


def test_a_walk_takes_no_call_whose_result_is_known_by_value(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    task = shelf_task(ToolCall("look"), ToolCall("look"))
    planner: Any = SimpleNamespace(
        environment=SHELF, domains=None, graph=SimpleNamespace(usual={}), materials=None,
        phrases=SimpleNamespace(can_say=lambda call: True),
    )  # fmt: skip
    monkeypatch.setattr(Walk, "grounder", lambda *_: None)  # no value is invented here
    walk = Walk(planner, Base(SHELF, task), random.Random(0))
    monkeypatch.setattr(walk, "_meant", lambda call, kept: {})
    with closing(SHELF.open(task)) as world:
        world.begin_turn(0)
        walk._world = cast("Any", world)
        assert walk._execute(ToolCall("look"), kept=True)
        assert walk._execute(show({"a": 1}), kept=True)
        assert not walk._execute(show({"b": 2, "a": 1.0}), kept=True)
        assert walk._execute(ToolCall("put", {"thing": "tea"}), kept=True)


STATES: list[tuple[Json, Json, bool]] = [
    (1, 1.0, True), (0, -0.0, True), (True, True, True), (None, None, True), ({}, {}, True),
    (1, True, False), (0, False, False), (1.0, True, False), (None, False, False), (1, "1", False),
    ({"a": 1, "b": [2]}, {"b": [2.0], "a": 1.0}, True),
    *((f(1), f(True), False) for f in (
        lambda v: [v], lambda v: {"a": v}, lambda v: [[0, v]], lambda v: {"a": {"b": v}},
        lambda v: [{"a": v}], lambda v: {"a": [v, 2]}, lambda v: {"a": True, "b": v},
    )),
]  # fmt: skip


def snapshot_text(value: Json) -> str:
    """What a world elsewhere sends of its state."""
    environment: Any = SimpleNamespace(open=lambda task: SimpleNamespace(snapshot=lambda: value))
    hosted = Hosted(environment, shelf_task())
    hosted.open()
    return hosted.step({"type": "snapshot"})["snapshot"]


@pytest.mark.parametrize(("wanted", "given", "same"), STATES)
@pytest.mark.parametrize("kind", [Shelf, Boxed])
def test_states_are_compared_by_value_as_results_are(
    wanted: Json, given: Json, same: bool, kind: type[Shelf]
) -> None:
    """A truth value is not a number, wherever it stands; 1 and 1.0 are one number."""
    calls = [ToolCall("hold", {"text": json.dumps(value)}) for value in (wanted, given)]
    for expected, call in ((calls[0], calls[1]), (calls[1], calls[0])):
        task = shelf_task(expected)
        task = replace(task, world={"classes": [kind.__name__], "initial_config": {}})
        with closing(ToolClasses("shelf", [kind]).open(task)) as world:
            world.begin_turn(0)
            assert not world.call(call).failed
            assert world.end_turn().state is same
    one, other = (by_value(json.dumps(value)) for value in (wanted, given))
    assert same_value(wanted, given) is same is (one == other), "results have the same rule"
    shown = cast("Any", SimpleNamespace(copy_state=lambda _: {"state": given}))
    assert ServerMachine.same(shown, "server", {"state": wanted}) is same
    assert (snapshot_text(wanted) == snapshot_text(given)) is same, "of a world elsewhere"


@pytest.mark.parametrize(("found", "shared"), [(1, False), (1.0, False), (True, True), (2, True)])
def test_a_server_whose_trajectories_share_a_state_is_told_by_value(
    found: Json, shared: bool
) -> None:
    start = {"a": cast("Json", 1)}
    machine = SimpleNamespace(
        run=lambda call: ToolResult("done"), initial={SERVER: start},
        unchanged=lambda name, state: False, copy_state=lambda name: {"a": 2},
        read=lambda: {"a": found}, close=lambda: None,
    )  # fmt: skip
    environment = SimpleNamespace(isolated=False)
    prepared: Any = SimpleNamespace(
        task=shelf_task(ToolCall("look")), machine=lambda: machine, initial={SERVER: start},
        environment=environment,
    )  # fmt: skip
    with pytest.raises(ConfigError, match="state of another") if shared else nullcontext():
        PreparedServer.replay.func(prepared)
    assert environment.isolated is not shared


def test_keys_of_a_state_are_compared_by_value() -> None:
    """Python takes `{1: "a", True: "b"}` for one key, so a tool class can hold only one of them."""
    assert same_value({1: "a"}, {1.0: "a"}) and same_value({True: "a"}, {True: "a"})
    assert not same_value({1: "a"}, {True: "a"})


def test_the_change_from_a_number_to_a_truth_value_is_a_change() -> None:
    hold = [ToolCall("hold", {"text": text}) for text in ("1", "true")]
    (*_, turn) = replayed(SHELF.prepare(shelf_task()).machine(), [hold[:1], hold[1:]])
    assert turn.snapshot["Shelf"]["thing"] is True
