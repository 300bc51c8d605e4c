"""tau2-bench's retail tasks: the shop's tools by their documented rules, who plays the customer
and who judges as scripts, rewards by their bases. The folder is written here; ours is no data."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from rods.config import load_config
from rods.envs import make_suite
from rods.envs.suites.tau2.arithmetic import calculated
from rods.envs.suites.tau2.database import Shop, Store, read_database
from rods.envs.suites.tau2.specs import SPECS
from rods.envs.suites.tau2.tools import TOOLS, RetailTools
from rods.envs.suites.tau2.world import GREETING
from rods.errors import ConfigError, PrerequisiteError, TaskError, WriterError
from rods.evaluation.rules import Outcome, SuiteRules
from rods.evaluation.suites import accuracies, chosen_tasks, suite_rows
from rods.settings.rollout import SuiteSettings
from rods.task import Task
from rods.trajectory import Group
from rods.trajectory_codec import read_parquet, write_parquet
from rods.types import StopReason
from suite_cases import told

PLACE = {"address1": "1 Main St", "address2": "", "city": "Bergen", "country": "NO"}
HOME = {**PLACE, "state": "VL", "zip": "5003"}


def variant(item: str, colour: str, price: float, available: bool = True) -> dict[str, Any]:
    options = {"colour": colour}
    return {"item_id": item, "options": options, "available": available, "price": price}


def item(item_id: str, price: float, colour: str = "green") -> dict[str, Any]:
    named = {"name": "Tea", "product_id": "1", "item_id": item_id}
    return {**named, "price": price, "options": {"colour": colour}}


def order(name: str, status: str, items: Sequence[Any], *paid: tuple[str, float]) -> dict[str, Any]:
    payments = [
        {"transaction_type": "payment", "amount": amount, "payment_method_id": by}
        for by, amount in paid
    ]
    return {
        "order_id": name,
        "user_id": "ann_1",
        "address": HOME,
        "items": list(items),
        "status": status,
        "fulfillments": [],
        "payment_history": payments,
    }


ORDERS = [
    order("#P", "pending", [item("11", 5.0), item("12", 8, "black")], ("pay", 13.0)),
    order("#G", "pending", [item("11", 5.0)], ("gift", 5.0)),
    order("#TWO", "pending", [item("11", 5.0)], ("gift", 2.0), ("gone", 3.0)),
    order("#D", "delivered", [item("11", 5.0), item("11", 5.0)], ("pay", 10.0)),
    order("#S", "processed", [item("11", 5.0)], ("pay", 5.0)),
]
DATABASE: dict[str, Any] = {
    "products": {
        "1": {
            "name": "Tea",
            "product_id": "1",
            "variants": {
                "11": variant("11", "green", 5.0),
                "12": variant("12", "black", 8),
                "13": variant("13", "white", 3.0, False),
                "14": variant("14", "red", 90.5),
                "15": variant("15", "blue", 5.1),
            },
        },
        "2": {"name": "Cup", "product_id": "2", "variants": {"21": variant("21", "red", 2.0)}},
    },
    "users": {
        "ann_1": {
            "user_id": "ann_1",
            "name": {"first_name": "Ann", "last_name": "Lie"},
            "address": HOME,
            "email": "Ann@x.no",
            "payment_methods": {
                "pay": {"source": "paypal", "id": "pay"},
                "gift": {"source": "gift_card", "id": "gift", "balance": 10},
                "card": {"source": "credit_card", "id": "card", "brand": "visa", "last_four": "1"},
            },
            "orders": [one["order_id"] for one in ORDERS],
        }
    },
    "orders": {one["order_id"]: one for one in ORDERS},
}
CANCEL = {"name": "cancel_pending_order", "arguments": {"order_id": "#G"}}
CANCEL["arguments"] = {"order_id": "#G", "reason": "no longer needed"}  # type: ignore[assignment]
TASK: dict[str, Any] = {
    "id": "0",
    "user_scenario": {
        "persona": None,
        "instructions": {
            "domain": "retail",
            "reason_for_call": "You want no tea.\nNone.",
            "known_info": "You are Ann.",
            "unknown_info": None,
            "task_instructions": "Be brief.",
        },
    },
    "initial_state": None,
    "evaluation_criteria": {
        "actions": [{"action_id": "0_0", **CANCEL}],
        "communicate_info": [],
        "nl_assertions": None,
        "reward_basis": ["DB", "NL_ASSERTION"],
    },
}


def criteria(**changes: Any) -> dict[str, Any]:
    return {**TASK, "evaluation_criteria": {**TASK["evaluation_criteria"], **changes}}


def tasks() -> list[dict[str, Any]]:
    said = criteria(nl_assertions=["The agent is kind."])
    return [TASK, {**said, "id": "1"}, {**TASK, "id": "2"}]


def make_folder(root: Path, rows: Sequence[Any] | None = None) -> Path:
    folder = root / "data" / "tau2" / "domains" / "retail"
    guide = root / "data" / "tau2" / "user_simulator"
    folder.mkdir(parents=True)
    guide.mkdir()
    (guide / "simulation_guidelines.md").write_text("Play.<PERSONA_GUIDELINES>\n", encoding="utf-8")
    (folder / "policy.md").write_text("Be fair.", encoding="utf-8")
    (folder / "db.json").write_text(json.dumps(DATABASE), encoding="utf-8")
    written = json.dumps(tasks() if rows is None else rows)
    (folder / "tasks.json").write_text(written, encoding="utf-8")
    split = {"train": ["0"], "test": ["1"], "base": ["0", "1"], "other": ["2"]}
    (folder / "split_tasks.json").write_text(json.dumps(split), encoding="utf-8")
    return folder


@pytest.fixture(scope="module")
def shop(tmp_path_factory: pytest.TempPathFactory) -> Shop:
    return read_database(make_folder(tmp_path_factory.mktemp("shop")) / "db.json")


def suite(folder: Path, *more: str) -> SuiteRules:
    named = [f"evaluation.suite.folder={json.dumps(str(folder))}", 'model.dialect="pythonic"']
    return make_suite("tau2-retail", load_config(overrides=[*named, *more]))


SERVERS = [f'evaluation.suite.{one}.url="http://x/v1"' for one in ("user", "judge")]


class Server:
    """A chat server that says these things to who asks as user, and as judge."""

    user: Sequence[str] = ()
    judge: Sequence[str] = ()
    asked: list[list[Mapping[str, str]]]

    def __init__(self, settings: Any) -> None:
        Server.asked = []
        self._left = {"user": list(Server.user), "judge": list(Server.judge)}

    def ask(self, stage: str, messages: Sequence[Mapping[str, str]], **more: Any) -> Any:
        Server.asked.append([dict(message) for message in messages])
        if not self._left[stage]:
            raise WriterError("gone, correct synthesis.llm.url")
        return SimpleNamespace(text=self._left[stage].pop(0))

    def close(self) -> None: ...


@pytest.fixture
def rules(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> SuiteRules:
    monkeypatch.setattr("rods.envs.suites.chat.ChatClient", Server)
    return suite(make_folder(tmp_path), *SERVERS)


def test_every_tool_is_described_and_the_other_way_round() -> None:
    assert {one.name for one in SPECS} == set(TOOLS) and len(SPECS) == 16
    for spec in SPECS:
        names = TOOLS[spec.name].__code__.co_varnames[1 : TOOLS[spec.name].__code__.co_argcount]
        assert tuple(spec.properties) == names == tuple(spec.required)


SWAP = ("exchange_delivered_order_items", "modify_pending_order_items")


@pytest.mark.parametrize(
    ("name", "arguments", "said"),
    [
        ("get_user_details", {"user_id": "bob"}, "Error: User not found"),
        ("get_order_details", {"order_id": "P"}, "Error: Order not found"),
        ("get_order_details", {"order_id": []}, "Error: unhashable type: 'list'"),
        ("get_product_details", {"product_id": "11"}, "Error: Product not found"),
        ("get_item_details", {"item_id": "1"}, "Error: Item not found"),
        ("find_user_id_by_email", {"email": "ANN@X.NO"}, "ann_1"),
        ("find_user_id_by_email", {"email": 1}, "Error: 'int' object has no attribute 'lower'"),
        ("list_all_product_types", {}, '{"Cup": "2", "Tea": "1"}'),
        ("transfer_to_human_agents", {"summary": "tea"}, "Transfer successful"),
        ("no_such", {}, "Error: Tool 'no_such' not found."),
        ("_pending", {"order_id": "#P"}, "Error: Tool '_pending' not found."),
        ("call", {"name": "x", "arguments": {}}, "Error: Tool 'call' not found."),
        (
            "get_user_details",
            {},
            "Error: RetailTools.get_user_details() missing 1 required positional argument: "
            "'user_id'",
        ),
        (
            "cancel_pending_order",
            {"order_id": "#S", "reason": "no longer needed"},
            "Error: Non-pending order cannot be cancelled",
        ),
        ("cancel_pending_order", {"order_id": "#P", "reason": "x"}, "Error: Invalid reason"),
        (
            "modify_pending_order_payment",
            {"order_id": "#P", "payment_method_id": "pay"},
            "Error: The new payment method should be different from the current one",
        ),
        (
            "modify_pending_order_payment",
            {"order_id": "#P", "payment_method_id": "gift"},
            "Error: Insufficient gift card balance to pay for the order",
        ),
        (
            "modify_pending_order_payment",
            {"order_id": "#TWO", "payment_method_id": "pay"},
            "Error: There should be exactly one payment for a pending order",
        ),
        (
            "return_delivered_order_items",
            {"order_id": "#D", "item_ids": ["11"], "payment_method_id": "card"},
            "Error: Payment method should be the original payment method",
        ),
        (
            "return_delivered_order_items",
            {"order_id": "#D", "item_ids": ["11"] * 3, "payment_method_id": "pay"},
            "Error: Some item not found",
        ),
    ],
)
def test_a_tool_says_what_the_documentation_says(
    name: str, arguments: dict[str, Any], said: str, shop: Shop
) -> None:
    store = Store(shop)
    result = RetailTools(store).call(name, arguments)
    assert (result.content, result.failed) == (said, said.startswith("Error"))
    assert not store.changes()


@pytest.mark.parametrize(
    ("old", "new", "by", "exchanged", "modified"),
    [
        (["13"], ["11"], "pay", "Number of 13 not found.", "13 not found"),
        (["11"], [], "pay", "{}.", "{}"),
        (["11"], ["21"], "pay", "Variant not found", "Variant not found"),
        (["11"], ["13"], "pay", *["New item 13 not found or available"] * 2),
        (["11"], ["14"], "no", *["Payment method not found"] * 2),
        (["11"], ["14"], "gift", "to pay for the price difference", "to pay for the new item"),
    ],
)
def test_items_are_exchanged_and_modified_by_the_same_checks(
    old: Any, new: Any, by: str, exchanged: str, modified: str, shop: Shop
) -> None:
    for name, target, said in zip(SWAP, ("#D", "#P"), (exchanged, modified), strict=True):
        said = said.format("The number of items to be exchanged should match")
        given = {"item_ids": old, "new_item_ids": new, "payment_method_id": by}
        store = Store(shop)
        result = RetailTools(store).call(name, {"order_id": target, **given})
        assert result.failed and result.content.endswith(said)
        assert not store.changes()


def done(store: Store, name: str, **arguments: Any) -> Any:
    result = RetailTools(store).call(name, arguments)
    assert not result.failed, result.content
    return json.loads(result.content)


def balance(store: Store) -> Any:
    return store.user("ann_1")["payment_methods"]["gift"]["balance"]  # type: ignore[typeddict-item]


def test_an_order_is_shown_with_what_may_come_later(shop: Shop) -> None:
    shown = done(Store(shop), "get_order_details", order_id="#P")
    assert list(shown)[-7:] == [
        *("cancel_reason", "exchange_items", "exchange_new_items"),
        *("exchange_payment_method_id", "exchange_price_difference"),
        *("return_items", "return_payment_method_id"),
    ]
    assert shown["items"][1]["price"] == 8.0 and shown["return_items"] is None


def test_cancelling_refunds_and_a_gift_card_at_once(shop: Shop) -> None:
    store = Store(shop)
    shown = done(store, "cancel_pending_order", order_id="#G", reason="no longer needed")
    assert (shown["status"], shown["cancel_reason"]) == ("cancelled", "no longer needed")
    assert [one["transaction_type"] for one in shown["payment_history"]] == ["payment", "refund"]
    assert balance(store) == 15.0
    assert set(store.changes()) == {"user ann_1", "order #G"}
    assert not Store(shop).changes()  # another world's shop is as it was


def test_what_a_failing_call_changed_stays_changed(shop: Shop) -> None:
    """As released: the gift card has its refund when the second payment's method is missing."""
    store = Store(shop)
    given = {"order_id": "#TWO", "reason": "no longer needed"}
    result = RetailTools(store).call("cancel_pending_order", given)
    assert result.content == "Error: Payment method not found"
    assert balance(store) == 12.0 and set(store.changes()) == {"user ann_1"}


