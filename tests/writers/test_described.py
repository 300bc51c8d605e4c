"""Sentences made of descriptions that strangers write: `Retrieve a student's account.`"""

from __future__ import annotations

import random
import re
from typing import Any

import pytest

from places import ROOT
from rods.synthesis.planned import CallRequest
from rods.types import ToolCall, ToolSpec
from rods.writers.templates.cautious import cautious
from rods.writers.templates.described import from_description
from rods.writers.templates.phrases import NO_PHRASES, Describe

Rows = dict[str, tuple[Any, str]]
DOLLARS, DAY = "Amount in dollars.", "Date as YYYY-MM-DD."


def specified(description: str, arguments: Rows, choices: tuple[str, ...] = ()) -> ToolSpec:
    """A tool; each argument has a value and a description."""
    properties: dict[str, Any] = {
        name: {"type": "number" if isinstance(value, int) else "string", "description": about}
        | ({"enum": [value]} if name in choices else {})
        for name, (value, about) in arguments.items()
    }
    schema = {"type": "object", "properties": properties, "required": list(properties)}
    return ToolSpec("tool", description, schema)


def said(
    description: str,
    arguments: Rows,
    choices: tuple[str, ...] = (),
    how: Describe = from_description,
) -> str:
    spec = specified(description, arguments, choices)
    call = ToolCall("tool", {name: value for name, (value, _) in arguments.items()})
    return NO_PHRASES.with_words_of(how).clause(CallRequest(call, spec), random.Random(1))


