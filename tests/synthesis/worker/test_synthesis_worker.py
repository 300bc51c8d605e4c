"""The durable queue and the worker: idempotent, ordered, deterministic, killed at will."""

from __future__ import annotations

import dataclasses
import errno
import os
import random
import signal
import sqlite3
import subprocess
import sys
import time
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest

from one_outcome import synthesize
from places import SUPPORT
from queue_cases import SEEDS, SETTINGS, drained, ordered
from rods.errors import StoreError, SynthesisError
from rods.synthesis.pipeline import RequestOutcome
from rods.synthesis.rejection import Rejection, reason_words
from rods.synthesis.structure.trace import trace
from rods.synthesis.worker.client import RESTARTS, SynthesisWorker
from rods.synthesis.worker.queue import VERSION, SqliteQueue
from rods.synthesis.yields import EXAMPLES, low_yields
from synthesis_cases import ENVIRONMENT, keeper, sides, writer
from worker_cases import ThreadProcess

THREAD = pytest.mark.usefixtures("worker_thread")


@pytest.mark.slow
@THREAD
def test_verified_variants_come_in_order(tmp_path: Path) -> None:
    with SynthesisWorker(tmp_path / "q.sqlite", SETTINGS) as worker:
        ids = ordered(worker)
        assert worker.drain(ids, 120.0)
        found = worker.results(ids)
        assert [(r, i) for r, i, _, _ in found] == sorted((r, i) for r, i, _, _ in found)
        assert len(found) >= 10
        assert all(0 <= distance <= 0.25 for *_, distance in found)
        assert worker.results(ids) == found
        state = worker.state()
        assert state["accepted"] == len(found) and state["requests"] == 0


@THREAD
@pytest.mark.slow
def test_a_seed_has_one_sequence_of_variants_however_it_is_ordered(tmp_path: Path) -> None:
    with SynthesisWorker(tmp_path / "a.sqlite", SETTINGS) as one:
        first = drained(one, ordered(one, n=4))
        made = one.state()["tried"]
        one.submit("again", SEEDS[0], 1, 2, 9.0, 7)  # a run that went another way orders it too
        again = drained(one, ["again"])
        assert one.state()["tried"] == made
    with SynthesisWorker(tmp_path / "b.sqlite", SETTINGS) as two:
        for i in reversed(range(len(SEEDS))):
            two.submit(f"late{i}", SEEDS[i], 2, 2, 9.0, 1)
            two.submit(f"r{i}", SEEDS[i], 0, 2, 0.0, 5 - i)
        second = drained(two, [f"{word}{i}" for i in range(len(SEEDS)) for word in ("r", "late")])
    assert [row[1:] for row in first] == [row[1:] for row in second]
    assert [row[1:] for row in again] == [(i, t) for r, i, t in first if r == "r0" and 0 < i < 3]
    assert len({task for *_, task in first}) == len(first)
    other = dataclasses.replace(SETTINGS, rng_seed=1)
    with SynthesisWorker(tmp_path / "c.sqlite", other) as three:
        assert not {t for *_, t in first} & {t for *_, t in drained(three, ordered(three, n=1))}


@pytest.mark.slow
@THREAD
def test_submitting_again_changes_nothing(tmp_path: Path) -> None:
    with SynthesisWorker(tmp_path / "q.sqlite", SETTINGS) as worker:
        worker.submit("r", SEEDS[0], 0, 1, 1.0, 1)
        before = drained(worker, ["r"])
        worker.submit("r", SEEDS[1], 5, 9, 2.0, 7)
        assert drained(worker, ["r"]) == before


@THREAD
def test_an_unknown_request_is_never_finished(tmp_path: Path) -> None:
    with SynthesisWorker(tmp_path / "q.sqlite", SETTINGS) as worker:
        assert not worker.drain(["nobody"], 0.0)
        assert worker.results(["nobody"]) == []


