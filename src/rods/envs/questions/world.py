"""World of a question that is answered with one tool: no state, so only the answer counts.

Owns which calls are refused and the verdict on a turn. Never knows what the tool does, nor when an
answer is right: environments add `use` and `judge_answer`.

    class SearchWorld(QuestionWorld):
        spec = SPEC
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping
from typing import ClassVar

from rods.env import TurnVerdict
from rods.envs.judge import refusal
from rods.envs.turns import TurnWorld
from rods.types import ToolCall, ToolResult, ToolSpec, Value


class QuestionWorld(TurnWorld, ABC):
    """Base of a single-use world of one question."""

    __slots__ = ()
    spec: ClassVar[ToolSpec]
    """The one tool."""

    @abstractmethod
    def use(self, arguments: Mapping[str, Value]) -> ToolResult:
        """What the tool gives for these arguments, which nobody has checked."""

    def offered(self) -> tuple[ToolSpec, ...]:
        """The one tool, unless the turn withholds it."""
        withheld = self._task.turns[max(self._turn, 0)].withheld
        return () if self.spec.name in withheld else (self.spec,)

    def call(self, call: ToolCall) -> ToolResult:
        """Use the tool; another one is refused.

        Raises:
            EnvError: what the tool needs failed; the trajectory is invalid.
        """
        self._expect_turn("call")
        self._calls += 1
        names = [spec.name for spec in self.offered()]
        if call.name not in names:
            return ToolResult(refusal(call.name, names), failed=True)
        return self.use(call.arguments)

    def end_turn(self) -> TurnVerdict:
        """End the turn; there is no state, so only the answer counts."""
        self._leave_turn()
        return TurnVerdict(False, self._calls, True, True, True)

    def snapshot(self) -> dict[str, object]:
        """Empty: a tool leaves nothing behind."""
        self._expect_open("snapshot")
        return {}
