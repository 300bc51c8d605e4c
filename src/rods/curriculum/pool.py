"""The tasks of the replay buffer: where each of them stands, and what was judged of it.

An original task is active for ever; a variant is `pending`, `active` or `retired` with a reason.
It never decides which; `replay.py` does.
"""

from __future__ import annotations

import dataclasses
from collections import Counter
from collections.abc import Collection, Mapping, Sequence
from typing import Any, Literal, NamedTuple

from rods.curriculum.boundary import Judgement
from rods.errors import StoreError, TaskError
from rods.task import Task
from rods.types import Json

Status = Literal["pending", "active", "retired"]
SUSPECT = 3
"""Visits without any reward after which an original task is a suspect."""


class Counts(NamedTuple):
    """Numbers of tasks; the retired ones by reason."""

    originals: int
    pending: int
    active: int
    retired: dict[str, int]


@dataclasses.dataclass(slots=True)
class PoolEntry:
    """A task and its history."""

    task: Task
    original: bool
    status: Status
    reason: str = ""
    """Why it is retired."""
    made: int = -1
    """Epoch whose rewards led to the variant."""
    entered: int = -1
    """Epoch at whose start the variant became active."""
    visits: dict[int, Judgement] = dataclasses.field(default_factory=dict[int, Judgement])
    """Judgements by the epoch that drew the task."""

    @property
    def judgements(self) -> list[Judgement]:
        """All of them, oldest epoch first."""
        return [judgement for _, judgement in sorted(self.visits.items())]

    @property
    def last_visit(self) -> int:
        """Latest epoch in which it was judged; -1: none."""
        return max(self.visits, default=-1)

    @property
    def suspect(self) -> bool:
        """True for an original task that earned nothing in `SUSPECT` visits or more."""
        visits = self.visits.values()
        return self.original and len(visits) >= SUSPECT and not any(j.rbar for j in visits)


