"""The curriculum as prime-rl's sampler, and our tasks with verifiers' own classes."""

from __future__ import annotations

import asyncio
import importlib.util
import json
import pickle
from collections.abc import Iterator
from contextlib import asynccontextmanager
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from pool_cases import FakeQueue, config, group, originals, rewards
from rods.curriculum.online import OnlineCurriculum
from rods.dialects import structured
from rods.errors import TaskError, TrainError
from rods.task import write_tasks
from rods.trainers.prime import CurriculumSampler
from synthesis_cases import named

STAGES = [{"name": "grow", "epochs": 3, "expand": True}]
HERMES = structured("hermes")
verifiers = pytest.mark.skipif(
    importlib.util.find_spec("verifiers") is None, reason="needs verifiers"
)


@pytest.fixture
def build(tmp_path: Path) -> Iterator[Any]:
    opened: list[OnlineCurriculum] = []

    def make(name: str) -> OnlineCurriculum:
        settings = config(stages=STAGES)
        opened.append(OnlineCurriculum(settings, originals(5), tmp_path / name, FakeQueue(), None))
        return opened[-1]

    yield make
    for one in opened:
        one.close()


def made(task: Any) -> Any:
    return SimpleNamespace(key=task.id, ours=task)


def episodes(task: Any, values: list[float | None], version: int = 3) -> list[Any]:
    """A group as prime-rl hands it over: episodes with traces, one of them of a judge."""
    judge = SimpleNamespace(agent=SimpleNamespace(trainable=False), has_error=False, reward=9.0)
    span = SimpleNamespace(end=version)
    return [
        SimpleNamespace(
            task=SimpleNamespace(key=task.key),
            run=SimpleNamespace(work=SimpleNamespace(policy=span)),
            traces=[
                SimpleNamespace(
                    agent=SimpleNamespace(trainable=True),
                    has_error=value is None,
                    reward=value or 0.0,
                ),
                judge,
            ],
        )
        for value in values
    ]


def play(sampler: CurriculumSampler, n: int) -> list[str]:
    drawn: list[str] = []
    for _ in range(n):
        task = next(sampler)
        drawn.append(task.key)
        sampler.observe(episodes(task, list(rewards(task.ours, 0))))
    return drawn


def test_the_boundary_sees_what_prime_rl_plays(build: Any) -> None:
    ours, theirs = build("ours"), build("theirs")
    sampler = CurriculumSampler(theirs, made)
    for _ in range(5):
        (lease,) = ours.draw(1)
        values = rewards(lease.task, 0)
        ours.observe(*group(lease.task, values), lease.epoch)
        task = next(sampler)
        assert task.key == lease.task.id
        sampler.observe(episodes(task, list(values)))
    assert sampler.metrics() == ours.metrics()
    assert sampler.metrics()["judged"] == 5


def test_groups_that_failed_are_neither_judged_nor_lost(build: Any) -> None:
    curriculum = build("a")
    sampler = CurriculumSampler(curriculum, made)
    sampler.observe(episodes(next(sampler), [None, None]))
    assert sampler.metrics()["unjudged"] == 1 and sampler.metrics()["judged"] == 0
    with pytest.raises(TaskError):
        sampler.observe(episodes(SimpleNamespace(key="nobody"), [1.0]))
    with pytest.raises(TrainError, match="the key must be our id"):
        next(CurriculumSampler(curriculum, lambda _: SimpleNamespace(key="x")))


def test_a_resume_draws_the_same_and_ends(build: Any) -> None:
    whole = play(CurriculumSampler(build("whole"), made), 12)
    first = CurriculumSampler(build("first"), made)
    begun = play(first, 6)
    lost = next(first).key  # in flight when the state is saved
    state = pickle.loads(pickle.dumps(first.state_dict()))
    second = CurriculumSampler(build("second"), made)
    second.load_state_dict(state)
    rest = play(second, 6)
    assert rest[0] == lost and begun + rest == whole
    with pytest.raises(StopIteration):
        while True:
            play(second, 1)


@pytest.mark.hosts
@verifiers
def test_verifiers_plays_our_tasks(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    from verifiers.v1.utils.loaders import environment_class, load_taskset

    from rods.envs.elsewhere import taskset as ours

    monkeypatch.syspath_prepend(Path(__file__).parents[1] / "examples" / "verifiers")
    tasks = [named(f"multi_turn_{c}_7") for c in ("base", "miss_func", "miss_param")]
    write_tasks(tmp_path / "tasks.jsonl", tasks)
    settings = ours.TasksConfig(id="rods_tasks", tasks=str(tmp_path / "tasks.jsonl"))
    loaded = list(load_taskset(settings))
    assert [task.key for task in loaded] == [task.id for task in tasks]
    assert all(task.data.prompt is None and "ground_truth" in task.data.task for task in loaded)
    assert environment_class("rods_tasks") is ours.RodsEnv
    for theirs, task in zip(loaded, tasks, strict=True):
        wire = ours.TaskRow(**json.loads(theirs.data.model_dump_json()))  # through a process

        assert _episode(ours, ours.RodsTask(wire), _solving(task)) == {"progress": 1.0}
        early = _episode(ours, ours.RodsTask(wire), iter([HERMES.answer("Done.")]))
        assert early["progress"] < 1.0


def _solving(task: Any) -> Iterator[str]:
    for turn in task.turns:
        for call in turn.ground_truth:
            yield HERMES.write([call])
        yield HERMES.answer("Done.")


def _episode(ours: Any, task: Any, replies: Iterator[str]) -> dict[str, float]:
    """What the environment records, with an agent that says these texts."""
    recorded: dict[str, float] = {}
    trace = SimpleNamespace(record_reward=recorded.__setitem__)

    class Interaction:
        def __init__(self) -> None:
            self.trace = trace

        async def turn(self, message: str) -> Any:
            reply = next(replies, None)
            return SimpleNamespace(last_reply=reply, terminated=reply is None)

    @asynccontextmanager
    async def interaction(asked: Any) -> Any:
        assert asked.data.system_prompt.startswith(HERMES.system_prompt())
        yield Interaction()

    agents = SimpleNamespace(agent=SimpleNamespace(interaction=interaction))
    asyncio.run(ours.RodsEnv.run(SimpleNamespace(), task, agents))
    return recorded
