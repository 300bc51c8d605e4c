"""The one object that a training loop or a host trainer drives: boundary, buffer, synthesis.

Owns the order of things: epochs, which tasks come next, what follows from a group, and when
`orders.py` chooses seeds and takes in their variants. It never samples, never updates weights and
never waits for synthesis (invariant 6), but where `synthesis.drain_seconds` asks for runs that can
be repeated: then at an epoch's start, for so long at most. Its whole state lives in the buffer's
file and changes by transactions, so a kill anywhere loses nothing (invariant 8).

    curriculum = OnlineCurriculum(config, originals, run.path / "buffer.sqlite", synthesis)
    while not curriculum.done:
        leases = curriculum.draw(config.rollout.tasks_per_step)
        ...                                       # roll out, score, update
        judgements = [curriculum.observe(group, scores, epoch) for group, scores, epoch in step]

`draw` crosses epochs, so that batches are whole: an epoch starts as soon as the one before is
`drawn_out`, while groups of that one are still played. Who wants epochs apart calls `start_epoch`
and `leases`. Threads may share the object: any number draw, observe and release, in any order.

A checkpoint is `state_dict()`, one value that holds the buffer too; `load_state_dict` on any
machine goes on from it. Who keeps the buffer in a file of its own takes `mark()` and
`buffer.snapshot(path)` together, makes the object again with `snapshot=path`, then calls
`require(mark)`.
"""

from __future__ import annotations

import hashlib
import threading
from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple, cast

from rods.config import RunConfig, StageSettings
from rods.curriculum.boundary import Judgement, judge_values, signals
from rods.curriculum.draws import Lease
from rods.curriculum.journal import METERS, EpochReport, Request
from rods.curriculum.orders import Orders, SynthesisQueue
from rods.curriculum.replay import ReplayBuffer
from rods.curriculum.stages import Stages
from rods.errors import ConfigError, RewardError, StoreError, TrainError
from rods.infra.database import put_snapshot
from rods.reward import Score
from rods.task import Task
from rods.trajectory import Group
from rods.types import Json

BUFFER = "buffer"
"""Key of the buffer's bytes in a state."""
FLAT = 1e-12
"""A group whose rewards vary less has no advantage and gives no gradient."""


class _Seen(NamedTuple):
    """What was observed of a task."""

    task_id: str
    epoch: int | None
    version: int
    values: Callable[[bool], Sequence[float | None]]
    """Of each member, None where it is invalid; given whether turns are to be read."""


