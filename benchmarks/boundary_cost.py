"""What boundary detection and the replay buffer cost, in milliseconds of one training step.

The detector reads rewards that training computed anyway, so it must cost next to nothing beside a
step of seconds. This plays epochs of a full-size pool (400 original tasks, 400 variants, groups of
16) with made-up rewards and a queue that answers at once, and times each call of the curriculum.

    python benchmarks/boundary_cost.py [--steps 120] [--tasks 400] [--json]
"""

from __future__ import annotations

import argparse
import json
import random
import statistics
import tempfile
import time
from collections.abc import Sequence
from pathlib import Path

from rods.config import RunConfig, parse_config
from rods.curriculum.online import OnlineCurriculum
from rods.env import TurnVerdict
from rods.reward import Score
from rods.task import Provenance, Task, Turn
from rods.trajectory import Group, Trajectory
from rods.types import StopReason

CATEGORIES = ("base", "miss_func", "miss_param", "long_context")


class InstantQueue:
    """Variants that differ from their seed by a number in the first message."""

    def __init__(self) -> None:
        self.made: dict[str, list[Task]] = {}

    def submit(
        self, request_id: str, seed: Task, first: int, n: int, priority: float, epoch: int
    ) -> None:
        """Make the variants on the spot."""
        opening, *rest = seed.turns
        p = seed.provenance
        self.made[request_id] = [
            Task(
                seed.env,
                seed.category,
                (Turn(f"{opening.user} {first + i}"), *rest),
                seed.world,
                Provenance(p.origin, p.scenario, (*p.ancestors, seed.id), "benchmark", first),
            )
            for i in range(n)
        ]

    def drain(self, request_ids: Sequence[str], timeout: float) -> bool:
        """All is finished at once."""
        return True

    def results(self, request_ids: Sequence[str]) -> list[tuple[str, int, Task, float]]:
        """What was made."""
        return [(r, i, t, 0.1) for r in request_ids for i, t in enumerate(self.made[r])]


def tasks(count: int) -> list[Task]:
    """As large as the benchmark's: some four turns and five kilobytes of world."""
    world = {"files": {f"file{i}": "some text " * 10 for i in range(40)}}
    return [
        Task(
            "bench",
            CATEGORIES[i % 4],
            tuple(Turn(f"message {turn} of task {i}") for turn in range(4)),
            dict(world),
            Provenance(f"t{i}", f"s{i}"),
        )
        for i in range(count)
    ]


def rollout(task: Task, k: int, rng: random.Random) -> tuple[Group, list[Score]]:
    """A group whose members solve each of four turns with one made-up probability."""
    verdict = TurnVerdict(True, 1, True, True, True)
    level = rng.random()
    values = [sum(rng.random() < level for _ in range(4)) / 4 for _ in range(k)]
    members = [
        Trajectory(task.id, i, 0, 0, (), (), (verdict,) * 4, 4, (), StopReason.DONE)
        for i in range(k)
    ]
    return Group(task, members, 0), [Score(v) for v in values]


def play(config: RunConfig, folder: Path, steps: int, originals: int) -> dict[str, list[float]]:
    """Milliseconds of each call, by name."""
    took: dict[str, list[float]] = {n: [] for n in ("start_epoch", "step", "metrics", "snapshot")}
    curriculum = OnlineCurriculum(config, tasks(originals), folder / "pool.sqlite", InstantQueue())
    rng = random.Random(0)

    def timed(name: str, since: float) -> None:
        took[name].append(1000 * (time.perf_counter() - since))

    while len(took["step"]) < steps:
        if curriculum.epoch_done:
            start = time.perf_counter()
            curriculum.start_epoch()
            timed("start_epoch", start)
        start = time.perf_counter()
        leased = [lease.task for lease in curriculum.leases(config.rollout.tasks_per_step)]
        spent = time.perf_counter() - start
        groups = [rollout(task, config.rollout.k, rng) for task in leased]
        start = time.perf_counter() - spent
        for group, scores in groups:
            curriculum.observe(group, scores)
        timed("step", start)
        start = time.perf_counter()
        curriculum.metrics()
        timed("metrics", start)
        start = time.perf_counter()
        curriculum.buffer.snapshot(folder / "snapshot.sqlite")
        timed("snapshot", start)
    counts = curriculum.buffer.pool.counts()
    took["active variants"] = [float(counts.active)]
    curriculum.close()
    return took


def main() -> None:
    """Read the options, play, print."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--steps", type=int, default=120)
    parser.add_argument("--tasks", type=int, default=400, help="original tasks")
    parser.add_argument("--json", action="store_true")
    options = parser.parse_args()
    data = {
        "rollout": {"k": 16, "tasks_per_step": 32},
        "boundary": {"seeds": 64},
        "replay": {"retire": [0.0, 1.0], "burn_in": 0.0},
        "stages": [{"name": "all", "epochs": 1000, "expand": True}],
    }
    with tempfile.TemporaryDirectory() as folder:
        took = play(parse_config(data, "benchmark"), Path(folder), options.steps, options.tasks)
    active = int(took.pop("active variants")[0])
    rows = {
        name: {"median_ms": round(statistics.median(v), 2), "max_ms": round(max(v), 2)}
        for name, v in took.items()
    }
    if options.json:
        print(json.dumps({"active_variants": active, **rows}))
        return
    print(f"{options.tasks} original tasks, {active} active variants, 32 groups of 16 a step")
    for name, row in rows.items():
        print(f"{name:12} median {row['median_ms']:8.2f} ms   max {row['max_ms']:8.2f} ms")


if __name__ == "__main__":
    main()
