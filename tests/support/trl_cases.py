"""What the tests of both of TRL's trainers share: a small run, and what a checkpoint knows."""

from __future__ import annotations

import os
import subprocess
import time
from pathlib import Path
from typing import Any

import torch

import rods
from pool_cases import judged_draws
from rods.config import RunConfig

STEPS = 4
SMALL = [
    f"updates={STEPS}", "rollout.k=2", "rollout.tasks_per_step=2", "env.train_tasks=4",
    "rollout.generated_tokens=48", "rollout.step_tokens=24", "model.threads=1",
    "boundary.low=0.0", "boundary.high=1.0", "boundary.cooldown_epochs=0.0",
    "replay.inject=1.0", "replay.retire=[]", "synthesis.drain_seconds=120.0",
    "train.minibatch=0", "train.schedule=constant", "train.aggregation=token",
    "train.local.checkpoint_steps=1", "train.credit=trajectory",
    "evaluation.tasks=1", "evaluation.variants=0", "evaluation.samples=0",
    'stages=[{name="all", epochs=9, expand=true}]',
]  # fmt: skip


REFUSED: list[tuple[list[str], str]] = [
    (["train.advantage=gae", "train.credit=trajectory"], 'train.advantage = "gae"'),
    (["engine.name=openai", "engine.url=http://127.0.0.1:1/v1"], "fixed weights"),
    (["updates=0"], "updates = 0"),
    (["trajectories=64"], "trajectories"),
    (["train.local.optimizer_memory=8bit"], "train.local.optimizer_memory"),
]
"""Settings that neither of TRL's trainers can take over, and what is named."""


def small(*changes: str) -> RunConfig:
    return rods.load_config("rods", "small", [*SMALL, *changes])


def visits(checkpoint: Path) -> list[tuple[Any, ...]]:
    """All judgements in a checkpoint's pool, in the order of the draws."""
    state = torch.load(checkpoint / "rods.pt", weights_only=True)["curriculum"]
    return judged_draws(state)


def environment() -> dict[str, str]:
    return {**os.environ, "OMP_NUM_THREADS": "1"}


def wait_for(path: Path, running: subprocess.Popen[bytes], seconds: float = 500.0) -> None:
    end = time.monotonic() + seconds
    while not path.exists():
        assert running.poll() is None and time.monotonic() < end, path
        time.sleep(0.2)
    time.sleep(0.5)  # it is written last
