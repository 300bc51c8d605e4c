"""Cautious wordings of seed tasks from nothing, and which tools no such wording asks for."""

from __future__ import annotations

import random
from typing import Any

import pytest

from places import ROOT
from rods.envs.tool_classes import ToolClasses
from rods.synthesis.stages import stage_of, stages_of
from rods.synthesis.structure.words import SLOT
from rods.task import Task
from rods.types import ToolSpec
from rods.writers.graph.writer import GraphWriter
from rods.writers.templates.cautious import cautious, unsure
from verbs import rods
from vet_clinic import clinic

TEXT, NUMBER = {"type": "string"}, {"type": "integer"}


def tool(name: str, description: str, **arguments: dict[str, Any]) -> ToolSpec:
    """A tool; all of its arguments are required."""
    schema: dict[str, Any] = {
        "type": "object",
        "properties": arguments,
        "required": list(arguments),
    }
    return ToolSpec(name, description, schema)


def text(description: str) -> dict[str, Any]:
    return {**TEXT, "description": description}


def number(description: str) -> dict[str, Any]:
    return {**NUMBER, "description": description}


def marked(spec: ToolSpec) -> str:
    """The clause with `<the price #>` for `{price}`."""
    wording = cautious(spec)
    return SLOT.sub(
        lambda slot: f"<{wording.named[slot[1]][0]}>".replace("{}", "#"), wording.say[0]
    )


@pytest.mark.parametrize(
    ("spec", "said"),
    [
        (  # nothing is cut: these are not all animals
            tool("list_animals", "Lists the animals that can be adopted right now."),
            "list the animals that can be adopted right now",
        ),
        (
            tool("hold", "Puts an animal on hold for an adopter.", animal_id=TEXT, adopter_id=TEXT),
            "put <the animal #> on hold for <the adopter #>",
        ),
        (
            tool("move", "Moves an animal to a different pen.", animal_id=TEXT, to_pen=TEXT),
            "move <the animal #> to <the pen #>",
        ),
        (  # a pen that is not named as a whole is no place for a value
            tool("move", "Move a dog to another pen and wing.", dog=TEXT, new_pen=TEXT),
            "move <the dog #> to another pen and wing (<new pen: #>)",
        ),
        (  # nobody says `at the day 2026-03-01 and time`
            tool("find", "Find what is free at a given day and time.", day=TEXT, time=TEXT),
            "find what is free at a day and time (<day: #>, <time: #>)",
        ),
        (
            tool("free", "Show the free beds of a kind.", kind=text("standard or intensive")),
            "show the free beds of <the kind #>",
        ),
        (
            tool("stock", "Get the stock of an article.", sku=TEXT),
            "get the stock of an article (<SKU: #>)",
        ),
        (  # `cancel order 7 that has not been shipped` is no English
            tool("cancel", "Cancel an order that has not been shipped.", order_no=TEXT),
            "cancel an order that has not been shipped (<order number: #>)",
        ),
        (
            tool("lease", "Sign a lease for a vacant flat.", flat=TEXT, start=text("First day.")),
            "sign a lease for <the vacant flat #> (<start: #>)",
        ),
        (
            tool("by", "List open slopes by grade.", grade=TEXT),
            "list open slopes (<grade: #>)",
        ),
        (
            tool("day", "List the visits on a given day.", day=text("YYYY-MM-DD.")),
            "list the visits on <#>",
        ),
        (
            tool("extend", "Extend a ski pass by some days.", pass_no=TEXT, days=NUMBER),
            "extend <the ski pass #> by <# days>",
        ),
        (
            tool("order", "Order more of an item.", item=TEXT, kg=number("Kilograms to order.")),
            "order more of <the item #> (<# kg>)",
        ),
        (
            tool("rooms", "Find rooms.", min_seats=NUMBER, max_price=number("Price in euros.")),
            "find rooms (<minimum seats: #>, <maximum price: # euros>)",
        ),
        (
            tool("insure", "Insure a boat.", boat=TEXT, valid_until=text("New expiry date.")),
            "insure <the boat #> (<new expiry date: #>)",
        ),
        (  # `Replace the host Rob` meant that Rob is the new one
            tool(
                "replace", "Replace the host of a show.", show=TEXT, host_id=text("The new host.")
            ),
            "replace the host of <the show #> (<new host: #>)",
        ),
        (
            tool("swap", "Give a course a different guide.", course=TEXT, guide=TEXT),
            "give a course a different guide (<course: #>, <new guide: #>)",
        ),
        (
            tool("shorten", "Shorten a spot.", spot_id=TEXT, seconds=number("New length.")),
            "shorten <the spot #> (<new length: # seconds>)",
        ),
        (
            tool("adjust", "Adjust the rent for a flat.", flat=TEXT, rent=number("Rent in euros.")),
            "adjust the rent for <the flat #> (<rent: # euros>)",
        ),
        (  # which of the two is named cannot be seen
            tool("split", "Take boxes off a pallet to a new pallet.", pallet_id=TEXT, boxes=NUMBER),
            "take boxes off a pallet to a new pallet (<pallet: #>, <# boxes>)",
        ),
        (
            tool("find", "Find call-outs by state and technician.", state=TEXT, technician=TEXT),
            "find call-outs (<state: #>, <technician: #>)",
        ),
    ],
)
def test_a_sentence_is_kept_whole_and_values_stand_where_their_things_do(
    spec: ToolSpec, said: str
) -> None:
    assert marked(spec) == said
    assert not unsure(spec)


