"""The replay buffer: which tasks an epoch draws, which variants come and go.

Owns the rules by which the pool changes (arXiv 2606.19047). Original tasks stay for ever. A
variant is `pending` until an epoch's start injects it, then `active`, then `retired` (mastered,
too_hard, burn_in, stale, pruned). It never judges, never samples and never talks to the synthesis
worker. It lives in memory; its `state_dict` is part of each checkpoint (invariant 8).

    buffer = ReplayBuffer(settings, seed=0)
    buffer.pool.add_originals(tasks)
    buffer.retire_stale(0)
    report = buffer.start_epoch(0)
    for task_id, epoch in buffer.draws.lease(16): ...
    buffer.record(judgement, epoch)

A task is drawn once an epoch, in an order that depends on the seed, the epoch and the pool alone,
so a resumed run draws what the run without a kill would have drawn.
"""

from __future__ import annotations

import math
import random
from collections import Counter, defaultdict
from collections.abc import Collection, Mapping, Sequence
from dataclasses import asdict, dataclass, field
from typing import Any, TypeAlias

from rods.config import ReplaySettings
from rods.curriculum.boundary import EDGE, Judgement
from rods.curriculum.draws import Draws
from rods.curriculum.pool import PoolEntry, TaskPool
from rods.errors import StoreError
from rods.types import Json

STALE_EPOCHS = 3
"""A variant that was not judged for this many epochs is retired."""


@dataclass(frozen=True, slots=True)
class EpochReport:
    """Changes to the pool at an epoch's start."""

    epoch: int
    first_step: int
    """Training step at which it began."""
    originals: int
    """Original tasks of this epoch's stage."""
    active: int
    pending: int
    injected: int
    deferred: int
    """Variants that could have entered but for the share `inject` or the cap."""
    retired: Mapping[str, int] = field(default_factory=dict[str, int])
    """By reason, since the start of the epoch before, this start included."""
    draws: int = 0
    """Tasks of this epoch; each is drawn once."""


class ReplayBuffer:
    """The pool of tasks, its draws and its epochs."""

    def __init__(self, settings: ReplaySettings, seed: int = 0) -> None:
        self._settings = settings
        self._seed = seed
        self.pool, self.draws = TaskPool(), Draws()
        self.reports: list[EpochReport] = []
        """Reports of the starts of all epochs."""
        self._retired: Counter[str] = Counter()
        """Variants retired since the last epoch's start, by reason."""

    # -- epochs -----------------------------------------------------------------------------

    @property
    def epoch(self) -> int:
        """Number of the epoch that was started last; -1 before the first."""
        return len(self.reports) - 1

    def first_step(self, epoch: int) -> int:
        """Training step at which an epoch began."""
        return self.reports[epoch].first_step if 0 <= epoch < len(self.reports) else 0

    def retire_stale(self, epoch: int) -> None:
        """Retire active variants that were not judged for `STALE_EPOCHS` before this epoch."""
        if self._settings.retire:
            for task_id in self.pool.stale(epoch, STALE_EPOCHS):
                self._retire(task_id, "stale")

    def start_epoch(
        self,
        epoch: int,
        *,
        originals: Collection[str] | None = None,
        categories: Collection[str] = (),
        expand: bool = True,
        first_step: int = 0,
    ) -> EpochReport:
        """Inject variants, prune above the cap, and lay out the draws.

        Args:
            epoch: number over all stages.
            originals: ids of the stage's original tasks; None: all.
            categories: categories of variants that take part; empty: all.
            expand: False: no variant enters and none is drawn.
            first_step: training step at which the epoch begins.

        Raises:
            StoreError: the number does not follow the epoch before.
        """
        if epoch != self.epoch + 1:
            raise StoreError(f"epoch {epoch} cannot start: epoch {self.epoch} is the last one.")
        base = self.pool.originals(originals)
        injected = deferred = 0
        if expand:
            ready = self.pool.ready(epoch, categories)
            chosen = ready[: self.injectable(len(base), categories)]
            for task_id in chosen:
                self.pool.enter(task_id, epoch)
            injected, deferred = len(chosen), len(ready) - len(chosen)
        for task_id in self.pool.lowest(self.pool.count("active") - self._settings.cap):
            self._retire(task_id, "pruned")
        order = self._draw_order(epoch, base, categories, expand)
        self.draws.lay_out(epoch, order)
        active, pending = self.pool.count("active"), self.pool.count("pending")
        left, self._retired = dict(self._retired), Counter()
        self.reports.append(
            EpochReport(
                epoch, first_step, len(base), active, pending, injected, deferred, left, len(order)
            )
        )
        return self.reports[-1]

    def injectable(self, originals: int, categories: Collection[str] = ()) -> int:
        """Variants that may enter at an epoch's start of a stage with so many original tasks."""
        active = len(self.pool.variants("active", categories))
        return min(_floor(self._settings.inject * (originals + active)), self._settings.cap)

    def _draw_order(
        self, epoch: int, originals: Sequence[str], categories: Collection[str], expand: bool
    ) -> list[str]:
        rng = random.Random(f"{self._seed}/draws/{epoch}")
        ids = list(originals)
        if expand:
            ids += self.pool.variants("active", categories)
            again = self.pool.variants("retired", categories)
            ids += rng.sample(again, min(len(again), _floor(self._settings.retest * len(ids))))
        rng.shuffle(ids)
        return ids

    # -- judgements -------------------------------------------------------------------------

    def record(self, judgement: Judgement, epoch: int) -> str | None:
        """Keep a judgement and retire the variant if it calls for that.

        Returns:
            The reason of retirement, `revived` for a retired task that came back, else None. A
            second judgement of a task in one epoch changes nothing.
        """
        entry = self.pool[judgement.task_id]
        if not self.pool.add_visit(judgement, epoch) or entry.original:
            return None
        if entry.status == "active":
            if reason := self._verdict(judgement.rbar, first=len(entry.visits) == 1):
                self._retire(judgement.task_id, reason)
            return reason
        full = self.pool.count("active") >= self._settings.cap
        if judgement.region != "boundary" or full:
            return None
        self.pool.enter(judgement.task_id, epoch)
        return "revived"

    def _verdict(self, rbar: float, first: bool) -> str | None:
        s = self._settings
        if not s.retire:
            return None
        if rbar < s.retire[0] - EDGE:
            return "burn_in" if first else "too_hard"
        return "mastered" if rbar > s.retire[1] + EDGE else None

    def _retire(self, task_id: str, reason: str) -> None:
        self.pool.retire(task_id, reason)
        self._retired[reason] += 1

    # -- state ------------------------------------------------------------------------------

    def state_dict(self) -> dict[str, Json]:
        """Return everything as plain JSON; leases that are out are saved as due."""
        return {
            "seed": self._seed,
            "pool": self.pool.state_dict(),
            "draws": {**self.draws.state_dict()},
            "epochs": [asdict(r) for r in self.reports],
            "retired": {**self._retired},
        }

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        """Stand where `state_dict` was taken.

        Raises:
            StoreError: it was taken with another seed or with other original tasks.
        """
        if state["seed"] != self._seed:
            raise StoreError(
                f"the saved replay buffer was made with seed {state['seed']}, not {self._seed}. "
                "Resume with that seed, or start a new run."
            )
        self.pool.load_state_dict(state["pool"])
        self.draws.load_state_dict(state["draws"])
        self.reports = [EpochReport(**row) for row in state["epochs"]]
        self._retired = Counter(state["retired"])


