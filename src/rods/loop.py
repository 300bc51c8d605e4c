"""The closed loop, readable top to bottom.

    tasks -> rollout -> reward -> update          the policy learns
      ^                   |
      |                boundary -> synthesis      new tasks where it can learn most
      +---- replay buffer <--------+              the data follows the policy

Owns the order of things and what is written when. It knows no model, environment or writer: those
come in as `Parts` (`parts.py`). A step ends with a checkpoint; a kill anywhere repeats
at most the steps since then, with the same draws and the same samples.

    train(parts, run, display)
"""

from __future__ import annotations

import asyncio
import json
import time
from collections.abc import AsyncGenerator, Callable, Mapping, Sequence
from contextlib import asynccontextmanager

from rods.config import RunConfig
from rods.curriculum.journal import EpochReport
from rods.curriculum.online import OnlineCurriculum
from rods.errors import Interrupted
from rods.infra.interrupt import ctrl_c
from rods.parts import Display, Parts, Trainer
from rods.records import epoch_figures, judgement_figures, rollout_figures
from rods.reward import Score
from rods.rollout.groups import run_groups
from rods.rollout.preflight import preflight
from rods.store import RunDirectory
from rods.task import Task
from rods.trajectory import Group, Trajectory
from rods.types import Json


def train(parts: Parts, run: RunDirectory, display: Display) -> None:
    """Play the curriculum to its end, or until Ctrl-C.

    Raises:
        Interrupted: Ctrl-C; everything up to the last whole step is saved.
    """
    with ctrl_c() as stopped:
        asyncio.run(_train(parts, run, display, stopped))
    run.finish()


async def _train(
    parts: Parts, run: RunDirectory, display: Display, stopped: Callable[[], bool]
) -> None:
    """The whole run, on one event loop."""
    config, every = run.config, run.config.evaluation.every
    async with _curriculum(parts, run, config) as curriculum:
        if run.latest_checkpoint() is None:
            await _evaluate(parts, run, display, "before", step=0)
            _checkpoint(parts, run, curriculum, force=True)
        sampled = sum(_sampled(record) for record in run.metrics())
        while not _finished(config, curriculum, parts.trainer, sampled):
            if (done := parts.trainer.step) and every and done % every == 0:
                await _evaluate(parts, run, display, f"update {done}", step=done + 1)
            if curriculum.epoch_done:
                _log_epoch(parts, run, display, curriculum, curriculum.start_epoch())
            record = await _step(parts, run, display, curriculum)
            run.log(record)
            display.step(record)
            sampled += _sampled(record)
            _checkpoint(parts, run, curriculum, force=stopped())
            if stopped():
                raise Interrupted(f"stopped after update {parts.trainer.step}.")
        _checkpoint(parts, run, curriculum, force=True)
        await _evaluate(parts, run, display, "after", step=parts.trainer.step + 1)


def _finished(
    config: RunConfig, curriculum: OnlineCurriculum, trainer: Trainer, sampled: int
) -> bool:
    spent = 0 < config.updates <= trainer.step or 0 < config.trajectories <= sampled
    return curriculum.done or spent


def _sampled(record: Mapping[str, Json]) -> int:
    return int(str(record.get("trajectories", 0)))


async def _step(
    parts: Parts, run: RunDirectory, display: Display, curriculum: OnlineCurriculum
) -> dict[str, Json]:
    """Draw tasks, roll out, score, judge, update: one line of the log."""
    config, stage, epoch = run.config, curriculum.stage, curriculum.epoch
    started = time.perf_counter()
    groups, scores = await _scored(parts, config, display, curriculum)
    rolled = time.perf_counter()
    judged = [curriculum.observe(group, s) for group, s in zip(groups, scores, strict=True)]
    await parts.policy.sleep()
    report = parts.trainer.update(groups, scores)
    await parts.policy.wake()
    await parts.policy.sync(parts.trainer.weights(), parts.trainer.version)
    run.write_trajectories(parts.trainer.step, [t for g in groups for t in g.trajectories])
    return {
        **report.metrics(),
        **rollout_figures(groups, scores, rolled - started),
        **parts.meters(groups, scores),
        **judgement_figures(curriculum, [j for j in judged if j is not None]),
        "kind": "step",
        "step": parts.trainer.step,
        "epoch": epoch,
        "stage": stage.name,
        "seconds_update": report.seconds,
        "informative_groups": report.informative,
        "buffer": {**curriculum.metrics()},
        "synthesis": dict(parts.synthesis.state()) if parts.synthesis else {},
        "total_steps": config.updates,
    }