@pytest.mark.parametrize(
    ("spec", "reason"),
    [
        (tool("donor_info", "Donor record.", donor=TEXT), "does not begin with a verb (`donor`)"),
        (tool("eligible", "Is this donor allowed to give?", donor=TEXT), "does not begin"),
        (tool("close", "Close a job once it is paid.", job=TEXT), "a condition (`once`)"),
        (tool("lock", "Lock or unlock a door.", door=TEXT), "alternatives (`Lock or unlock`)"),
        (tool("add", "Add a fee/fine to a bill.", bill_id=TEXT), "`/`"),
        (tool("all", "Show everything about a pet.", pet=TEXT), "`everything` is no word"),
        (
            tool("tell", "Tell a client of a delay.", client=TEXT, about=TEXT),
            "`about` does not say",
        ),
        (
            tool("move", "Move a bed.", bed=TEXT, at=text("Which place it goes to.")),
            "`at` does not",
        ),
        (tool("shorten", "Shorten a spot.", spot=TEXT, seconds=NUMBER), "is a difference"),
        (tool("swap", "Swap the guide of a tour.", tour=TEXT, guide=TEXT), "what is new"),
        (tool("upgrade", "Upgrade a ticket.", ticket=TEXT, kind=TEXT), "on one side of"),
        (tool("free", "List bays below the given temperature."), "given temperature` would be"),
        (
            tool("set", "Set whether a shop is open.", open={"type": "boolean"}),
            "neither a text nor a number",
        ),
    ],
)
def test_a_tool_that_reads_odd_is_left_out_with_the_reason(spec: ToolSpec, reason: str) -> None:
    assert reason.lower() in unsure(spec).lower()


def test_a_value_that_is_left_open_keeps_the_words_of_the_description() -> None:
    spec = tool("move", "Moves an animal to another pen.", animal_id=TEXT, to_pen=TEXT)
    assert dict(cautious(spec).open) == {"animal_id": ("an animal",), "to_pen": ("another pen",)}


class Shop:
    """Half of it cannot be asked for."""

    def __init__(self, bags: dict[str, dict[str, str]] | None = None) -> None:
        self.bags = bags or {"B-1": {"status": "stored"}, "B-2": {"status": "sold"}}

    def sell_bag(self, bag_id: str) -> str:
        """Sell a bag.

        Args:
            bag_id: Number of the bag.
        """
        self.bags[bag_id]["status"] = "sold"
        return bag_id

    def bag_info(self, bag_id: str) -> dict[str, str]:
        """Bag data.

        Args:
            bag_id: Number of the bag.
        """
        return self.bags[bag_id]

    def insure_bag(self, bag_id: str, insured_value: int) -> int:
        """Insure a bag.

        Args:
            bag_id: Number of the bag.
            insured_value: Value that is insured.
        """
        return insured_value


shop = ToolClasses("shop", [Shop])


def test_tools_without_a_plain_request_or_a_value_are_named() -> None:
    stages = stages_of(shop)
    found = GraphWriter(stages, shop).unusable(stages)
    assert found["sell_bag"] == ""
    assert found["bag_info"] == "its description does not begin with a verb (`bag`)"
    assert "nothing says what `insured_value` may be" in found["insure_bag"]
    assert found["insure_bag"].endswith('describe it: `e.g. "fuel"`, `from 1 to 5`')
    stages = stages_of(clinic)
    left = {name for name, why in GraphWriter(stages, clinic).unusable(stages).items() if why}
    assert left == {"take_payment"}, "no field says what somebody pays"


