"""Time of a training step with the language-model writer at work beside it, and without.

    python benchmarks/beside_synthesis.py [--steps 6] [--epochs 6] [--pace 0.5] [--threads 0]

The worker is a process of its own and asks a server on loopback (the tests' scripted author, one
more process, `--pace` seconds an answer). Both are stopped and continued by signals, step by step
in turn, so that both arms see the same tasks, the same noise and (rate 1e-12) the same weights.
Prints medians of rollout and update, and how many variants were made meanwhile. Then epochs of a
curriculum whose orders that server cannot finish in time: how long each epoch's start takes
(`--drain` asks for `synthesis.drain_seconds`; without it nothing should wait).
"""

from __future__ import annotations

import asyncio
import os
import re
import signal
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Generator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from shared import SHORT, SUPPORT, Options

from rods.assemble import assemble, start_run
from rods.components import Components
from rods.config import RunConfig, load_config
from rods.curriculum.online import OnlineCurriculum
from rods.reward import Score, score_group
from rods.rewards import get_reward
from rods.rollout.episode import RolloutContext
from rods.rollout.groups import run_groups
from rods.synthesis.worker.client import SynthesisWorker
from rods.task import Task
from rods.trajectory import Group, Trajectory
from rods.types import StopReason


def main() -> None:
    parser = Options(__doc__, {"steps": 1, "epochs": 1})
    parser.add_argument("--steps", type=int, default=6)
    parser.add_argument("--epochs", type=int, default=6)
    parser.add_argument("--drain", type=float, default=0.0)
    parser.add_argument("--pace", type=float, default=0.5)
    parser.add_argument("--threads", type=int, default=0)
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder, server(options.pace) as (url, pid):
        settings = [
            "synthesis.writer=llm", f"synthesis.llm.url={url}", "synthesis.resample.share=0.0",
            "train.lr=1e-12", "evaluation.tasks=1", "evaluation.variants=0",
            f"model.threads={options.threads}", f"synthesis.drain_seconds={options.drain}",
            'stages=[{name="all", epochs=100, expand=true}]',
        ]  # fmt: skip
        settings += SHORT if options.quick else ()
        config = load_config("rods", "small", settings)
        with assemble(config, start_run(config, str(Path(folder) / "run"))) as parts:
            if options.steps:
                measure(parts, config, options.steps, pid)
            epoch_starts(parts, config, options.epochs)


@contextmanager
def server(pace: float) -> Generator[tuple[str, int]]:
    """The loopback server: its URL and its process."""
    command = [sys.executable, "loopback.py", "--author", "scripted_author:author"]
    process = subprocess.Popen(
        [*command, "--pace", str(pace)], cwd=SUPPORT, stdout=subprocess.PIPE, text=True
    )
    assert process.stdout is not None
    try:
        found = re.search(r"http://\S+", process.stdout.readline())
        assert found is not None
        yield found.group(), process.pid
    finally:
        process.send_signal(signal.SIGCONT)
        process.kill()
        process.wait()


def measure(parts: Components, config: Any, steps: int, pid: int) -> None:
    """Alternate the arms."""
    worker = parts.synthesis
    assert isinstance(worker, SynthesisWorker) and worker.pid is not None
    for number, task in enumerate(parts.originals):
        worker.submit(f"load-{number}", task, 0, 1000, 1.0, 0)
    tasks = list(parts.originals)[: config.rollout.tasks_per_step]
    times: dict[str, list[tuple[float, float]]] = {"beside": [], "without": []}
    step(parts, config, tasks)
    until = time.monotonic() + 120
    while not worker.state()["tried"] and time.monotonic() < until:
        time.sleep(0.2)
    before = worker.state()
    for number in range(1, steps + 1):
        for arm, order in (("beside", signal.SIGCONT), ("without", signal.SIGSTOP)):
            for process in (worker.pid, pid):
                os.kill(process, order)
            time.sleep(0.5)
            times[arm].append(step(parts, config, tasks))
            rollout, update = times[arm][-1]
            print(f"{number} {arm:7}: {rollout:.2f} s, update {update:.2f} s", flush=True)
    for process in (worker.pid, pid):
        os.kill(process, signal.SIGCONT)
    after = worker.state()
    for name, part in (("rollout", 0), ("update", 1)):
        beside, without = (statistics.median(row[part] for row in times[arm]) for arm in times)
        print(
            f"{name}: {beside:.2f} s beside, {without:.2f} s without, ratio {beside / without:.3f}"
        )
    tried = int(str(after["tried"])) - int(str(before["tried"]))
    print(f"{tried} proposals were made meanwhile, {after['accepted']} variants accepted in all")


def epoch_starts(parts: Components, config: RunConfig, epochs: int) -> None:
    """Start epochs whose orders are with the server; no rollout, so that it is always late."""
    curriculum = OnlineCurriculum(config, parts.originals, parts.synthesis)
    seconds: list[float] = []
    for number in range(epochs + 1):
        started = time.perf_counter()
        curriculum.start_epoch()
        if number:  # before the first one nothing was ordered
            seconds.append(time.perf_counter() - started)
            print(
                f"epoch {number}: started in {seconds[-1]:.3f} s, waited "
                f"{curriculum.waited:.3f} s, {curriculum.late} requests late",
                flush=True,
            )
        for task, _ in curriculum.lease(10**6):
            scores = [Score(float(member % 2)) for member in range(config.rollout.k)]
            trajectories = [blank(task, member) for member in range(config.rollout.k)]
            curriculum.observe(Group(task, trajectories, 0), scores)
    middle, worst = statistics.median(seconds), max(seconds)
    print(f"epoch starts: median {middle:.3f} s, longest {worst:.3f} s")


def blank(task: Task, member: int) -> Trajectory:
    """A trajectory of which scores alone are read."""
    turns = len(task.turns)
    return Trajectory(task.id, member, 0, 0, (), (), (), turns, (), StopReason.DONE)


def step(parts: Components, config: Any, tasks: list[Any]) -> tuple[float, float]:
    """Seconds of rollout and update."""

    async def play() -> list[Any]:
        context = RolloutContext(
            parts.environment,
            parts.policy,
            parts.dialect,
            parts.template,
            config.rollout,
            seed=3,
            noise_version=0,
        )
        return [group async for group in run_groups(context, tasks)]

    started = time.perf_counter()
    groups = asyncio.run(play())
    rolled = time.perf_counter()
    scores = [score_group(get_reward("progress"), group) for group in groups]
    parts.trainer.update(groups, scores)
    return rolled - started, time.perf_counter() - rolled


if __name__ == "__main__":
    main()
