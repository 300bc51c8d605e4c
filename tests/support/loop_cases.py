"""A run of the loop without a model: a policy that gets better, a trainer that counts, kills."""

from __future__ import annotations

import asyncio
import json
import random
import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any, NamedTuple

from pool_cases import config as small_config
from rods.components import Components
from rods.config import RunConfig
from rods.dialects import get_dialect
from rods.loop import train
from rods.policy import Capabilities, Completion, Engine, ScriptedPolicy, Weights
from rods.reward import Score
from rods.rewards import rewards_of
from rods.store import RunDirectory
from rods.task import Task
from rods.trainers.collect import training_signals
from rods.trajectory import Group, TrainingSignal
from rods.types import FinishReason, ToolCall
from rollout_cases import TEMPLATE
from worlds import NotesEnvironment, notes_task


def task_of(number: int) -> Task:
    turns = [(f"add {number + i}", [ToolCall("add", {"amount": number + i})]) for i in range(2)]
    return notes_task(turns, origin=f"notes_{number}")


class Learner(Engine):
    """Does what the last message asks, the more often the more updates it has seen."""

    capabilities = Capabilities("handed", beside_updates=True)
    version = 0

    def __init__(self) -> None:
        self.did: list[str] = []
        self.loops: set[asyncio.AbstractEventLoop] = set()

    async def start(self) -> None:
        self._do("start")

    async def sync(self, weights: Weights, version: int) -> None:
        self.version = version
        self._do(f"sync {dict(weights.tensors())['total']:.2f}")

    async def sleep(self) -> None:
        self._do("sleep")

    async def wake(self) -> None:
        self._do("wake")

    async def close(self) -> None:
        self._do("close")

    def _do(self, what: str) -> None:
        self.did.append(what)
        self.loops.add(asyncio.get_running_loop())

    def open(self, seed: int, shared_prompt: Sequence[int] = ()) -> LearnerSession:
        return LearnerSession(random.Random(seed), self.version)


class LearnerSession:
    def __init__(self, rng: random.Random, version: int) -> None:
        self._rng, self._version, self._skill = rng, version, 0.35 + 0.03 * version

    async def generate(
        self,
        new_ids: Sequence[int],
        max_tokens: int,
        temperature: float,
        stops: Sequence[str] = (),
        top_p: float = 1.0,
    ) -> Completion:
        await asyncio.sleep(0)
        read = TEMPLATE.tokenizer.decode(new_ids, skip_special_tokens=False)
        asked = re.findall(r"add (\d+)", read)
        text = "ok"
        if asked:
            wrong = self._rng.random() > self._skill
            text = f"[add(amount={int(asked[-1]) + wrong})]"
        ids = (*TEMPLATE.encode(text), TEMPLATE.end_id)
        return Completion(ids, (-0.5,) * len(ids), FinishReason.STOP, self._version)

    def close(self) -> None:
        pass


class Mute(Learner):
    """Says hello to everything."""

    def open(self, seed: int, shared_prompt: Sequence[int] = ()) -> Any:
        ids = [*TEMPLATE.encode("hello"), TEMPLATE.end_id]
        return ScriptedPolicy([ids] * 9).open(seed)


class Report:
    seconds, informative = 0.0, 1

    def __init__(self, loss: float, signals: Sequence[Sequence[TrainingSignal]]) -> None:
        self.loss, self.signals = loss, signals

    def metrics(self) -> dict[str, Any]:
        return {"loss": self.loss}


class Total(NamedTuple):
    """The weights of a `Counter`."""

    total: float
    adapters: bool = False

    def tensors(self) -> Iterator[tuple[str, float]]:
        yield "total", self.total

    def save(self, folder: Path) -> None:
        raise AssertionError("nobody asked for a folder")


