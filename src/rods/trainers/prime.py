"""Our curriculum as a task sampler of prime-rl: it draws, and observes every group.

Owns the translation between their episodes and our rewards. It is written against the interface of
prime-rl's `TaskSampler` (August 2026: `__next__`, `observe`, `state_dict`, `load_state_dict`,
`metrics`) and derives from it where prime-rl can be imported; else it is the same by its methods.
Never updates weights.

    sampler = CurriculumSampler(curriculum, lambda task: row_of(task, 0, config))
    train_source.curricula["rods"].sampler = sampler

prime-rl makes its samplers from its own configuration, which knows no others: so ours is put into
the place of the one that it made.
"""

from __future__ import annotations

import importlib
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any

from rods.curriculum.online import OnlineCurriculum
from rods.errors import TrainError
from rods.task import Task

if TYPE_CHECKING:
    _Base = Iterator[Any]
else:
    try:
        _Base = importlib.import_module("prime_rl.orchestrator.curriculum").TaskSampler
    except ImportError:
        _Base = Iterator


class CurriculumSampler(_Base):
    """Tasks of a live curriculum, variants included; one a call, across epochs."""

    def __init__(self, curriculum: OnlineCurriculum, made: Callable[[Task], Any]) -> None:
        """Draw nothing yet.

        Args:
            curriculum: that of this training source.
            made: verifiers' task of one of ours; its `key` must be our id
                (`rods.envs.elsewhere.taskset.row_of`).
        """
        self._curriculum, self._made = curriculum, made

    def __next__(self) -> Any:
        """The next task.

        Raises:
            StopIteration: all stages are drawn.
        """
        leases = self._curriculum.draw(1)
        if not leases:
            raise StopIteration
        task = self._made(leases[0].task)
        if task.key != leases[0].task.id:
            raise TrainError(
                f"task {leases[0].task.id} became one with key {task.key!r}; the key must be our "
                "id, or its group could not be observed."
            )
        return task

    def observe(self, group: Sequence[Any]) -> None:
        """Judge a finalised group; rewards of traces with an error do not count.

        Args:
            group: verifiers' episodes of one task, admitted or not.

        Raises:
            TaskError: the task is not of this curriculum.
            RewardError: a reward lies outside [0, 1].
        """
        traces = [t for episode in group for t in episode.traces if t.agent.trainable]
        valid = [not trace.has_error for trace in traces]
        values = [t.reward if ok else 0.0 for t, ok in zip(traces, valid, strict=True)]
        self._curriculum.observe_values(
            str(group[0].task.key), values, valid, max(map(_version, group))
        )

    def state_dict(self) -> dict[str, Any]:
        """Everything, as one value: numbers, text and bytes."""
        return self._curriculum.state_dict()

    def load_state_dict(self, state_dict: Mapping[str, Any]) -> None:
        """Go on from it; tasks whose groups were in flight are drawn again, first of all."""
        self._curriculum.load_state_dict(state_dict)

    def metrics(self) -> dict[str, float]:
        """Meters of the current epoch and the state of the pool."""
        return self._curriculum.metrics()


def _version(episode: Any) -> int:
    """The policy version that played it last, where the trainer says one."""
    work = getattr(episode.run, "work", None)
    span = getattr(work, "policy", None)
    return 0 if span is None else int(span.end)