def test_modified_items_all_get_the_last_ones_price_and_options(shop: Shop) -> None:
    store = Store(shop)
    shown = done(
        store,
        "modify_pending_order_items",
        order_id="#P",
        item_ids=["11", "12"],
        new_item_ids=["12", "15"],
        payment_method_id="gift",
    )
    assert [(one["item_id"], one["price"]) for one in shown["items"]] == [("15", 5.1), ("12", 8.0)]
    assert shown["status"] == "pending (item modified)"
    assert shown["payment_history"][1]["transaction_type"] == "payment"
    assert balance(store) == 9.9
    again = {"order_id": "#P", "reason": "no longer needed"}
    assert RetailTools(store).call("cancel_pending_order", again).failed
    moved = {**HOME, "city": "Oslo"}
    assert done(store, "modify_pending_order_address", order_id="#P", **moved)["address"] == moved


def test_exchange_return_and_payment_change_what_they_say(shop: Shop) -> None:
    store = Store(shop)
    given = {"order_id": "#D", "item_ids": ["11", "11"], "payment_method_id": "pay"}
    shown = done(store, SWAP[0], **given, new_item_ids=["15", "12"])
    assert (shown["exchange_price_difference"], shown["exchange_new_items"]) == (3.1, ["12", "15"])
    assert shown["items"][0]["item_id"] == "11"
    assert RetailTools(store).call("return_delivered_order_items", given).failed  # only once
    other = Store(shop)
    assert done(other, "return_delivered_order_items", **given)["status"] == "return requested"
    shown = done(other, "modify_pending_order_payment", order_id="#G", payment_method_id="card")
    assert [one["payment_method_id"] for one in shown["payment_history"]] == [
        "gift",
        "card",
        "gift",
    ]
    assert balance(other) == 15.0


