"""Worlds of retail tasks: a store of their own, and a customer who talks with the agent.

Owns the conversation's ends and the comparison of states. Instructions of who plays the customer
stand in the task; wanted states come from the task's calls, made in a fresh store.

    world = RetailWorld(task, shop, talk=None)
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, cast

from rods.dialects.base import has_nested
from rods.env import TurnVerdict
from rods.envs.suites.chat import Conversation, Talk
from rods.envs.suites.tau2.database import Shop, Store
from rods.envs.suites.tau2.specs import SPECS
from rods.envs.suites.tau2.tools import RetailTools
from rods.envs.turns import Turns
from rods.errors import EnvError
from rods.task import Task
from rods.types import ToolCall, ToolResult, ToolSpec

GREETING = "Hi! How can I help you today?"
"""What the agent has said before the customer's first words."""
ENDS = ("###STOP###", "###TRANSFER###", "###OUT-OF-SCOPE###")
"""Words of the customer that end a conversation."""
MAX_FAILED = 10
"""Failed calls that end a conversation."""
TOO_MANY = "too many failed calls"


class RetailWorld(Turns):
    """One single-use world of one task."""

    __slots__ = ("_failed", "_shop", "_store", "_talk", "_tools")

    def __init__(self, task: Task, shop: Shop, talk: Talk | None) -> None:
        """Open the shop as it was read.

        Args:
            task: its world has `customer` (instructions) and `actions` (the wanted calls).
            shop: the database.
            talk: plays the customer; None: nobody does, the world only executes.
        """
        super().__init__(task)
        self._shop, self._failed = shop, 0
        self._talk = Conversation("tau2-retail", talk)
        self._store = Store(shop)
        self._tools = RetailTools(self._store)

    def offered(self) -> tuple[ToolSpec, ...]:
        """The shop's tools."""
        return SPECS

    def call(self, call: ToolCall) -> ToolResult:
        """Execute one call."""
        self._expect_turn("call")
        self._calls += 1
        result = made(self._tools, call)
        self._failed += result.failed
        return result

    def ended(self) -> str:
        """Why the conversation is over; empty: it is not."""
        return TOO_MANY if self._failed >= MAX_FAILED else ""

    def opens(self) -> str:
        """The customer's first words."""
        instructions = cast("str", self._task.world["customer"])
        said = self._talk.opens(
            [
                {"role": "system", "content": instructions},
                {"role": "user", "content": GREETING},
            ]
        )
        if _ends(said):
            raise EnvError(f"tau2-retail: who plays the user ended at once: {said!r:.80}")
        return said

    def reply(self, text: str) -> str | None:
        """What the customer says to an answer; None: the conversation is over."""
        if not text.strip():
            return None
        said = self._talk.answers(text)
        return None if said is None or _ends(said) else said

    def end_turn(self) -> TurnVerdict:
        """Compare the state with the wanted one."""
        self._expect_turn("end_turn")
        self._in_turn = False
        right = not self.ended() and self.snapshot() == self.wanted()
        return TurnVerdict(True, self._calls, right, right, right)

    def wanted(self) -> dict[str, str]:
        """What `snapshot` is after the task's calls; those that fail are passed over."""
        store = Store(self._shop)
        tools = RetailTools(store)
        for action in cast("list[Mapping[str, Any]]", self._task.world["actions"] or []):
            if action["requestor"] == "assistant":
                tools.call(action["name"], action["arguments"])
        return store.changes()

    def snapshot(self) -> dict[str, str]:
        """What differs from the shop as it was read."""
        self._expect_open("snapshot")
        return self._store.changes()

    def close(self) -> None:
        """Calls are refused from now on."""
        self._closed, self._in_turn = True, False


def made(tools: RetailTools, call: ToolCall) -> ToolResult:
    """The result of a call; calls within its arguments are no values."""
    if has_nested(call):
        return ToolResult("Error: an argument is itself a call; make one call at a time.", True)
    return tools.call(call.name, call.arguments)


def _ends(said: str) -> bool:
    return any(end in said for end in ENDS)