def _floor(value: float) -> int:
    return math.floor(value + EDGE)


METRICS = (
    "judged", "unjudged", "hard", "boundary", "mastered", "zero_variance",
    "boundary_zero_variance", "cycles", "seed_emitted", "cooldown_filtered", "quota_filtered",
    "backlog_filtered", "accepted", "duplicate", "late_requests", "retired_burn_in",
    "retired_too_hard", "retired_mastered", "revived",
)  # fmt: skip
"""Counts of one epoch, beside rates and the pool's state."""

EpochCounts: TypeAlias = defaultdict[int, Counter[str]]
"""Counts by the names of `METRICS`, by epoch."""


def epoch_metrics(
    epoch: int, counts: EpochCounts, buffer: ReplayBuffer, requests_open: int
) -> dict[str, float]:
    """Counts of an epoch, shares of its judgements in [0, 1], and the state of the pool now."""
    found = counts[epoch]
    out: dict[str, float] = {name: float(found[name]) for name in METRICS}
    judged = max(1, found["judged"])
    out["boundary_rate"] = found["boundary"] / judged
    out["zero_variance_rate"] = found["zero_variance"] / judged
    pool = buffer.pool.counts()
    out |= {"originals": pool.originals, "active": pool.active, "pending": pool.pending}
    out |= {"requests_open": requests_open, "never_solved": len(buffer.pool.never_solved)}
    if epoch >= 0:
        report = buffer.reports[epoch]
        out |= {"ingested": report.injected, "deferred": report.deferred}
        pruned, stale = (report.retired.get(reason, 0) for reason in ("pruned", "stale"))
        out |= {"priority_pruned": pruned, "retired_stale": stale}
    return out


def judgement_row(judgement: Judgement, entry: PoolEntry) -> dict[str, Json]:
    """A judgement as a row of the step's record; `entry` is its task's in the pool."""
    return {
        "task_id": judgement.task_id, "category": judgement.category,
        "origin": "original" if entry.task.is_original else "variant", "rbar": judgement.rbar,
        "phi": judgement.phi, "variance": judgement.variance, "interval": [*judgement.interval],
        "n_valid": judgement.n_valid, "k": judgement.k, "region": judgement.region,
        "policy_version": judgement.policy_version, "first_visit": entry.judgements[0] is judgement,
    }  # fmt: skip
