"""The closed loop, readable top to bottom.

    tasks -> rollout -> reward -> update          the policy learns
      ^                   |
      |                boundary -> synthesis      new tasks where it can learn most
      +---- replay buffer <--------+              the data follows the policy

Owns the order of things and what is written when. It knows no model, environment or writer: those
come in as `Parts` (`parts.py`). When groups are drawn and played is a schedule's business
(`feed.py`, `rollout/schedule.py`). A step ends with a checkpoint; a kill anywhere repeats at most
the steps since then, with the same draws and, but for bounded staleness, the same samples.

    train(parts, run, display)
"""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncGenerator, Callable
from contextlib import asynccontextmanager

from rods.config import RunConfig
from rods.curriculum.online import OnlineCurriculum
from rods.errors import Interrupted
from rods.feed import schedule_of
from rods.infra.interrupt import ctrl_c
from rods.parts import Display, Parts, Trainer
from rods.records import judgement_figures, rollout_figures
from rods.reward import Score
from rods.rollout.preflight import preflight
from rods.rollout.schedule import Batch, Schedule
from rods.store import RunDirectory
from rods.types import Json


def train(parts: Parts, run: RunDirectory, display: Display) -> None:
    """Play the curriculum to its end, or until Ctrl-C.

    Raises:
        Interrupted: Ctrl-C; everything up to the last whole step is saved.
    """
    with ctrl_c() as stopped:
        stages_done = asyncio.run(_train(parts, run, display, stopped))
    run.finish(stages_done)


async def _train(
    parts: Parts, run: RunDirectory, display: Display, stopped: Callable[[], bool]
) -> bool:
    """The whole run, on one event loop; returns whether its stages are done."""
    config, every = run.config, run.config.evaluation.every
    async with _curriculum(parts, run, config) as curriculum:
        if run.latest_checkpoint() is None:
            await _evaluate(parts, run, display, "before", step=0)
            _checkpoint(parts, run, curriculum, parts.rewards.state_dict(), force=True)
        sampled = run.sampled()
        async with schedule_of(parts, run, display, curriculum) as schedule:
            while not _finished(config, curriculum, parts.trainer, sampled):
                if (done := parts.trainer.step) and every and done % every == 0:
                    with schedule.unmeasured():
                        await _evaluate(parts, run, display, f"update {done}", step=done + 1)
                batch = await schedule.batch()
                if batch is None:
                    break
                record = await _step(parts, run, curriculum, schedule, batch)
                run.log(record)
                display.step(record)
                sampled += int(str(record["trajectories"]))
                over = stopped() or _finished(config, curriculum, parts.trainer, sampled)
                _checkpoint(parts, run, curriculum, batch.remembered, force=over)
                if stopped():
                    raise Interrupted(f"stopped after update {parts.trainer.step}.")
        await _evaluate(parts, run, display, "after", step=parts.trainer.step + 1)
        return curriculum.done


def _finished(
    config: RunConfig, curriculum: OnlineCurriculum, trainer: Trainer, sampled: int
) -> bool:
    return curriculum.done or config.spent(trainer.step, sampled)


async def _step(
    parts: Parts,
    run: RunDirectory,
    curriculum: OnlineCurriculum,
    schedule: Schedule[list[Score]],
    batch: Batch[list[Score]],
) -> dict[str, Json]:
    """Judge a batch and update: one line of the log."""
    groups, scores = [p.group for p in batch.played], [p.scores for p in batch.played]
    if parts.trainer.step == 0:
        preflight(groups)
    judged = curriculum.observe_all((p.group, p.scores, p.drawn.epoch) for p in batch.played)
    epoch = batch.played[0].drawn.epoch

    async def hand_over() -> None:
        if not schedule.beside:
            await parts.policy.wake()
        await parts.policy.sync(parts.trainer.weights(), parts.trainer.version)

    if not schedule.beside:
        await parts.policy.sleep()
    report = await schedule.update(lambda: parts.trainer.update(groups, scores), hand_over)
    run.write_trajectories(parts.trainer.step, [t for g in groups for t in g.trajectories])
    return {
        **report.metrics(),
        **rollout_figures(groups, scores, batch.seconds),
        **parts.meters(groups, scores),
        **judgement_figures(curriculum, [j for j in judged if j is not None]),
        "kind": "step",
        "step": parts.trainer.step,
        "epoch": epoch,
        "stage": curriculum.stage_of(epoch).name,
        "hints": sum(p.drawn.layer is not None for p in batch.played) / len(batch.played),
        "seconds_update": report.seconds,
        "informative_groups": report.informative,
        "schedule": batch.meters,
        "buffer": {**curriculum.metrics(epoch)},
        "synthesis": dict(parts.synthesis.state()) if parts.synthesis else {},
        "total_steps": run.config.updates,
    }


async def _evaluate(
    parts: Parts, run: RunDirectory, display: Display, when: str, step: int
) -> None:
    # One on the way counts, as an epoch's record does, to the update that follows it.
    display.message(f"held-out evaluation {when}")
    rows = await parts.evaluate(parts.policy, display.rollout)
    run.log({"kind": "eval", "step": step, "when": when, "rows": [dict(row) for row in rows]})


# -- checkpoints ---------------------------------------------------------------------------------


def _checkpoint(
    parts: Parts, run: RunDirectory, curriculum: OnlineCurriculum, remembered: Json, force: bool
) -> None:
    step = parts.trainer.step
    latest = run.latest_checkpoint()
    due = force or step % run.config.train.local.checkpoint_steps == 0
    if not due or (latest is not None and latest.step == step):
        return
    with run.checkpoint(step) as folder:
        parts.trainer.save(folder / "policy")
        curriculum.buffer.snapshot(folder / "buffer.sqlite")
        text = json.dumps(curriculum.mark())
        (folder / "curriculum.json").write_text(text, encoding="utf-8")
        text = json.dumps(remembered)
        (folder / "rewards.json").write_text(text, encoding="utf-8")


@asynccontextmanager
async def _curriculum(
    parts: Parts, run: RunDirectory, config: RunConfig
) -> AsyncGenerator[OnlineCurriculum]:
    """The curriculum, the engine and all state, as the last checkpoint left it."""
    path = run.path / "buffer.sqlite"
    checkpoint = run.latest_checkpoint()
    if checkpoint is None:
        for stale in run.path.glob("buffer.sqlite*"):
            stale.unlink()
    snapshot = None if checkpoint is None else checkpoint.path / "buffer.sqlite"
    curriculum = OnlineCurriculum(config, parts.originals, path, parts.synthesis, snapshot)
    try:
        await parts.policy.start()
        if checkpoint is not None:
            text = (checkpoint.path / "curriculum.json").read_text(encoding="utf-8")
            curriculum.require(json.loads(text))
            remembered = checkpoint.path / "rewards.json"
            if remembered.exists():  # checkpoints of older versions have none
                parts.rewards.load_state_dict(json.loads(remembered.read_text(encoding="utf-8")))
            parts.trainer.load(checkpoint.path / "policy")
        await parts.policy.sync(parts.trainer.weights(), parts.trainer.version)
        yield curriculum
    finally:
        await parts.policy.close()
        curriculum.close()
