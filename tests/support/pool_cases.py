"""Small tasks, groups and a synthesis queue for the tests of boundary, buffer and curriculum."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping, Sequence
from typing import Any

from rods.config import BoundarySettings, RunConfig, parse_config
from rods.curriculum.boundary import Judgement, judge_values, region_of, signals, wilson
from rods.curriculum.draws import Lease
from rods.curriculum.replay import EpochReport, ReplayBuffer
from rods.env import TurnVerdict
from rods.reward import Score
from rods.task import Provenance, Task, Turn
from rods.trajectory import Group, Trajectory
from rods.types import StopReason

CATEGORIES = ("base", "miss_func", "miss_param", "long_context")


def original(number: int, category: str = "base") -> Task:
    return Task(
        "toy",
        category,
        (Turn(f"do {number}"),),
        {},
        Provenance(f"{category}_{number}", f"s{number}"),
    )


def originals(count: int, categories: Sequence[str] = CATEGORIES) -> list[Task]:
    return [original(i, categories[i % len(categories)]) for i in range(count)]


def variant(seed: Task, index: int, noise: int = 0) -> Task:
    p = seed.provenance
    return Task(
        seed.env,
        seed.category,
        (Turn(f"{seed.turns[0].user} again {noise}.{index}"),),
        {},
        Provenance(p.origin, p.scenario, (*p.ancestors, seed.id), "toy", noise),
    )


def trajectory(task: Task, member: int, solved: bool, failure: str | None = None) -> Trajectory:
    verdict = TurnVerdict(
        expects_calls=False, calls=int(not solved), state=True, executed=True, official=True
    )
    stop = StopReason.FAILURE if failure else StopReason.DONE
    return Trajectory(task.id, member, 0, 0, (), (), (verdict,), 1, (), stop, failure)


def judge(
    group: Group,
    scores: Sequence[Score],
    settings: BoundarySettings,
    step: int,
    by_turns: bool = False,
) -> Judgement | None:
    """The judgement on one group, as the curriculum makes it."""
    values, task = signals(group, scores, settings, by_turns=by_turns), group.task
    return judge_values(task.id, task.category, values, settings, step, group.policy_version)


def group(
    task: Task, values: Sequence[float], invalid: int = 0, version: int = 0
) -> tuple[Group, list[Score]]:
    """A group with these rewards, and so many invalid members after them."""
    members = [trajectory(task, i, v >= 1) for i, v in enumerate(values)]
    members += [trajectory(task, len(values) + i, False, "tool server") for i in range(invalid)]
    scores = [Score(v) for v in values] + [Score(0.0, valid=False, reason="down")] * invalid
    return Group(task, members, version), scores


def judgement(task: Task, rbar: float, step: int = 0, variance: float = 0.1) -> Judgement:
    region = region_of(rbar, BoundarySettings())
    return Judgement(
        task.id, task.category, rbar, variance, wilson(rbar, 8), 8, 8, region, step, step
    )


def rewards(task: Task, epoch: int, k: int = 4) -> list[float]:
    """Rewards that look random but depend on task and epoch alone, as a seeded rollout's do."""
    raw = hashlib.sha256(f"{task.id}/{epoch}".encode()).digest()
    level = raw[0] % 5  # 0: never, 4: always
    return [float(raw[1 + i] % 4 < level) for i in range(k)]


class FakeQueue:
    """A durable queue that makes variants at once; `slow` requests are never finished."""

    def __init__(self) -> None:
        self.requests: dict[str, tuple[Task, int, int, int]] = {}
        self.slow: set[str] = set()
        self.submissions = 0

    def submit(
        self, request_id: str, seed: Task, first: int, n: int, priority: float, epoch: int
    ) -> None:
        self.submissions += 1
        self.requests.setdefault(request_id, (seed, n, first, epoch))

    def drain(self, request_ids: Sequence[str], timeout: float) -> bool:
        return not self.slow & set(request_ids)

    def results(self, request_ids: Sequence[str]) -> list[tuple[str, int, Task, float]]:
        out: list[tuple[str, int, Task, float]] = []
        for name in request_ids:
            seed, n, first, _ = self.requests[name]
            out += [(name, i, variant(seed, i), 0.1) for i in range(first, first + n)]
        return out


def config(**sections: object) -> RunConfig:
    """A small run: 2 stages, 4 tasks a step, groups of 4."""
    data: dict[str, object] = {
        "rollout": {"k": 4, "tasks_per_step": 4},
        "boundary": {"seeds": 4},
        "replay": {"cap": 10, "inject": 0.5},
        "stages": [
            {"name": "plain", "epochs": 1},
            {"name": "grow", "epochs": 4, "expand": True},
        ],
    }
    data.update(sections)
    return parse_config(data, "test")


def judged_draws(state: Mapping[str, Any]) -> list[tuple[Any, ...]]:
    """All draws of a curriculum's state in order, with what was judged of each."""
    visits = {
        (epoch, task_id): (rbar, variance, version)
        for task_id, rows in state["buffer"]["pool"]["visits"].items()
        for epoch, _, version, rbar, variance, *_ in rows
    }
    nothing = (None, None, None)
    return [
        (int(epoch), position, task_id, status, *visits.get((int(epoch), task_id), nothing))
        for epoch, (*order, letters) in sorted(state["buffer"]["draws"].items())
        for position, (task_id, status) in enumerate(zip(order, letters, strict=True))
    ]


def start(buffer: ReplayBuffer, epoch: int, **how: Any) -> EpochReport:
    """Begin an epoch of a buffer as the curriculum does."""
    buffer.retire_stale(epoch)
    return buffer.start_epoch(epoch, **how)


def lease(buffer: ReplayBuffer, n: int) -> list[Lease]:
    """Draw at most `n` tasks of a buffer as the curriculum does."""
    return [Lease(buffer.pool.task(task_id), epoch) for task_id, epoch in buffer.draws.lease(n)]
