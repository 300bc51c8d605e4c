"""The durable queue and the worker: idempotent, ordered, deterministic, killed at will."""

from __future__ import annotations

import dataclasses
import errno
import os
import random
import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import pytest

from rods.errors import StoreError, SynthesisError
from rods.synthesis.pipeline import Outcome, synthesize
from rods.synthesis.rejection import Rejection
from rods.synthesis.structure.trace import trace
from rods.synthesis.worker.client import SynthesisWorker, WorkerSettings
from rods.synthesis.worker.queue import SynthesisQueue
from synthesis_cases import ENVIRONMENT, keeper, sides, writer

SETTINGS = WorkerSettings(sides().train[:48], sides().held_out[:48], inline=True)
SEEDS = sides().train[:6]


def ordered(worker: SynthesisWorker, n: int = 2) -> list[str]:
    ids = [f"r{i}" for i in range(len(SEEDS))]
    for i, (name, seed) in enumerate(zip(ids, SEEDS, strict=True)):
        worker.submit(name, seed, n, i, float(i), 1)
    return ids


def test_inline_gives_verified_variants_in_order(tmp_path: Path) -> None:
    with SynthesisWorker(tmp_path / "q.sqlite", SETTINGS) as worker:
        ids = ordered(worker)
        assert worker.drain(ids, 0.0)
        found = worker.results(ids)
        assert [(r, i) for r, i, _, _ in found] == sorted((r, i) for r, i, _, _ in found)
        assert len(found) >= 10
        assert all(0 <= distance <= 0.25 for *_, distance in found)
        assert worker.results(ids) == found
        state = worker.state()
        assert state["accepted"] == len(found) and state["requests"] == 0


def test_same_request_same_variants_whatever_the_order(tmp_path: Path) -> None:
    with SynthesisWorker(tmp_path / "a.sqlite", SETTINGS) as one:
        first = one.results(ordered(one))
    with SynthesisWorker(tmp_path / "b.sqlite", SETTINGS) as two:
        for i in reversed(range(len(SEEDS))):
            two.submit(f"r{i}", SEEDS[i], 2, i, 0.0, 5 - i)
        second = two.results([f"r{i}" for i in range(len(SEEDS))])
    assert [t.id for *_, t, _ in first] == [t.id for *_, t, _ in second]


def test_submitting_again_changes_nothing(tmp_path: Path) -> None:
    with SynthesisWorker(tmp_path / "q.sqlite", SETTINGS) as worker:
        worker.submit("r", SEEDS[0], 1, 0, 1.0, 1)
        before = worker.results(["r"])
        worker.submit("r", SEEDS[1], 5, 9, 2.0, 7)
        assert worker.results(["r"]) == before


def test_an_unknown_request_is_never_finished(tmp_path: Path) -> None:
    with SynthesisWorker(tmp_path / "q.sqlite", SETTINGS) as worker:
        assert not worker.drain(["nobody"], 0.0)
        assert worker.results(["nobody"]) == []


def test_the_file_belongs_to_its_tasks(tmp_path: Path) -> None:
    path = tmp_path / "q.sqlite"
    SynthesisWorker(path, SETTINGS).stop()
    with pytest.raises(SynthesisError, match="other tasks or settings"):
        SynthesisWorker(path, dataclasses.replace(SETTINGS, max_distance=0.1))
    (tmp_path / "broken.sqlite").write_bytes(b"no database" * 200)
    with pytest.raises(StoreError):
        SynthesisWorker(tmp_path / "broken.sqlite", SETTINGS)


@pytest.mark.parametrize("where", ["q-training.jsonl.part", "q.log"])
def test_a_full_disk_at_the_start_is_one_message(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, where: str
) -> None:
    real = Path.open

    def full(self: Path, *args: Any, **more: Any) -> Any:
        if self.name == where:
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
        return real(self, *args, **more)

    monkeypatch.setattr(Path, "open", full)
    few = dataclasses.replace(SETTINGS, training=SEEDS, held_out=(), inline=False)
    with pytest.raises(StoreError, match=r"the disk is full.*free some space"):
        SynthesisWorker(tmp_path / "q.sqlite", few)


def test_queue_takes_oldest_epoch_then_priority(tmp_path: Path) -> None:
    queue = SynthesisQueue(tmp_path / "q.sqlite")
    for name, priority, epoch in (("a", 0.1, 2), ("b", 0.9, 2), ("c", 0.0, 1)):
        queue.submit(name, SEEDS[0], 1, 0, priority, epoch)
    order: list[str] = []
    while (current := queue.next_order()) is not None:
        order.append(current.id)
        queue.record(current, 0, Outcome(None, 1.0, (Rejection("gate", "novelty"),)), 0.1)
    assert order == ["c", "b", "a"]
    assert queue.counts().rejected == {"novelty": 3}
    assert queue.counts().stages == {"gate": 3}
    queue.close()


def test_an_outcome_is_recorded_once(tmp_path: Path) -> None:
    queue = SynthesisQueue(tmp_path / "q.sqlite")
    queue.submit("r", SEEDS[0], 2, 0, 1.0, 1)
    order = queue.next_order()
    assert order is not None
    outcome = synthesize(SEEDS[0], writer(), keeper(), 0, 5)
    queue.record(order, 0, outcome, 0.1)
    queue.record(order, 0, outcome, 0.1)
    assert queue.counts().accepted == 1 and queue.waiting() == 1
    again = queue.next_order()
    assert again is not None and again.made == 1
    queue.results(["r"])
    assert queue.waiting() == 1  # not finished, so not taken
    queue.record(again, 1, outcome, 0.1)
    queue.results(["r"])
    assert queue.waiting() == 0
    queue.close()


