"""Demonstrations of tasks with calls: rollouts of an agent that follows the ground truth.

Owns the agent's texts: which calls stand in one step, how it closes a turn, and how it reports a
missing tool or value. Rollouts are those of training, so token ids match. Only trajectories that
the environment judges solved are returned.

    demonstrations = Demonstrations(environment, template, plan, seed=0)
    for trajectory in demonstrations.solved(n=1000):
        trajectory.task_id, trajectory.ledger.ids
"""

from __future__ import annotations

import random
import tomllib
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TypeAlias

from rods.config import RolloutSettings
from rods.dialects import Dialect
from rods.env import Environment
from rods.errors import PolicyError
from rods.infra.interrupt import run_to_end
from rods.policy import ScriptedPolicy
from rods.rollout.episode import RolloutContext
from rods.rollout.groups import run_episode
from rods.rollout.template import ChatTemplate
from rods.synthesis.pipeline import Pipeline
from rods.synthesis.structure.oracle import DONE, MISSING_TOOL, MISSING_VALUE, abstention, steps
from rods.synthesis.structure.trace import trace
from rods.task import MISS_FUNC, Task
from rods.trajectory import Trajectory
from rods.types import StopReason, ToolResult

Results: TypeAlias = Sequence[Sequence[ToolResult]]
"""Results of the ground truth's calls, by turn."""

WITHHELD = 0.1
"""Share of the conversations that lack a tool at first, where no task of the training split shows
what an agent says then."""
LIMIT = 10
"""Tries for each wanted demonstration, after which fewer are made."""

_WORDINGS = tomllib.loads(Path(__file__).with_name("wordings.toml").read_text(encoding="utf-8"))
WORDINGS: Mapping[str, Sequence[str]] = {
    DONE: _WORDINGS["done"],
    MISSING_TOOL: _WORDINGS["missing_tool"],
    MISSING_VALUE: _WORDINGS["missing_value"],
}
"""Wordings of each text without calls, by its standard form."""


def agent_texts(
    task: Task,
    results: Results,
    dialect: Dialect,
    say: Callable[[str], str] = str,
    kept: Callable[[int, str], int] | None = None,
    singly: bool = False,
) -> list[str]:
    """Write the generations of an agent that follows the ground truth, in order.

    A call that needs the result of an earlier one in the same turn waits for it in a step of its
    own.

    Args:
        task: whose ground truth.
        results: of its calls, by turn.
        dialect: how calls are written.
        say: another wording of what the oracle says without calls.
        kept: after how many calls a turn ends, from its index and everything read before it; None:
            after all.
        singly: one call a step, even where several could go together.
    """
    texts: list[str] = []
    known = ""
    for index, (turn, returned) in enumerate(zip(task.turns, results, strict=True)):
        known += "\n" + turn.user
        if not turn.ground_truth:
            texts.append(dialect.answer(say(abstention(task, index))))
            continue
        left = number = len(turn.ground_truth) if kept is None else kept(index, known)
        for step in steps(turn, returned, known):
            some = step[: max(left, 0)]
            parts = [[call] for call in some] if singly else [some]
            texts += [dialect.write(part) for part in parts if part]
            left -= len(step)
        known += "".join("\n" + result.content for result in returned[:number])
        texts.append(dialect.answer(say(DONE)))
    return texts


def results_of(environment: Environment, task: Task) -> list[list[ToolResult]]:
    """Execute the ground truth; return the results of its calls, by turn."""
    steps = trace(environment, task).steps
    return [[s.result for s in steps if s.turn == turn] for turn in range(len(task.turns))]


def rehearse(
    task: Task,
    environment: Environment,
    dialect: Dialect,
    template: ChatTemplate,
    settings: RolloutSettings,
    texts: Sequence[str],
) -> Trajectory:
    """The episode of an agent that writes these texts, one a generation.

    Raises `PolicyError` where the template begins one of them, which would stand there twice.
    """
    policy = ScriptedPolicy([[*template.encode(text), template.end_id] for text in texts])
    context = RolloutContext(environment, policy, dialect, template, settings)
    trajectory = run_to_end(run_episode(context, task))
    for step, text in zip(trajectory.steps, texts, strict=False):
        if step.text != text and step.text.endswith(text):
            opened = step.text.removesuffix(text)
            raise PolicyError(
                f"the chat template opens the assistant's message with {opened!r}, with which no "
                "demonstration goes on. Use a template that opens nothing."
            )
    return trajectory


