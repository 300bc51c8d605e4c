"""The checker of `benchmarks/faults.py` sees what is planted: lost, doubled, twice, unnamed."""

from __future__ import annotations

import importlib
import json
import random
import re
import sys
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest

from places import BENCHMARKS
from pool_cases import group, lease, originals, start, variant
from rods.config import ReplaySettings, RunConfig
from rods.curriculum.replay import ReplayBuffer
from rods.curriculum.requests import SynthesisRequest
from rods.curriculum.saving import STATE
from rods.curriculum.saving import VARIANTS as LINES
from rods.store import RunDirectory, new_run_dir
from rods.synthesis.pipeline import RequestOutcome
from rods.synthesis.worker.queue import SqliteQueue

TASKS = originals(4)
VARIANTS = [variant(TASKS[0], i) for i in range(3)]


@pytest.fixture
def faults(monkeypatch: pytest.MonkeyPatch) -> Iterator[Any]:
    monkeypatch.syspath_prepend(str(BENCHMARKS))
    yield importlib.import_module("faults")
    for name in ("faults", "kill_resume"):
        sys.modules.pop(name, None)


def nothing(requests: dict[str, Any], variants: list[Any]) -> None:
    pass


def lose(requests: dict[str, Any], variants: list[Any]) -> None:
    if len(variants) == len(VARIANTS):
        del variants[1]


def reopen(requests: dict[str, Any], variants: list[Any]) -> None:
    """The pool holds what was never accepted."""
    requests["closed"] = []


def double(requests: dict[str, Any], variants: list[Any]) -> None:
    variants.append({**variants[0], "made": 7})


def played(
    path: Path,
    change: Callable[[dict[str, Any], list[Any]], None] = nothing,
    updates: int = 2,
    again: int = 0,
    logged: int = 1,
) -> Path:
    """A run of two groups an update, with three accepted variants; then the buffer is changed."""
    run = RunDirectory.create(new_run_dir(path, "run"), RunConfig(), command=["rods", "train"])
    with closing(SqliteQueue(run.path / "synthesis.sqlite")) as queue:
        for name, first in (("closed", 0), ("open", 3)):
            queue.submit(name, TASKS[0], first, 3, 1.0, 0)
        for number in range(4):  # the last one is of the order that is open: not accepted yet
            order = queue.next_outcome()
            assert order is not None
            made = variant(TASKS[0], number)
            queue.record(order, RequestOutcome(made, 0.1, ()), 0.1)
    buffer = ReplayBuffer(ReplaySettings(), 0)
    buffer.pool.add_originals(TASKS)
    assert all(buffer.pool.offer(made, 0) for made in VARIANTS)
    request = SynthesisRequest("closed", TASKS[0].id, 0, 3, 1.0, 0, 9)
    requests = {"closed": [list(request)], "open": [list(request._replace(id="open", first=3))]}
    start(buffer, 0)
    for step in range(1, updates + 1):
        tasks = [task for task, _ in lease(buffer, 2)]
        for task in tasks:
            buffer.draws.close(task.id, 0)
        groups = [group(task, [1.0, 0.0])[0] for task in tasks + tasks[:again]]
        run.write_trajectories(step, [t for g in groups for t in g.trajectories])
        for _ in range(logged):
            run.log({"kind": "step", "step": step})
        with run.checkpoint(step) as folder:
            state: dict[str, Any] = {"buffer": buffer.state_dict(), "requests": requests}
            variants = state["buffer"]["pool"].pop("variants")
            change(requests, variants)
            (folder / STATE).write_text(json.dumps(state))
            (folder / LINES).write_text("".join(json.dumps(v) + "\n" for v in variants))
    run.log({"kind": "step", "step": updates})  # what no checkpoint knows does not count
    return run.path


@pytest.mark.slow
def test_a_run_in_which_nothing_is_wrong(faults: Any, tmp_path: Path) -> None:
    assert faults.check(played(tmp_path)) == faults.Counts(2, 3, 3, 0, 0, 4, 0, 0)
    assert faults.check(tmp_path / "nothing") == faults.Counts()


@pytest.mark.parametrize(
    ("change", "lost", "doubled"),
    [(lose, 1, 0), (reopen, 3, 0), (double, 0, 1)],
)
def test_variants_lost_and_doubled(
    faults: Any, tmp_path: Path, change: Any, lost: int, doubled: int
) -> None:
    counts = faults.check(played(tmp_path, change))
    assert (counts.lost, counts.doubled, counts.twice, counts.untrained) == (lost, doubled, 0, 0)


def test_groups_trained_twice_or_never(faults: Any, tmp_path: Path) -> None:
    assert faults.check(played(tmp_path / "a", again=1)).twice == 2  # one in each update
    assert faults.check(played(tmp_path / "b", logged=2)).twice == 2
    gone = played(tmp_path / "c")
    (gone / "trajectories" / "step-000001.parquet").unlink()
    assert faults.check(gone).untrained == 2


def test_a_fault_that_no_log_names(
    faults: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    class Over:
        def poll(self) -> int:
            return 0

    monkeypatch.setattr(faults, "PATIENCE", 0.3)
    run, told = faults.Run(tmp_path / "run", [], Over()), faults.Told()
    said = tmp_path / "run.log"
    said.write_text("the worker ended\n")
    assert faults.watch(run, "named", "the worker ended", told) == "named"
    run.mark()
    assert faults.watch(run, "unnamed", "the worker ended", told) == "NOT NAMED"
    (tmp_path / "run").mkdir()
    (tmp_path / "run" / "manifest.json").write_text('{"finished": "now"}')
    assert faults.watch(run, "unmet", "the worker ended", told) == "not met"
    assert (told.unnamed(), told.done.total()) == (1, 3)
    assert told.named == Counter(named=1) and told.unmet == Counter(unmet=1)


class Stopped:
    """A run that a fault of its log may kill; nothing runs."""

    def __init__(self, path: Path) -> None:
        self.path = path

    def kill(self) -> None:
        pass


@pytest.mark.parametrize("name", ["last line torn", "garbage at the end"])
def test_a_resume_names_what_a_fault_did_to_the_log(
    faults: Any, tmp_path: Path, caplog: pytest.LogCaptureFixture, name: str
) -> None:
    for seed in range(6):  # garbage with and without the end of a line
        run = RunDirectory.create(new_run_dir(tmp_path, f"run-{seed}"), RunConfig())
        run.log({"kind": "step", "step": 1})
        with run.checkpoint(1):
            pass
        if seed % 2:  # a line that no checkpoint knows yet
            run.log({"kind": "step", "step": 2})
        named = faults.FAULTS[name](Stopped(run.path), random.Random(seed))
        caplog.clear()
        RunDirectory.resume(run.path)
        assert re.search(named, caplog.text), (seed, caplog.text)
