"""Kill a run at random moments, resume it, and compare it with the run that was not killed.

    python benchmarks/kill_resume.py --kills 20

Runs end after a few kills each, so as many runs are made as the kills need. Compares draws, rewards
and the pool of each with the whole run's, step by step; exits 1 if anything differs.
"""

from __future__ import annotations

import json
import random
import signal
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

import pyarrow.parquet as pq
from shared import Options

from rods.curriculum.saving import STATE, VARIANTS
from rods.infra.checkpoints import Checkpoints
from rods.trajectory import TrainingSignal

SMALL = [
    "--rollout.k", "2", "--rollout.tasks-per-step", "2",
    "--env.train-tasks", "4", "--evaluation.tasks", "1", "--evaluation.variants", "1",
    "--evaluation.samples", "1", "--boundary.low", "0.0", "--boundary.high", "1.0",
    "--replay.inject", "1.0", "--replay.retire", "[0.0, 0.95]",
    "--synthesis.drain-seconds", "60",  # or a worker on a busy machine is late, and runs differ
    "--train.local.checkpoint-steps", "1",
    "--stages.0.tasks", "2", "--model.threads", "1", "--boundary.cooldown-epochs", "0.0",
    "--rollout.generated-tokens", "96", "--rollout.step-tokens", "48",
]  # fmt: skip


def main() -> None:
    parser = Options(__doc__, {"kills": 1, "updates": 2})
    parser.add_argument("--kills", type=int, default=20)
    parser.add_argument("--updates", type=int, default=12, help="of each run")
    parser.add_argument("--seed", type=int, default=0)
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        whole, rng = Path(folder) / "whole", random.Random(options.seed)
        started = time.monotonic()
        subprocess.run(command(whole, options.updates), check=True, capture_output=True)
        seconds = time.monotonic() - started
        kills, runs, problems = 0, 0, list[str]()
        while kills < options.kills:
            runs += 1
            killed = Path(folder) / f"killed-{runs}"
            kills += kill_and_resume(killed, options.kills - kills, seconds, rng, options.updates)
            problems += differences(whole, killed)
            print(f"{runs} runs, {kills} kills, {len(problems)} differences", flush=True)
    print(f"{kills} kills, {len(problems)} differences; the run without kills took {seconds:.0f} s")
    for problem in problems:
        print(problem)
    sys.exit(1 if problems else 0)


def command(path: Path, updates: int = 12) -> list[str]:
    start = [sys.executable, "-m", "rods.cli.main", "train"]
    if (path / "manifest.json").exists():
        return [*start, "--resume", str(path)]
    return [*start, "--out", str(path), "--updates", str(updates), *SMALL]


def kill_and_resume(
    path: Path, kills: int, seconds: float, rng: random.Random, updates: int
) -> int:
    """Kill `kills` times at random moments, then let it end; returns the kills that hit it."""
    hit = 0
    for _ in range(kills):
        process = subprocess.Popen(
            command(path, updates), stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL
        )
        try:
            process.wait(rng.uniform(0.15, 0.6) * seconds)
        except subprocess.TimeoutExpired:
            process.send_signal(signal.SIGKILL)
            process.wait()
            hit += 1
        if finished(path):
            break
    if not finished(path):
        subprocess.run(command(path, updates), check=True, capture_output=True)
    return hit


def finished(path: Path) -> bool:
    manifest = path / "manifest.json"
    return manifest.exists() and bool(json.loads(manifest.read_text())["finished"])


def differences(one: Path, other: Path) -> list[str]:
    """What the two runs disagree on."""
    problems: list[str] = []
    for kind, keys in {
        "step": ("step", "epoch", "reward_mean", "loss", "grad_norm", "judgements"),
        "epoch": ("step", "epoch", "active", "injected", "retired", "deferred"),
        "eval": ("when", "rows"),
    }.items():
        a, b = logged(one, kind), logged(other, kind)
        if len(a) != len(b):
            problems.append(f"{kind}: {len(a)} records against {len(b)}")
        for x, y in zip(a, b, strict=False):
            problems += [f"{kind} {x['step']}: {k} differs" for k in keys if x.get(k) != y.get(k)]
    if pool(one) != pool(other):
        problems.append("the pools differ")
    if signals(one) != signals(other):
        problems.append("rewards or advantages of single trajectories differ")
    return problems


def logged(path: Path, kind: str) -> list[dict[str, Any]]:
    rows = map(json.loads, (path / "metrics.jsonl").read_text().splitlines())
    return [row for row in rows if row["kind"] == kind]


def signals(path: Path) -> list[Any]:
    """Reward, its parts and advantages of each trajectory."""
    files = sorted((path / "trajectories").iterdir())
    return [pq.read_table(f, columns=[*TrainingSignal._fields]).to_pylist() for f in files]


def pool(path: Path) -> list[Any]:
    """State of the curriculum in the last checkpoint, and every variant."""
    checkpoint = Checkpoints(path / "checkpoint").latest()
    assert checkpoint is not None, path
    files = [checkpoint.path / name for name in (STATE, VARIANTS)]
    return [json.loads(line) for file in files for line in file.read_text().splitlines()]


if __name__ == "__main__":
    main()
