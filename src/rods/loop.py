"""The RODS algorithm (arXiv 2606.19047), one training step after the other.

    draw -> roll out -> score -> judge -> request variants -> update     the policy learns
      ^                                                         |
      +---------------- retire <- ingest variants <-------------+        the data follows it

Owns the order of these verbs and what is written when. Model, environment, writer and screen come
in as `Components`, by their interfaces. Each verb lives in one place: `curriculum/` draws, judges,
requests, ingests and retires, `rollout/` rolls out, `rewards/` score, `trainers/` update.

A step ends with a checkpoint. A kill anywhere repeats at most the steps since then, with the same
draws and, except for bounded staleness, the same samples.
"""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncGenerator, Awaitable, Callable, Sequence
from contextlib import asynccontextmanager
from functools import partial
from typing import TypeAlias, TypeVar

from rods.components import Components, Display, UpdateReport
from rods.curriculum import saving
from rods.curriculum.online import OnlineCurriculum
from rods.errors import Interrupted
from rods.infra.interrupt import AFTER_UPDATE, ctrl_c, run_to_end
from rods.records import epoch_record, epoch_warnings, step_record, unused_record, unused_words
from rods.reward import Score
from rods.rollout.episode import RolloutContext
from rods.rollout.groups import RolloutRunner, in_rounds, preflight
from rods.rollout.lockstep import Lockstep
from rods.rollout.schedule import (
    DrawnTask,
    Rollout,
    RolloutBatch,
    Schedule,
    SchedulePlan,
    ScoredGroup,
)
from rods.store import RunDirectory
from rods.types import Json

R = TypeVar("R")
Start: TypeAlias = Callable[[int], Awaitable[None]]  # roll out the next n tasks
Grade: TypeAlias = Callable[[Rollout], ScoredGroup]  # score a finished group


def train(components: Components, run: RunDirectory, display: Display) -> None:
    """Train until the stages or the budget end.

    Raises:
        Interrupted: Ctrl-C; everything up to the last whole step is saved.
    """
    with ctrl_c(partial(display.message, AFTER_UPDATE)) as stopped:
        stages_done = run_to_end(_train(components, run, display, stopped))
    run.finish(stages_done)


async def _train(
    components: Components, run: RunDirectory, display: Display, stopped: Callable[[], bool]
) -> bool:
    """Make the whole run; returns whether all stages are over."""
    async with _started(components, run) as curriculum:
        loop = _Loop(components, run, display, curriculum, stopped)
        if run.latest_checkpoint() is None:
            await loop.evaluate("before", step=0)
            loop.checkpoint(components.rewards.state_dict(), force=True)
        async with loop.rolling():
            while not loop.over and await loop.step():
                if stopped():
                    raise Interrupted(f"stopped after update {components.trainer.step}.")
        await loop.evaluate("after", step=components.trainer.step + 1)
        return curriculum.done


@asynccontextmanager
async def _started(components: Components, run: RunDirectory) -> AsyncGenerator[OnlineCurriculum]:
    """Start the engine and restore all state from the last checkpoint, if there is one."""
    curriculum = OnlineCurriculum(run.config, components.originals, components.synthesis)
    checkpoint, trainer = run.latest_checkpoint(), components.trainer
    try:
        await components.policy.start()
        if checkpoint is not None:
            saving.load(curriculum, checkpoint.path)
            components.rewards.load_state_dict(checkpoint.read("rewards.json"))
            trainer.load(checkpoint.path / "policy")
        await components.policy.sync(trainer.weights(), trainer.version)
        yield curriculum
    finally:
        await components.policy.close()