@pytest.mark.parametrize(
    ("expression", "value"),
    [
        ("2 + 3 * (4 - 1)", "11.0"),
        (" -7 // 2", "-4.0"),
        ("2**-1", "0.5"),
        ("10 / 3", "3.33"),
        ("1 / 0", ZeroDivisionError),
        ("2 +", SyntaxError),
        ("007", SyntaxError),
        ("()", TypeError),
        ("2(3)", TypeError),
        ("9**9**9", OverflowError),
        ("__import__", ValueError),
        ("1e5", ValueError),
        (["1"], TypeError),
        ([1], TypeError),
        (5, TypeError),
    ],
)
def test_the_calculator_reckons_and_evaluates_nothing(expression: Any, value: Any) -> None:
    if isinstance(value, str):
        assert calculated(expression) == value
    else:
        with pytest.raises(value):
            calculated(expression)


CALL = '[cancel_pending_order(order_id="#G", reason="no longer needed")]'
LOOK = '[get_order_details(order_id="#G")]'
WRONG = '[get_order_details(order_id="#X")]'
BYE = "Thanks. ###STOP###"


def test_a_conversation_ends_by_its_customer_and_its_database_is_compared(
    rules: SuiteRules, tmp_path: Path
) -> None:
    task = rules.tasks()[0]
    assert (task.category, task.provenance.origin) == ("train_state", "retail 0")
    Server.user = ["I want no tea.", "Yes.", BYE]
    right = told(rules, task, "Sure?", LOOK, CALL, "Done.")
    assert rules.score(task, right) == Outcome(True) and right.verdicts[0].solved
    users = [m.content for m in right.messages if m.role == "user"]
    assert "Be fair." in users[0] and GREETING in users[0] and users[0].endswith("I want no tea.")
    assert users[1:] == ["Yes."]
    system = Server.asked[0][0]["content"]
    assert system == (
        "Play.\n\n\n<scenario>\nInstructions:\n\tDomain: retail\n\tReason for call:\n\t\tYou want "
        "no tea.\n\t\tNone.\n\tKnown info:\n\t\tYou are Ann.\n\tTask instructions:\n\t\tBe brief."
        "\n</scenario>"
    )
    assert [m["content"] for m in Server.asked[-1][1:]] == [
        *(GREETING, "I want no tea.", "Sure?", "Yes.", "Done."),
    ]
    write_parquet(tmp_path / "x.parquet", [right])
    (again,) = read_parquet(tmp_path / "x.parquet")
    assert rules.score(task, again) == Outcome(True)


