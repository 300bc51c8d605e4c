"""Variants of a class whose results and arguments have names that a writer may misread."""

from __future__ import annotations

import json
import random
import re
import shutil
from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast

import pytest

from lab import WORLD, Lab, lab, tasks
from rods.cli.synth.outcomes import EACH, never_called, rejected_file, say_low_yields
from rods.env import Environment
from rods.envs.tool_classes import ToolClasses
from rods.synthesis.base import Base, Readable
from rods.synthesis.gates.case import of_turns
from rods.synthesis.llm.execute import execute
from rods.synthesis.llm.plan import CallPlan
from rods.synthesis.rejection import ErrorClass, Rejection, reason_words
from rods.synthesis.structure.trace import Trace, stage_world
from rods.task import Provenance, Task, Turn, write_tasks
from rods.types import ToolCall
from rods.writers import make_writer
from rods.writers.assembly import keeper_of
from rods.writers.inference import domains_for
from scripted_chat import Chat
from verbs import rods


class Numbered(Lab):
    """Its reports have a number instead of a text."""

    def report_fault(self, device_id: str, note: str) -> dict[str, Any]:
        """Report a fault of a device.

        Args:
            device_id: Which device.
            note: What is wrong with it.
        """
        super().report_fault(device_id, note)
        return {"fault": f"F-{len(self._device(device_id)['notes'])}"}


numbered = ToolClasses("lab", [Numbered])
START = WORLD["initial_config"]["Lab"]
NUMBERED = [
    replace(task, world={"classes": ["Numbered"], "initial_config": {"Numbered": START}})
    for task in tasks
]


def accepted(
    environment: Environment,
    seeds: Sequence[Task],
    writer: str,
    number: int,
    pool: Sequence[Task] = tasks,
) -> list[Task]:
    """The variants of `number` candidates of each seed task that every gate accepts."""
    author, keeper = make_writer(writer, pool, environment), keeper_of(environment, pool)
    drafts = [
        (seed, author.propose(seed, random.Random(f"{seed.id}{at}")))
        for seed in seeds
        for at in range(number)
    ]
    made = [(seed, draft) for seed, draft in drafts if not isinstance(draft, Rejection)]
    checked = [(d, keeper.check(s, d, (), author.gates(d)).rejection) for s, d in made]
    return [draft for draft, rejection in checked if rejection is None]


def calls_of(variants: Sequence[Task], tool: str) -> list[ToolCall]:
    return [call for task in variants for call in task.calls if call.name == tool]


@pytest.mark.parametrize(
    ("environment", "seeds"),
    [pytest.param(lab, tasks, id="repeats"), pytest.param(numbered, NUMBERED, id="numbers")],
)
def test_a_tool_whose_result_speaks_of_a_fault_has_variants(
    environment: Environment, seeds: Sequence[Task]
) -> None:
    """`{"fault": note}` was read as a failed call, so that no variant called the tool."""
    made = accepted(environment, seeds[2:3], "graph", 12, seeds)
    assert len(calls_of(made, "report_fault")) >= 3


class Reporting(Chat):
    """A model that calls `report_fault` with good arguments."""

    def answer(self, stage: str, messages: Sequence[Mapping[str, str]], seed: int) -> str:
        return json.dumps({"arguments": {"device_id": "D-2", "note": "it hums"}})


def test_a_model_may_call_what_reports_a_fault_in_the_seed_task() -> None:
    base = Base.of(numbered, NUMBERED[2])
    plan = CallPlan("", (("report_fault",),))
    with stage_world(numbered, base.task) as world:
        made = execute(Reporting(), base, cast("Readable", world), plan, 1)
    assert not isinstance(made, Rejection), made
    with stage_world(numbered, base.task) as world:
        base.__dict__["trace"] = Trace((), ())  # a seed task that does not call it
        refused = execute(Reporting(), base, cast("Readable", world), plan, 1)
    assert isinstance(refused, Rejection) and refused.reason is ErrorClass.VM_EXEC_FAILED


