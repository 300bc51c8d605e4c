"""Deliberate gaps: which values are left open, and which functions are missing until when."""

from __future__ import annotations

import random
from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import pytest

from rods.synthesis.base import Unit
from rods.synthesis.llm.execute import planned_of
from rods.synthesis.planned import (
    CallRequest,
    OpenArgument,
    PlannedTurn,
    TurnTexts,
    assemble,
    missing_value,
    with_gap,
)
from rods.synthesis.rejection import Rejection
from rods.synthesis.structure.domains import domains_of
from rods.types import ToolCall, ToolSpec
from synthesis_cases import ENVIRONMENT
from worlds import NotesEnvironment, notes_task


def call(tool: str, **arguments: Any) -> ToolCall:
    return ToolCall(tool, arguments)


def request(tool: str, **arguments: Any) -> CallRequest:
    spec = ToolSpec(tool, "", {"properties": {n: {} for n in arguments}, "required": [*arguments]})
    return CallRequest(call(tool, **arguments), spec)


def turn(*requests: CallRequest, shown: str = "None") -> PlannedTurn:
    return PlannedTurn(requests, "", (shown,) * len(requests))


COMMENT = request("comment", tweet_id=4, comment_content="Count me in!")


@pytest.mark.parametrize(
    ("before", "beside", "opens"),
    [
        (turn(request("get_user_stats", username="ada")), (), True),
        (
            turn(request("get_user_stats", username="ada")),
            (request("get_tweet", tweet_id=3),),
            False,
        ),
        (turn(request("get_tweet", tweet_id=3)), (), False),
        (turn(request("search_tweets", keyword="rain"), shown='[{"id": 3}]'), (), False),
    ],
    ids=["alone", "in-the-message", "in-the-turn-before", "in-its-result"],
)
def test_no_gap_beside_another_value_of_its_kind(
    before: PlannedTurn, beside: Sequence[CallRequest], opens: bool
) -> None:
    """`Fetch the tweet with the ID 3, and add a comment` left tweet 4 open: an agent takes 3."""
    planned = turn(*beside, COMMENT)
    made = missing_value(
        planned,
        [before],
        lambda tool, name: (tool, name) == ("comment", "tweet_id"),
        domains_of(ENVIRONMENT).parameter,
        random.Random(1),
    )
    if not opens:
        assert isinstance(made, Rejection)
        return
    assert isinstance(made, PlannedTurn)
    assert made.left_open == OpenArgument(len(beside), "tweet_id")


def test_a_kind_has_several_names() -> None:
    """A stock is `stock` in one tool and `symbol` in another one."""
    look, watch = request("get_stock_info", symbol="AAPL"), request("add_to_watchlist", stock="X")
    kind_of = domains_of(ENVIRONMENT).parameter
    made = missing_value(
        turn(look, watch), [], lambda tool, _: tool == "add_to_watchlist", kind_of, random.Random(1)
    )
    assert isinstance(made, Rejection)


def test_two_functions_are_missing_until_each_is_given_back() -> None:
    """The gap of the second one offered the first one, and to call it there was wrong."""
    planned = [replace(turn(request(tool, text="a")), withheld=tool) for tool in ("note", "divide")]
    turns = assemble([turn(COMMENT), *planned], [TurnTexts(str(n)) for n in range(3)])
    assert [(len(t.ground_truth), t.withheld) for t in turns] == [
        (1, ("note", "divide")),
        (0, ("note", "divide")),
        (1, ("divide",)),
        (0, ("divide",)),
        (1, ()),
    ]


def test_a_gap_is_of_what_the_turn_behind_it_brings() -> None:
    """A value is missing, although another function is not there yet."""
    task = notes_task(
        [("Comment.", []), ("Say x.", [call("note", text="x")]), ("And?", []), ("", [])],
        {0: ("total",), 1: ("total",), 2: ("total",)},
    )
    kinds = [
        with_gap(
            task, Unit(first, first + 1, frozenset(), frozenset()), turn(COMMENT), [],
            lambda *_: True, lambda *_: "", random.Random(1),
        )
        for first in (0, 2)
    ]  # fmt: skip
    made = [(m.withheld, m.left_open is not None) for m in kinds if isinstance(m, PlannedTurn)]
    assert made == [("", True), ("comment", False)]


def test_a_variant_is_read_back_with_the_kind_of_each_gap() -> None:
    note, read = [call("note", text="x7")], [call("read")]
    task = notes_task(
        [("Note it.", []), ("It is x7.", note), ("Read all.", []), ("", read)],
        {0: ("read",), 1: ("read",), 2: ("read",)},
    )
    planned = planned_of(NotesEnvironment(), task)
    found = [(turn.withheld, turn.left_open) for turn in planned]
    assert found == [("", OpenArgument(0, "text")), ("read", None)]
