"""Plays a curriculum in a run directory, with a checkpoint after each step; meant to be killed.

python tests/pool_player.py RUN
"""

from __future__ import annotations

import json
import sys
import time
from pathlib import Path

from pool_cases import FakeQueue, config, group, originals, rewards
from rods.curriculum.online import OnlineCurriculum
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
    live = path / "buffer.sqlite"
    if checkpoint is None:
        for stale in path.glob("buffer.sqlite*"):
            stale.unlink()
    saved = checkpoint.path / "buffer.sqlite" if checkpoint else None
    curriculum = OnlineCurriculum(SETTINGS, originals(12), live, FakeQueue(), saved)
    if checkpoint:
        state = json.loads((checkpoint.path / "curriculum.json").read_text())
        curriculum.require(state)
    step = checkpoint.step if checkpoint else 0
    while not curriculum.done:
        if curriculum.epoch_done:
            report = curriculum.start_epoch()
            run.log({"kind": "epoch", "step": step, "injected": report.injected})
        tasks = [lease.task for lease in curriculum.leases(4)]
        time.sleep(pause)
        for task in tasks:
            curriculum.observe(*group(task, rewards(task, curriculum.epoch)))
        step += 1
        run.write_trajectories(step, group(tasks[0], [1.0])[0].trajectories)
        run.log({"kind": "step", "step": step, "tasks": [t.id for t in tasks]})
        with run.checkpoint(step) as folder:
            curriculum.buffer.snapshot(folder / "buffer.sqlite")
            (folder / "curriculum.json").write_text(json.dumps(curriculum.mark()))
    curriculum.close()
    run.finish()


if __name__ == "__main__":
    play(Path(sys.argv[1]), pause=0.02)