class OnlineCurriculum:
    """Which tasks are trained on, in what order, from the first epoch to the last."""

    def __init__(
        self,
        config: RunConfig,
        originals: Sequence[Task],
        buffer_path: Path,
        synthesis: SynthesisQueue | None = None,
        snapshot: Path | None = None,
    ) -> None:
        """Open the buffer and go on where it stands.

        Args:
            config: settings; `stages` say how many epochs there are.
            originals: human tasks of the training side.
            buffer_path: the live file.
            synthesis: the worker; None for a fixed pool.
            snapshot: put this copy in the live file's place first (a resume from a checkpoint; it
                works although the live file is damaged).

        Raises:
            ConfigError: a stage has no tasks, or a stage expands and there is no synthesis.
            StoreError: the buffer was made with other original tasks or another seed.
        """
        self._config = config
        self._originals = originals
        self._drawing = threading.Lock()
        """Held while somebody draws: one epoch's start at a time, beside what is observed."""
        self.waited, self.late = 0.0, 0
        """Seconds that the epoch's start waited for synthesis, and requests not finished by then;
        those can enter a later epoch."""
        self._stages = Stages(config, originals)
        if synthesis is None and any(map(self._stages.expands, range(self.epochs))):
            raise ConfigError(
                "a stage has expand = true but there is no synthesis queue. Give one, or set "
                "curriculum = 'static'."
            )
        if snapshot is not None:
            put_snapshot(snapshot, buffer_path)
        self.buffer = ReplayBuffer(buffer_path, config.replay, config.seed)
        self._require_originals()
        self._orders = Orders(config, self._stages, self.buffer, synthesis)
        self._orders.submit(self.buffer.journal.open_requests())

    def _require_originals(self) -> None:
        fixed = self._config.curriculum != "rods"
        self.buffer.pool.add_originals(self._originals, fixed=fixed)

    # -- where we are -----------------------------------------------------------------------

    @property
    def epoch(self) -> int:
        """Number of the current epoch over all stages; -1 before the first."""
        return self.buffer.epoch

    @property
    def stage(self) -> StageSettings:
        """Settings of the current stage (before the first epoch: of the first one)."""
        return self.stage_of(self.epoch)

    def stage_of(self, epoch: int) -> StageSettings:
        """Settings of an epoch's stage."""
        return self._stages.at(epoch)

    def hints(self, epoch: int) -> bool:
        """Whether failed calls are answered with hints in an epoch."""
        return self._stages.hints(epoch)

    @property
    def epochs(self) -> int:
        """Epochs of all stages together."""
        return len(self._stages)

    @property
    def epoch_done(self) -> bool:
        """Whether every task of the epoch was drawn and observed, so the next one can start."""
        return self.buffer.remaining == 0

    @property
    def drawn_out(self) -> bool:
        """Whether every task of the epoch was drawn; groups of it may still be played."""
        return self.buffer.draws.due == 0

    @property
    def last(self) -> bool:
        """Whether no epoch follows."""
        return self.epoch == self.epochs - 1

    @property
    def done(self) -> bool:
        """Whether all epochs of all stages are played."""
        return self.last and self.epoch_done

    @property
    def step(self) -> int:
        """Training steps begun before the current group, at `tasks_per_step` groups a step."""
        return self._step(self.epoch)

    def _step(self, epoch: int) -> int:
        n = self._config.rollout.tasks_per_step
        return self.buffer.first_step(epoch) + self.buffer.draws.done(epoch) // n

    # -- what a trainer calls ---------------------------------------------------------------

    def start_epoch(self) -> EpochReport:
        """Take in finished variants, then retire, inject, prune and lay out the epoch's draws.

        Groups of the epoch before may still be played, once it is `drawn_out`. What they show comes
        too late for this start.

        Raises:
            TrainError: the current epoch has tasks that were not drawn, or all stages are played.
        """
        if self.last or not self.drawn_out:
            left = f"epoch {self.epoch} has {self.buffer.draws.due} draws left"
            why = "all stages are played" if self.drawn_out else left
            raise TrainError(f"the next epoch cannot start: {why}.")
        epoch = self.epoch + 1
        self.waited, self.late = self._orders.take_in(epoch)
        return self.buffer.start_epoch(
            epoch,
            originals=self._stages.originals(epoch),
            categories=self.stage_of(epoch).categories,
            expand=self._stages.expands(epoch),
            first_step=self.buffer.laid_out // self._config.rollout.tasks_per_step,
        )

    def draw(self, n: int) -> list[Lease]:
        """The next `n` tasks, each with the epoch that drew it.

        Where the current epoch has too few, the next one starts and gives the rest. Fewer than `n`:
        all stages are drawn, or the pool is smaller than that (an epoch starts once a call).
        """
        with self._drawing:
            drawn = self._rest_of(n)
            if len(drawn) < n and self.drawn_out and not self.last:
                self.start_epoch()
                drawn += self._rest_of(n - len(drawn))
        return drawn

    def _rest_of(self, n: int) -> list[Lease]:
        """What is laid out and not drawn, the oldest epoch first: leases of it were released."""
        drawn = self.leases(n)
        while len(drawn) < n and (more := self.leases(n - len(drawn))):
            drawn += more
        return drawn

    def leases(self, n: int) -> list[Lease]:
        """The same of one epoch: fewer at its end, none when all of its tasks are out."""
        return self.buffer.lease(n)

    def observe(
        self, group: Group, scores: Sequence[Score], epoch: int | None = None
    ) -> Judgement | None:
        """Judge a group, move its task, and order variants when a cycle is due.

        Args:
            group: K trajectories of a task that `draw` gave.
            scores: one for each trajectory. In stages that expand they lie in [0, 1]; in others
                the judgement reads the share of turns solved, whatever the reward's scale.
            epoch: the one that drew it (`Lease.epoch`); None: the oldest in which it is out.

        Returns:
            None if too few members were valid: the task is neither moved nor lost.
        """
        return self.observe_all([(group, scores, epoch)])[0]

    def observe_all(
        self, played: Iterable[tuple[Group, Sequence[Score], int | None]]
    ) -> list[Judgement | None]:
        """The same of several groups, one after the other, in one transaction: a kill or an error
        in between takes all of them back.
        """
        settings = self._config.boundary
        return self._observe(
            _Seen(
                group.task.id,
                epoch,
                group.policy_version,
                lambda turns, g=group, s=scores: signals(g, s, settings, by_turns=turns),
            )
            for group, scores, epoch in played
        )

    def observe_values(
        self,
        task_id: str,
        values: Sequence[float],
        valid: Sequence[bool] | None = None,
        version: int = 0,
        epoch: int | None = None,
    ) -> Judgement | None:
        """The same for a host that has numbers and no trajectories.

        Args:
            task_id: of a task that `draw` gave.
            values: what each member earned, in [0, 1]; in stages that do not expand, the share of
                its turns that it solved.
            valid: whether each member counts: False where infrastructure failed. None: all do.
            version: policy version that played it.
            epoch: the one that drew it; None: the oldest in which it is out.

        Raises:
            RewardError: a value lies outside [0, 1], or the lengths differ.
        """
        counts = [True] * len(values) if valid is None else valid
        if len(counts) != len(values):
            raise RewardError(
                f"task {task_id}: {len(values)} values came with {len(counts)} entries of `valid`; "
                "expected one for each."
            )
        read = [v if c else None for v, c in zip(values, counts, strict=True)]
        return self._observe([_Seen(task_id, epoch, version, lambda _: read)])[0]

    def _observe(self, observed: Iterable[_Seen]) -> list[Judgement | None]:
        judgements: list[Judgement | None] = []
        requests: list[Request] = []
        counts: Counter[tuple[int, str]] = Counter()
        with self.buffer.atomic():
            for seen in observed:
                epoch = self._drawn_in(seen.task_id) if seen.epoch is None else seen.epoch
                task, step = self.buffer.pool.task(seen.task_id), self._step(epoch)
                values = seen.values(not self.stage_of(epoch).expand)
                settings = self._config.boundary
                judgement = judge_values(task, values, settings, step, seen.version)
                counts.update((epoch, name) for name in self._record(judgement, epoch))
                self.buffer.complete([seen.task_id], epoch)
                requests += self._orders.cycle(epoch, step) if self._orders.due(epoch) else []
                judgements.append(judgement)
            self.buffer.journal.add_all(counts)
        self._orders.submit(requests)
        return judgements

    def release(self, task_ids: Sequence[str] | None = None, epoch: int | None = None) -> None:
        """Tasks that are out will be drawn again, first of all: whoever played them died.

        Args:
            task_ids: the tasks; None: all that are out.
            epoch: the one that drew them; None: for each the oldest in which it is out.

        Raises:
            TaskError: one of them is not out; then nothing is released.
        """
        with self.buffer.atomic():
            if task_ids is None:
                leases = self.buffer.draws.out()
            else:
                leases = [(i, self._drawn_in(i) if epoch is None else epoch) for i in task_ids]
            for task_id, drawn_in in leases:
                self.buffer.release([task_id], drawn_in)

    def _drawn_in(self, task_id: str) -> int:
        found = self.buffer.draws.leased_in(task_id)
        return self.epoch if found is None else found

    def metrics(self, epoch: int | None = None) -> dict[str, float]:
        """The meters of an epoch and the state of the pool, as numbers for the log; None: of the
        current epoch.
        """
        epoch = self.epoch if epoch is None else epoch
        meters = self.buffer.journal.meters(epoch)
        out: dict[str, float] = {name: float(meters.get(name, 0)) for name in METERS}
        judged = max(1, meters.get("judged", 0))
        out["boundary_rate"] = meters.get("boundary", 0) / judged
        out["zero_variance_rate"] = meters.get("zero_variance", 0) / judged
        counts = self.buffer.pool.counts()
        out |= {"originals": counts.originals, "active": counts.active, "pending": counts.pending}
        out["requests_open"] = len(self.buffer.journal.open_requests())
        out["never_solved"] = len(self.buffer.visits.never_solved)
        if epoch >= 0:
            report = self.buffer.journal.report(epoch)
            out |= {"ingested": report.injected, "deferred": report.deferred}
            out |= {"priority_pruned": report.pruned}
            out |= {"retired_stale": report.retired.get("stale", 0)}
        return out

    # -- state ------------------------------------------------------------------------------

    def state_dict(self) -> dict[str, Any]:
        """Everything, as one value: `mark()`, and under `buffer` the bytes of the buffer's file."""
        with self.buffer.held():
            return {**self.mark(), BUFFER: self.buffer.dump()}

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        """Go on from what `state_dict` said, wherever that was; what was out is due again.

        Raises:
            StoreError: it is damaged, or was made with other original tasks or another seed.
        """
        data = state.get(BUFFER)
        if not isinstance(data, bytes):
            raise StoreError(
                f"the saved state of the curriculum holds no replay buffer (keys: {sorted(state)})."
                " Expected what state_dict() said."
            )
        with self._drawing:
            self.buffer.restore(data)
            self._require_originals()
        self.require(cast("Mapping[str, Json]", {k: v for k, v in state.items() if k != BUFFER}))

    def mark(self) -> dict[str, Json]:
        """Where we stand: what a checkpoint keeps beside a snapshot of the same moment."""
        return {
            "seed": self._config.seed,
            "epoch": self.epoch,
            "completed": self.buffer.completed,
            "drawn": _digest(self.buffer.drawn(self.epoch)),
        }

    def require(self, mark: Mapping[str, Json]) -> None:
        """Go on from a checkpoint whose snapshot the buffer was restored from.

        Raises:
            StoreError: the buffer stands elsewhere than the checkpoint; the message says where.
        """
        mine = self.mark()
        wrong = [f"{k}: {mine[k]} != {mark.get(k)}" for k in mine if mine[k] != mark.get(k)]
        if wrong:
            raise StoreError(
                f"the replay buffer does not belong to this checkpoint ({'; '.join(wrong)}). "
                "Restore the snapshot that was taken with it."
            )
        self._orders.submit(self.buffer.journal.open_requests())

    def close(self) -> None:
        """Close the buffer's file."""
        self.buffer.close()

    # -- meters -----------------------------------------------------------------------------

    def _record(self, judgement: Judgement | None, epoch: int) -> list[str]:
        """Keep a judgement; the meters that count it."""
        if judgement is None:
            return ["unjudged"]
        meters = ["judged", str(judgement.region)]
        if judgement.variance < FLAT:
            meters += ["zero_variance", *["no_variance"] * (judgement.region == "boundary")]
        # A fixed pool moves no variant, so `record` retires nothing there.
        moved = self.buffer.record(judgement, epoch)
        if moved:
            meters.append(moved if moved == "revived" else f"retired_{moved}")
        return meters

    def log_row(self, judgement: Judgement) -> dict[str, Json]:
        """A judgement that was observed, as a row of the step's record."""
        task = self.buffer.pool.task(judgement.task_id)
        low, high = judgement.interval
        return {
            "task_id": judgement.task_id,
            "category": judgement.category,
            "origin": "original" if task.is_original else "variant",
            "rbar": judgement.rbar,
            "phi": judgement.phi,
            "variance": judgement.variance,
            "interval": [low, high],
            "n_valid": judgement.n_valid,
            "k": judgement.k,
            "region": judgement.region,
            "policy_version": judgement.policy_version,
            "first_visit": self.buffer.visits.count(judgement.task_id) == 1,
        }


def _digest(parts: Sequence[str]) -> str:
    return hashlib.sha256("\n".join(parts).encode()).hexdigest()[:16]
