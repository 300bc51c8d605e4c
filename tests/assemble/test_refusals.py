"""Bundled policies are refused where they do not know the tools."""

from __future__ import annotations

import pytest

from rods.assemble.refusals import require_known_tools
from rods.config import load_config
from rods.envs.tool_classes import ToolClasses
from rods.errors import PolicyError
from rods.task import Task, Turn


class Rooms:
    """One tool has the name of one of BFCL's."""

    def cancel_booking(self, booking_id: str) -> str:
        """Cancel a booking."""
        return booking_id

    def book_room(self, room_id: str) -> str:
        """Book a room."""
        return room_id


class Tickets:
    """All tools have names of BFCL's."""

    def close_ticket(self, ticket_id: int) -> int:
        """Close a ticket."""
        return ticket_id


def check(model: str, *classes: type) -> None:
    """Ask for training on a task of each class."""
    environment = ToolClasses("rooms", list(classes))
    tasks = [
        Task("rooms", "base", (Turn("Hello."),), {"classes": [one.__name__], "initial_config": {}})
        for one in classes
    ]
    require_known_tools(load_config("rods", "small", [f"model.name={model}"]), environment, tasks)


@pytest.mark.parametrize("classes", [(Rooms,), (Tickets, Rooms)])
def test_one_tool_that_the_policy_does_not_know_is_enough(classes: tuple[type, ...]) -> None:
    with pytest.raises(PolicyError, match=r"pretrained with other tools than .* \(book_room\)"):
        check("tiny", *classes)


def test_other_models_and_known_tools_are_not_refused() -> None:
    check("tiny", Tickets)
    check("smollm2", Rooms)
