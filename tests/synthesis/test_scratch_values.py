"""Values of seed tasks from nothing that only descriptions tell: examples, spans, pairs of days."""

from __future__ import annotations

import random
from collections.abc import Sequence
from typing import Any

import pytest

from rods.envs.tool_classes import ToolClasses
from rods.synthesis.stages import stages_of
from rods.task import BASE, Task, Turn
from rods.types import ToolCall
from rods.writers.graph.fresh import examples, later
from rods.writers.graph.inventor import HOW
from rods.writers.graph.writer import GraphWriter


class Cellar:
    """Wines and visits."""

    def __init__(self) -> None:
        self.wines: dict[str, Any] = {
            "W-1": {"name": "Riesling Kabinett", "stock": 9, "open": True},
            "W-2": {"name": "Brut Nature", "stock": 4, "open": True},
            "W-3": {"name": "Summer Rosé", "stock": 7, "open": True},
        }
        self.orders: dict[str, Any] = {"O-1": {"carrier": "GLS"}, "O-2": {"carrier": "GLS"}}
        self.owners = {"P-1": {"phone": "555-0101"}, "P-2": {"phone": "555-0177"}}
        self.visits: list[Any] = []

    def admit_wine(self, name: str) -> dict[str, Any]:
        """Admit a new wine to the list.

        Args:
            name: Name of the wine.
        """
        code = f"W-{len(self.wines) + 4}"
        self.wines[code] = {"name": name, "stock": 0, "open": True}
        return {"code": code}

    def ship(self, order_id: str, carrier: str) -> dict[str, Any]:
        """Ship an order.

        Args:
            order_id: The order.
            carrier: The carrier, one of "DHL", "UPS" or "GLS".
        """
        self.orders[order_id]["shipped"] = carrier
        return {"shipped": order_id}

    def lock(self, wine_code: str, reason: str) -> dict[str, Any]:
        """Lock a wine.

        Args:
            wine_code: Code of the wine.
            reason: Why it is locked, for example "broken corks".
        """
        self.wines[wine_code]["open"] = False
        return {"locked": wine_code}

    def book(self, start_date: str, end_date: str, opens: str, closes: str) -> dict[str, Any]:
        """Book the cellar.

        Args:
            start_date: First day, YYYY-MM-DD.
            end_date: Last day, YYYY-MM-DD.
            opens: Start, HH:MM.
            closes: End, HH:MM.
        """
        self.visits.append([start_date, end_date, opens, closes])
        return {"visits": len(self.visits)}

    def rate(self, wine_code: str, points: int) -> dict[str, Any]:
        """Rate a wine.

        Args:
            wine_code: Code of the wine.
            points: From 50 to 100.
        """
        self.wines[wine_code]["points"] = points
        return {"rated": wine_code, "points": points}

    def set_stock(self, wine_code: str, stock: int) -> dict[str, Any]:
        """Set the stock of a wine.

        Args:
            wine_code: Code of the wine.
            stock: New number of bottles.
        """
        self.wines[wine_code]["stock"] = stock
        return {"stock": stock}

    def translate(self, term: str, translation: str) -> dict[str, Any]:
        """Add a term and its translation to the glossary.

        Args:
            term: The English term, e.g. "valve" or "bearing".
            translation: How it is translated, e.g. "Ventil" or "Lager".
        """
        self.visits.append([term, translation])
        return {"terms": term}

    def call_from(self, owner_id: str, phone: str) -> dict[str, Any]:
        """Change the phone number of an owner.

        Args:
            owner_id: The owner.
            phone: The new phone number.
        """
        self.owners[owner_id]["phone"] = phone
        return {"phone": phone}

    def switch(self, wine_code: str, sold: bool) -> dict[str, Any]:
        """Set whether a wine is sold.

        Args:
            wine_code: Code of the wine.
            sold: Whether it is sold.
        """
        self.wines[wine_code]["sold"] = sold
        return {"sold": sold}