@THREAD
def test_the_file_belongs_to_its_tasks(tmp_path: Path) -> None:
    path = tmp_path / "q.sqlite"
    SynthesisWorker(path, SETTINGS).stop()
    with pytest.raises(SynthesisError, match=r"other settings \(seed: 0 -> 1\)"):
        SynthesisWorker(path, dataclasses.replace(SETTINGS, rng_seed=1))
    (tmp_path / "broken.sqlite").write_bytes(b"no database" * 200)
    with pytest.raises(StoreError):
        SynthesisWorker(tmp_path / "broken.sqlite", SETTINGS)


@THREAD
def test_drift_that_a_resume_allows_is_of_settings_of_synthesis_alone(tmp_path: Path) -> None:
    path, synthesis = tmp_path / "q.sqlite", SETTINGS.synthesis.model_copy(update={"attempts": 9})
    other = dataclasses.replace(SETTINGS, synthesis=synthesis)
    SynthesisWorker(path, SETTINGS).stop()
    with pytest.raises(SynthesisError, match=r"other settings \(synthesis.attempts: \d -> 9\)"):
        SynthesisWorker(path, other)
    with pytest.raises(SynthesisError, match=r"other settings \(seed: 0 -> 1\)"):
        SynthesisWorker(path, dataclasses.replace(other, rng_seed=1), drift=True)
    SynthesisWorker(path, other, drift=True).stop()
    SynthesisWorker(path, other).stop()


def test_the_file_is_that_of_an_environment_whose_own_file_was_moved(tmp_path: Path) -> None:
    queue = SqliteQueue(tmp_path / "q.sqlite")
    for at in ("./tools.py:bistro", "/new/tools.py:bistro", "../tools.py:bistro"):
        queue.bind({"env": at})
    with pytest.raises(SynthesisError, match="other settings"):
        queue.bind({"env": "./others.py:bistro"})


@pytest.mark.parametrize("where", ["q-training.jsonl.PID.part", "q.log"])
def test_a_full_disk_at_the_start_is_one_message(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, where: str
) -> None:
    real = Path.open

    def full(self: Path, *args: Any, **more: Any) -> Any:
        if self.name == where.replace("PID", str(os.getpid())):
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
        return real(self, *args, **more)

    monkeypatch.setattr(Path, "open", full)
    few = dataclasses.replace(SETTINGS, training=SEEDS, held_out=())
    with pytest.raises(StoreError, match=r"the disk is full.*free some space"):
        SynthesisWorker(tmp_path / "q.sqlite", few)


def test_queue_takes_oldest_epoch_then_priority(tmp_path: Path) -> None:
    queue = SqliteQueue(tmp_path / "q.sqlite")
    for number, priority, epoch in ((0, 0.1, 2), (1, 0.9, 2), (2, 0.0, 1)):
        queue.submit(f"r{number}", SEEDS[number], 0, 1, priority, epoch)
    order: list[str] = []
    while (current := queue.next_outcome()) is not None:
        order.append(current.seed.id)
        queue.record(current, RequestOutcome(None, 1.0, (Rejection("gate", "novelty"),)), 0.1)
    assert order == [SEEDS[n].id for n in (2, 1, 0)]
    figures = queue.statistics().figures()
    assert figures["rejected"] == {"novelty": 3} and figures["stages"] == {"gate": 3}
    queue.close()


def test_low_yields_are_named_the_worst_first(tmp_path: Path) -> None:
    """Seed number n has n rejected candidates for an accepted one: 5 and more are a low yield."""
    seeds, closed = sides().train[:20], Rejection("execute", "vm_exec_failed", "no", message="Go.")
    with closing(SqliteQueue(tmp_path / "q.sqlite")) as queue:
        for number, seed in enumerate(seeds):
            queue.submit(f"r{number}", seed, 0, 1, 1.0, 1)
            request = queue.next_outcome()
            assert request is not None
            rejections = (Rejection("gate", "novelty", "again"), *[closed] * (number - 1))
            queue.record(request, RequestOutcome(seed, 0.0, rejections[:number]), 0.1)
        found = queue.yields()
    assert [made.seed.id for made in found] == [seed.id for seed in seeds]
    assert [(made.candidates, made.accepted) for made in found] == [(n + 1, 1) for n in range(20)]
    lines = low_yields(found)
    assert lines[0] == "15 of 20 seed tasks with a yield below 20%:"
    worst = f"{seeds[19].provenance.origin}, 1 of 20 candidates accepted; 18 rejected"
    assert (
        lines[1] == f'  {worst}: {reason_words("vm_exec_failed")}. For example, no (message: "Go.")'
    )
    assert lines[11:] == ["  and 5 more; --json has all"]
    assert sum("For example" in line for line in lines) == EXAMPLES
    assert low_yields(found[:5]) == []
    row = {"stage": "execute", "reason": "vm_exec_failed", "words": "a call failed", "count": 18}
    assert found[-1].to_json()["rejected"][0] == row  # type: ignore[index]


