"""The three schedules with the bundled policy: the benchmark's tasks, slow tools, real updates.

The same policy plays the same BFCL tasks under each schedule on the clock of the wall; each call of
a tool sleeps for a log-normal time (50 ms at the median, 2 s at the 99th percentile) in the world's
own thread. The engine is the automatic one, on a CPU a process a core; the update has one thread.
They share the machine's cores, so a pipeline gains only the time in which tools are waited for.
Conversations are cut to their first turns, and each update plays the same tasks, so that the
synchronous schedule ends. `--passes` makes the update longer: a pipeline is worth most where it
takes as long as generation. What was measured is appended to a file and not measured again: the
same command goes on where it was stopped. `benchmarks/schedules.py` has the schedules alone,
without what Python and the model cost.

    python benchmarks/schedules_real.py --episodes 64 256 --out schedules.jsonl
    python benchmarks/schedules_real.py --passes 4 --out schedules.jsonl
    python benchmarks/schedules_real.py --episodes 1024 --modes asynchronous pipelined \\
        --out schedules.jsonl
"""

from __future__ import annotations

import argparse
import asyncio
import json
import logging
import math
import os
import random
import statistics
import threading
import time
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from pathlib import Path
from typing import Any

from shared import FEW_TOKENS, Options

from rods.assemble.engines import engine_of, template_of
from rods.config import RunConfig, load_config
from rods.dialects import get_dialect
from rods.engines.threads import set_threads
from rods.env import Environment, World
from rods.envs import make_environment
from rods.envs.originals import split_tasks
from rods.loop import keep_rolling, while_rolling
from rods.reward import score_group
from rods.rewards import get_reward
from rods.rollout.episode import RolloutContext
from rods.rollout.groups import RolloutRunner
from rods.rollout.lockstep import Lockstep
from rods.rollout.schedule import DrawnTask, Rollout, Schedule, SchedulePlan, ScoredGroup
from rods.task import Task
from rods.trainers.loading import load_model
from rods.trainers.local import LocalTrainer
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
        self.calls, self.slept = 0, 0.0

    def open(self, task: Task) -> World:
        return SlowWorld(self, self._inner.open(task))

    def wait(self) -> None:
        with self._lock:
            seconds = self._rng.lognormvariate(math.log(MEDIAN), SPREAD)
            self.calls, self.slept = self.calls + 1, self.slept + seconds
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

    async def draw(self, n: int) -> list[DrawnTask]:
        first, self.drawn = self.drawn, self.drawn + n
        return [DrawnTask(self.tasks[i % len(self.tasks)], 0) for i in range(first, first + n)]

    def score(self, rollout: Rollout) -> ScoredGroup:
        scores = score_group(self.reward, rollout.group)
        return ScoredGroup(rollout.drawn, rollout.group, scores, True)


def tasks_of(config: RunConfig, turns: int) -> list[Task]:
    """Those of an update, cut to their first turns."""
    pool = sorted(split_tasks(config.env).train, key=lambda t: t.id)
    chosen = random.Random(0).sample(pool, min(len(pool), config.rollout.tasks_per_step))
    return [replace(task, turns=task.turns[:turns]) for task in chosen]


async def run(config: RunConfig, updates: int, turns: int) -> list[dict[str, float]]:
    """What each update took, the first one included."""
    model, tokenizer = load_model(config.model)
    template = template_of(model, tokenizer)
    trainer = LocalTrainer(
        model, tokenizer, config.train, config.model, 1000, 0, config.rollout.generated_tokens
    )
    engine = engine_of(config, trainer.model, template)
    await engine.start()
    await engine.sync(trainer.weights(), 0)
    environment, source = SlowEnvironment(), Source(tasks_of(config, turns))
    rollout = config.rollout
    context = RolloutContext(
        environment, engine, get_dialect(config.model.dialect), template, rollout,
        lockstep=Lockstep() if rollout.schedule == "synchronous" else None,
    )  # fmt: skip
    schedule = Schedule(RolloutRunner(context, 10**6), SchedulePlan.of(config))

    async def roll_out(n: int) -> None:
        schedule.roll_out(await source.draw(n))

    rows: list[dict[str, float]] = []
    for _ in range(updates):
        started, busy = time.perf_counter(), time.process_time()
        calls, slept = environment.calls, environment.slept
        schedule.ask()
        await keep_rolling(schedule, roll_out, source.score, lambda: schedule.ready)
        batch = schedule.take()
        assert batch is not None
        groups, scores = batch.groups, batch.scores
        with schedule.updating():
            if schedule.beside:
                work = partial(trainer.update, groups, scores)
                report = await while_rolling(schedule, roll_out, source.score, work)
            else:
                report = trainer.update(groups, scores)
            await engine.sync(trainer.weights(), trainer.version)
        played = [t for group in groups for t in group.trajectories]
        rows.append({
            "seconds": time.perf_counter() - started,
            "update": report.seconds,
            "processor": time.process_time() - busy,
            "calls": environment.calls - calls,
            "slept": environment.slept - slept,
            "tokens": sum(t.ledger.generated for t in played),
            "invalid": sum(not t.valid for t in played),
            "load": os.getloadavg()[0],
        })  # fmt: skip
        print(f"{rollout.schedule}: {json.dumps(rows[-1])}", flush=True)
    await schedule.close()
    await engine.close()
    return rows