@pytest.mark.parametrize(
    ("said", "user", "why"),
    [
        (["Done."], ["Hello.", BYE], "the database differs"),
        ([CALL, CALL, "Done."], ["Hello.", BYE], ""),  # the second one fails, nothing changes
        ([CALL, *[WRONG] * 10, "Done."], ["Hello.", BYE], "too many failed calls"),
        ([CALL, *[WRONG] * 9, "Done."], ["Hello.", BYE], ""),
        ([CALL, ""], ["Hello."], "said nothing"),
        ([CALL, *["So?"] * 99], ["Hello.", *["Well."] * 99], "ended by a budget: steps"),
        ([CALL, *["So?"] * 98], ["Hello.", *["Well."] * 97, BYE], ""),
    ],
)
def test_how_a_conversation_can_end(
    said: list[str], user: list[str], why: str, rules: SuiteRules
) -> None:
    Server.user = user
    played = told(rules, rules.tasks()[0], *said)
    assert played.failure is None
    assert rules.score(rules.tasks()[0], played) == Outcome(not why, why)
    assert len(played.steps) <= 99


def test_who_ends_at_once_or_is_gone_makes_it_invalid(rules: SuiteRules) -> None:
    Server.user = [BYE, BYE]
    ended = told(rules, rules.tasks()[0], "Hello?")
    assert ended.failure is not None and "ended at once" in ended.failure
    rules.environment.close()
    Server.user = []
    gone = told(rules, rules.tasks()[0], "Hello?")
    assert gone.failure is not None and "correct evaluation.suite.user.url" in gone.failure