class Counter:
    """A trainer whose weights are the number of updates and the sum of all rewards."""

    def __init__(self) -> None:
        self.step = self.version = 0
        self.total = 0.0

    def update(self, groups: Sequence[Group], scores: Sequence[Sequence[Score]]) -> Report:
        self.step += 1
        self.version += 1
        self.total += sum(s.value for row in scores for s in row)
        return Report(self.total, training_signals(groups, scores, []))

    def weights(self) -> Total:
        return Total(self.total)

    def save(self, folder: Path) -> None:
        folder.mkdir()
        state = {"step": self.step, "version": self.version, "total": self.total}
        (folder / "state.json").write_text(json.dumps(state))

    def load(self, folder: Path) -> None:
        for name, value in json.loads((folder / "state.json").read_text()).items():
            setattr(self, name, value)


class Queue:
    """Variants at once: the same request, other numbers."""

    def __init__(self) -> None:
        self.made: dict[str, list[Task]] = {}

    def submit(
        self, request_id: str, seed: Task, first: int, n: int, priority: float, epoch: int
    ) -> None:
        rng = random.Random(f"{seed.id}/{first}")
        variants = [task_of(rng.randrange(100, 10_000)) for _ in range(n)]
        self.made[request_id] = [
            replace(v, provenance=replace(v.provenance, ancestors=(seed.id,))) for v in variants
        ]

    def drain(self, request_ids: Sequence[str], timeout: float) -> bool:
        return True

    def results(self, request_ids: Sequence[str]) -> list[tuple[str, int, Task, float]]:
        return [(r, i, t, 0.1) for r in request_ids for i, t in enumerate(self.made[r])]

    def state(self) -> Mapping[str, Any]:
        return {"accepted": sum(map(len, self.made.values()))}


class Screen:
    """Counts, and does something at a step when asked."""

    def __init__(self, at: int = 0, then: Callable[[], None] = lambda: None) -> None:
        self._at, self._then = at, then
        self.epochs: list[Mapping[str, Any]] = []
        self.said: list[str] = []

    def record(self, record: Mapping[str, Any]) -> None:
        if record["kind"] == "step" and record["step"] == self._at:
            self._then()
        if record["kind"] == "epoch":
            self.epochs.append(record)

    def rollout(self, done: int, total: int, samples: int | None = None) -> None:
        assert 0 < done <= total

    def message(self, text: str, until: str = "") -> None:
        assert text
        self.said.append(text)


class Killed(BaseException):
    """Nothing catches it, as nothing catches a kill."""


def kill() -> None:
    raise Killed


async def no_rows(policy: Any, progress: Callable[[int, int], None]) -> list[dict[str, Any]]:
    return [{"version": policy.version}]


def parts(curriculum: str) -> Components:
    return Components(
        environment=NotesEnvironment(),
        originals=[task_of(n) for n in range(1, 9)],
        policy=Learner(),
        trainer=Counter(),
        dialect=get_dialect("pythonic"),
        template=TEMPLATE,
        synthesis=Queue() if curriculum == "rods" else None,
        evaluate=no_rows,
        rewards=rewards_of(),
    )


def settings(**changes: Any) -> RunConfig:
    often = {"train": {"local": {"checkpoint_steps": 3}}, "evaluation": {"every": 3}}
    return small_config(**{**often, **changes})


def start(path: Path, config: RunConfig) -> RunDirectory:
    path.mkdir()
    return RunDirectory.create(path, config, command=["rods", "train"])


def played(path: Path) -> list[dict[str, Any]]:
    """What must be the same however often a run was killed."""
    dropped = {"seconds_rollout", "tokens_per_s", "trajectories_per_s", "synthesis", "schedule"}
    rows = RunDirectory.open(path).metrics()
    return [{k: v for k, v in row.items() if k not in dropped} for row in rows]


def run(path: Path, config: RunConfig, screen: Screen | None = None) -> None:
    made = start(path, config) if not path.exists() else RunDirectory.resume(path, config)
    train(parts(config.curriculum), made, screen or Screen())
