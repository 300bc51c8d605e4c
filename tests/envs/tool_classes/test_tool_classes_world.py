"""Worlds of hosted classes: calls, the judge of every turn, isolation, bad tasks."""

from __future__ import annotations

import dataclasses
import json
from typing import Any, Literal

import pytest

from rods.envs.tool_classes import ToolClasses
from rods.errors import EnvError, TaskError
from rods.evaluation.check import check_tasks
from rods.integrations.trl_environments import task_environments
from rods.synthesis.structure.trace import all_tools, owners
from rods.task import Provenance, Task, Turn
from rods.types import ToolCall


class Purse:
    """Coins by name."""

    kept: list[str] = []  # noqa: RUF012 (a class attribute that worlds must not share)

    def __init__(self, coins: dict[str, int] | None = None):
        self.coins = coins or {}
        self._looked = 0

    def put(self, name: str, count: int = 1) -> dict[str, int]:
        """Put coins in."""
        self.coins[name] = self.coins.get(name, 0) + count
        return {name: self.coins[name]}

    def take(self, name: str) -> int:
        """Take all coins of a name out."""
        return self.coins.pop(name)

    def count(self) -> int:
        """Count all coins."""
        self._looked += 1
        return sum(self.coins.values())

    def keep(self, name: str, notes: list[str] = []) -> list[str]:  # noqa: B006
        """Remember a name."""
        notes.append(name)
        self.kept.append(name)
        return notes

    def bank(self, broken: bool) -> dict[str, str]:
        """Ask the bank."""
        if broken:
            raise EnvError("the bank is closed")
        return {"error": "no credit"}

    def audit(self, error: str | None) -> dict[str, str | None]:
        """Look for a fault."""
        return {"error": error}

    def tie(self) -> None:
        """Make a knot."""
        self.coins["knot"] = self.coins  # type: ignore[assignment]


class Bell:
    """Another class."""

    def __init__(self) -> None:
        self.rung = 0

    def ring(self) -> str:
        """Ring."""
        self.rung += 1
        return "dong"


ENVIRONMENT = ToolClasses("purse", [Purse, Bell])


def task_of(*turns: Turn, coins: dict[str, int] | None = None) -> Task:
    config: dict[str, Any] = {"Purse": {"coins": coins or {"gold": 2}}}
    world: dict[str, Any] = {"classes": ["Purse", "Bell"], "initial_config": config}
    return Task("purse", "base", turns, world, Provenance("purse_0", "purse_0"))


def call(name: str, /, **arguments: Any) -> ToolCall:
    return ToolCall(name, arguments)


PUT = call("put", name="gold", count=3)
TASK = task_of(
    Turn("three more", (PUT,), ("take",)),
    Turn("take some", (), ("take",)),
    Turn("", (call("take", name="gold"),)),
    Turn("and now?", (call("count"),)),
)


def verdicts(*turns: list[ToolCall], task: Task = TASK) -> list[tuple[bool, bool, bool]]:
    """State, results and our verdict of each turn."""
    world = ENVIRONMENT.open(task)
    found: list[tuple[bool, bool, bool]] = []
    for index, calls in enumerate(turns):
        world.begin_turn(index)
        for one in calls:
            world.call(one)
        verdict = world.end_turn()
        found.append((verdict.state, verdict.executed, verdict.solved))
    return found


def test_the_ground_truth_solves_every_turn() -> None:
    truth = [list(turn.ground_truth) for turn in TASK.turns]
    assert verdicts(*truth) == [(True, True, True)] * 4
    assert check_tasks([TASK], ENVIRONMENT).rows == ()


def test_state_and_results_are_judged_apart() -> None:
    one = call("put", name="gold", count=1)
    assert verdicts([one, one, one]) == [(True, True, True)]
    assert verdicts([call("put", name="gold", count=1)]) == [(False, False, False)]
    assert verdicts([PUT, call("ring")]) == [(False, True, False)], "another class changed"
    assert verdicts([call("count")], task=task_of(Turn("ring", (call("ring"),)))) == [
        (False, False, False)
    ]
    looks = task_of(Turn("count", (call("count"),)))
    assert verdicts([call("keep", name="x")], task=looks)[0][2] is False
    assert verdicts([], task=looks) == [(True, False, False)], "nothing was called"
    assert verdicts([call("count"), call("count")], task=looks) == [(True, True, True)]
    twice = task_of(Turn("count twice", (call("count"), call("count"))))
    assert verdicts([call("count")], task=twice) == [(True, False, False)], "a multiset"


