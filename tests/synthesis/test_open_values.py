"""A value is left open only where no other one of its kind can be taken for it."""

from __future__ import annotations

import random
from collections.abc import Sequence
from typing import Any

import pytest

from rods.synthesis.planned import CallRequest, OpenArgument, PlannedTurn, missing_value
from rods.synthesis.rejection import Rejection
from rods.synthesis.structure.domains import domains_of
from rods.types import ToolCall, ToolSpec
from synthesis_cases import ENVIRONMENT


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