class TaskPool:
    """All tasks by id, in the order in which they came."""

    def __init__(self) -> None:
        self._entries: dict[str, PoolEntry] = {}

    def add_originals(self, tasks: Sequence[Task], fixed: bool = False) -> None:
        """Add the tasks that stay for ever: human-written ones of the training split.

        `fixed`: the pool never changes, so that variants made before may be among them. Raises
        `TaskError` where a task is a variant or stands twice.
        """
        for task in tasks:
            if task.id in self._entries:
                raise TaskError(
                    f"task {task.id} stands twice among the original tasks; remove one."
                )
            if not (fixed or task.is_original):
                raise TaskError(f"task {task.id} is a variant; only original tasks stay for ever.")
            self._entries[task.id] = PoolEntry(task, original=True, status="active")

    def offer(self, task: Task, epoch_made: int) -> bool:
        """Take in a variant that passed the gates; it waits for an epoch after `epoch_made`.

        Returns False if the same task is known already, in whatever state: nothing doubles. Raises
        `TaskError` where the task names no ancestors.
        """
        if task.is_original:
            raise TaskError(f"task {task.id} names no ancestors; a variant must.")
        if task.id in self._entries:
            return False
        self._entries[task.id] = PoolEntry(task, original=False, status="pending", made=epoch_made)
        return True

    def __getitem__(self, task_id: str) -> PoolEntry:
        """Raise `TaskError` where there is no such task."""
        try:
            return self._entries[task_id]
        except KeyError:
            raise TaskError(f"the pool has no task {task_id}.") from None

    def task(self, task_id: str) -> Task:
        """A task by its id; raises `TaskError` where there is none."""
        return self[task_id].task

    def counts(self) -> Counts:
        """The pool in numbers."""
        originals = sum(e.original for e in self._entries.values())
        retired = Counter(e.reason for _, e in self._of("retired"))
        return Counts(originals, self.count("pending"), self.count("active"), dict(retired))

    def count(self, status: Status) -> int:
        """Number of variants of a status."""
        return len(self._of(status))

    @property
    def never_solved(self) -> set[str]:
        """Original tasks that earned nothing in `SUSPECT` visits or more: let `check` see them."""
        return {i for i, e in self._entries.items() if e.suspect}

    def originals(self, wanted: Collection[str] | None) -> list[str]:
        """Ids of these original tasks, or of all; raises `StoreError` where one is unknown."""
        known = {i for i, e in self._entries.items() if e.original}
        if wanted is not None and (missing := sorted(set(wanted) - known)):
            raise StoreError(f"the replay buffer has no original tasks {', '.join(missing)}.")
        return sorted(known if wanted is None else known.intersection(wanted))

    def variants(self, status: Status, categories: Collection[str] = ()) -> list[str]:
        """Ids of the variants of a status, of these categories or of all, sorted."""
        return sorted(i for i, e in self._of(status) if _among(e.task, categories))

    def stale(self, epoch: int, epochs: int) -> list[str]:
        """Active variants that were not judged for so many epochs before this one."""
        return [
            i
            for i, e in self._of("active")
            if epoch - 1 - max(e.last_visit, e.entered - 1) >= epochs
        ]

    def ready(self, epoch: int, categories: Collection[str]) -> list[str]:
        """Pending variants that were made before an epoch, in the order in which they came."""
        return [i for i, e in self._of("pending") if e.made < epoch and _among(e.task, categories)]

    def lowest(self, most: int) -> list[str]:
        """Active variants of the lowest phi; never judged ones go last, the oldest first."""
        phi = {i: e.visits[e.last_visit].phi if e.visits else 2.0 for i, e in self._of("active")}
        return sorted(phi, key=phi.__getitem__)[: max(0, most)]

    def latest(self, since_step: int, categories: Collection[str] = ()) -> list[Judgement]:
        """The latest judgement of each active task, where it was made at `since_step` or later."""
        active = (e for e in self._entries.values() if e.status == "active" and e.visits)
        judged = (e.visits[e.last_visit] for e in active if _among(e.task, categories))
        return [j for j in judged if j.step >= since_step]

    def enter(self, task_id: str, epoch: int) -> None:
        """Make a variant active from this epoch on."""
        entry = self[task_id]
        entry.entered, entry.status, entry.reason = epoch, "active", ""

    def retire(self, task_id: str, reason: str) -> None:
        """Draw a variant no more, but to test it again."""
        entry = self[task_id]
        entry.status, entry.reason = "retired", reason

    def add_visit(self, judgement: Judgement, epoch: int) -> bool:
        """Keep a judgement; False: the task was judged in this epoch already."""
        entry = self[judgement.task_id]
        if epoch in entry.visits:
            return False
        entry.visits[epoch] = judgement
        return True

    def _of(self, status: Status) -> list[tuple[str, PoolEntry]]:
        rows = list(self._entries.items())  # a copy: another thread may ingest meanwhile
        return [(i, e) for i, e in rows if e.status == status and not e.original]

    # -- state ------------------------------------------------------------------------------

    def state_dict(self) -> dict[str, Json]:
        """Everything but the original tasks' content, which the run's configuration gives."""
        rows = self._entries.items()
        return {
            "originals": [i for i, e in rows if e.original],
            "visits": {i: [_row(v, j) for v, j in e.visits.items()] for i, e in rows if e.visits},
            "variants": [
                {"task": e.task.to_json(), "status": e.status, "reason": e.reason,
                 "made": e.made, "entered": e.entered}
                for e in self._entries.values() if not e.original
            ],
        }  # fmt: skip

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        """Stand where `state_dict` was taken; `add_originals` gave the same tasks before.

        Raises:
            StoreError: the original tasks differ.
        """
        mine, theirs = set(self.originals(None)), set(state["originals"])
        if mine != theirs:
            raise StoreError(
                "the original tasks differ from those of the saved state: "
                f"{len(mine & theirs)} match, {len(theirs - mine)} are missing, "
                f"{len(mine - theirs)} are new. Resume with the same tasks and split."
            )
        kept = [(i, e.task) for i, e in self._entries.items() if e.original]
        self._entries = {i: PoolEntry(task, original=True, status="active") for i, task in kept}
        for number, row in enumerate(state["variants"], 1):
            task = Task.from_json(row["task"], f"variant {number} of the saved state")
            place = row["status"], row["reason"]
            self._entries[task.id] = PoolEntry(task, False, *place, row["made"], row["entered"])
        for task_id, visits in state["visits"].items():
            for row in visits:
                self.add_visit(_judgement(self[task_id].task, row), row[0])


def _among(task: Task, categories: Collection[str]) -> bool:
    return not categories or task.category in categories


def _row(epoch: int, j: Judgement) -> list[Json]:
    return [
        epoch, j.step, j.policy_version, j.rbar, j.variance, *j.interval, j.n_valid, j.k, j.region,
    ]  # fmt: skip


def _judgement(task: Task, row: Sequence[Any]) -> Judgement:
    """Read what `_row` wrote."""
    _, step, version, rbar, variance, low, high, n, k, region = row
    known = (rbar, variance, (low, high), n, k, region, version, step)
    return Judgement(task.id, task.category, *known)