class Taxis:
    """Rides and drivers, one of whom is on shift."""

    def __init__(self) -> None:
        self.rides: dict[str, Any] = {f"R-{n}": {"from": f"Gate {n}"} for n in (1, 2, 3, 4)}
        self.drivers = {"Noor": {"on": False}, "Paul": {"on": True}, "Mika": {"on": False}}

    def on_shift(self) -> list[str]:
        """List the drivers on shift."""
        return [name for name, driver in self.drivers.items() if driver["on"]]

    def rides_open(self) -> list[str]:
        """List the open rides."""
        return list(self.rides)

    def give(self, ride_id: str, driver: str) -> dict[str, Any]:
        """Give a ride to a driver.

        Args:
            ride_id: The ride.
            driver: Name of the driver.
        """
        if not self.drivers[driver]["on"]:
            raise ValueError(f"{driver} is off shift")
        self.rides[ride_id]["driver"] = driver
        return {"given": ride_id}

    def look_up(self, ride_id: str) -> dict[str, Any]:
        """Look up a ride."""
        return {"from": self.rides[ride_id]["from"]}

    def delay(self, ride_id: str) -> dict[str, Any]:
        """Delay a ride."""
        self.rides[ride_id]["late"] = True
        return {"delayed": ride_id}


@pytest.fixture(scope="module")
def calls() -> Sequence[ToolCall]:
    cellar = ToolClasses("cellar", [Cellar])
    stages = stages_of(cellar)
    writer = GraphWriter(stages, cellar)
    made = [writer.propose(stages[0], random.Random(number)) for number in range(90)]
    return [call for task in made if isinstance(task, Task) for call in task.calls]


def values(calls: Sequence[ToolCall], tool: str, name: str) -> set[Any]:
    found = {call.arguments[name] for call in calls if call.name == tool}
    assert found, f"{tool} was never called"
    return found


def test_texts_are_those_that_a_description_names(calls: Sequence[ToolCall]) -> None:
    assert values(calls, "ship", "carrier") == {"DHL", "UPS", "GLS"}, "not what the state has alone"
    assert values(calls, "lock", "reason") == {"broken corks"}


def test_what_ends_comes_after_what_begins(calls: Sequence[ToolCall]) -> None:
    booked = [call.arguments for call in calls if call.name == "book"]
    assert len(booked) > 3
    for given in booked:
        assert str(given["start_date"]) < str(given["end_date"])
        assert str(given["opens"]) < str(given["closes"])


def test_a_number_stays_in_its_span(calls: Sequence[ToolCall]) -> None:
    points = values(calls, "rate", "points")
    assert len(points) > 3
    assert all(50 <= value <= 100 and value % 5 == 0 for value in points)


def test_a_new_wine_is_called_like_a_wine(calls: Sequence[ToolCall]) -> None:
    names = values(calls, "admit_wine", "name")
    known = {wine["name"] for wine in Cellar().wines.values()}
    parts = {part for name in known for part in name.split()}
    assert not names & known
    assert {part for name in names for part in name.split()} <= parts


def test_examples_of_one_call_belong_together(calls: Sequence[ToolCall]) -> None:
    pairs = {
        (c.arguments["term"], c.arguments["translation"]) for c in calls if c.name == "translate"
    }
    assert pairs == {("valve", "Ventil"), ("bearing", "Lager")}


def test_a_tool_that_wants_yes_or_no_is_left_alone(calls: Sequence[ToolCall]) -> None:
    """`set whether a wine is sold (sold set to False)`."""
    assert "switch" not in {call.name for call in calls}


def test_nobody_moves_to_the_number_of_somebody_else(calls: Sequence[ToolCall]) -> None:
    phones = values(calls, "call_from", "phone")
    assert len(phones) > 3
    assert all(len(phone) == 8 and phone.startswith("555-") for phone in phones)
    assert not phones & {owner["phone"] for owner in Cellar().owners.values()}