def based(task: Task, *basis: str, **changes: Any) -> Task:
    return replace(task, world={**task.world, "basis": list(basis), **changes})


def test_only_what_the_reward_is_based_on_counts(rules: SuiteRules) -> None:
    task = rules.tasks()[0]
    Server.user = ["I want no tea.", BYE]
    played = told(rules, task, CALL, "That is 1,234.50 Crowns.")
    wanted: Any = task.world["actions"]
    more = [*wanted, {**wanted[0], "name": "calculate", "arguments": {"expression": "1"}}]
    named = [{**wanted[0], "arguments": {"order_id": "#G", "reason": "x"}}]
    compared = [{**named[0], "compare_args": ["order_id"]}]
    cases = [
        (based(task, "ACTION"), ""),
        (based(task, "ACTION", actions=more), "a wanted call is missing"),
        (based(task, "ACTION", actions=named), "a wanted call is missing"),
        (based(task, "ACTION", actions=compared), ""),
        (based(task, "DB", actions=more), ""),  # it changes nothing
        (based(task, "DB", actions=[]), "the database differs"),
        (based(task, "DB", actions=None), ""),
        (based(task, "COMMUNICATE", communicate=["1234.5", "crowns"]), ""),
        (based(task, "COMMUNICATE", communicate=["1,234.5"]), "something was not said"),
        (based(task, "DB", communicate=["tea"], assertions=["No."]), ""),
    ]
    for case, why in cases:
        assert rules.score(case, played) == Outcome(not why, why), case.world
    late = replace(played, stop=StopReason.CONTEXT)
    assert rules.score(task, late).why == "ended by a budget: context"


def verdict(*met: Any) -> str:
    rows = [{"expectedOutcome": "", "reasoning": "", "metExpectation": one} for one in met]
    return json.dumps({"results": rows})


