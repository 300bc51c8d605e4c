"""Our tasks with verifiers' own classes."""

from __future__ import annotations

import asyncio
import importlib.util
import json
from collections.abc import Iterator
from contextlib import asynccontextmanager
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from places import ROOT
from rods.dialects import structured
from rods.task import write_tasks
from synthesis_cases import named

HERMES = structured("hermes")
verifiers = pytest.mark.skipif(
    importlib.util.find_spec("verifiers") is None, reason="needs verifiers"
)


@pytest.mark.hosts
@verifiers
def test_verifiers_plays_our_tasks(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    from verifiers.v1.utils.loaders import environment_class, load_taskset

    from rods.integrations import taskset as ours

    monkeypatch.syspath_prepend(ROOT / "examples" / "verifiers")
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