@pytest.mark.parametrize(
    ("description", "arguments", "expected"),
    [
        (
            "Retrieve a student's account including unpaid fines.",
            {"student_id": ("S1", "ID of the student.")},
            "retrieve student S1's account including unpaid fines",
        ),
        (
            "Apply a discount to a client's next visit.",
            {"client": ("Ada Li", "Name of the client."), "percent": (10, "Discount in percent.")},
            "apply a discount of 10 percent to Ada Li's next visit",
        ),
        (
            "Reschedule a donor's appointment to a new date.",
            {"appointment_id": ("A1", "ID of the appointment."), "new_date": ("2026-05-01", DAY)},
            "reschedule appointment A1 to 2026-05-01",
        ),
        (
            "Complete an adoption once the fee has been paid.",
            {"adoption_id": ("D7", "The adoption case."), "fee": (30, "Fee in dollars.")},
            "complete adoption D7 once the fee of 30 dollars has been paid",
        ),
        (
            "Reserve an animal for an approved adopter and schedule the first visit.",
            {
                "animal_id": ("A5", "The animal to reserve."),
                "person": ("ines", "Username of the adopter."),
                "visit": ("2026-06-02", "Date of the first visit, YYYY-MM-DD."),
            },
            "reserve animal A5 for the approved adopter ines and schedule the first visit on"
            " 2026-06-02",
        ),
        (
            "Sets a new price for a wine.",
            {"wine_code": ("W2", "Code of the wine."), "price": (17, "New price in euros.")},
            "set the price of wine W2 to 17 euros",
        ),
        (
            "Set the due date of a task.",
            {"task_id": ("T1", "ID of the task."), "due_date": ("2026-05-01", DAY)},
            "set the due date of task T1 to 2026-05-01",
        ),
        (
            "Reduce the price of a house.",
            {"house_id": ("H1", "ID of the house."), "new_price": (200, "New price in dollars.")},
            "reduce the price of house H1 to 200 dollars",
        ),
        (
            "Search for rooms that have enough seats and, optionally, a screen.",
            {"min_seats": (6, "Minimum number of seats.")},
            "search for rooms that have enough seats (minimum seats: 6)",
        ),
        (
            "Cancels an open order.",
            {"order_id": ("O1", "The order to cancel.")},
            "cancel the open order O1",
        ),
        (
            "Approve a pending expense report.",
            {"report_id": ("X1", "ID of the expense report.")},
            "approve the pending expense report X1",
        ),
        (
            "Admit a new animal to the shelter.",
            {"name": ("Kira", "Name of the animal."), "age": (3, "Estimated age in years.")},
            "admit a new animal to the shelter (name: Kira, estimated age: 3 years)",
        ),
        (
            "Add a dish to a table's order.",
            {"table": (4, "Table number."), "dish": ("lasagna", "Name of the dish.")},
            "add the dish lasagna to table 4's order",
        ),
        (
            "Add checked bags to a booking.",
            {"booking_id": ("B1", "The booking ID."), "bags": (2, "Number of bags.")},
            "add 2 checked bags to booking B1",
        ),
        (
            "Lend a tool to a neighbour until a due date.",
            {
                "tool": ("drill", "Name of the tool."),
                "neighbour": ("Ada Li", "Name of the neighbour."),
                "due": ("2026-05-01", "Due date, YYYY-MM-DD."),
            },
            "lend the tool drill to Ada Li until 2026-05-01",
        ),
        (
            "Transfer stock of a product between two warehouses.",
            {
                "sku": ("P11", "SKU of the product."),
                "from_warehouse": ("north", "Where the stock comes from."),
                "to_warehouse": ("south", "Where the stock goes to."),
                "units": (20, "Number of units."),
            },
            "transfer stock of a product between two warehouses "
            "(SKU: P11, from warehouse: north, to warehouse: south, 20 units)",
        ),
        (
            "Extend a guest's stay by a number of nights.",
            {"booking_id": ("B1", "ID."), "nights": (2, "Number of extra nights.")},
            "extend a guest's stay by 2 nights (booking: B1)",
        ),
        (
            "Updates the delivery address of a customer.",
            {
                "customer_id": ("C1", "The customer who has moved."),
                "street": ("Rue Basse 8", "Street and house number."),
                "city": ("Colmar", "Name of the city."),
            },
            "update the delivery address of customer C1 (street: Rue Basse 8, city: Colmar)",
        ),
        (
            "Add an extra charge to a guest's bill.",
            {"booking_id": ("B1", "ID."), "amount": (20, DOLLARS)},
            "add an extra charge to a guest's bill (booking: B1, amount: 20 dollars)",
        ),
        (
            "Search properties by city and maximum price.",
            {"city": ("Mainz", "City to search in."), "max_price": (300, "Price in dollars.")},
            "search properties by city and maximum price (city: Mainz, maximum price: 300 dollars)",
        ),
        (
            "Reserve a berth for a boat from its arrival to its departure.",
            {
                "boat_id": ("B7", "The boat that will moor."),
                "arrival": ("2026-07-03", "Arrival date, YYYY-MM-DD."),
                "departure": ("2026-07-08", "Departure date, YYYY-MM-DD."),
            },
            "reserve a berth for boat B7 from 2026-07-03 to 2026-07-08",
        ),
        (
            "Record a renewed insurance certificate for a boat.",
            {
                "boat_id": ("B7", "The insured boat."),
                "valid_until": ("2027-01-08", "New expiry date of the insurance, YYYY-MM-DD."),
            },
            "record a renewed insurance certificate for boat B7 (new expiry date: 2027-01-08)",
        ),
        (
            "Calculate what a text of a certain length costs with a translator.",
            {"words": (600, "Number of words."), "translator": ("mo", "Login of the translator.")},
            "calculate what a text of a certain length costs with the translator mo (600 words)",
        ),
        (
            "Move a rehearsal to a different time on the same day.",
            {"rehearsal_id": ("R1", "ID."), "new_time": ("19:15", "New time in HH:MM.")},
            "move rehearsal R1 to 19:15 on the same day",
        ),
        (
            "Enter a day off for a mechanic.",
            {"mechanic": ("Jo", "First name of the mechanic."), "date": ("2026-10-12", DAY)},
            "enter a day off for the mechanic Jo on 2026-10-12",
        ),
        (
            "Open a new repair order for a vehicle.",
            {
                "plate": ("WN-P 12", "License plate of the vehicle."),
                "complaint": ("oil leak", "What the customer complains about."),
            },
            "open a new repair order for a vehicle (license plate: WN-P 12, complaint: 'oil leak')",
        ),
        (
            "Update the mileage of a vehicle.",
            {
                "plate": ("WN-P 12", "License plate of the vehicle."),
                "mileage": (4200, "Current reading in kilometers."),
            },
            "update the mileage of a vehicle (license plate: WN-P 12, mileage: 4200 kilometers)",
        ),
        (
            "Send an invoice for a delivered job.",
            {"job_id": ("J4", "The delivered job.")},
            "send an invoice for the delivered job J4",
        ),
        (
            "Move a booking to another device.",
            {"booking_id": ("B3", "Which booking."), "to_device_id": ("D5", "Where it goes.")},
            "move booking B3 to device D5",
        ),
        (
            "Move a booking to another device.",
            {"booking_id": ("B3", "Which booking."), "new_device_id": ("D5", "The new device.")},
            "move booking B3 to device D5",
        ),
        (
            "Move a booking.",
            {
                "booking_id": ("B3", "Which booking."),
                "from_device_id": ("D4", "The old device."),
                "to_device_id": ("D5", "The new device."),
            },
            "move booking B3 from device D4 to device D5",
        ),
        (
            "Add a sensor to a device group.",
            {"sensor_id": ("S3", "Which sensor."), "to_device_id": ("D5", "Where it is.")},
            "add sensor S3 to a device group (to device: D5)",
        ),
        (
            "Move an event from a date to a date.",
            {
                "event_id": ("E-3", "Which event."),
                "from_date": ("2031-02-03", "YYYY-MM-DD."),
                "to_date": ("2031-02-05", "YYYY-MM-DD."),
            },
            "move event E-3 from 2031-02-03 to 2031-02-05",
        ),
        (
            "Restock an item.",
            {"sku": ("SKU-3", "Which item.")},
            "restock item SKU-3",
        ),
        (
            "Transfer money between accounts.",
            {"from_account": ("A1", "Who pays."), "to_account": ("A2", "Who receives.")},
            "transfer money from account A1 to account A2",
        ),
    ],
)
def test_a_call_is_said_as_people_say_it(description: str, arguments: Rows, expected: str) -> None:
    assert said(description, arguments) == expected


