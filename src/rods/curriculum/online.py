"""The one object that a training loop or a host trainer drives: boundary, buffer, synthesis.

Owns the order of things: epochs, which tasks come next, what follows from a group, and when seed
tasks are chosen and their variants ingested. It never samples, never updates weights and never
waits for synthesis (invariant 6), except where `synthesis.drain_seconds` asks for runs that can be
repeated: then before an epoch, for so long at most.

    curriculum = OnlineCurriculum(config, originals, synthesis)
    while not curriculum.done:
        leases = curriculum.draw(config.rollout.tasks_per_step)
        ...                                       # roll out, score
        judgements = curriculum.judge(groups, scores, [epoch for _, epoch in leases])
        curriculum.request_variants()

`draw` crosses epochs, so that batches are whole: an epoch starts as soon as the one before has too
few tasks left, while groups of that one are still rolled out. A loop that wants to do this itself
calls `lease`, and between epochs `ingest_variants`, `retire` and `lay_out_epoch`. Any number of
threads may share the object. `state_dict()` is plain JSON, from which a resumed run continues
(invariant 8).
"""

from __future__ import annotations

import threading
from collections import Counter, defaultdict
from collections.abc import Mapping, Sequence
from typing import Any

from rods.config import RunConfig, StageSettings, require_config
from rods.curriculum.boundary import Judgement, judge_values, signals
from rods.curriculum.draws import Lease, Stages
from rods.curriculum.replay import (
    EpochCounts,
    EpochReport,
    ReplayBuffer,
    epoch_metrics,
    judgement_row,
)
from rods.curriculum.requests import SynthesisQueue, SynthesisRequests
from rods.errors import ConfigError, RewardError, StoreError, TrainError
from rods.reward import Score
from rods.task import Task
from rods.trajectory import Group
from rods.types import Json

FLAT = 1e-12
"""A group whose rewards vary less has no advantage and gives no gradient."""


