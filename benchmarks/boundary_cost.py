"""What boundary detection and the replay buffer cost, in milliseconds of one training step.

The detector reads rewards that training computed anyway, so it must cost next to nothing beside a
step of seconds. This plays epochs of a full-size pool (400 original tasks, 400 variants, groups of
16) with made-up rewards and a queue that answers at once, and times each call of the curriculum. A
step draws once and judges once; the figures for the log and the checkpoint's snapshot are apart.

    python benchmarks/boundary_cost.py [--steps 120] [--tasks 400] [--done 0.9] [--json]
"""

from __future__ import annotations

import argparse
import json
import random
import statistics
import tempfile
import time
from collections import defaultdict
from collections.abc import Generator, Sequence
from contextlib import contextmanager
from pathlib import Path

from shared import Options

from rods.config import RunConfig, parse_config
from rods.curriculum.online import OnlineCurriculum
from rods.curriculum.saving import save
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


class Clock:
    """Milliseconds by name, on the clock and of this process."""

    def __init__(self) -> None:
        self.clock: dict[str, list[float]] = defaultdict(list)
        self.cpu: dict[str, list[float]] = defaultdict(list)

    @contextmanager
    def __call__(self, name: str) -> Generator[None]:
        """Time what is done within."""
        clock, cpu = time.perf_counter(), time.process_time()
        yield
        self.cpu[name].append(1000 * (time.process_time() - cpu))
        self.clock[name].append(1000 * (time.perf_counter() - clock))

    def rows(self) -> dict[str, dict[str, float]]:
        """Medians and the longest."""
        return {
            name: {
                "median_ms": round(statistics.median(clock), 2),
                "max_ms": round(max(clock), 2),
                "processor_ms": round(statistics.median(self.cpu[name]), 2),
            }
            for name, clock in self.clock.items()
        }


def play(config: RunConfig, folder: Path, options: argparse.Namespace) -> tuple[Clock, int]:
    """Each call timed; and how many variants were active at the end."""
    timed = Clock()
    n, made = config.rollout.tasks_per_step, tasks(options.tasks)
    curriculum = OnlineCurriculum(config, made, InstantQueue())
    rng = random.Random(0)
    for _ in range(options.steps):
        if curriculum.epoch_done:
            with timed("start of an epoch"):
                curriculum.start_epoch()
            for task, epoch in curriculum.lease(
                int(options.done * curriculum.buffer.draws.open(curriculum.buffer.epoch))
            ):
                curriculum.buffer.draws.close(task.id, epoch)
        with timed("draw"):
            leased = curriculum.lease(n)
        played = [(*rollout(task, config.rollout.k, rng), epoch) for task, epoch in leased]
        with timed("judge"):
            judged = curriculum.judge(*zip(*played, strict=True))
            curriculum.request_variants()
        with timed("figures for the log"):
            [curriculum.log_row(j) for j in judged if j is not None]
            curriculum.metrics()
        with timed("checkpoint"):
            save(curriculum, folder)
    active = curriculum.buffer.pool.counts().active
    return timed, active


def main() -> None:
    """Read the options, play, print."""
    parser = Options(__doc__, {"steps": 4, "tasks": 64})
    parser.add_argument("--steps", type=int, default=120)
    parser.add_argument("--tasks", type=int, default=400, help="original tasks")
    parser.add_argument("--done", type=float, default=0.0, help="share of an epoch to begin at")
    parser.add_argument("--json", action="store_true")
    options = parser.parse_args()
    data = {
        "rollout": {"k": 16, "tasks_per_step": 32},
        "boundary": {"seeds": 64},
        "replay": {"retire": [0.0, 1.0]},
        "stages": [{"name": "all", "epochs": 1000, "expand": True}],
    }
    with tempfile.TemporaryDirectory() as folder:
        timed, active = play(parse_config(data, "benchmark"), Path(folder), options)
    rows = timed.rows()
    if options.json:
        print(json.dumps({"active_variants": active, **rows}))
        return
    print(f"{options.tasks} original tasks, {active} active variants, 32 groups of 16 a step")
    for name, row in rows.items():
        print(
            f"{name:20} median {row['median_ms']:8.2f} ms   max {row['max_ms']:8.2f} ms   "
            f"processor {row['processor_ms']:8.2f} ms"
        )


if __name__ == "__main__":
    main()
