"""What a run lends its schedule: tasks of the curriculum, and what groups are worth.

Owns when an epoch gives way to the next one, and that it is logged. Never plays and never updates.

    async with schedule_of(parts, run, display, curriculum) as schedule:
        batch = await schedule.batch()
"""

from __future__ import annotations

import asyncio
import math
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager

from rods.config import RolloutSettings, RunConfig
from rods.curriculum.journal import EpochReport
from rods.curriculum.online import OnlineCurriculum
from rods.parts import Display, Parts
from rods.records import epoch_figures, unused_figures, unused_words
from rods.reward import Score
from rods.rollout.episode import RolloutContext
from rods.rollout.groups import Player
from rods.rollout.lockstep import Lockstep
from rods.rollout.schedule import Drawn, Plan, Schedule, require_beside
from rods.store import RunDirectory
from rods.trajectory import Group, Trajectory
from rods.types import Json


@asynccontextmanager
async def schedule_of(
    parts: Parts, run: RunDirectory, display: Display, curriculum: OnlineCurriculum
) -> AsyncGenerator[Schedule[list[Score]]]:
    """The schedule of a run. What is in flight at its end was leased, and is drawn again.

    Raises:
        ConfigError: groups are to be played while updates run, and the engine cannot do that.
    """
    plan = plan_of(run.config)
    require_beside(parts.policy, plan)
    feed = _Feed(parts, run, display, curriculum)
    schedule = Schedule(feed, _player(parts, run.config, display), plan, parts.trainer.step)
    try:
        yield schedule
    finally:
        unused = await schedule.close()
        if any(unused):
            # After the last checkpoint: a resume, which draws them again, cuts this line.
            run.log(unused_figures(unused, parts.trainer.step))
            display.message(unused_words(*unused))


def plan_of(config: RunConfig) -> Plan:
    """Sizes and bounds of a configuration's schedule."""
    rollout, pipeline = config.rollout, config.rollout.pipeline
    pipelined = rollout.schedule == "pipelined"
    return Plan(
        groups=rollout.tasks_per_step,
        redraw=config.train.filtering.redraw,
        rounds=not pipelined,
        staleness=pipeline.staleness if pipelined else 0,
        adaptive=pipelined and pipeline.adaptive,
        most=math.ceil(rollout.concurrency / rollout.k),
        last=config.updates,
    )


def _player(parts: Parts, config: RunConfig, display: Display) -> Player:
    rollout: RolloutSettings = config.rollout
    total, done = rollout.k * rollout.tasks_per_step, 0

    def count(_: Trajectory) -> None:
        nonlocal done
        done = done % total + 1
        display.rollout(done, total)

    context = RolloutContext(
        parts.environment,
        parts.policy,
        parts.dialect,
        parts.template,
        rollout,
        config.seed,
        rollout.temperature,
        lockstep=Lockstep() if rollout.schedule == "synchronous" else None,
    )
    return Player(context, rollout.k, total, count)


class _Feed:
    """What the schedule asks of the run."""

    def __init__(
        self,
        parts: Parts,
        run: RunDirectory,
        display: Display,
        curriculum: OnlineCurriculum,
    ) -> None:
        self._parts, self._run, self._display = parts, run, display
        self._curriculum = curriculum

    async def draw(self, n: int) -> list[Drawn]:
        """The next tasks of the curriculum; an epoch that is drawn out gives way to the next."""
        curriculum, epoch = self._curriculum, self._curriculum.epoch
        # An epoch's start may wait for synthesis, which must not hold up what is played.
        drawn = await asyncio.to_thread(curriculum.draw, n)
        if curriculum.epoch > epoch:
            self._log(curriculum.buffer.journal.report(curriculum.epoch))
        hints = self._parts.hints
        return [Drawn(t, e, hints if curriculum.hints(e) else None) for t, e in drawn]

    def score(self, drawn: Drawn, group: Group) -> tuple[list[Score], bool]:
        """Scores by the reward of the stage that drew the task."""
        reward = self._curriculum.stage_of(drawn.epoch).reward
        scores = self._parts.rewards.score_group(reward, group)
        return scores, self._parts.trains(scores)

    def remembered(self) -> dict[str, Json]:
        """What the rewards remember."""
        return self._parts.rewards.state_dict()

    def _log(self, report: EpochReport) -> None:
        # An epoch's record counts to its first update: a resume before that update starts it anew.
        parts, curriculum = self._parts, self._curriculum
        state = dict(parts.synthesis.state()) if parts.synthesis else {}
        record: dict[str, Json] = {
            **epoch_figures(curriculum, report),
            "seconds_waited": round(curriculum.waited, 3),
            "late_requests": curriculum.late,
            "step": parts.trainer.step + 1,
            "synthesis": state,
        }
        self._run.log(record)
        self._display.epoch(record)
        if state.get("suspended"):
            self._display.message(
                f"synthesis pauses, training goes on without it: {state['suspended']}"
            )
        limit = self._run.config.synthesis.drain_seconds
        if limit and curriculum.late:
            self._display.message(
                f"epoch {curriculum.epoch} waited {curriculum.waited:.1f} s for synthesis, and "
                f"{curriculum.late} requests were not ready: this run cannot be repeated exactly. "
                f"Raise synthesis.drain_seconds ({limit:g}), or set it to 0: then nothing waits."
            )