def test_a_result_of_an_earlier_turn_counts() -> None:
    task = task_of(Turn("put", (PUT,)), Turn("count", (call("count"),)))
    assert verdicts([PUT, call("count")], [call("bank", broken=False)], task=task)[1][2]


def test_abstention_is_to_call_nothing() -> None:
    world = ENVIRONMENT.open(TASK)
    world.begin_turn(0)
    world.call(PUT)
    world.end_turn()
    world.begin_turn(1)
    assert "take" not in {spec.name for spec in world.offered()}
    refused = world.call(call("take", name="gold"))
    assert refused.failed
    assert "there is no function 'take'" in refused.content
    assert world.public_state()["Purse"] == {"coins": {"gold": 5}, "kept": []}, "never executed"
    verdict = world.end_turn()
    assert (verdict.expects_calls, verdict.solved, verdict.official) == (False, False, True)
    world.begin_turn(2)
    assert not world.call(call("take", name="gold")).failed
    assert world.end_turn().solved


def test_results_are_json_and_failures_are_readable() -> None:
    world = ENVIRONMENT.open(task_of(Turn("")))
    world.begin_turn(0)

    def said(name: str, /, **arguments: Any) -> tuple[Any, bool]:
        result = world.call(call(name, **arguments))
        return json.loads(result.content), result.failed

    assert said("put", name="ä", count=2) == ({"ä": 2}, False)
    assert said("ring") == ("dong", False)
    assert said("take", name="silver") == ({"error": "KeyError: silver"}, True)
    assert said("bank", broken=False) == ({"error": "no credit"}, True)
    for error, failed in (("lost", True), ("", False), (None, False)):
        assert said("audit", error=error) == ({"error": error}, failed)
    assert said("put", name=1) == ({"error": "name must be a string, got '1'"}, True)


def test_failures_of_infrastructure_stay_what_they_are() -> None:
    world = ENVIRONMENT.open(task_of(Turn("")))
    world.begin_turn(0)
    with pytest.raises(EnvError, match=r"Purse\.bank: EnvError: the bank is closed"):
        world.call(call("bank", broken=True))


def test_a_call_after_which_the_state_cannot_be_read_makes_another_state() -> None:
    """Not an invalid trajectory, which a policy could discard."""
    world = ENVIRONMENT.open(task_of(Turn("put", (PUT,))))
    world.begin_turn(0)
    world.call(PUT)
    world.call(call("tie"))
    verdict = world.end_turn()
    assert (verdict.state, verdict.executed, verdict.solved) == (False, True, False)
    with pytest.raises(EnvError, match="circular"):
        world.public_state()


def test_invariant_2_worlds_share_nothing() -> None:
    task = task_of(Turn("", (PUT,)))
    worlds = [ENVIRONMENT.open(task) for _ in range(16)]
    for number, world in enumerate(worlds):
        world.begin_turn(0)
        for _ in range(number):
            world.call(call("put", name="gold"))
            kept = world.call(call("keep", name="x"))
            assert json.loads(kept.content) == ["x"], "a mutable default is nobody's"
    for number, world in enumerate(worlds):
        expected = {"coins": {"gold": 2 + number}, "kept": ["x"] * number}
        assert world.public_state() == {"Purse": expected, "Bell": {"rung": 0}}
    assert Purse.kept == []
    one, two = worlds[3]._machine._live["Purse"], worlds[4]._machine._live["Purse"]
    assert one.coins is not two.coins
    assert one.kept is not two.kept


def test_snapshots_are_values_of_their_own() -> None:
    one, two = ENVIRONMENT.open(TASK), ENVIRONMENT.open(TASK)
    before = one.snapshot()
    assert before == two.snapshot()
    one.begin_turn(0)
    one.call(call("count"))
    assert one.snapshot() == before, "private attributes are no state"
    one.call(PUT)
    assert one.snapshot() != before
    assert before == two.snapshot()
    assert ENVIRONMENT.open(TASK).snapshot() == before
    before["Purse"]["coins"]["gold"] = 9  # type: ignore[index]
    assert ENVIRONMENT.open(TASK).snapshot() != before


