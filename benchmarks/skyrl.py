"""SkyRL-v0's three queues on planted bugs: wall time, idle policy, and what the verifier says.

Worlds, tests and rollouts are the real ones; the agents are scripts. `repairs` undoes the bug, as
its task's ground truth says; `looks` reads file and tests, changes nothing and finishes; `guesses`
changes one operator of the file at random. A generation takes `--think` seconds on the clock, which
stand for a policy on a GPU: nothing is computed, and all that wait are served at once. So wall
times say what the schedule makes of starting, playing and judging, and shares say that scores are
earned; nothing here is learned. In the end `tiny-repo` plays the first step of the recipe's small
profile: there generations take the processor that worlds and tests want too.

    python benchmarks/skyrl.py --tasks 8 --k 2 --rounds 3
"""

from __future__ import annotations

import argparse
import asyncio
import random
import time
from collections.abc import Sequence
from typing import Any

from shared import Options

from fake_tokenizer import FakeTokenizer
from rods.assemble.engines import engine_of, template_of
from rods.config import RolloutSettings, load_config
from rods.dialects import get_dialect
from rods.envs.originals import split_tasks
from rods.envs.remote.processes import environment_of
from rods.envs.repo.environment import RepoEnvironment
from rods.envs.repo.mutations import mutations
from rods.policy import Completion
from rods.rollout.episode import RolloutContext
from rods.rollout.groups import RolloutRunner
from rods.rollout.lockstep import Lockstep
from rods.rollout.template import ChatTemplate
from rods.task import Task
from rods.trainers.checkpoint import ModelWeights
from rods.trainers.loading import load_model
from rods.trajectory import Group
from rods.types import FinishReason, ToolCall

TEMPLATE = ChatTemplate(FakeTokenizer())
AGENTS = ("looks", "guesses", "repairs")
SLOTS = 6
"""Trajectories that the policy plays at once: of three queues beside those that start (4 at most)
or are judged (4), of one queue those included. `all at once` has no bound."""


def script(agent: str, task: Task, seed: int) -> list[str]:
    """What an agent writes, one text a generation."""
    *edits, finish = task.turns[0].ground_truth
    path = str(edits[0].arguments["path"])
    tests = "python -m unittest discover -s tests 2>&1 | tail -3"
    look = [ToolCall("bash", {"command": command}) for command in (f"cat {path}", tests)]
    if agent == "guesses":
        edits = [guess(task, path, random.Random(seed))]
    done = [] if agent == "looks" else edits
    dialect: Any = get_dialect("hermes")
    return [dialect.write([call]) for call in (*look, *done, finish)]


def guess(task: Task, path: str, rng: random.Random) -> ToolCall:
    """One operator of the file, changed at random."""
    files: Any = task.world["files"]
    source = files[path]
    after = rng.choice(mutations(source)).apply(source)
    words = {"command": f"cat > {path} <<'END'\n{after}END"}
    return ToolCall("bash", words)


class Thinking:
    """Writes its task's script; a generation takes a while, whoever else generates."""

    def __init__(self, agent: str, tasks: Sequence[Task], seconds: float) -> None:
        self.version = 0
        self._agent, self._tasks, self.seconds = agent, tasks, seconds

    def open(self, seed: int, shared_prompt: Sequence[int] = ()) -> Session:
        asked = TEMPLATE.decode(shared_prompt)
        task = next(task for task in self._tasks if task.turns[0].user.strip() in asked)
        return Session(self.seconds, script(self._agent, task, seed))


class Session:
    def __init__(self, seconds: float, texts: list[str]) -> None:
        self._seconds, self._texts = seconds, texts

    async def generate(self, *_: object) -> Completion:
        await asyncio.sleep(self._seconds)
        ids = (*TEMPLATE.encode(self._texts.pop(0)), TEMPLATE.end_id)
        return Completion(ids, (-1.0,) * len(ids), 0, FinishReason.STOP)

    def close(self) -> None:
        return


class Metered:
    """A policy, and the seconds in which somebody waited for it."""

    def __init__(self, inner: Any) -> None:
        self._inner = inner
        self.now, self.busy, self._since = 0, 0.0, 0.0

    def __getattr__(self, name: str) -> Any:
        return getattr(self._inner, name)

    def open(self, *words: Any, **named: Any) -> Any:
        session = self._inner.open(*words, **named)
        generate = session.generate

        async def metered(*prompt: Any, **how: Any) -> Completion:
            if not self.now:
                self._since = time.perf_counter()
            self.now += 1
            try:
                return await generate(*prompt, **how)
            finally:
                self.now -= 1
                if not self.now:
                    self.busy += time.perf_counter() - self._since

        session.generate = metered
        return session