@pytest.mark.parametrize("layout", [VERSION - 1, VERSION + 1])
def test_a_queue_of_another_version_is_refused(tmp_path: Path, layout: int) -> None:
    SqliteQueue(tmp_path / "q.sqlite").close()
    with closing(sqlite3.connect(tmp_path / "q.sqlite")) as connection:
        connection.execute(f"PRAGMA user_version={layout}")
    said = (
        rf"synthesis queue has layout {layout}, expected {VERSION}\. .* use that version, or start"
    )
    with pytest.raises(StoreError, match=said):
        SqliteQueue(tmp_path / "q.sqlite")


def test_an_outcome_is_recorded_once(tmp_path: Path) -> None:
    queue = SqliteQueue(tmp_path / "q.sqlite")
    queue.submit("r", SEEDS[0], 0, 2, 1.0, 1)
    order = queue.next_outcome()
    assert order is not None and order.number == 0
    outcome = synthesize(SEEDS[0], writer(), keeper(), 0, 5)
    queue.record(order, outcome, 0.1)
    queue.record(order, outcome, 0.1)
    assert queue.statistics().accepted == 1 and queue.waiting() == 1
    again = queue.next_outcome()
    assert again is not None and again.number == 1
    queue.results(["r"])
    assert queue.waiting() == 1  # not finished, so not taken
    queue.record(again, outcome, 0.1)
    queue.results(["r"])
    assert queue.waiting() == 0
    queue.close()