class OnlineCurriculum:
    """Draws training tasks, judges their groups, and requests variants of boundary tasks."""

    def __init__(
        self, config: RunConfig, originals: Sequence[Task], synthesis: SynthesisQueue | None = None
    ) -> None:
        """Begin before the first epoch.

        Args:
            config: settings of the run; `stages` limits the epochs.
            originals: original tasks of the training split.
            synthesis: the queue of a synthesis worker. None: no variants, for a fixed pool.

        Raises:
            ConfigError: a stage has no tasks, or a stage expands and there is no synthesis.
        """
        require_config(config)
        self._config, self._tasks_per_step = config, config.rollout.tasks_per_step
        self._drawing, self._lock = threading.RLock(), threading.RLock()
        """Held while an epoch starts, which may wait for synthesis; held while the state moves."""
        self.waited, self.late = 0.0, 0
        """Seconds that the epoch's start waited for synthesis, and requests not finished by then;
        their variants can enter a later epoch."""
        self._stages = Stages(config, originals)
        if synthesis is None and any(map(self._stages.expands, range(self.epochs))):
            raise ConfigError(
                "a stage has expand = true but there is no synthesis queue. Give one, or set "
                "curriculum = 'static'."
            )
        self.counts: EpochCounts = defaultdict(Counter)
        self.buffer = ReplayBuffer(config.replay, config.seed)
        self.buffer.pool.add_originals(originals, fixed=config.curriculum != "rods")
        self.requests = SynthesisRequests(config, self._stages, self.buffer, synthesis, self.counts)

    # -- where we are -----------------------------------------------------------------------

    @property
    def epoch(self) -> int:
        """Number of the current epoch over all stages; -1 before the first."""
        return self.buffer.epoch

    def stage_of(self, epoch: int) -> StageSettings:
        """Settings of an epoch's stage (before the first epoch: of the first one)."""
        return self._stages.at(epoch)

    def hints(self, epoch: int) -> bool:
        """Return true if failed calls get hints in an epoch."""
        return self._stages.hints(epoch)

    @property
    def epochs(self) -> int:
        """Epochs of all stages together."""
        return len(self._stages)

    @property
    def epoch_done(self) -> bool:
        """Return true if every task of the epoch was drawn and judged."""
        return self.buffer.draws.open(self.epoch) == 0

    @property
    def drawn_out(self) -> bool:
        """Return true if every task of the epoch was drawn; rollouts of some may still run."""
        return self.buffer.draws.due == 0

    @property
    def last(self) -> bool:
        """Return true if no epoch follows."""
        return self.epoch == self.epochs - 1

    def short_of(self, n: int) -> bool:
        """Return true if the next epoch must start before `n` more tasks can be drawn."""
        return self.buffer.draws.due < n and not self.last

    @property
    def untouched(self) -> bool:
        """Return true if the epoch has begun and none of its tasks was drawn."""
        return self.buffer.draws.untouched(self.epoch)

    @property
    def done(self) -> bool:
        """Return true if all tasks of all stages are drawn and judged."""
        return self.last and self.epoch_done

    def step(self, epoch: int, more: int = 0) -> int:
        """Training steps begun once `more` further groups of this epoch are judged."""
        done = self.buffer.draws.done(epoch) + more
        return self.buffer.first_step(epoch) + done // self._tasks_per_step

    # -- draw -------------------------------------------------------------------------------

    def draw(self, n: int) -> list[Lease]:
        """Draw the next `n` tasks, with their epochs; fewer at the end or of a small pool.

        If the current epoch has too few left, the next one starts and provides the rest. Returns
        fewer than `n` if all stages are drawn, or if the whole pool is smaller than that;
        `HostedRun.draw` crosses as many epochs as it needs.
        """
        with self._drawing:
            drawn = self.lease(n)
            if len(drawn) < n and self.drawn_out and not self.last:
                self.start_epoch()
                drawn += self.lease(n - len(drawn))
        return drawn

    def lease(self, n: int) -> list[Lease]:
        """Draw at most `n` tasks that are laid out, the oldest epoch first."""
        with self._lock:
            drawn = self.buffer.draws.lease(n)
            return [Lease(self.buffer.pool.task(task_id), epoch) for task_id, epoch in drawn]

    def release(self, task_ids: Sequence[str], epoch: int | None = None) -> None:
        """Return drawn tasks that nobody will judge; they are the next ones to be drawn.

        Args:
            task_ids: ids of tasks that were drawn and not yet judged.
            epoch: the epoch that drew them. None: for each the oldest in which it is drawn.

        Raises:
            TaskError: one of them is not drawn; then nothing is released.
        """
        with self._lock:
            leases = self._leases(task_ids, [epoch] * len(task_ids))
            self.buffer.draws.require_out(leases)
            for task_id, drawn_in in leases:
                self.buffer.draws.release(task_id, drawn_in)

    # -- judge ------------------------------------------------------------------------------

    def judge(
        self,
        groups: Sequence[Group],
        scores: Sequence[Sequence[Score]],
        epochs: Sequence[int | None],
    ) -> list[Judgement | None]:
        """Judge groups in order and move their tasks; an error changes nothing.

        Args:
            groups: one group for each of G tasks that `draw` returned.
            scores: G rows of scores, one for each trajectory. In stages that make variants, they
                lie in [0, 1]; in others any scale is allowed, and the turns solved are judged.
            epochs: the epoch that drew each (`Lease.epoch`). None: the oldest that drew it.

        Returns:
            G judgements; None for a group with too few valid members, whose task stays as it is.

        Raises:
            TaskError: a task is not drawn.
            RewardError: a score lies outside [0, 1], or the lengths differ.
        """
        with self._lock:
            leases = self._leases([g.task.id for g in groups], epochs)
            values = [
                signals(group, rows, self._config.boundary, by_turns=not self.stage_of(e).expand)
                for group, rows, (_, e) in zip(groups, scores, leases, strict=True)
            ]
            return self._judge(leases, values, [g.policy_version for g in groups])

    def observe(
        self, group: Group, scores: Sequence[Score], epoch: int | None = None
    ) -> Judgement | None:
        """Judge one group, and request variants when a cycle is due; see `judge`."""
        [judgement] = self.judge([group], [scores], [epoch])
        self.request_variants()
        return judgement

    def observe_values(
        self,
        task_id: str,
        values: Sequence[float],
        valid: Sequence[bool] | None = None,
        version: int = 0,
        epoch: int | None = None,
    ) -> Judgement | None:
        """Judge one task by the rewards of its rollouts, and request variants once per epoch.

        Args:
            task_id: id of a task that `draw` returned.
            values: reward of each rollout, in [0, 1]. In stages that make no variants, it must be
                the share of turns solved.
            valid: False for each rollout lost to a failure of infrastructure. None: all are valid.
            version: number of the weights that rolled it out.
            epoch: the epoch that drew it (`Lease.epoch`). None: the oldest that drew it.

        Raises:
            RewardError: a value lies outside [0, 1], or the lengths differ.
        """
        if valid is not None and len(valid) != len(values):
            raise RewardError(
                f"task {task_id}: {len(values)} values came with {len(valid)} entries of `valid`; "
                "expected one for each."
            )
        counts = valid or [True] * len(values)
        read = [v if c else None for v, c in zip(values, counts, strict=True)]
        with self._lock:
            [judgement] = self._judge(self._leases([task_id], [epoch]), [read], [version])
        self.request_variants()
        return judgement

    def _leases(
        self, task_ids: Sequence[str], epochs: Sequence[int | None]
    ) -> list[tuple[str, int]]:
        """Each task with the epoch that drew it; None: the oldest in which it is out."""
        found: list[tuple[str, int]] = []
        for task_id, epoch in zip(task_ids, epochs, strict=True):
            self.buffer.pool.task(task_id)  # raises where there is no such task
            leased = self.buffer.draws.leased_in(task_id) if epoch is None else epoch
            found.append((task_id, self.epoch if leased is None else leased))
        return found

    def _judge(
        self,
        leases: Sequence[tuple[str, int]],
        values: Sequence[Sequence[float | None]],
        versions: Sequence[int],
    ) -> list[Judgement | None]:
        self.buffer.draws.require_out(leases)
        judgements: list[Judgement | None] = []
        before, boundary = Counter[int](), self._config.boundary
        for (task_id, epoch), row, version in zip(leases, values, versions, strict=True):
            category = self.buffer.pool.task(task_id).category
            step = self.step(epoch, before[epoch])
            before[epoch] += 1
            judgements.append(judge_values(task_id, category, row, boundary, step, version))
        # No error is possible from here on, so a batch is judged whole or not at all.
        for judgement, (task_id, epoch) in zip(judgements, leases, strict=True):
            self.counts[epoch].update(self._record(judgement, epoch))
            self.buffer.draws.close(task_id, epoch)
        return judgements

    def _record(self, judgement: Judgement | None, epoch: int) -> list[str]:
        """Keep a judgement and name the metrics that count it."""
        if judgement is None:
            return ["unjudged"]
        names = ["judged", str(judgement.region)]
        if judgement.variance < FLAT:
            names += ["zero_variance", f"{judgement.region}_zero_variance"]
        # A fixed pool moves no variant, so `record` retires nothing there.
        if moved := self.buffer.record(judgement, epoch):
            names.append(moved if moved == "revived" else f"retired_{moved}")
        return names

    # -- synthesis and epochs ---------------------------------------------------------------

    def request_variants(self) -> int:
        """Submit requests in each epoch whose synthesis cycle is due; returns how many."""
        with self._lock:
            requests = [
                request
                for epoch in range(self.epoch + 1)
                if self.requests.due(epoch)
                for request in self.requests.choose(epoch, self.step(epoch, more=-1))
            ]
        self.requests.submit(requests)
        return len(requests)

    def ingest_variants(self) -> int:
        """Take variants from the worker, pending until the next epoch; returns how many are new."""
        finished, self.waited = self.requests.wait()
        with self._lock:
            before = self.buffer.pool.count("pending")
            self.late = self.requests.ingest(finished, self.epoch + 1)
            return self.buffer.pool.count("pending") - before

    def retire(self) -> None:
        """Retire variants that no epoch has drawn or judged for long, before the next one."""
        with self._lock:
            self.buffer.retire_stale(self.epoch + 1)

    def lay_out_epoch(self) -> EpochReport:
        """Inject pending variants, prune above the cap and lay out the next epoch's draws.

        Judgements of groups that are still rolled out come too late for this start.

        Raises:
            TrainError: all stages are over.
        """
        if self.last:
            raise TrainError("the next epoch cannot start: all stages are over.")
        epoch, step = self.epoch + 1, self._tasks_per_step
        with self._lock:
            return self.buffer.start_epoch(
                epoch,
                originals=self._stages.originals(epoch),
                categories=self.stage_of(epoch).categories,
                expand=self._stages.expands(epoch),
                first_step=sum(max(r.draws, step) for r in self.buffer.reports) // step,
            )

    def start_epoch(self) -> EpochReport:
        """Ingest variants, retire and lay out the next epoch.

        Raises:
            TrainError: the current epoch has tasks that were not drawn, or all stages are over.
        """
        if left := self.buffer.draws.due:
            raise TrainError(f"epoch {self.epoch} has {left} draws left, so no other can start.")
        with self._drawing:
            if not self.last:
                self.ingest_variants()
                self.retire()
            return self.lay_out_epoch()

    # -- metrics ----------------------------------------------------------------------------

    def metrics(self, epoch: int | None = None) -> dict[str, float]:
        """Return counts of an epoch and of the pool, for the log. None: the current epoch."""
        epoch = self.epoch if epoch is None else epoch
        with self._lock:
            return epoch_metrics(epoch, self.counts, self.buffer, len(self.requests.open))

    def log_row(self, judgement: Judgement) -> dict[str, Json]:
        """A judgement as a row of the step's record."""
        return judgement_row(judgement, self.buffer.pool[judgement.task_id])

    # -- state ------------------------------------------------------------------------------

    def state_dict(self) -> dict[str, Any]:
        """Return all but the original tasks as plain JSON; unjudged tasks will be drawn again."""
        with self._lock:
            return {
                "buffer": self.buffer.state_dict(),
                "requests": self.requests.state_dict(),
                "counts": {str(e): dict(counts) for e, counts in self.counts.items() if counts},
            }

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        """Continue from what `state_dict` returned, here or on another machine.

        Raises:
            StoreError: it is not such a state, or belongs to other original tasks or another seed.
        """
        if missing := {"buffer", "requests", "counts"} - set(state):
            raise StoreError(
                f"the saved state of the curriculum has no {', '.join(sorted(missing))} (keys: "
                f"{sorted(state)}). Expected what state_dict() returned."
            )
        with self._drawing, self._lock:
            self.buffer.load_state_dict(state["buffer"])
            self.counts.clear()
            self.counts.update({int(e): Counter(row) for e, row in state["counts"].items()})
            self.requests.load_state_dict(state["requests"])
