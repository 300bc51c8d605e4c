"""The suite `bfcl-multi-turn`: the benchmark's 800 conversations by its own harness's rules.

Owns what the harness does otherwise than training: every call that can be read is executed, also of
a withheld function; what cannot be read ends the turn; a turn of more than 20 steps ends the
conversation, which is then wrong, but for its last turn. A conversation is right where the
benchmark's checker says so of every turn; abstention is not judged. Prompts are the dialect's, not
the package's.

    rules = MultiTurn(config)
    rules.score(task, trajectory).right
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from rods.config import RolloutSettings, RunConfig
from rods.dialects import Dialect
from rods.envs.bfcl import assets
from rods.envs.bfcl.tasks import load_tasks
from rods.envs.bfcl.world import BfclEnvironment, BfclWorld
from rods.evaluation.rules import RuleOutcome, SuiteRules, executing, unbounded
from rods.task import Task
from rods.trajectory import Trajectory
from rods.types import StopReason, ToolCall, ToolResult

STEPS = 21
"""Steps of a turn: the harness gives up when it has executed more than 20."""


class MultiTurn(SuiteRules):
    """The benchmark's multi-turn categories, all 800 tasks, training and held-out side alike."""

    name = "bfcl-multi-turn"
    averages: Mapping[str, Sequence[str]] = {"overall": assets.CATEGORIES}

    def __init__(self, config: RunConfig) -> None:
        """Read nothing yet; the wheel is `env.bfcl.wheel`."""
        self._wheel = config.env.bfcl.wheel
        self.environment = HarnessEnvironment(self._wheel)

    def tasks(self) -> Sequence[Task]:
        """The benchmark's 800."""
        return load_tasks(self._wheel)

    def rollout(self, settings: RolloutSettings) -> RolloutSettings:
        """Twenty steps a turn, and the one at which the harness gives up."""
        return unbounded(settings, steps_per_turn=STEPS)

    def dialect(self, dialect: Dialect) -> Dialect:
        """What can be read is executed; what cannot ends the turn."""
        return executing(dialect)

    def score(self, task: Task, trajectory: Trajectory) -> RuleOutcome:
        """The checker's verdict on the calls that were executed, played again in a fresh world."""
        if trajectory.stop not in (StopReason.DONE, StopReason.STEPS):
            return RuleOutcome(False, f"ended by a budget: {trajectory.stop.value}")
        if len(trajectory.verdicts) < len(task.turns):
            return RuleOutcome(False, f"a turn of more than {STEPS - 1} steps")
        world = self.environment.open(task)
        try:
            for index in range(len(task.turns)):
                world.begin_turn(index)
                for step in trajectory.steps:
                    if step.turn == index:
                        for call, _ in zip(step.calls, step.results, strict=False):
                            world.call(call)
                verdict = world.end_turn()
                if not verdict.official:
                    return RuleOutcome(False, _why(verdict.calls, verdict.state))
        finally:
            world.close()
        return RuleOutcome(True)


def _why(calls: int, state: bool) -> str:
    if not calls:
        return "no call in a turn that needs one"
    return "a result is missing" if state else "the state differs"


class HarnessEnvironment(BfclEnvironment):
    """Worlds that execute withheld functions too, as the benchmark's executor does."""

    gives_up = True

    def open(self, task: Task) -> BfclWorld:
        """A fresh world in the task's initial state."""
        return _HarnessWorld(self.prepare(task))


class _HarnessWorld(BfclWorld):
    __slots__ = ()

    def _refused(self, call: ToolCall) -> ToolResult | None:
        """Nothing is refused; a function that the classes lack fails as a call."""
        return None