def test_a_pair_of_times_is_from_one_to_the_other() -> None:
    arguments: Rows = {
        "weekday": ("Friday", "Day of the week."),
        "opens": ("09:00", "Opening time, HH:MM."),
        "closes": ("17:00", "Closing time, HH:MM."),
    }
    text = said("Set the opening hours for a day of the week.", arguments, ("weekday",))
    assert text == "set the opening hours for Friday from 09:00 to 17:00"


def test_what_stands_for_a_value_takes_its_adjective_too() -> None:
    """`cancel the open that order`, `retrieve that student's account`."""
    for description, name, expected in (
        ("Cancels an open order.", "order_id", "cancel the same order"),
        ("Retrieve a student's account.", "student_id", "retrieve the same student's account"),
    ):
        spec = specified(description, {name: ("O1", "ID.")})
        wording = from_description(spec)
        filled = wording.say[0].replace(f"{{{name}}}", wording.references(name, None)[-1])
        assert filled == expected


def test_the_guide_shows_what_descriptions_become() -> None:
    text = (ROOT / "docs" / "guides" / "seed-tasks.md").read_text(encoding="utf-8")
    rows = re.findall(r"^\| `([^|`]+\.)` \| (?:`([^|`]+)`)? *\| `([^|]+)` \|$", text, re.M)
    assert len(rows) == 6
    device: Rows = {"device_id": ("D-5", "Which device.")}
    room: Rows = {"room_id": ("R-3", "Which room.")}
    for tool, argument, asked in rows:
        more: Rows = {"note": ("lamp broken", "What is wrong.")}
        if "room" in tool:
            more = {"price": (80, argument)}
        elif argument:
            more = {"day": ("2026-05-04", argument)}
        assert said(tool, {**(room if "room" in tool else device), **more}, how=cautious) == asked