async def _scored(
    parts: Parts, config: RunConfig, display: Display, curriculum: OnlineCurriculum
) -> tuple[list[Group], list[list[Score]]]:
    """A step's groups with their scores; for those that a filter drops, tasks are drawn anew."""
    groups: list[Group] = []
    scores: list[list[Score]] = []
    for _ in range(1 + config.train.filtering.redraw):
        missing = config.rollout.tasks_per_step - sum(parts.trains(row) for row in scores)
        tasks = curriculum.next_tasks(missing) if missing else []
        if not tasks:
            break
        new = await _roll_out(parts, config, tasks, display)
        if parts.trainer.step == 0 and not groups:
            preflight(new)
        groups += new
        scores += [parts.rewards.score_group(curriculum.stage.reward, group) for group in new]
    return groups, scores


async def _roll_out(
    parts: Parts, config: RunConfig, tasks: Sequence[Task], display: Display
) -> list[Group]:
    done, total = 0, len(tasks) * config.rollout.k

    def count(_: Trajectory) -> None:
        nonlocal done
        done += 1
        display.rollout(done, total)

    groups = run_groups(
        tasks,
        parts.environment,
        parts.policy,
        parts.dialect,
        parts.template,
        config.rollout,
        seed=config.seed,
        on_trajectory=count,
    )
    return [group async for group in groups]


def _log_epoch(
    parts: Parts,
    run: RunDirectory,
    display: Display,
    curriculum: OnlineCurriculum,
    report: EpochReport,
) -> None:
    # An epoch's record counts to its first update: a resume before that update starts it anew.
    state = dict(parts.synthesis.state()) if parts.synthesis else {}
    record: dict[str, Json] = {
        **epoch_figures(curriculum, report),
        "seconds_waited": round(curriculum.waited, 3),
        "late_requests": curriculum.late,
        "step": parts.trainer.step + 1,
        "synthesis": state,
    }
    run.log(record)
    display.epoch(record)
    if state.get("suspended"):
        display.message(f"synthesis pauses, training goes on without it: {state['suspended']}")
    limit = run.config.synthesis.drain_seconds
    if limit and curriculum.late:
        display.message(
            f"epoch {curriculum.epoch} waited {curriculum.waited:.1f} s for synthesis, and "
            f"{curriculum.late} requests were not ready: this run cannot be repeated exactly. "
            f"Raise synthesis.drain_seconds ({limit:g}), or set it to 0: then nothing waits."
        )


async def _evaluate(
    parts: Parts, run: RunDirectory, display: Display, when: str, step: int
) -> None:
    # One on the way counts, as an epoch's record does, to the update that follows it.
    display.message(f"held-out evaluation {when}")
    rows = await parts.evaluate(parts.policy, display.rollout)
    run.log({"kind": "eval", "step": step, "when": when, "rows": [dict(row) for row in rows]})


# -- checkpoints ---------------------------------------------------------------------------------


def _checkpoint(parts: Parts, run: RunDirectory, curriculum: OnlineCurriculum, force: bool) -> None:
    step = parts.trainer.step
    latest = run.latest_checkpoint()
    due = force or step % run.config.train.local.checkpoint_steps == 0
    if not due or (latest is not None and latest.step == step):
        return
    with run.checkpoint(step) as folder:
        parts.trainer.save(folder / "policy")
        curriculum.buffer.snapshot(folder / "buffer.sqlite")
        text = json.dumps(curriculum.state_dict())
        (folder / "curriculum.json").write_text(text, encoding="utf-8")
        text = json.dumps(parts.rewards.state_dict())
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
            curriculum.load_state_dict(json.loads(text))
            remembered = checkpoint.path / "rewards.json"
            if remembered.exists():  # checkpoints of older versions have none
                parts.rewards.load_state_dict(json.loads(remembered.read_text(encoding="utf-8")))
            parts.trainer.load(checkpoint.path / "policy")
        await parts.policy.sync(parts.trainer.weights(), parts.trainer.version)
        yield curriculum
    finally:
        await parts.policy.close()
        curriculum.close()
