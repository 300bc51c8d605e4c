"""Variants of a class with moments such as 2026-05-02T15:00, and names of people and things."""

from __future__ import annotations

import datetime
from collections.abc import Sequence
from typing import Any

import pytest

from one_outcome import synthesize
from rods.envs.tool_classes import ToolClasses
from rods.synthesis.structure.typed import mistyped
from rods.task import Provenance, Task, Turn
from rods.types import ToolCall, ToolSpec
from rods.writers import make_writer
from rods.writers.assembly import keeper_of

Record = dict[str, Any]
START: Record = {
    "stays": [
        {"ref": "HB-31", "guest": "Ada Park", "arrival": "2026-05-02T15:00"},
        {"ref": "HB-50", "guest": "Omar Haddad", "arrival": "2026-05-10T14:00"},
    ],
    "bills": [],
}


class Hotel:
    def __init__(self, stays: list[Record] | None = None, bills: list[Record] | None = None):
        self.stays, self.bills = stays or [], bills or []

    def book(self, guest: str, arrival: str, departure: str) -> Record:
        """Book a room for a guest.

        Args:
            guest: Name of the guest.
            arrival: Arrival, YYYY-MM-DDTHH:MM.
            departure: Departure, YYYY-MM-DDTHH:MM.
        """
        for moment in (arrival, departure):
            datetime.datetime.strptime(moment, "%Y-%m-%dT%H:%M")
        self.stays.append({"guest": guest, "arrival": arrival, "departure": departure})
        return {"stays": len(self.stays)}

    def charge(self, ref: str, items: list[Record]) -> Record:
        """Charge items to a stay.

        Args:
            ref: Reference of the stay.
            items: What was consumed, each with guest and cents.
        """
        self.bills.append({"ref": ref, "items": items})
        return {"cents": sum(item["cents"] for item in items)}


hotel = ToolClasses("hotel", [Hotel])


def seed(name: str, guest: str, arrival: str, departure: str, ref: str) -> Task:
    stay: Record = {"guest": guest, "arrival": arrival, "departure": departure}
    items: list[Any] = [{"guest": "wine", "cents": 2450}]
    turns = (
        Turn(f"Book a room for {guest} from {arrival} to {departure}.", (ToolCall("book", stay),)),
        Turn(
            f"Charge wine for 2450 cents to {ref}.",
            (ToolCall("charge", {"ref": ref, "items": items}),),
        ),
    )
    world: Any = {"classes": ["Hotel"], "initial_config": {"Hotel": START}}
    return Task("hotel", "base", turns, world, Provenance(name, name))


SEEDS = [
    seed("one", "Lena Vogel", "2026-05-12T15:00", "2026-05-13T11:00", "HB-31"),
    seed("two", "Jon Field", "2026-06-01T16:00", "2026-06-04T10:00", "HB-50"),
]


def variants(writer: str, seeds: Sequence[Task], count: int) -> list[Task]:
    made, keeper = make_writer(writer, seeds, hotel), keeper_of(hotel, seeds, ())
    found = [synthesize(seeds[n % 2], made, keeper, n, 3).variant for n in range(count)]
    return [task for task in found if task is not None]


def test_a_moment_keeps_its_form_and_things_keep_their_names() -> None:
    """`2026-07-11 16:45` stood for `2026-05-12T15:00`, and Abigail was sold for wine."""
    made = variants("resample", SEEDS, 8)
    assert len(made) == 8
    for variant in made:
        stay, bill = variant.calls
        for name in ("arrival", "departure"):
            moment = str(stay.arguments[name])
            datetime.datetime.strptime(moment, "%Y-%m-%dT%H:%M")
            assert moment in variant.turns[0].user
        assert bill.arguments["items"] == [{"guest": "wine", "cents": 2450}]
        assert stay.arguments["guest"] not in ("Lena Vogel", "Jon Field")


def test_no_stay_ends_before_it_begins() -> None:
    """The graph writer booked rooms from the 17th to the 12th of a month."""
    made = variants("graph", SEEDS, 40)
    stays = [call.arguments for task in made for call in task.calls if call.name == "book"]
    assert len(stays) >= 10
    assert all(str(stay["arrival"]) <= str(stay["departure"]) for stay in stays)


@pytest.mark.parametrize(
    ("form", "value", "right"),
    [
        ("YYYY-MM-DDTHH:MM", "2026-05-02T15:00", True),
        ("YYYY-MM-DDTHH:MM:SS", "2026-05-02T15:00:00", True),
        ("YYYY-MM-DDTHH:MM", "2026-05-02 15:00", False),
        ("YYYY-MM-DD HH:MM", "2026-05-02 15:00", True),
        ("YYYY-MM-DD HH:MM", "2026-05-02", False),
        ("YYYY-MM-DD HH:MM", "2026-05-32 15:00", False),
        ("YYYY-MM-DD", "2026-05-02", True),
        ("YYYY-MM-DD", "2026-05-02T15:00", False),
    ],
)
def test_a_day_with_a_time_is_no_day(form: str, value: str, right: bool) -> None:
    """Every variant with such a moment was refused: it is not a date (YYYY-MM-DD)."""
    schema: Any = {"at": {"type": "string", "description": f"When, {form}."}}
    spec = ToolSpec("call", "Call.", {"type": "object", "properties": schema, "required": ["at"]})
    assert (mistyped(spec, {"at": value}) == []) is right