def test_nothing_is_set_to_what_it_is(calls: Sequence[ToolCall]) -> None:
    assert len(values(calls, "set_stock", "stock")) > 3
    wines = Cellar().wines
    for call in calls:
        if call.name == "set_stock" and call.arguments["wine_code"] in wines:
            assert wines[call.arguments["wine_code"]]["stock"] != call.arguments["stock"]


@pytest.mark.parametrize(
    ("description", "named", "complete"),
    [
        ("Only wines of this color: white, red or rose.", ["white", "red", "rose"], True),
        ("Must be one of: low, medium, high", ["low", "medium", "high"], True),
        ("New seat, e.g. 12A.", ["12A"], False),
        ("Specific gravity, e.g. 1.012.", ["1.012"], False),
        ("Such as a broken screen or a lost key.", ["a broken screen", "a lost key"], False),
        ("Note: optional", (), False),
        ("The student's ID and the patient's name", (), False),
        ("Whatever it is like.", (), False),
    ],
)
def test_what_a_description_names(description: str, named: Sequence[str], complete: bool) -> None:
    assert examples(description) == (named, complete)


@pytest.mark.parametrize("before", ["08:00", "20:30", "22:45", "23:00", "23:30", "23:45", "23:59"])
def test_what_ends_ends_after_it_begins_on_the_same_day(before: str) -> None:
    for seed in range(30):
        for proposed in (before, "07:15"):
            end = later(proposed, before, random.Random(seed))
            assert end is None or before < end <= "23:59", (seed, end)
            assert (end is None) is (before >= "23:45"), "no later quarter of an hour is left"
    assert later("09:00", "08:00", random.Random(0)) == "09:00"
    assert later("2026-01-01", "2026-01-01", random.Random(0)) > "2026-01-01"


def test_an_honest_agent_can_do_nothing_until_a_gap_is_closed() -> None:
    """What is withheld is the only call of its turn, and what is left open is shown nowhere."""
    taxis = ToolClasses("taxis", [Taxis])
    stages = stages_of(taxis)
    writer = GraphWriter(stages, taxis)
    made = (writer.propose(stages[0], random.Random(number)) for number in range(120))
    gaps = [
        (bool(task.turns[at].withheld), task.turns[at].user, task.turns[at + 1].ground_truth)
        for task in made
        if isinstance(task, Task)
        for at, turn in enumerate(task.turns)
        if not turn.ground_truth
    ]
    for withheld, message, then in gaps:
        assert len(then) == 1, (message, then)
        if withheld:
            assert then[0].name in ("give", "delay"), "what is looked up may be known otherwise"
        else:
            assert then[0].name != "give" or "Paul" in message, "only Paul is on shift"
    assert {withheld for withheld, *_ in gaps} == {True, False}


class Halls:
    """Machines in cold halls."""

    def __init__(self) -> None:
        self.halls = {"North": {"temperature": -18}, "South": {"temperature": -26}}
        self.machines: dict[str, Any] = {
            f"M-{n}": {"hours": 3000 + n, "hall": "North", "status": "here"} for n in range(1, 5)
        }

    def set_temperature(self, hall: str, temperature: int) -> dict[str, Any]:
        """Set the temperature of a hall.

        Args:
            hall: The hall.
            temperature: In degrees Celsius.
        """
        self.halls[hall]["temperature"] = temperature
        return {"hall": hall}

    def log_hours(self, machine_id: str, hours: int) -> dict[str, Any]:
        """Log operating hours of a machine."""
        self.machines[machine_id]["hours"] += hours
        return {"logged": hours}

    def move(self, machine_id: str, new_hall: str) -> dict[str, Any]:
        """Move a machine to another hall."""
        self.machines[machine_id]["hall"] = new_hall
        return {"hall": new_hall}

    def put(self, machine_id: str, hall: str) -> dict[str, Any]:
        """Put a machine into a hall."""
        self.machines[machine_id]["hall"] = hall
        return {"hall": hall}

    def paint(self, machine_id: str) -> dict[str, Any]:
        """Paint a machine."""
        self.machines[machine_id]["painted"] = True
        return {"painted": machine_id}

    def check_out(self, machine_id: str) -> dict[str, Any]:
        """Check out a machine."""
        self.machines[machine_id]["status"] = "gone"
        return {"gone": machine_id}