class _Loop:
    """One run in progress."""

    def __init__(
        self,
        components: Components,
        run: RunDirectory,
        display: Display,
        curriculum: OnlineCurriculum,
        stopped: Callable[[], bool],
    ) -> None:
        self.components, self.run, self.display = components, run, display
        self.config, self.curriculum, self.stopped = run.config, curriculum, stopped
        self.trainer, self.policy = components.trainer, components.policy
        plan = SchedulePlan.of(self.config)
        plan.require(components.policy)
        state = components.rewards.state_dict
        self.schedule = Schedule(self._rollout_runner(), plan, self.trainer.step, state)
        self.sampled = run.sampled()  # trajectories of all updates so far
        self.evaluated = {str(r.get("when")) for r in run.metrics()}  # before this start

    def _rollout_runner(self) -> RolloutRunner:
        c, rollout, seed = self.components, self.config.rollout, self.config.seed
        context = RolloutContext(
            c.environment, c.policy, c.dialect, c.template, rollout, seed,
            lockstep=Lockstep() if rollout.schedule == "synchronous" else None,
        )  # fmt: skip
        total = rollout.k * rollout.tasks_per_step
        return RolloutRunner(context, total, in_rounds(self.display.rollout, total))

    @property
    def over(self) -> bool:
        """Return true if the stages or a budget of the run have ended."""
        return self.curriculum.done or self.config.spent(self.trainer.step, self.sampled)

    # -- one training step ------------------------------------------------------------------

    async def step(self) -> bool:
        """Make one training step; False: no task is left."""
        done, every = self.trainer.step, self.config.evaluation.every
        if done and every and done % every == 0 and f"update {done}" not in self.evaluated:
            with self.schedule.unmeasured():
                await self.evaluate(f"update {done}", step=done + 1)
        batch = await self._batch()  # draw, roll out, score
        if batch is None:
            return False
        groups, scores = batch.groups, batch.scores
        if self.trainer.step == 0:
            preflight(groups)  # refuses a policy none of whose calls can be parsed
        judgements = self.curriculum.judge(groups, scores, [s.drawn.epoch for s in batch.scored])
        self.curriculum.request_variants()
        report = await self._update(batch)
        trajectories = [t for g in groups for t in g.trajectories]
        self.run.write_trajectories(self.trainer.step, trajectories, report.signals)
        record = step_record(self.components, self.curriculum, batch, judgements, report)
        self._log(record)
        self.sampled += len(trajectories)
        if not (self.stopped() or self.over):  # an epoch that begins is part of this checkpoint
            await self._next_epoch(self.config.rollout.tasks_per_step)
        # Later groups may be scored by now, and Ctrl-C may have come while the epoch began.
        self.checkpoint(batch.rewards_state, force=self.stopped() or self.over)
        return True

    # -- draw, roll out, score --------------------------------------------------------------

    async def _batch(self) -> RolloutBatch | None:
        """The scored groups of the next update; None: no task is left."""
        self.schedule.ask()
        await keep_rolling(self.schedule, self._roll_out, self._score, lambda: self.schedule.ready)
        return self.schedule.take()

    async def _draw(self, n: int) -> list[DrawnTask]:
        """Draw the next `n` tasks; fewer at the end of the last epoch."""
        await self._next_epoch(n)
        hints = self.components.hints  # only with the curriculum `envtuning`
        return [
            DrawnTask(task, epoch, hints if self.curriculum.hints(epoch) else None)
            for task, epoch in self.curriculum.lease(n)
        ]

    async def _roll_out(self, n: int) -> None:
        """Start the rollouts of the next `n` tasks."""
        self.schedule.roll_out(await self._draw(n))

    def _score(self, rollout: Rollout) -> ScoredGroup:
        """Score a group by the reward of the stage that drew its task."""
        stage, group = self.curriculum.stage_of(rollout.drawn.epoch), rollout.group
        scores: Sequence[Score] = self.components.rewards.score_group(stage.reward, group)
        keeps = self.components.filter
        return ScoredGroup(rollout.drawn, group, scores, keeps is None or keeps(scores))

    # -- update -----------------------------------------------------------------------------

    async def _update(self, batch: RolloutBatch) -> UpdateReport:
        """Update the policy and hand its weights to the engine."""
        with self.schedule.updating():
            work = partial(self.trainer.update, batch.groups, batch.scores)
            if self.schedule.beside:
                report = await while_rolling(self.schedule, self._roll_out, self._score, work)
            else:
                await self.policy.sleep()  # the engine frees its cache for the update
                report = work()
                await self.policy.wake()
            await self.policy.sync(self.trainer.weights(), self.trainer.version)
        return report

    # -- ingest variants, retire ------------------------------------------------------------

    async def _next_epoch(self, n: int) -> None:
        """Begin the next epoch where this one was drawn from and fewer than `n` tasks are left.

        A variant made in one epoch is drawn from the next one on.
        """
        if self.curriculum.untouched or not self.curriculum.short_of(n):
            return
        # It may wait for synthesis, which must not hold up what is rolled out.
        await asyncio.to_thread(self.curriculum.ingest_variants)
        self.curriculum.retire()
        report = self.curriculum.lay_out_epoch()
        record = epoch_record(self.components, self.curriculum, report)
        self._log(record)
        patience = self.config.synthesis.drain_seconds
        for warning in epoch_warnings(record, self.curriculum, patience):
            self.display.message(warning, until="epoch")

    # -- evaluate, checkpoint ---------------------------------------------------------------

    async def evaluate(self, when: str, step: int) -> None:
        """Evaluate on held-out tasks and log the rows; one during training counts to `step`."""
        moment = f"{when} training" if when in ("before", "after") else f"after {when}"
        self.display.message(f"held-out evaluation {moment}", until="eval")

        def progress(done: int, total: int) -> None:
            self.display.rollout(done, total, self.config.evaluation.samples)
            if self.stopped() and when in ("before", "after"):  # every update is in a checkpoint
                raise Interrupted(f"stopped during the evaluation {when} training.")

        rows = await self.components.evaluate(self.policy, progress)
        self._log({"kind": "eval", "step": step, "when": when, "rows": [{**r} for r in rows]})

    def _log(self, record: dict[str, Json]) -> None:
        self.run.log(record)
        self.display.record(record)

    def checkpoint(self, rewards_state: Json, force: bool) -> None:
        """Save everything, if it is due: policy, optimizer, curriculum and rewards."""
        step, latest = self.trainer.step, self.run.latest_checkpoint()
        due = force or step % self.config.train.local.checkpoint_steps == 0
        if not due or (latest is not None and latest.step == step):
            return
        with self.run.checkpoint(step) as folder:
            self.trainer.save(folder / "policy")
            saving.save(self.curriculum, folder)
            (folder / "rewards.json").write_text(json.dumps(rewards_state), encoding="utf-8")

    # -- begin and end of rollouts ----------------------------------------------------------

    @asynccontextmanager
    async def rolling(self) -> AsyncGenerator[None]:
        """Groups may be in flight within; at the end they are cancelled and counted."""
        self.schedule.begin()
        try:
            yield
        finally:
            unused = await self.schedule.close()
            if any(unused):
                # After the last checkpoint: a resume, which draws them again, cuts this line.
                self.run.log(unused_record(unused, self.trainer.step))
                self.display.message(unused_words(*unused))


async def keep_rolling(
    schedule: Schedule, start: Start, score: Grade, until: Callable[[], bool]
) -> None:
    """Draw, roll out and score as the schedule asks, until `until()` is true."""
    while True:
        while (rollout := schedule.finished()) is not None:
            schedule.add(score(rollout))
        if wanted := schedule.wanted:
            await start(wanted)
        elif until():
            return
        else:
            await schedule.changed()


async def while_rolling(schedule: Schedule, start: Start, score: Grade, work: Callable[[], R]) -> R:
    """Do work, such as an update, in a thread, and keep rolling out meanwhile."""
    working = asyncio.ensure_future(asyncio.to_thread(work))
    working.add_done_callback(lambda _: schedule.wake())
    try:
        await keep_rolling(schedule, start, score, working.done)
    finally:
        await asyncio.wait({working})  # a thread cannot be stopped half way
    return working.result()