def test_the_command_names_the_tools_that_it_leaves_out(
    tmp_path: Any, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    name = f"{ROOT / 'tests' / 'writers' / 'test_cautious.py'}:shop"
    monkeypatch.syspath_prepend(str(ROOT / "tests" / "support"))
    out = ("--from-scratch", "1", "--env.name", name, "--out", str(tmp_path / "seeds.jsonl"))
    rods("synth", *out, monkeypatch=monkeypatch)
    said = capsys.readouterr().err
    assert "2 of 3 tools are not used" in said
    assert "bag_info: its description does not begin with a verb" in said


class Insurer:
    """Nothing says what a value may be."""

    insure_bag = Shop.insure_bag


insurer = ToolClasses("insurer", [Insurer])


def test_the_command_stops_where_no_tool_is_left(
    tmp_path: Any, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    name = f"{ROOT / 'tests' / 'writers' / 'test_cautious.py'}:insurer"
    monkeypatch.syspath_prepend(str(ROOT / "tests" / "support"))
    out = ("--from-scratch", "1", "--env.name", name, "--out", str(tmp_path / "seeds.jsonl"))
    assert rods("synth", *out, monkeypatch=monkeypatch) == 2
    stated = capsys.readouterr().err
    assert "1 of 1 tools are not used" in stated and "no tool is left" in stated
    assert "candidate" not in stated and not list(tmp_path.iterdir())


def test_a_thing_that_was_sold_is_not_sold_again() -> None:
    stage = stage_of("shop", {"classes": ["Shop"], "initial_config": {"Shop": {
        "bags": {"B-1": {"status": "sold"}, "B-2": {"status": "sold"}}}}})  # fmt: skip
    found = GraphWriter([stage], shop).unusable([stage])
    assert found["sell_bag"] == "the state has no usable `bag_id` left"


class Stable:
    """Horses with a stall, a fee and a state."""

    def __init__(self, horses: dict[str, dict[str, Any]] | None = None) -> None:
        self.horses = horses or {
            f"H-{i}": {"stall": f"S{i}", "status": "ready", "fee": 300.0 + i} for i in range(1, 5)
        }

    def show_horse(self, horse_id: str) -> dict[str, Any]:
        """Show the record of a horse."""
        return self.horses[horse_id]

    def move_horse(self, horse_id: str, new_stall: str) -> str:
        """Move a horse to another stall."""
        self.horses[horse_id]["stall"] = new_stall
        return new_stall

    def set_fee(self, horse_id: str, new_fee: float) -> float:
        """Set the monthly fee of a horse.

        Args:
            horse_id: Which horse.
            new_fee: New fee in euros.
        """
        self.horses[horse_id]["fee"] = new_fee
        return new_fee

    def saddle(self, horse_id: str) -> str:
        """Saddle a horse."""
        if self.horses[horse_id]["status"] != "ready":
            raise ValueError("it is not ready")
        self.horses[horse_id]["status"] = "saddled"
        return "saddled"

    def ride_out(self, horse_id: str) -> str:
        """Send a horse out on a ride."""
        if self.horses[horse_id]["status"] != "saddled":
            raise ValueError("it is not saddled")
        self.horses[horse_id]["status"] = "out"
        return "out"

    def retire_horse(self, horse_id: str) -> str:
        """Retire a horse."""
        self.horses[horse_id]["status"] = "retired"
        return "retired"


stable = ToolClasses("stable", [Stable])


@pytest.fixture(scope="module")
def rides() -> list[Task]:
    """Proposed tasks, before the gates."""
    stage = stages_of(stable)[0]
    writer = GraphWriter([stage], stable)
    made = [writer.propose(stage, random.Random(number)) for number in range(150)]
    return [task for task in made if isinstance(task, Task)]


def test_nothing_odd_is_done_to_a_thing(rides: list[Task]) -> None:
    """It is not looked at when it is gone, and not changed once its state has changed."""
    seen = set[tuple[str, str]]()
    for task in rides:
        calls = [call for turn in task.turns for call in turn.ground_truth]
        for place, call in enumerate(calls):
            mine = [
                c.name
                for c in calls[:place]
                if c.arguments["horse_id"] == call.arguments["horse_id"]
            ]
            seen |= {(before, call.name) for before in mine}
    assert len(rides) >= 30 and ("move_horse", "saddle") in seen
    assert not {pair for pair in seen if pair[0] == "retire_horse"}
    assert {after for before, after in seen if before == "saddle"} == {"show_horse"}


def test_a_new_value_is_another_one_and_within_those_of_its_field(rides: list[Task]) -> None:
    calls = [call for task in rides for turn in task.turns for call in turn.ground_truth]
    stalls = [call.arguments for call in calls if call.name == "move_horse"]
    fees = [call.arguments["new_fee"] for call in calls if call.name == "set_fee"]
    assert len(stalls) > 5 and len(fees) > 5
    assert all(str(a["new_stall"])[1:] != str(a["horse_id"])[2:] for a in stalls)
    assert all(isinstance(fee, float) and 300 <= fee <= 304 for fee in fees)


@pytest.mark.parametrize(
    ("value", "said"), [(3, "page 3"), ("B", "page B"), ("Left", "the page Left")]
)
def test_numbers_and_letters_need_no_article(value: int | str, said: str) -> None:
    wording = cautious(tool("show", "Show which stories are on a page.", page=TEXT))
    assert wording.texts("page", value) == [said]