@pytest.mark.slow
def test_invariant_6_the_process_works_beside_and_calls_do_not_block(tmp_path: Path) -> None:
    with SynthesisWorker(tmp_path / "q.sqlite", SETTINGS) as worker:
        slowest = 0.0
        ids = [f"r{i}" for i in range(8)]
        for i, name in enumerate(ids):
            started = time.perf_counter()
            worker.submit(name, SEEDS[i % 6], 2 * (i // 6), 2, 1.0, 1)
            worker.results(ids)
            worker.state()
            slowest = max(slowest, time.perf_counter() - started)
        assert slowest < 0.5
        assert worker.drain(ids, 120.0)
        found = worker.results(ids)
    assert len(found) > 10
    assert all(v.solved for *_, t, _ in found for v in trace(ENVIRONMENT, t).verdicts)


@pytest.mark.slow
def test_invariant_8_kills_lose_and_double_nothing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    rng = random.Random(4)
    worker = SynthesisWorker(tmp_path / "q.sqlite", SETTINGS)
    orders = [(f"r{i}", SEEDS[i % 6], 3 * (i // 6), 3, float(i), 1) for i in range(12)]
    ids = [order[0] for order in orders]
    seen: set[tuple[str, int, str]] = set()
    for kill in range(2):
        for order in orders[6 * kill : 6 * kill + 6]:  # an order starts a dead worker again
            worker.submit(*order)
        time.sleep(0.7 + rng.random())
        os.kill(worker._process.pid, signal.SIGKILL)  # pyright: ignore
        worker._process.wait()  # pyright: ignore
        now = {(r, i, t.id) for r, i, t, _ in worker.results(ids)}
        assert seen <= now
        seen = now
    found = drained(worker, ids)
    worker.stop()
    keys = [(r, i) for r, i, _ in found]
    assert len(keys) == len(set(keys))
    monkeypatch.setattr("rods.synthesis.worker.client.Popen", ThreadProcess)
    with SynthesisWorker(tmp_path / "i.sqlite", SETTINGS) as unhurt:
        for order in orders:
            unhurt.submit(*order)
        assert drained(unhurt, ids) == found


@pytest.mark.slow
def test_the_worker_dies_with_its_parent(tmp_path: Path) -> None:
    code = (
        "import os, sys, pathlib\n"
        "sys.path.insert(0, sys.argv[2])\n"
        "from queue_cases import SETTINGS\n"
        "from rods.synthesis.worker.client import SynthesisWorker\n"
        "worker = SynthesisWorker(pathlib.Path(sys.argv[1]), SETTINGS)\n"
        "print(worker._process.pid, flush=True)\n"
        "os._exit(1)\n"
    )
    command = [sys.executable, "-c", code, str(tmp_path / "q.sqlite"), str(SUPPORT)]
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


@THREAD
def test_a_worker_that_cannot_begin_says_why_at_once(tmp_path: Path) -> None:
    broken = dataclasses.replace(SETTINGS, environment="no.such.module:World")
    with SynthesisWorker(tmp_path / "q.sqlite", broken) as worker:
        with pytest.raises(SynthesisError, match=r"^env\.name: 'no\.such\.module"):
            worker.drain(["r"], 60.0)
        assert worker._starts == 1  # pyright: ignore


def test_a_worker_that_dies_is_named_and_forgiven_once_it_has_worked(
    tmp_path: Path, caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    class Dead(ThreadProcess):
        def __init__(self, command: list[str], **_: Any) -> None:
            self.returncode = -9

        def wait(self, timeout: float | None = None) -> int:
            return -9

    monkeypatch.setattr("rods.synthesis.worker.client.Popen", Dead)
    with SynthesisWorker(tmp_path / "q.sqlite", SETTINGS) as worker:
        worker.submit("r", SEEDS[0], 0, 9, 1.0, 1)
        for number in range(2 * RESTARTS):
            queue = SqliteQueue(tmp_path / "q.sqlite")
            order = queue.next_outcome()
            assert order is not None and order.number == number
            queue.record(order, RequestOutcome(None, 1.0, (Rejection("gate", "novelty"),)), 0.1)
            queue.close()
            assert not worker.state()["suspended"], number
        assert all("ended (exit code -9) and is started again" in m for m in caplog.messages)
        assert len(caplog.messages) == 2 * RESTARTS + 1
        for _ in range(RESTARTS):
            worker.state()
        assert "ended 4 times" in worker.suspended
        assert worker.state()["suspended"] == worker.suspended
        started = time.monotonic()
        assert not worker.drain(["never ordered"], 60.0)
        assert time.monotonic() - started < 5


@pytest.mark.slow
@THREAD
def test_two_drivers_do_not_share_a_queue(tmp_path: Path) -> None:
    first = SynthesisWorker(tmp_path / "q.sqlite", SETTINGS)
    with pytest.raises(StoreError, match="another process is at work"):
        SynthesisWorker(tmp_path / "q.sqlite", SETTINGS)
    first.stop()
    SynthesisWorker(tmp_path / "q.sqlite", SETTINGS).stop()


def test_seeds_under_way_are_left_out_and_a_seeds_orders_wait_for_each_other(
    tmp_path: Path,
) -> None:
    queue = SqliteQueue(tmp_path / "q.sqlite")
    for number, name in enumerate(("a", "b", "c")):
        queue.submit(name, SEEDS[number], 0, 1, float(number), 1)
        queue.submit(f"{name}-later", SEEDS[number], 1, 1, 9.0, 0)
    drawn: list[str] = []
    while (order := queue.next_outcome(drawn)) is not None:
        assert order.number == 0
        drawn.append(order.seed.id)
    assert drawn == [SEEDS[n].id for n in (2, 1, 0)]
    queue.close()
