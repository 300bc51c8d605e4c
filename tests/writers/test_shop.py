"""Variants of a class whose records name each other, with prices, coupons and days of its own."""

from __future__ import annotations

import copy
import datetime
import re
from collections.abc import Iterator, Sequence
from typing import Any, cast

import pytest

from one_outcome import synthesize
from rods.abilities import initial_state
from rods.envs.tool_classes import ToolClasses
from rods.task import Provenance, Task, Turn
from rods.types import ToolCall
from rods.writers import make_writer
from rods.writers.assembly import keeper_of

Record = dict[str, Any]
START: Record = {
    "customers": {"100234": {"name": "Ada Park"}, "100871": {"name": "Omar Haddad"}},
    "articles": {
        "00412": {"name": "garlic press", "price": 12.5},
        "00398": {"name": "hose reel", "price": 49.9},
    },
    "orders": {
        "000017": {"customer_id": "100871", "lines": [{"sku": "00398"}], "total": 49.9},
        "000040": {"customer_id": "100234", "lines": [{"sku": "00412"}], "total": 12.5},
    },
    "coupons": {"VIP5": {"percent": 5}, "VIP8": {"percent": 8}},
    "tickets": {"T3": {"order_id": "000017"}, "T5": {"order_id": "000040"}},
    "today": "2026-03-02",
    "number": 8,
}


class Shop:
    def __init__(self, **given: Any) -> None:
        state = copy.deepcopy(START) | given
        self.customers: dict[str, Record] = state["customers"]
        self.articles: dict[str, Record] = state["articles"]
        self.orders: dict[str, Record] = state["orders"]
        self.coupons: dict[str, Record] = state["coupons"]
        self.tickets: dict[str, Record] = state["tickets"]
        self.today: str = state["today"]
        self.number: int = state["number"]

    def show_order(self, order_id: str) -> Record:
        """Show the articles of an order.

        Args:
            order_id: Which order.
        """
        lines = self.orders[order_id]["lines"]
        return {"articles": [self.articles[line["sku"]]["name"] for line in lines]}

    def set_price(self, sku: str, price: float) -> Record:
        """Set the price of an article.

        Args:
            sku: Which article.
            price: New price in euros.
        """
        self.articles[sku]["price"] = price
        return {"sku": sku, "price": price}

    def refund(self, order_id: str, amount: float) -> Record:
        """Refund an amount of an order.

        Args:
            order_id: Which order.
            amount: How many euros.
        """
        self.orders[order_id]["total"] -= amount
        return {"order_id": order_id}

    def deliver(self, order_id: str, deadline: str) -> Record:
        """Deliver an order.

        Args:
            order_id: Which order.
            deadline: Last day, YYYY-MM-DD.
        """
        if deadline < self.today:
            raise ValueError("this day is over")
        self.orders[order_id]["due"] = deadline
        return {"order_id": order_id}

    def pause(self, first: str, last: str) -> Record:
        """Pause the deliveries.

        Args:
            first: First day, YYYY-MM-DD.
            last: Last day, YYYY-MM-DD.
        """
        return {"paused": [first, last]}

    def create_coupon(self, code: str, percent: int) -> Record:
        """Create a coupon.

        Args:
            code: What customers enter.
            percent: Discount in percent.
        """
        if code in self.coupons:
            raise ValueError("there is such a coupon")
        self.coupons[code] = {"percent": percent}
        return {"code": code}

    def delete_coupon(self, code: str) -> Record:
        """Delete a coupon.

        Args:
            code: What customers enter.
        """
        return self.coupons.pop(code)

    def open_ticket(self, order_id: str) -> Record:
        """Open a ticket for an order.

        Args:
            order_id: Which order.
        """
        ticket, self.number = f"T{self.number}", self.number + 1
        self.tickets[ticket] = {"order_id": order_id}
        return {"ticket_id": ticket}

    def close_ticket(self, ticket_id: str) -> Record:
        """Close a ticket.

        Args:
            ticket_id: Which ticket.
        """
        return self.tickets.pop(ticket_id)


shop = ToolClasses("shop", [Shop])


def seed(name: str, *turns: tuple[str, ToolCall]) -> Task:
    made = tuple(Turn(text, (call,)) for text, call in turns)
    world: Any = {"classes": ["Shop"], "initial_config": {"Shop": START}}
    return Task("shop", "base", made, world, Provenance(name, name))


def order(number: str) -> tuple[str, ToolCall]:
    return f"Show order {number}.", ToolCall("show_order", {"order_id": number})


def delivery(number: str, day: str) -> tuple[str, ToolCall]:
    call = ToolCall("deliver", {"order_id": number, "deadline": day})
    return f"Deliver order {number} by {day}.", call


def price(text: str, sku: str, euros: float) -> tuple[str, ToolCall]:
    return f"{text} {euros:.2f} euros.", ToolCall("set_price", {"sku": sku, "price": euros})


def variants(writer: str, seeds: Sequence[Task], count: int) -> Iterator[Task]:
    """Accepted variants of these seed tasks."""
    made, keeper = make_writer(writer, seeds, shop), keeper_of(shop, seeds, ())
    for number in range(count):
        found = synthesize(seeds[number % len(seeds)], made, keeper, number, 3).variant
        if found is not None:
            yield found


