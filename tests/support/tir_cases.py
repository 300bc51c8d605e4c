"""Hand-made question tasks and trajectories for rewards and meters of tool-integrated reasoning."""

from __future__ import annotations

from collections.abc import Mapping

from rods.env import TurnVerdict
from rods.reward import Score, score
from rods.rewards import get_reward
from rods.task import Task, Turn
from rods.trajectory import Group, Step, Trajectory
from rods.types import FinishReason, Json, ParseVerdict, StopReason, ToolCall, ToolResult

VERDICT = TurnVerdict(False, 0, True, True, True)


def question(answer: Json = "42", env: str = "python_tool", **world: Json) -> Task:
    return Task(env, "math", (Turn("What is six times seven?"),), {"answer": answer, **world})


def code(text: str, *failed: bool, tokens: int = 10) -> Step:
    """A generation that calls: one result for each flag, at least one call."""
    calls = tuple(ToolCall("python", {"code": "1"}) for _ in failed or (False,))
    results = tuple(ToolResult("", f) for f in failed)
    return Step(0, text, ParseVerdict.CALLS, FinishReason.STOP, calls, results, tokens)


def says(
    text: str,
    finish: FinishReason = FinishReason.STOP,
    verdict: ParseVerdict = ParseVerdict.ANSWER,
    tokens: int = 10,
) -> Step:
    return Step(0, text, verdict, finish, tokens=tokens)


def play(
    *steps: Step | str,
    stop: StopReason = StopReason.DONE,
    task: Task | None = None,
    failure: str | None = None,
) -> Trajectory:
    made = tuple(says(s) if isinstance(s, str) else s for s in steps)
    name = (task or question()).id
    return Trajectory(name, 0, 0, 1, (), made, (VERDICT,), 1, (), stop, failure)


def block(source: str = "print(6 * 7)") -> str:
    return f"```python\n{source}\n```"


CALL = code(f"Let me see.\n{block()}", False)
BROKEN = code(f"Let me see.\n{block('1/0')}", True)
CUT = says(r"and so \boxed{42}", FinishReason.LENGTH)
RIGHT, WRONG, NO_BOX = r"So \boxed{42}.", r"So \boxed{41}.", "The answer is 42."
FORMED = r"<think>easy</think><answer>\boxed{42}</answer>"
FORMED_WRONG = FORMED.replace("42", "41")


class Weary:
    """A group reward that pays a task less each time it sees it."""

    def __init__(self) -> None:
        self.seen: dict[str, int] = {}

    def __call__(self, task: Task, trajectory: Trajectory) -> Score:
        paid = score(get_reward("progress"), task, trajectory).value
        return Score(paid / self.seen.get(task.id, 1))

    def score_group(self, group: Group) -> list[Score]:
        self.seen[group.task.id] = self.seen.get(group.task.id, 0) + 1
        return [score(self, group.task, t) for t in group.trajectories]

    def state_dict(self) -> dict[str, Json]:
        return {**self.seen}

    def load_state_dict(self, state: Mapping[str, Json]) -> None:
        self.seen = {task: int(str(times)) for task, times in state.items()}
