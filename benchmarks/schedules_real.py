"""The three schedules with the bundled policy: the benchmark's tasks, slow tools, real updates.

The same policy plays the same BFCL tasks under each schedule on the clock of the wall; each call of
a tool sleeps for a log-normal time (50 ms at the median, 2 s at the 99th percentile) in the world's
own thread. Engine and update share the machine's cores: only waiting for tools can be overlapped.
`benchmarks/schedules.py` has the schedules alone, without what Python and the model cost.

    python benchmarks/schedules_real.py --episodes 64 --updates 3
"""

from __future__ import annotations

import argparse
import asyncio
import logging
import math
import random
import statistics
import threading
import time
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

from rods.assemble.engines import engine_of, template_of
from rods.config import RunConfig, load_config, with_overrides
from rods.dialects import get_dialect
from rods.engines.threads import set_threads
from rods.env import Environment, World
from rods.envs import make_environment
from rods.envs.originals import parted_tasks
from rods.feed import plan_of
from rods.reward import Score, score_group
from rods.rewards import get_reward
from rods.rollout.episode import RolloutContext
from rods.rollout.groups import Player
from rods.rollout.lockstep import Lockstep
from rods.rollout.schedule import Drawn, Schedule
from rods.task import Task
from rods.trainers.loading import load_model
from rods.trainers.local import LocalTrainer
from rods.trajectory import Group
from rods.types import ToolCall, ToolResult

MEDIAN, P99 = 0.05, 2.0
SPREAD = math.log(P99 / MEDIAN) / 2.3263
K = 8
MODES = ("synchronous", "asynchronous", "pipelined")


class SlowEnvironment(Environment):
    """BFCL whose tools take their time."""

    name = "bfcl"
    blocking = True

    def __init__(self) -> None:
        self._inner, self._rng, self._lock = (
            make_environment("bfcl"),
            random.Random(3),
            threading.Lock(),
        )
        self.slept = 0.0

    def open(self, task: Task) -> World:
        return SlowWorld(self, self._inner.open(task))

    def wait(self) -> None:
        with self._lock:
            seconds = self._rng.lognormvariate(math.log(MEDIAN), SPREAD)
            self.slept += seconds
        time.sleep(seconds)


class SlowWorld:
    """One of its worlds."""

    def __init__(self, environment: SlowEnvironment, inner: Any) -> None:
        self._environment, self._inner = environment, inner

    def __getattr__(self, name: str) -> Any:
        return getattr(self._inner, name)

    def call(self, call: ToolCall) -> ToolResult:
        self._environment.wait()
        return self._inner.call(call)


@dataclass
class Source:
    """The same tasks in the same order for each schedule."""

    tasks: Sequence[Task]
    reward: Any = field(default_factory=lambda: get_reward("progress"))
    drawn: int = 0

    async def draw(self, n: int) -> list[Drawn]:
        first, self.drawn = self.drawn, self.drawn + n
        return [Drawn(self.tasks[i % len(self.tasks)], 0) for i in range(first, first + n)]

    def score(self, drawn: Drawn, group: Group) -> tuple[list[Score], bool]:
        return score_group(self.reward, group), True

    def remembered(self) -> None:
        return None


async def run(config: RunConfig, mode: str, updates: int) -> tuple[list[float], list[float], float]:
    """Seconds of each update all told, of the updates alone, and those that tools took in all."""
    model, tokenizer = load_model(config.model)
    template = template_of(model, tokenizer)
    trainer = LocalTrainer(
        model, tokenizer, config.train, config.model, 1000, 0, config.rollout.generated_tokens
    )
    engine = engine_of(config, trainer.model, template)
    await engine.start()
    await engine.sync(trainer.weights(), 0)
    tasks = sorted(parted_tasks(config.env).train, key=lambda t: t.id)
    environment, source = SlowEnvironment(), Source(random.Random(0).sample(tasks, 64))
    rollout = config.rollout
    context = RolloutContext(
        environment, engine, get_dialect(config.model.dialect), template, rollout, 0, 1.0,
        lockstep=Lockstep() if mode == "synchronous" else None,
    )  # fmt: skip
    schedule = Schedule[list[Score]](source, Player(context, K, 10**6), plan_of(config))
    periods: list[float] = []
    works: list[float] = []
    for _ in range(1 + updates):
        started = time.perf_counter()
        batch = await schedule.batch()
        assert batch is not None
        groups, scores = [p.group for p in batch.played], [p.scores for p in batch.played]
        works.append((await schedule.update(
            lambda groups=groups, scores=scores: trainer.update(groups, scores),
            lambda: engine.sync(trainer.weights(), trainer.version),
        )).seconds)  # fmt: skip
        periods.append(time.perf_counter() - started)
    await schedule.close()
    await engine.close()
    return periods[1:], works[1:], environment.slept


def main() -> None:
    """Parse, run, print."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--episodes", type=int, default=64)
    parser.add_argument("--updates", type=int, default=3)
    parser.add_argument("--rounds", type=int, default=1)
    parser.add_argument("--modes", nargs="*", default=MODES)
    options = parser.parse_args()
    logging.disable(logging.WARNING)
    base = load_config("rods", "quick", [
        f"rollout.k={K}", f"rollout.tasks_per_step={options.episodes // K}",
        f"rollout.concurrency={2 * options.episodes}", "train.lr=1e-9", "rollout.max_invalid=1.0",
    ])  # fmt: skip
    set_threads(1)
    found: dict[str, list[float]] = {mode: [] for mode in options.modes}
    for _ in range(options.rounds):
        for mode in options.modes:
            config = with_overrides(base, [f"rollout.schedule={mode}"])
            updates = 1 if mode == "synchronous" else options.updates
            periods, works, slept = asyncio.run(run(config, mode, updates))
            found[mode] += periods
            print(
                f"{mode:13} {options.episodes} episodes: seconds an update "
                f"{' '.join(f'{p:.1f}' for p in periods)}; the update itself "
                f"{' '.join(f'{w:.1f}' for w in works)}; tools {slept:.0f} s in all",
                flush=True,
            )
    medians = {mode: statistics.median(p) for mode, p in found.items()}
    for slow, quick in zip(options.modes, options.modes[1:], strict=False):
        print(f"{quick}: {medians[slow] / medians[quick]:.2f} times {slow}")


if __name__ == "__main__":
    main()
