"""SkyRL-v0's three queues on planted bugs: wall time, idle policy, and what the verifier says.

Worlds, tests and rollouts are the real ones; the agents are scripts. `repairs` undoes the bug, as
its task's ground truth says; `looks` reads file and tests, changes nothing and finishes; `guesses`
changes one operator of the file at random. A generation takes `--think` seconds on the clock, which
stand for a policy on a GPU: nothing is computed, and all that wait are served at once. So wall
times say what the schedule makes of starting, playing and judging, and shares say that scores are
earned; nothing here is learned.

    python benchmarks/skyrl.py --tasks 8 --k 2
"""

from __future__ import annotations

import argparse
import asyncio
import random
import sys
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).parents[1] / "tests"))

from fake_tokenizer import FakeTokenizer
from rods.config import RolloutSettings
from rods.dialects import get_dialect
from rods.envs.repo.environment import RepoEnvironment
from rods.envs.repo.mutations import mutations
from rods.policy import Completion
from rods.rollout.episode import RolloutContext
from rods.rollout.groups import Player
from rods.rollout.lockstep import Lockstep
from rods.rollout.template import ChatTemplate
from rods.task import Task
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
        self.now, self.busy, self._since = 0, 0.0, 0.0

    def open(self, seed: int, shared_prompt: Sequence[int] = ()) -> Session:
        asked = TEMPLATE.decode(shared_prompt)
        task = next(task for task in self._tasks if task.turns[0].user.strip() in asked)
        return Session(self, script(self._agent, task, seed))

    def enter(self) -> None:
        if not self.now:
            self._since = time.perf_counter()
        self.now += 1

    def leave(self) -> None:
        self.now -= 1
        if not self.now:
            self.busy += time.perf_counter() - self._since


class Session:
    def __init__(self, policy: Thinking, texts: list[str]) -> None:
        self._policy, self._texts = policy, texts

    async def generate(self, *_: object) -> Completion:
        self._policy.enter()
        try:
            await asyncio.sleep(self._policy.seconds)
        finally:
            self._policy.leave()
        ids = (*TEMPLATE.encode(self._texts.pop(0)), TEMPLATE.end_id)
        return Completion(ids, (-1.0,) * len(ids), 0, FinishReason.STOP)

    def close(self) -> None:
        return


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
    environment, policy = RepoEnvironment(), Thinking(agent, tasks, options.think)
    context = RolloutContext(
        environment,
        policy,  # type: ignore[arg-type]
        get_dialect("hermes"),
        TEMPLATE,
        settings(options, schedule),
        0,
        1.0,
        lockstep=Lockstep() if schedule == "synchronous" else None,
    )
    player = Player(context, options.k, options.k * len(tasks))
    started = time.perf_counter()
    groups: list[Group] = await asyncio.gather(*(player.group(task) for task in tasks))
    seconds = time.perf_counter() - started
    played = [t for group in groups for t in group.trajectories]
    return seconds, 1 - policy.busy / seconds, sum(t.solved for t in played) / len(played)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--tasks", type=int, default=8)
    parser.add_argument("--k", type=int, default=2)
    parser.add_argument("--think", type=float, default=0.3, help="Seconds of one generation.")
    options = parser.parse_args()
    tasks = RepoEnvironment(count=options.tasks).tasks(0.25)
    print(f"{len(tasks)} planted bugs, {options.k} attempts each, {options.think:g} s a generation")
    print("agent     schedule      seconds  policy idle  solved")
    for agent in AGENTS:
        for schedule in ("three queues", "one queue", "all at once", "synchronous"):
            if agent != "repairs" and schedule != "three queues":
                continue
            seconds, idle, solved = asyncio.run(play(options, tasks, agent, schedule))
            row = f"{agent:9} {schedule:13} {seconds:7.1f}  {idle:11.0%}  {solved:6.0%}"
            print(row, flush=True)


if __name__ == "__main__":
    main()