def withhold(task: Task, rng: random.Random) -> Task | None:
    """The task without one of its tools, until a turn asked for it and a blank one gave it back.

    None where every tool is needed in an earlier turn too, or a turn lacks something already.
    """
    if not all(turn.ground_truth for turn in task.turns):
        return None
    index = rng.randrange(len(task.turns))
    before = {call.name for turn in task.turns[:index] for call in turn.ground_truth}
    names = {call.name for call in task.turns[index].ground_truth} - before
    if not names:
        return None
    tool = (rng.choice(sorted(names)),)
    early = [replace(turn, withheld=(*turn.withheld, *tool)) for turn in task.turns[: index + 1]]
    asked, given = replace(early[-1], ground_truth=()), replace(task.turns[index], user="")
    turns = (*early[:-1], asked, given, *task.turns[index + 1 :])
    ancestors = (*task.provenance.ancestors, task.id)
    made = replace(task.provenance, ancestors=ancestors, recipe="withhold")
    return replace(task, category=MISS_FUNC, turns=turns, provenance=made)


@dataclass(frozen=True)
class DemonstrationPlan:
    """Tasks to demonstrate, and the mixture of their forms."""

    tasks: Sequence[Task]
    """Originals of the training split."""
    dialect: Dialect
    rollout: RolloutSettings
    """Budgets: what does not fit them is left out."""
    pipelines: Sequence[Pipeline] = ()
    """Sources of verified variants; one that stands here twice is used twice as often."""
    variants: int = 0
    """So many variants are made and demonstrated in turn, each time worded otherwise; 0: a variant
    of its own for each try."""
    originals: float = 0.25
    """Share of the tries with an original; the others are variants, where anything makes some."""
    several: float = 0.5
    """Share of the tries in which calls that need not wait stand in one step. In the others there
    is one call a step, where the steps of a turn suffice."""


class Demonstrations:
    """Solved conversations of the ground truth, by number."""

    def __init__(
        self, environment: Environment, template: ChatTemplate, plan: DemonstrationPlan, seed: int
    ) -> None:
        """Make none yet.

        Args:
            environment: runs the tasks.
            template: of the model that will learn from them.
            plan: the mixture.
            seed: decides everything random.
        """
        self._environment, self._template, self._plan = environment, template, plan
        self._seed = seed
        self._order = random.Random(f"rods-order-{seed}").sample(plan.tasks, len(plan.tasks))
        self._complete = all(turn.ground_truth for task in plan.tasks for turn in task.turns)
        self._variants: dict[int, Task | None] = {}
        self.left_out: Counter[str] = Counter()
        """Tries that gave nothing, by reason."""

    def solved(self, n: int) -> Iterator[Trajectory]:
        """The first `n` that are judged solved; fewer after `LIMIT` tries for each."""
        made = 0
        for number in range(LIMIT * n):
            trajectory = self.make(number)
            if trajectory is not None:
                made += 1
                yield trajectory
            if made == n:
                return

    def make(self, number: int) -> Trajectory | None:
        """A function of plan, seed and number alone; None, and counted, where nothing comes of it.

        Raises:
            EnvError: the environment failed.
        """
        rng = random.Random(f"rods-ground-truth-{self._seed}-{number}")
        task = self._task(number, rng)
        if task is None:
            self.left_out["no variant"] += 1
            return None
        results = results_of(self._environment, task)

        def say(fixed: str) -> str:
            return rng.choice(WORDINGS[fixed])

        longest = max(len(turn.ground_truth) for turn in task.turns)
        fits = longest < self._plan.rollout.steps_per_turn  # the closing text is a step, too
        singly = rng.random() >= self._plan.several and fits
        dialect = self._plan.dialect
        texts = agent_texts(task, results, dialect, say, singly=singly)
        made = rehearse(task, self._environment, dialect, self._template, self._plan.rollout, texts)
        if made.stop is StopReason.DONE and made.solved and made.valid:
            return replace(made, member=number)
        reason = "not solved" if made.stop is StopReason.DONE else f"stopped: {made.stop.value}"
        self.left_out[made.failure or reason] += 1
        return None

    def _task(self, number: int, rng: random.Random) -> Task | None:
        """An original or a variant of one, now and then without a tool."""
        task: Task | None = self._order[number % len(self._order)]
        if self._plan.pipelines and rng.random() >= self._plan.originals:
            task = self._variant(number)
        if task is not None and self._complete and rng.random() < WITHHELD:
            without = withhold(task, rng)
            task = without if without and lacks(self._environment, without) else task
        return task

    def _variant(self, number: int) -> Task | None:
        place = number % self._plan.variants if self._plan.variants else number
        if place not in self._variants:
            rng = random.Random(f"rods-variant-{self._seed}-{place}")
            pipeline = rng.choice(self._plan.pipelines)
            original = self._order[place % len(self._order)]
            made = pipeline.make(original, rng.randrange(1 << 30)).variant
            if not self._plan.variants:
                return made
            self._variants[place] = made
        return self._variants[place]


def lacks(environment: Environment, task: Task) -> bool:
    """Return True if the task's world does not offer the tools that its first turn withholds."""
    world = environment.open(task)
    try:
        world.begin_turn(0)
        return not {spec.name for spec in world.offered()} & set(task.turns[0].withheld)
    finally:
        world.close()