def test_arguments_do_not_stay_connected() -> None:
    names = ["a"]
    world = ENVIRONMENT.open(task_of(Turn("")))
    world.begin_turn(0)
    world.call(call("keep", name="x", notes=names))
    assert names == ["a"]


def test_the_order_of_use_is_kept() -> None:
    world = ENVIRONMENT.open(TASK)
    with pytest.raises(EnvError, match="outside of a turn"):
        world.call(PUT)
    with pytest.raises(EnvError, match="turn 1 cannot begin"):
        world.begin_turn(1)
    world.close()
    world.close()
    with pytest.raises(EnvError, match="closed"):
        world.snapshot()


def test_the_flow_of_a_task_can_be_read() -> None:
    assert owners(ENVIRONMENT, TASK)["ring"] == "Bell"
    assert all_tools(ENVIRONMENT, TASK)["put"].parameters["required"] == ["name"]


def nested(levels: int) -> Any:
    value: Any = {}
    for _ in range(levels):
        value = {"a": value}
    return value


@pytest.mark.parametrize(
    ("change", "said"),
    [
        ({"env": "shop"}, "env is 'shop', expected 'purse'"),
        ({"world": {"initial_config": {}}}, "world needs `classes`"),
        ({"world": {"classes": ["Pouch"]}}, "no class 'Pouch'; known: Purse, Bell"),
        ({"world": {"classes": ["Purs"]}}, "known: Purse, Bell. Did you mean 'Purse'?"),
        (
            {"world": {"classes": ["Purse"], "initial_config": {"Purse": {"coins": {"a": "x"}}}}},
            r"initial_config\.Purse\.coins\.a: .*integer.*'x'",
        ),
        (
            {"world": {"classes": ["Purse"], "initial_config": {"Purse": 3}}},
            "Purse must be an object",
        ),
        (
            {"world": {"classes": ["Purse"], "initial_config": {"Purse": {"coins": nested(600)}}}},
            r"initial_config\.Purse cannot be loaded: RecursionError",
        ),
    ],
)
def test_a_bad_task_is_named(change: dict[str, Any], said: str) -> None:
    bad = dataclasses.replace(TASK, **change)
    with pytest.raises(TaskError, match=rf"task {bad.id} \(purse_0\).*{said}"):
        ENVIRONMENT.open(bad)


class Clock:
    def __init__(self) -> None:
        self.zone = "UTC"

    def shift(self, zone: str | None, size: Literal["s", "m"] | None = None) -> None:
        self.zone = zone or "UTC"


def test_trl_reads_that_null_is_allowed() -> None:
    world: Any = {"classes": ["Clock"]}
    task = Task("clock", "base", (Turn("x", (call("shift", zone=None),)),), world)
    (kind,) = task_environments(ToolClasses("clock", [Clock]), [task]).values()
    hints = kind.shift.__annotations__  # type: ignore[attr-defined]
    assert hints == {"zone": str | None, "size": str | None, "return": str}


class Scales:
    """Weighs."""

    def __init__(self) -> None:
        self.kilos = 0.0

    def weigh(self, kilos: float) -> float:
        """Weigh one."""
        self.kilos = kilos
        return self.kilos

    def weigh_all(self, kilos: list[float]) -> float:
        """Weigh several."""
        return sum(kilos)

    def weigh_named(self, kilos: dict[str, float]) -> float:
        """Weigh by name."""
        return sum(kilos.values())

    def weigh_maybe(self, kilos: float | None = None) -> float:
        """Weigh one, or nothing."""
        return kilos or 0.0


HUGE = 10**400


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("weigh", HUGE),
        ("weigh", -HUGE),
        ("weigh_all", [1.0, HUGE]),
        ("weigh_named", {"a": HUGE}),
        ("weigh_maybe", HUGE),
    ],
)
def test_a_whole_number_that_no_float_holds_is_a_failed_call(name: str, value: Any) -> None:
    truth = ToolCall("weigh", {"kilos": 2})
    task = Task("scales", "base", (Turn("u", (truth,)),), {"classes": ["Scales"]})
    world = ToolClasses("scales", [Scales]).open(task)
    world.begin_turn(0)
    result = world.call(ToolCall(name, {"kilos": value}))
    assert result.failed and "too large" in result.content
    assert not world.call(truth).failed
    assert not world.end_turn().ended
    world.close()