def test_a_judge_is_asked_where_the_basis_asks_and_all_else_is_right(rules: SuiteRules) -> None:
    task = rules.tasks()[1]
    assert task.category == "test_words"
    Server.user = ["I want no tea.", BYE]
    Server.judge = [verdict(True), verdict(False), verdict(), "I do not know.", verdict("yes")]
    played = told(rules, task, CALL, "Gladly done.")
    assert rules.score(task, played) == Outcome(True)
    asked = Server.asked[-1][1]["content"]
    assert "1. The agent is kind." in asked
    lines = asked.split("\n")
    assert lines[1:4] == [f"assistant: {GREETING}", "user: I want no tea.", "assistant: None"]
    assert lines[4].startswith('tool: {"order_id"') and lines[5] == "assistant: Gladly done."
    assert rules.score(task, played).why == "an assertion does not hold"
    rows = suite_rows(rules, [Group(task, (played,) * 4, 0)])
    assert rows[0].right == () and len(rows[0].failures) == 4
    assert "no verdict on each of 1" in rows[0].failures[0]
    assert "evaluation.suite.judge.url" in rows[0].failures[3]
    wrong = replace(played, steps=played.steps[1:])
    assert rules.score(task, wrong).why == "the database differs"  # nobody needs to be asked


def test_without_servers_it_says_which_tasks_need_one(tmp_path: Path) -> None:
    folder = make_folder(tmp_path)
    with pytest.raises(PrerequisiteError, match=r"whom a chat server plays.*suite\.user\.url"):
        chosen_tasks(suite(folder), SuiteSettings())
    with pytest.raises(PrerequisiteError, match=r"in 1 of 2 tasks a model judges.*judge\.url"):
        chosen_tasks(suite(folder, SERVERS[0]), SuiteSettings())
    with pytest.raises(PrerequisiteError, match=r"in 1 of 2 tasks a model judges"):
        chosen_tasks(suite(folder), SuiteSettings(), plays=False)
    chosen = SuiteSettings(categories=("train_state",))
    assert len(chosen_tasks(suite(folder, SERVERS[0]), chosen)) == 1
    with pytest.raises(ConfigError, match=r"needs data/tau2/domains/retail of a checkout"):
        make_suite("tau2-retail", load_config())


@pytest.mark.parametrize(
    ("row", "said"),
    [
        ({**TASK, "id": 3}, r"tasks\.json, row 1: id: expected a text, got 3"),
        ({**TASK, "initial_state": {}}, r"row 1: initial_state: expected null"),
        (criteria(reward_basis=["LOVE"]), r"reward_basis: expected some of DB, .*'LOVE'"),
        (criteria(env_assertions=[{}]), r"'env_assertions'; the shop has nothing"),
        (criteria(actions=[{"name": "x"}]), r"row 1: actions: arguments is missing"),
        (criteria(nl_assertions=[1]), r"nl_assertions: expected a list of texts"),
        ({**TASK, "user_scenario": {"instructions": {}}}, r"instructions: domain is missing"),
    ],
)
def test_a_broken_task_is_named(row: dict[str, Any], said: str, tmp_path: Path) -> None:
    with pytest.raises(TaskError, match=said):
        suite(make_folder(tmp_path, [row])).tasks()


def test_a_broken_folder_is_named(tmp_path: Path) -> None:
    folder = make_folder(tmp_path)
    broken = json.dumps({**DATABASE, "users": {"ann_1": {}}})
    (folder / "db.json").write_text(broken, encoding="utf-8")
    with pytest.raises(TaskError, match=r"db\.json: users\.ann_1\.user_id: Field required"):
        chosen_tasks(suite(folder, *SERVERS), SuiteSettings())
    (folder / "split_tasks.json").write_text('{"train": [], "test": [], "base": ["0"]}')
    with pytest.raises(TaskError, match=r"'0' of base is neither in train nor in test"):
        suite(folder).tasks()
    (folder / "policy.md").unlink()
    with pytest.raises(TaskError, match=r"policy\.md"):
        suite(folder).tasks()


def test_accuracies_are_pooled_over_tasks_and_quote_repeated_trials(rules: SuiteRules) -> None:
    Server.user = ["Hello.", BYE, "Hello.", BYE]
    task = rules.tasks()[0]
    played = told(rules, task, CALL, "Done."), told(rules, task, "No.")
    rows = suite_rows(rules, [Group(task, played, 0)])
    (found,) = accuracies(rules, rows)
    assert (found.name, found.mean, found.passes) == ("train_state", 0.5, (0.0,))