def measured(episodes: int, mode: str, options: argparse.Namespace) -> dict[str, Any]:
    """One size and schedule."""
    config = load_config("rods", "small", [
        f"rollout.k={K}", f"rollout.tasks_per_step={episodes // K}",
        f"rollout.concurrency={episodes}", f"rollout.schedule={mode}", "train.lr=1e-9",
        "rollout.max_invalid=1.0", f"train.epochs={options.passes}",
        *(FEW_TOKENS if options.quick else ()),
    ])  # fmt: skip
    first = mode != "synchronous"  # it overlaps nothing: its first update is like any other
    rows = asyncio.run(run(config, 1 + first * options.updates, options.turns))
    return {
        "episodes": episodes, "mode": mode, "turns": options.turns, "passes": options.passes,
        "warm_up": first, "rows": rows,
    }  # fmt: skip


def table(rows: Sequence[dict[str, Any]]) -> None:
    """Print the means of each size and schedule, and their ratios.

    Means, as a pipeline has one update ready early and the next one late.
    """
    seconds: dict[tuple[int, str], float] = {}
    print("episodes  schedule      s an update  the update  tools  processor  calls  tokens  load")
    for row in sorted(rows, key=lambda r: (r["episodes"], MODES.index(r["mode"]))):
        taken = row["rows"][row["warm_up"] :]
        mean = {k: statistics.fmean(r[k] for r in taken) for k in taken[0]}
        seconds[row["episodes"], row["mode"]] = mean["seconds"]
        print(
            f"{row['episodes']:8}  {row['mode']:13} {mean['seconds']:11.1f} "
            f"{mean['update']:11.1f} {mean['slept']:6.0f} {mean['processor']:10.1f} "
            f"{mean['calls']:6.0f} {mean['tokens']:7.0f} {mean['load']:5.1f}"
        )
    for (episodes, mode), slow in seconds.items():
        quick = MODES[MODES.index(mode) + 1] if mode != MODES[-1] else ""
        if (episodes, quick) in seconds:
            ratio = slow / seconds[episodes, quick]
            print(f"{episodes} episodes, {quick}: {ratio:.2f} times {mode}")


def main() -> None:
    """Parse, run what is missing, print."""
    parser = Options(__doc__, {"episodes": [8], "updates": 1, "turns": 1})
    parser.add_argument("--episodes", type=int, nargs="*", default=[64])
    parser.add_argument("--modes", nargs="*", choices=MODES, default=MODES)
    parser.add_argument(
        "--updates",
        type=int,
        default=2,
        help="measured, after a first one; of the synchronous schedule the first alone",
    )
    parser.add_argument("--turns", type=int, default=8, help="of each conversation")
    parser.add_argument(
        "--passes", type=int, default=1, help="of an update over its batch: the longer it takes"
    )
    parser.add_argument("--out", type=Path, help="a line for each size and schedule")
    options = parser.parse_args()
    logging.disable(logging.WARNING)
    set_threads(1)
    rows: list[dict[str, Any]] = []
    if options.out and options.out.exists():
        rows = [r for r in map(json.loads, options.out.read_text().splitlines())
                if (r["turns"], r["passes"]) == (options.turns, options.passes)]  # fmt: skip
    for episodes in options.episodes:
        for mode in options.modes:
            if any((r["episodes"], r["mode"]) == (episodes, mode) for r in rows):
                continue
            rows.append(measured(episodes, mode, options))
            if options.out:
                with options.out.open("a") as out:
                    out.write(json.dumps(rows[-1]) + "\n")
    table(rows)


if __name__ == "__main__":
    main()