@pytest.mark.slow
def test_invariant_6_the_process_works_beside_and_calls_do_not_block(tmp_path: Path) -> None:
    settings = dataclasses.replace(SETTINGS, inline=False)
    with SynthesisWorker(tmp_path / "q.sqlite", settings) as worker:
        slowest = 0.0
        ids = [f"r{i}" for i in range(20)]
        for i, name in enumerate(ids):
            started = time.perf_counter()
            worker.submit(name, SEEDS[i % 6], 2, i, 1.0, 1)
            worker.results(ids)
            worker.state()
            slowest = max(slowest, time.perf_counter() - started)
        assert slowest < 0.5
        assert worker.drain(ids, 120.0)
        found = worker.results(ids)
    with SynthesisWorker(tmp_path / "i.sqlite", SETTINGS) as inline:
        for i, name in enumerate(ids):
            inline.submit(name, SEEDS[i % 6], 2, i, 1.0, 1)
        assert [t.id for *_, t, _ in inline.results(ids)] == [t.id for *_, t, _ in found]
    assert all(v.solved for *_, t, _ in found for v in trace(ENVIRONMENT, t).verdicts)


@pytest.mark.slow
def test_invariant_8_kills_lose_and_double_nothing(tmp_path: Path) -> None:
    settings = dataclasses.replace(SETTINGS, inline=False)
    rng = random.Random(4)
    worker = SynthesisWorker(tmp_path / "q.sqlite", settings)
    ids = [f"r{i}" for i in range(120)]
    seen: set[tuple[str, int, str]] = set()
    for kill in range(3):  # a worker may be killed as often as it is started again
        for i in range(40 * kill, 40 * kill + 40):  # an order starts a dead worker again
            worker.submit(ids[i], SEEDS[i % 6], 3, i, 1.0, 1)
        time.sleep(0.7 + rng.random())
        os.kill(worker._process.pid, signal.SIGKILL)  # pyright: ignore
        worker._process.wait()  # pyright: ignore
        now = {(r, i, t.id) for r, i, t, _ in worker.results(ids)}
        assert seen <= now
        seen = now
    assert worker.drain(ids, 120.0)
    found = worker.results(ids)
    worker.stop()
    keys = [(r, i) for r, i, _, _ in found]
    assert len(keys) == len(set(keys))
    with SynthesisWorker(tmp_path / "i.sqlite", SETTINGS) as inline:
        for i, name in enumerate(ids):
            inline.submit(name, SEEDS[i % 6], 3, i, 1.0, 1)
        assert [t.id for *_, t, _ in inline.results(ids)] == [t.id for *_, t, _ in found]


@pytest.mark.slow
def test_the_worker_dies_with_its_parent(tmp_path: Path) -> None:
    code = (
        "import os, sys, dataclasses, pathlib, time\n"
        "sys.path.insert(0, sys.argv[2])\n"
        "from test_synthesis_worker import SETTINGS\n"
        "from rods.synthesis.worker.client import SynthesisWorker\n"
        "plain = dataclasses.replace(SETTINGS, inline=False)\n"
        "worker = SynthesisWorker(pathlib.Path(sys.argv[1]), plain)\n"
        "print(worker._process.pid, flush=True)\n"
        "os._exit(1)\n"
    )
    command = [sys.executable, "-c", code, str(tmp_path / "q.sqlite"), str(Path(__file__).parent)]
    pid = int(subprocess.run(command, capture_output=True, text=True, check=False).stdout)
    until = time.monotonic() + 60
    while time.monotonic() < until:
        try:
            os.kill(pid, 0)
        except ProcessLookupError:
            return
        time.sleep(0.1)
    os.kill(pid, signal.SIGKILL)
    raise AssertionError("the worker outlived its parent")


@pytest.mark.slow
def test_a_worker_that_cannot_start_says_why(tmp_path: Path) -> None:
    broken = dataclasses.replace(SETTINGS, inline=False, environment="no.such.module:World")
    worker = SynthesisWorker(tmp_path / "q.sqlite", broken)
    with pytest.raises(SynthesisError, match=r"no\.such\.module"):
        worker.drain(["r"], 60.0)
    worker.stop()


@pytest.mark.slow
def test_a_worker_that_worked_and_dies_again_and_again_is_suspended(tmp_path: Path) -> None:
    plain = dataclasses.replace(SETTINGS, inline=False)
    with SynthesisWorker(tmp_path / "q.sqlite", plain) as worker:
        worker.submit("r0", SEEDS[0], 1, 0, 1.0, 1)
        assert worker.drain(["r0"], 120.0)
        for number in range(1, 6):
            if worker.suspended:
                break
            assert worker.pid is not None
            os.kill(worker.pid, signal.SIGKILL)
            worker._process.wait()  # pyright: ignore
            worker.submit(f"r{number}", SEEDS[0], 500, number, 1.0, 1)
        assert "ended 4 times" in worker.suspended
        assert worker.state()["suspended"] == worker.suspended
        started = time.monotonic()
        assert not worker.drain(["never ordered"], 60.0)
        assert time.monotonic() - started < 5
        assert len(worker.results(["r0"])) == 1


def test_orders_under_way_are_left_out(tmp_path: Path) -> None:
    queue = SynthesisQueue(tmp_path / "q.sqlite")
    for number, name in enumerate(("a", "b", "c")):
        queue.submit(name, SEEDS[number], 1, number, float(number), 1)
    drawn: list[str] = []
    while (order := queue.next_order(drawn)) is not None:
        drawn.append(order.id)
    assert drawn == ["c", "b", "a"]
    queue.close()