def settings(options: argparse.Namespace, schedule: str) -> RolloutSettings:
    three = {"starting": 4, "running": SLOTS, "judging": 4}
    bounds = three if schedule == "three queues" else {}
    return RolloutSettings(
        k=options.k,
        steps_per_turn=8,
        generated_tokens=100_000,
        context_tokens=400_000,
        step_tokens=50_000,
        seconds=3600,
        max_invalid=0.0,
        worlds=bounds,  # type: ignore[arg-type]
        concurrency=SLOTS if schedule == "one queue" else 256,
    )


async def play(
    options: argparse.Namespace, tasks: Sequence[Task], agent: str, schedule: str
) -> tuple[float, float, float]:
    """Seconds, share of them in which the policy was idle, and the share of solved attempts."""
    context = RolloutContext(
        RepoEnvironment(),
        Metered(Thinking(agent, tasks, options.think)),  # type: ignore[arg-type]
        get_dialect("hermes"),
        TEMPLATE,
        settings(options, schedule),
        lockstep=Lockstep() if schedule == "synchronous" else None,
    )
    return await measured(context, tasks)


async def play_tiny(schedule: str) -> tuple[float, float, float]:
    """The same of the first step of the recipe's small profile, by its policy as it starts."""
    bounds = [f"rollout.worlds.{queue}=0" for queue in ("starting", "running", "judging")]
    config = load_config("skyrl_v0", "small", [] if schedule == "three queues" else bounds)
    model, tokenizer = load_model(config.model)
    template = template_of(model, tokenizer)
    engine = engine_of(config, model, template)
    await engine.start()
    await engine.sync(ModelWeights(model), 0)
    context = RolloutContext(
        environment_of(config),
        Metered(engine),  # type: ignore[arg-type]
        get_dialect(config.model.dialect),
        template,
        config.rollout,
        lockstep=Lockstep() if schedule == "synchronous" else None,
    )
    tasks = sorted(split_tasks(config.env).train, key=lambda t: t.id)
    found = await measured(context, tasks[: config.rollout.tasks_per_step])
    await engine.close()
    return found


async def measured(context: RolloutContext, tasks: Sequence[Task]) -> tuple[float, float, float]:
    player = RolloutRunner(context, context.settings.k * len(tasks))
    started = time.perf_counter()
    groups: list[Group] = await asyncio.gather(*(player.group(task) for task in tasks))
    seconds = time.perf_counter() - started
    played = [t for group in groups for t in group.trajectories]
    busy: float = context.policy.busy  # type: ignore[attr-defined]
    return seconds, 1 - busy / seconds, sum(t.solved for t in played) / len(played)


def main() -> None:
    parser = Options(__doc__, {"tasks": 1, "k": 1, "think": 0.01, "rounds": 0})
    parser.add_argument("--tasks", type=int, default=8)
    parser.add_argument("--k", type=int, default=2)
    parser.add_argument("--think", type=float, default=0.3, help="Seconds of one generation.")
    parser.add_argument("--rounds", type=int, default=1, help="Of `tiny-repo`, 64 attempts each.")
    options = parser.parse_args()
    tasks = RepoEnvironment(count=options.tasks).tasks(0.25)
    print(f"{len(tasks)} planted bugs, {options.k} attempts each, {options.think:g} s a generation")
    print("agent     schedule      seconds  policy idle  solved")
    for agent in AGENTS:
        for schedule in ("three queues", "one queue", "all at once", "synchronous"):
            if agent != "repairs" and schedule != "three queues":
                continue
            seconds, idle, solved = asyncio.run(play(options, tasks, agent, schedule))
            show(agent, schedule, seconds, idle, solved)
    for round_ in range(options.rounds):
        for schedule in ("three queues", "all at once", "synchronous"):
            show(f"tiny {round_ + 1}", schedule, *asyncio.run(play_tiny(schedule)))


def show(agent: str, schedule: str, seconds: float, idle: float, solved: float) -> None:
    print(f"{agent:9} {schedule:13} {seconds:7.1f}  {idle:11.0%}  {solved:6.0%}", flush=True)


if __name__ == "__main__":
    main()
