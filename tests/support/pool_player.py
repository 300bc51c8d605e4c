"""Plays a curriculum in a run directory, with a checkpoint after each step; meant to be killed.

python tests/support/pool_player.py RUN
"""

from __future__ import annotations

import sys
import time
from pathlib import Path

from pool_cases import FakeQueue, config, group, originals, rewards
from rods.curriculum.online import OnlineCurriculum
from rods.curriculum.saving import load, save
from rods.store import RunDirectory

SETTINGS = config(
    replay={"inject": 0.5, "cap": 8},
    stages=[{"name": "plain", "epochs": 1}, {"name": "grow", "epochs": 13, "expand": True}],
)


def play(path: Path, pause: float = 0.0) -> None:
    if (path / "manifest.json").exists():
        run = RunDirectory.resume(path, SETTINGS)
    else:
        path.mkdir(parents=True, exist_ok=True)
        run = RunDirectory.create(path, SETTINGS, command=[])
    checkpoint = run.latest_checkpoint()
    curriculum = OnlineCurriculum(SETTINGS, originals(12), FakeQueue())
    if checkpoint:
        load(curriculum, checkpoint.path)
    step = checkpoint.step if checkpoint else 0
    while not curriculum.done:
        if curriculum.epoch_done:
            report = curriculum.start_epoch()
            run.log({"kind": "epoch", "step": step, "injected": report.injected})
        tasks = [lease.task for lease in curriculum.lease(4)]
        time.sleep(pause)
        for task in tasks:
            curriculum.observe(*group(task, rewards(task, curriculum.epoch)))
        step += 1
        run.write_trajectories(step, group(tasks[0], [1.0])[0].trajectories)
        run.log({"kind": "step", "step": step, "tasks": [t.id for t in tasks]})
        with run.checkpoint(step) as folder:
            save(curriculum, folder)
    run.finish()


if __name__ == "__main__":
    play(Path(sys.argv[1]), pause=0.02)