def test_check_states_which_field_is_read_as_a_failure(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.syspath_prepend(str(Path(__file__).parent))
    write_tasks(Path("numbered.jsonl"), NUMBERED)
    words = ("--env.name", "test_lab:numbered", "--env.tasks", "numbered.jsonl")
    assert rods("check", *words, monkeypatch=monkeypatch) == 0
    printed = " ".join(capsys.readouterr().err.split())
    assert "field 'fault' of report_fault sounds like a failure, but is ignored" in printed
    write_tasks(Path("lab.jsonl"), tasks)
    words = ("--env.name", "lab:lab", "--env.tasks", "lab.jsonl")
    assert rods("check", *words, monkeypatch=monkeypatch) == 0
    assert "failure" not in capsys.readouterr().err


@pytest.mark.parametrize(
    ("problem", "turn"),
    [("turn 9: no", -1), ("turn 0: no", 0), ("no", 0), ("turn 1: no", 0), ("turn 2: no", 1)],
)
def test_a_writer_s_own_gate_may_name_any_turn_from_one(problem: str, turn: int) -> None:
    seed = next(task for task in tasks if len(task.turns) > 1)
    [variant, *_] = accepted(lab, [seed], "resample", 4)
    said = keeper_of(lab, tasks).check(seed, variant, (), {"own": lambda case: problem})
    assert said.rejection is not None
    assert said.rejection.message == variant.turns[turn].user


def test_gates_name_turns_from_one() -> None:
    wrong = of_turns(lambda case, turn: "no" if turn.place == 1 else None)
    turns = [SimpleNamespace(place=0), SimpleNamespace(place=1)]
    case = cast("Any", SimpleNamespace(variant=SimpleNamespace(turns=turns)))
    assert wrong(case) == "turn 2: no"


def test_reasons_of_an_earlier_synthesis_go_with_it(tmp_path: Path) -> None:
    rejected_file(tmp_path / "made.jsonl").write_text("{}\n", encoding="utf-8")
    say_low_yields([], tmp_path / "made.jsonl")
    assert not any(tmp_path.iterdir())


def test_tools_that_no_variant_calls_are_named_once_there_are_enough_variants() -> None:
    ours = {call.name for task in tasks for call in task.calls}
    variants = [task for task in tasks for _ in range(EACH) if task is not tasks[3]]
    assert never_called(ours, variants) == ["move_booking"]
    assert never_called(ours, variants[: EACH * len(ours) - 1]) == []
    assert never_called(ours, [*variants, tasks[3]]) == []


@pytest.mark.parametrize("writer", ["graph", "resample"])
def test_an_argument_takes_the_values_of_what_its_name_ends_in(writer: str) -> None:
    """`to_device_id` kept the value of the one example, or the message named another device."""
    made = calls_of(accepted(lab, tasks[3:4], writer, 30), "move_booking")
    assert len({call.arguments["to_device_id"] for call in made}) >= 4


class Bank:
    def __init__(
        self, accounts: dict[str, dict[str, Any]] | None = None, visits: list[Any] | None = None
    ) -> None:
        self.accounts = accounts or {}
        self.visits = visits or []

    def transfer(self, from_account: str, toAccount: str, amount: int) -> dict[str, Any]:
        """Transfer money from an account to another one."""
        self.accounts[from_account]["balance"] -= amount
        self.accounts[toAccount]["balance"] += amount
        return {"left": self.accounts[from_account]["balance"]}

    def open_account(self, new_account: str) -> dict[str, Any]:
        """Open a new account."""
        self.accounts[new_account] = {"balance": 0}
        return {"account": new_account}

    def move_visit(self, visit_id: str, new_day: str) -> dict[str, Any]:
        """Move a visit to another day."""
        next(visit for visit in self.visits if visit["visit_id"] == visit_id)["day"] = new_day
        return {"visit_id": visit_id}


bank = ToolClasses("bank", [Bank])
BANK = {
    "accounts": {f"A-{n}": {"balance": 10 * n} for n in range(31, 36)},
    "visits": [{"visit_id": f"V-{n}", "day": f"2026-05-{n}"} for n in range(11, 15)],
}
CALLS = {
    "Transfer 200 from A-31 to A-33.": ToolCall(
        "transfer", {"from_account": "A-31", "toAccount": "A-33", "amount": 200}
    ),
    "Open account A-90.": ToolCall("open_account", {"new_account": "A-90"}),
    "Move visit V-12 to 2026-05-20.": ToolCall(
        "move_visit", {"visit_id": "V-12", "new_day": "2026-05-20"}
    ),
}
BANKING = [
    Task(
        "bank",
        "base",
        (Turn(text, (call,)),),
        {"classes": ["Bank"], "initial_config": {"Bank": BANK}},
        Provenance(origin=call.name, scenario=call.name),
    )
    for text, call in CALLS.items()
]


def test_a_new_name_owns_nothing_and_two_names_of_one_owner_stay_apart() -> None:
    kinds = domains_for(bank, BANKING).parameters
    assert kinds["from_account"] == kinds["toAccount"] == kinds["visit_id"] == "ident"
    assert kinds["new_day"] == "date"
    assert "new_account" not in kinds, "no account has the value that a task gives"
    for writer in ("graph", "resample"):
        made = accepted(bank, BANKING, writer, 10, BANKING)
        pairs = {
            (c.arguments["from_account"], c.arguments["toAccount"])
            for c in calls_of(made, "transfer")
        }
        assert len(pairs) >= 4 and all(one != other for one, other in pairs)
        assert len({c.arguments["new_day"] for c in calls_of(made, "move_visit")}) >= 4


class Shop:
    def __init__(self, items: dict[str, Any], orders: dict[str, Any]) -> None:
        self.items, self.orders = items, orders

    def add_item(self, sku: str, title: str) -> dict[str, Any]:
        """Add an item to the catalog.

        Args:
            sku: Its stock number.
            title: What it is called.
        """
        if sku in self.items:
            raise KeyError(sku)
        self.items[sku] = {"title": title}
        return {"sku": sku}

    def order(self, order_id: str, sku: str, year: str) -> dict[str, Any]:
        """Put an item into an order.

        Args:
            order_id: Which order.
            sku: Which item.
            year: Year of the delivery.
        """
        self.orders[order_id].append([self.items[sku]["title"], year])
        return {"lines": len(self.orders[order_id])}


shop = ToolClasses("shop", [Shop])
SHELF = {
    "items": {"SKU-101": {"title": "lamp"}, "SKU-102": {"title": "rug"}},
    "orders": {"O-7": [["lamp", "2031"]], "O-8": [["rug", "2032"]]},
}
SHOPPING = [
    replace(
        tasks[0],
        env="shop",
        turns=(
            Turn(
                f"Add a {thing} to the catalog as {sku}.",
                (ToolCall("add_item", {"sku": sku, "title": thing}),),
            ),
            Turn(
                f"Put {known} into {order} for 2031.",
                (ToolCall("order", {"order_id": order, "sku": known, "year": "2031"}),),
            ),
        ),
        world={"classes": ["Shop"], "initial_config": {"Shop": SHELF}},
        provenance=Provenance(thing, thing),
    )
    for thing, sku, known, order in (
        ("desk", "SKU-110", "SKU-101", "O-7"),
        ("vase", "SKU-115", "SKU-102", "O-8"),
    )
]


@pytest.mark.parametrize("writer", ["graph", "resample"])
def test_an_id_varies_whatever_its_argument_is_called(writer: str) -> None:
    """`sku` takes keys of `items`: every variant added SKU-110, or an order as an item."""
    made = accepted(shop, SHOPPING, writer, 12, SHOPPING)
    for tool in ("add_item", "order"):
        ids = {str(call.arguments["sku"]) for call in calls_of(made, tool)}
        assert len(ids) >= 6 and all(one.startswith("SKU-") for one in ids)
    assert {call.arguments["year"] for call in calls_of(made, "order")} <= {"2031", "2032"}


def test_a_seed_task_without_a_variant_has_its_reason_with_an_example(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """No message says its hours: the seed's 2 stands in `D-2`, that of a variant nowhere."""
    monkeypatch.chdir(tmp_path)
    shutil.copy(Path(__file__).parent.parent / "support" / "lab.py", "lab.py")
    call = ToolCall("book_device", {"device_id": "D-2", "hours": 2})
    worded = replace(tasks[0], turns=(Turn("Book device D-2 for a couple of hours.", (call,)),))
    write_tasks(Path("lab.jsonl"), [worded, *tasks[1:]])
    words = ("--tasks", "lab.jsonl", "--env.name", "./lab.py:lab", "--writer", "resample")
    words = (*words, "--n", "6")
    assert rods("synth", *words, "--out", "made.jsonl", monkeypatch=monkeypatch) == 0
    shown = capsys.readouterr()
    printed = " ".join(shown.err.split())
    assert re.search(r"lab_1, \d of \d+ candidates accepted; \d+ rejected: ", printed)
    assert "For example, " in printed and "(message: " in printed
    assert reason_words("provenance") in shown.out
    assert "The reasons of all" in printed and "made.jsonl.rejected.jsonl" in printed
    text = Path("made.jsonl.rejected.jsonl").read_text(encoding="utf-8")
    rows = [json.loads(row) for row in text.splitlines()]
    assert {row["seed"] for row in rows} == {"lab_1"} and all(row["detail"] for row in rows)
    assert any("a couple of hours" in row["message"] for row in rows)


@pytest.mark.parametrize(
    ("text", "accepts"), [("2 hours", True), ("two hours", True), ("a couple of hours", False)]
)
def test_a_number_must_stand_in_a_message(text: str, accepts: bool) -> None:
    """The seed's 2 stands in `D-2` too, so its `a couple` was no reason to look twice."""
    call = ToolCall("book_device", {"device_id": "D-2", "hours": 2})
    seed = replace(tasks[0], turns=(Turn(f"Book device D-2 for {text}.", (call,)),))
    pool = (seed, *tasks[1:])
    draft = make_writer("resample", pool, lab).propose(seed, random.Random(3))
    assert not isinstance(draft, Rejection)
    rejection = keeper_of(lab, pool).check(seed, draft).rejection
    assert (rejection is None) is accepts
    assert accepts or (
        rejection and rejection.detail.endswith("in no message and no result before")
    )
