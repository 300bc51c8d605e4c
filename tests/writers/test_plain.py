"""Which sentences of descriptions are plain enough for seed tasks, and why others are not."""

from __future__ import annotations

from typing import Any

import pytest

from places import ROOT
from rods.envs.tool_classes import ToolClasses
from rods.synthesis.stages import stage_of, stages_of
from rods.types import ToolSpec
from rods.writers.graph.writer import GraphWriter
from rods.writers.templates.described import from_description
from rods.writers.templates.plain import flaw, marked
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


@pytest.mark.parametrize(
    ("spec", "reason"),
    [
        (tool("donor_info", "Donor record.", donor=TEXT), "does not begin with a verb (`donor`)"),
        (tool("eligible", "Is this donor allowed to give?", donor=TEXT), "does not begin"),
        (
            tool("take_back", "Take back a game that was lent.", loan_id=TEXT),
            "a game that was lent",
        ),
        (
            tool("check", "Check product.", amount=NUMBER),
            "`product (amount: ...)` is not plain English",
        ),
        (tool("show", "Show them.", day=TEXT), "`them on ...` is not plain English"),
        (tool("add", "Add a fee/fine to a bill.", bill_id=TEXT), "`/`"),
    ],
)
def test_an_odd_sentence_is_reported_with_its_reason(spec: ToolSpec, reason: str) -> None:
    assert reason in flaw(spec, from_description(spec))


@pytest.mark.parametrize(
    ("spec", "said"),
    [
        (
            tool("open", "Open a locker that is in use so it can be cleaned.", locker_id=TEXT),
            "open <locker #>",
        ),
        (
            tool(
                "record",
                "Records a donation and stores the new bag in a fridge.",
                donor_id=TEXT,
                volume={**NUMBER, "description": "volume in ml"},
                fridge=TEXT,
            ),
            "record a donation (<donor: #>, <volume: # ml>, <fridge: #>)",
        ),
        (
            tool("move_bag", "Moves a bag to another fridge.", bag_id=TEXT, to_fridge=TEXT),
            "move <bag #> to <the fridge #>",
        ),
        (
            tool(
                "top_up",
                "Top up the credits of a member.",
                member_id=TEXT,
                amount={**NUMBER, "description": "Number of credits to add."},
            ),
            "top up the credits of <member #> by <#>",
        ),
        (tool("temp", "Current temperature of a fridge.", fridge_id=TEXT), None),
    ],
)
def test_the_longest_beginning_that_is_plain_is_taken(spec: ToolSpec, said: str | None) -> None:
    wording = from_description(spec)
    assert marked(wording, wording.say[0]) == (said or "show the current temperature of <fridge #>")
    assert not flaw(spec, wording)


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
    stages = stages_of(clinic)
    assert not any(GraphWriter(stages, clinic).unusable(stages).values())


def test_the_command_names_the_tools_that_it_leaves_out(
    tmp_path: Any, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    name = f"{ROOT / 'tests' / 'writers' / 'test_plain.py'}:shop"
    monkeypatch.syspath_prepend(str(ROOT / "tests" / "support"))
    out = ("--from-scratch", "1", "--env.name", name, "--out", str(tmp_path / "seeds.jsonl"))
    rods("synth", *out, monkeypatch=monkeypatch)
    said = capsys.readouterr().err
    assert "2 of 3 tools are not used" in said
    assert "bag_info: its description does not begin with a verb" in said


def test_a_thing_that_was_sold_is_not_sold_again() -> None:
    stage = stage_of("shop", {"classes": ["Shop"], "initial_config": {"Shop": {
        "bags": {"B-1": {"status": "sold"}, "B-2": {"status": "sold"}}}}})  # fmt: skip
    found = GraphWriter([stage], shop).unusable([stage])
    assert found["sell_bag"] == "the state has no usable `bag_id` left"


def test_what_is_new_is_not_said_as_what_is_replaced_or_taken_away() -> None:
    """`Replace the host Rob` meant that Rob is the new one; `by 28 seconds` a new length of 28."""
    show, host = {**TEXT, "description": "The show."}, {**TEXT, "description": "The new host."}
    length = {**NUMBER, "description": "new length in seconds"}
    for spec, said in (
        (
            tool("replace_host", "Replace the host of a show.", show_id=show, host=host),
            "replace the host of <show #> with <#>",
        ),
        (
            tool("shorten_spot", "Shorten a spot.", spot_id=TEXT, seconds=length),
            "shorten <spot #> to <# seconds>",
        ),
    ):
        wording = from_description(spec)
        assert marked(wording, wording.say[0]) == said
        assert not flaw(spec, wording)