def test_values_fit_the_state_and_a_withheld_tool_has_no_substitute() -> None:
    halls = ToolClasses("halls", [Halls])
    stages = stages_of(halls)
    writer = GraphWriter(stages, halls)
    made = (writer.propose(stages[0], random.Random(number)) for number in range(250))
    tasks = [task for task in made if isinstance(task, Task)]
    calls = [call for task in tasks for call in task.calls]
    assert all(-30 <= value < -15 for value in values(calls, "set_temperature", "temperature"))
    assert not any(c.name == "log_hours" for c in calls), "nobody adds what it ran in all its life"
    for task in tasks:
        gone = set[object]()
        for call in task.calls:
            assert not gone & {call.arguments.get("machine_id")}, "it was checked out"
            gone |= {call.arguments["machine_id"]} if call.name == "check_out" else set()
    withheld = {name for task in tasks for turn in task.turns for name in turn.withheld}
    assert withheld and not withheld & {"move", "put"}, "each does what the other does"
    assert {"move", "put"} <= {call.name for call in calls}


class Press:
    """Stories by their slugs."""

    def __init__(self) -> None:
        titles = ("harbor-fire", "late-tram", "new-mayor")
        self.stories: dict[str, Any] = {slug: {"words": 300, "draft": True} for slug in titles}
        self.desks: dict[str, Any] = {"sports": {"staff": 4}, "city": {"staff": 6}}

    def publish_story(self, slug: str) -> dict[str, Any]:
        """Publish a story."""
        self.stories[slug]["draft"] = False
        return {"published": slug}

    def spike(self, text: str) -> dict[str, Any]:
        """Spike a text.

        Args:
            text: The slug of the story.
        """
        self.stories[text]["draft"] = None
        return {"spiked": text}

    def shorten(self, what: str) -> dict[str, Any]:
        """Shorten a text.

        Args:
            what: The story's slug.
        """
        self.stories[what]["words"] //= 2
        return {"shortened": what}

    def add_story(self, slug: str) -> dict[str, Any]:
        """Add a new story."""
        self.stories[slug] = {"words": 0, "draft": True}
        return {"added": slug}

    def stamp(self, mark: str) -> dict[str, Any]:
        """Stamp a story."""
        return {"stamped": mark}


def test_keys_are_found_by_the_words_of_the_description_and_of_the_tool() -> None:
    press = ToolClasses("press", [Press])
    stages = stages_of(press)
    writer = GraphWriter(stages, press)
    found = [writer.propose(stages[0], random.Random(number)) for number in range(60)]
    tasks = [task for task in found if isinstance(task, Task)]
    given = {call.name: call.arguments for task in tasks for call in task.calls}
    assert given.keys() == {"publish_story", "spike", "shorten"}
    assert {v for row in given.values() for v in row.values()} <= Press().stories.keys()
    said = Turn("Publish harbor-fire.", (ToolCall("publish_story", {"slug": "harbor-fire"}),))
    seed = Task("press", BASE, (said,), stages[0].world)
    walks = GraphWriter([seed], press)
    found = [walks.propose(seed, random.Random(number)) for number in range(60)]
    calls = [call for task in found if isinstance(task, Task) for call in task.calls]
    assert len(values(calls, "publish_story", "slug")) == 3, "not only what training tasks give"
    lacking = writer.unusable(stages)
    assert {tool for tool, why in lacking.items() if why} == {"add_story", "stamp"}
    assert HOW in lacking["stamp"] and "describe" in HOW