def start(task: Task) -> Record:
    return cast("Record", initial_state(shop, task).values["Shop"])


SEEDS = [
    seed("one", order("000017"), price("Set the price of 00398 to", "00398", 44.5)),
    seed("two", order("000040"), price("Set the price of 00412 to", "00412", 13.75)),
    seed("three", delivery("000017", "2026-03-20"), order("000017")),
    seed("four", delivery("000040", "2026-04-10"), order("000040")),
]


@pytest.mark.parametrize("writer", ["resample", "graph"])
def test_codes_in_records_still_name_what_exists(writer: str) -> None:
    """`sku` in orders was renamed, the keys of `articles` were not, so no order could be shown."""
    made = list(variants(writer, SEEDS, 12))
    assert len(made) >= 10
    for variant in made:
        state = start(variant)
        named = {line["sku"] for one in state["orders"].values() for line in one["lines"]}
        assert named == state["articles"].keys() != START["articles"].keys()


def test_a_day_that_calls_alone_have_moves_with_the_others() -> None:
    """`deadline` is no field of the state: it stayed where it was, and so was over."""
    theirs = {task.id: str(task.calls[0].arguments["deadline"]) for task in SEEDS[2:]}
    made = list(variants("resample", SEEDS[2:], 8))
    assert len(made) >= 6
    for variant in made:
        before = next(theirs[one] for one in variant.provenance.ancestors if one in theirs)
        deadline = str(variant.calls[0].arguments["deadline"])
        moved = days(start(variant)["today"]) - days(START["today"])
        assert days(deadline) - days(before) == moved and deadline in variant.turns[0].user


def days(text: str) -> int:
    return datetime.date.fromisoformat(text).toordinal()


@pytest.mark.parametrize(
    ("text", "call"),
    [
        ("Raise the price of 00412 to 13.75 euros.", ("set_price", "sku", "00412", "price", 13.75)),
        ("Lower the price of 00398 to 44.50.", ("set_price", "sku", "00398", "price", 44.5)),
        (
            "Refund order 000017 completely, that is 49.90 euros.",
            ("refund", "order_id", "000017", "amount", 49.9),
        ),
        (
            "Refund half of order 000040, 6.25 euros.",
            ("refund", "order_id", "000040", "amount", 6.25),
        ),
    ],
)
def test_a_number_that_is_right_for_the_state_stays(text: str, call: tuple[Any, ...]) -> None:
    """An article of 34 euros was raised to 24.10; 31.10 euros were all of an order of 49.90."""
    tool, name, code, number, value = call
    asked = seed("raise", (text, ToolCall(tool, {name: code, number: value})), order("000017"))
    made = list(variants("resample", [asked, *SEEDS[2:]], 12))
    changed = [one for task in made for one in task.calls if one.name == tool]
    assert len(changed) >= 3 and all(one.arguments[number] == value for one in changed)


def test_what_is_made_has_a_code_of_its_kind() -> None:
    """The graph writer made coupons with the numbers of customers: no coupon had such a code."""
    seeds = [
        seed(
            code,
            (
                f"Create a coupon {code} of {percent} percent.",
                ToolCall("create_coupon", {"code": code, "percent": percent}),
            ),
            (f"Delete the coupon {old}.", ToolCall("delete_coupon", {"code": old})),
            order("000017"),
        )
        for code, percent, old in (("MAY26", 15, "VIP5"), ("JUNE30", 12, "VIP8"))
    ]
    made = list(variants("graph", seeds, 16))
    codes = {
        str(call.arguments["code"]): call.name
        for variant in made
        for call in variant.calls
        if call.name.endswith("_coupon")
    }
    assert list(codes.values()).count("create_coupon") >= 4
    assert all(re.fullmatch(r"[A-Z]+\d\d?", code) for code in codes)


def test_no_renamed_code_is_the_next_one_of_its_class() -> None:
    """T5 became T8, and the class calls its next ticket T8: two tickets were one."""
    seeds = [
        seed(
            old,
            (f"Close ticket {old}.", ToolCall("close_ticket", {"ticket_id": old})),
            (f"Open a ticket for order {at}.", ToolCall("open_ticket", {"order_id": at})),
        )
        for old, at in (("T3", "000017"), ("T5", "000040"))
    ]
    made = [start(variant)["tickets"].keys() for variant in variants("resample", seeds, 24)]
    assert len(made) >= 20 and not any("T8" in tickets for tickets in made)


@pytest.mark.parametrize(
    "text", ["from July 1st to 2nd", "from July 1 to the 2nd", "from July 1st to July 2nd"]
)
def test_a_day_without_its_month_is_the_one_of_the_call(text: str) -> None:
    """`July 1st to 2nd` became `July 15th to 2nd`, and the call ended on the 16th."""
    call = ToolCall("pause", {"first": "2026-07-01", "last": "2026-07-02"})
    pause = seed("pause", (f"Pause the deliveries {text}.", call), order("000017"))
    made = list(variants("resample", [pause], 24))
    for variant in made:
        last = datetime.date.fromisoformat(str(variant.calls[0].arguments["last"]))
        assert re.search(rf"\b{last.day}(st|nd|rd|th)\b", variant.turns[0].user)
    assert made or text.count("July") == 1
