"""An environment whose one tool is an interpreter that answers what a test says."""

from __future__ import annotations

from collections.abc import Callable

from rods.env import Environment, TurnVerdict
from rods.task import Task
from rods.types import ToolCall, ToolResult, ToolSpec

SPEC = ToolSpec("code_interpreter", "Runs it.", {"properties": {"code": {"type": "string"}}})


class Calculator(Environment):
    """An environment whose interpreter gives what `run` says."""

    name = "calculator"

    def __init__(self, run: Callable[[str], ToolResult], tool: ToolSpec = SPEC) -> None:
        self.run, self.tool = run, tool
        self.programs: list[str] = []
        self.judged: list[str] = []

    def open(self, task: Task) -> CalculatorWorld:
        return CalculatorWorld(self)


class CalculatorWorld:
    def __init__(self, environment: Calculator) -> None:
        self._environment = environment
        self._calls = 0

    def begin_turn(self, index: int) -> None:
        self._calls = 0

    def offered(self) -> tuple[ToolSpec, ...]:
        return (self._environment.tool,)

    def call(self, call: ToolCall) -> ToolResult:
        self._calls += 1
        self._environment.programs.append(str(call.arguments["code"]))
        return self._environment.run(self._environment.programs[-1])

    def judge_answer(self, text: str) -> bool:
        self._environment.judged.append(text)
        return "13244" in text

    def end_turn(self) -> TurnVerdict:
        return TurnVerdict(False, self._calls, True, True, True)

    def snapshot(self) -> object:
        return self._calls

    def close(self) -> None:
        pass
