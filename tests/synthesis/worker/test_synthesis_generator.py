"""The generator and what collects from it: threads, kills, suspension, the world lock."""

from __future__ import annotations

import contextlib
import dataclasses
import json
import random
import sqlite3
import threading
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import pytest

from rods.errors import SynthesisError, TaskError, WriterError
from rods.synthesis.collect import LIMIT, SUSPENSIONS, Collection
from rods.synthesis.gates.keeper import GateVerdict
from rods.synthesis.llm.writer import released
from rods.synthesis.pipeline import Pipeline, RequestOutcome
from rods.synthesis.rejection import Rejection
from rods.synthesis.worker import generator as generator_module
from rods.synthesis.worker import queue as queue_module
from rods.synthesis.worker.generator import FAILURES, LONGEST, PAUSE, Generator, Patience
from rods.synthesis.worker.queue import NextOutcome, SqliteQueue
from rods.synthesis.writer import Writer
from rods.task import Provenance, Task, Turn
from rods.types import ToolCall
from worker_cases import Stepped
from worlds import NotesEnvironment, notes_task

SEEDS = [notes_task([(f"add {n}", [ToolCall("add", {"amount": n})])]) for n in range(1, 6)]


class Scribe(Writer):
    """A writer without any world that asks a server: one proposal in three is turned down."""

    name = "scribe"

    def __init__(self, parallel: int = 1, lock: bool = False) -> None:
        self.parallel = parallel
        self.worlds: Any = threading.RLock() if lock else contextlib.nullcontext()
        self.now: list[str] = []
        self.most = 0
        self.used = {"calls": 0, "prompt_tokens": 0, "cost": 0.0}

    def propose(
        self, seed: Task, rng: random.Random, history: Sequence[Rejection] = ()
    ) -> Task | Rejection:
        self.used["calls"] += 1
        self.used["cost"] += 0.5
        assert seed.id not in self.now, "two proposals for one seed at once"
        self.now.append(seed.id)
        self.most = max(self.most, len(self.now))
        pause = rng.random() * 0.01
        if self.parallel > 1:
            time.sleep(pause)
        self.now.remove(seed.id)
        if rng.random() < 0.34:
            return Rejection("plan", "no_pattern", "nothing fits")
        amount = rng.randrange(10**9)
        words = " ".join(str(rng.randrange(10**6)) for _ in range(6))
        turn = Turn(f"{words} add {amount}", (ToolCall("add", {"amount": amount}),))
        origin = Provenance("notes_0", "notes_0", (seed.id,), "scribe:new")
        return dataclasses.replace(seed, turns=(turn,), provenance=origin)

    def usage(self) -> dict[str, Any]:
        return {"write": dict(self.used)}

    def close(self) -> None: ...


class Content:
    """A gatekeeper that is content with everything."""

    def check(
        self, seed: Task, variant: Task, seen: Sequence[object] = (), own: object = None
    ) -> GateVerdict:
        return GateVerdict(None, 0.1)


def pipeline(writer: Any) -> Pipeline:
    return Pipeline(NotesEnvironment(), writer, Content(), attempts=2)  # type: ignore[arg-type]


def made(
    path: Path,
    writer: Any = None,
    n: int = 12,
    report: Callable[[Collection], None] = lambda _: None,
) -> Collection:
    with Stepped(path, pipeline(writer or Scribe()), rng_seed=3) as worker:
        collection = Collection(worker, SEEDS, n)
        collection.run(report)
        collection.counted, collection.spent = (  # type: ignore[attr-defined]
            collection.statistics(),
            worker.usage().get("write", {}),
        )
    return collection


# -- What is collected ----------------------------------------------------------------------------


class Strict(Content):
    """A gatekeeper that is content with odd numbers alone."""

    def check(
        self, seed: Task, variant: Task, seen: Sequence[object] = (), own: object = None
    ) -> GateVerdict:
        if int(variant.turns[0].user.split()[-1]) % 2:
            return GateVerdict(None, 0.1)
        return GateVerdict(Rejection("gate", "novelty", message=variant.turns[0].user), 1.0)


def candidates_in(path: Path) -> list[Any]:
    """Seed, number and attempt of rejected candidates, and the turns that are kept of them."""
    with contextlib.closing(sqlite3.connect(path)) as db:
        return db.execute("SELECT * FROM candidates ORDER BY rowid").fetchall()


def test_rejected_candidates_keep_messages_and_calls(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = tmp_path / "q.sqlite"
    strict = Pipeline(NotesEnvironment(), Scribe(), Strict(), attempts=2)  # type: ignore[arg-type]
    with Stepped(path, strict, rng_seed=3) as worker:
        collection = Collection(worker, SEEDS, 8)
        collection.run(lambda _: None)
        assert collection.accepted
    with contextlib.closing(sqlite3.connect(path)) as db:
        rows = db.execute("SELECT seed, number, rejected FROM outcomes").fetchall()
    said = {
        (seed, number, attempt): rejection[3]
        for seed, number, rejected in rows
        for attempt, rejection in enumerate(json.loads(rejected))
        if rejection[0] == "gate"  # the others were rejected before they had messages
    }
    kept = {tuple(place): json.loads(turns) for *place, turns in candidates_in(path)}
    assert said and {place: turns[0][0] for place, turns in kept.items()} == said
    assert all(turns[0][1].startswith("add(amount=") for turns in kept.values())
    # Only the latest are kept, and a message that is too long is cut and says so.
    monkeypatch.setattr(queue_module, "KEPT", 3)
    monkeypatch.setattr(queue_module, "CHARACTERS", 12)
    queue = SqliteQueue(path)
    long = Turn("0123456789", (ToolCall("add", {"amount": 1}),))
    for number in range(5):
        outcome = RequestOutcome(None, 1.0, (Rejection("gate", "novelty", turns=(long, long)),))
        queue.record(NextOutcome(SEEDS[0], 1000 + number), outcome, 0.1)
        queue.record(NextOutcome(SEEDS[0], 1000 + number), outcome, 0.1)  # after a kill
    queue.close()
    last = candidates_in(path)
    assert [row[1:3] for row in last] == [(1002, 0), (1003, 0), (1004, 0)]
    assert json.loads(last[0][3]) == [
        ["0123456789", "ad [11 characters left out]"],
        [" [10 characters left out]", " [13 characters left out]"],
    ]


def test_a_queue_that_was_begun_without_candidates_is_continued(tmp_path: Path) -> None:
    path = tmp_path / "q.sqlite"
    SqliteQueue(path).close()
    with contextlib.closing(sqlite3.connect(path)) as db:
        db.execute("DROP TABLE candidates")
    assert made(path).accepted and candidates_in(path) == []


def test_seeds_without_an_outcome_were_not_tried(tmp_path: Path) -> None:
    """A small data set names no seed as one without a variant that it never came to."""
    few = made(tmp_path / "few.sqlite", n=1)
    assert few.tried and len(few.tried) < len(SEEDS)
    assert few.tried == SEEDS[: len(few.tried)]
    assert made(tmp_path / "many.sqlite", n=12).tried == SEEDS


class Killed(Exception):
    """The process ends here."""


@pytest.mark.slow
def test_a_making_killed_at_any_outcome_ends_in_the_same_variants(tmp_path: Path) -> None:
    whole = made(tmp_path / "whole.sqlite")
    assert len(whole.accepted) == 12 and whole.counted.rejected  # type: ignore[attr-defined]
    for kills in ([1], [3, 7], [2, 4, 6, 11]):
        path = tmp_path / f"{len(kills)}.sqlite"
        for accepted in kills:

            def kill(now: Collection, at: int = accepted) -> None:
                if len(now.accepted) >= at:
                    raise Killed

            with pytest.raises(Killed):
                made(path, report=kill)
        again = made(path)
        assert again.accepted == whole.accepted
        assert again.taken_over >= kills[-1]
        assert again.counted.tried == whole.counted.tried  # type: ignore[attr-defined]
        assert again.spent == whole.spent  # type: ignore[attr-defined]


def test_a_larger_data_set_begins_with_the_smaller_one(tmp_path: Path) -> None:
    few, many = made(tmp_path / "a.sqlite", n=5), made(tmp_path / "b.sqlite", n=12)
    assert many.accepted[:5] == few.accepted
    assert made(tmp_path / "a.sqlite", n=12).accepted == many.accepted


def test_threads_change_nothing_order_no_more_and_never_share_a_seed(tmp_path: Path) -> None:
    alone = made(tmp_path / "alone.sqlite")
    crowd = Scribe(parallel=4)
    many = made(tmp_path / "many.sqlite", crowd)
    assert many.accepted == alone.accepted
    assert 1 < crowd.most <= 4
    assert many.counted.tried == alone.counted.tried  # type: ignore[attr-defined]
    strict = Scribe(parallel=4, lock=True)
    assert made(tmp_path / "lock.sqlite", strict).accepted == alone.accepted
    assert strict.most == 1, "nobody released the lock"


def test_an_error_in_a_thread_reaches_the_caller_and_loses_nothing(tmp_path: Path) -> None:
    class Weak(Scribe):
        def propose(self, seed: Task, rng: random.Random, history: Sequence[Rejection] = ()) -> Any:
            if self.used["calls"] == 9:
                raise TaskError("the pen is broken")
            return super().propose(seed, rng, history)

    with pytest.raises(TaskError, match="pen is broken"):
        made(tmp_path / "j.sqlite", Weak(parallel=3))
    again = made(tmp_path / "j.sqlite")
    assert again.taken_over >= 1
    assert again.accepted == made(tmp_path / "k.sqlite").accepted


@pytest.mark.slow
def test_variants_of_two_seeds_that_are_alike_are_one(tmp_path: Path) -> None:
    class Stubborn(Scribe):
        def propose(self, seed: Task, rng: random.Random, history: Sequence[Rejection] = ()) -> Any:
            return super().propose(SEEDS[0], random.Random(rng.randrange(3)), history)

    collection = made(tmp_path / "j.sqlite", Stubborn(), n=4)
    counted = collection.counted  # type: ignore[attr-defined]
    assert len(collection.accepted) == len({t.id for t in collection.accepted}) <= 3
    assert counted.rejected["gate", "novelty"] > 10
    assert counted.accepted == len(collection.accepted)
    assert collection.finished, "it gives up in the end"
    file = sqlite3.connect(tmp_path / "j.sqlite")
    assert file.execute("SELECT COUNT(*) FROM outcomes").fetchone() == (4 * LIMIT,)
    file.close()


def test_no_thread_is_left_behind(tmp_path: Path) -> None:
    before = threading.active_count()
    made(tmp_path / "j.sqlite", Scribe(parallel=5))
    until = time.monotonic() + 5
    while threading.active_count() > before and time.monotonic() < until:
        time.sleep(0.01)
    assert threading.active_count() <= before


# -- Writers that fail ----------------------------------------------------------------------------


class Failing(Scribe):
    """A writer whose server is silent for some of its proposals."""

    def __init__(self, silent: Callable[[int], bool], error: WriterError, parallel: int = 1):
        super().__init__(parallel)
        self.silent, self.error, self.count = silent, error, 0

    def propose(self, seed: Task, rng: random.Random, history: Sequence[Rejection] = ()) -> Any:
        self.count += 1
        if self.silent(self.count):
            raise self.error
        return super().propose(seed, rng, history)


@pytest.fixture
def quick_pauses(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(generator_module, "PAUSE", 0.01)
    monkeypatch.setattr(generator_module, "LONGEST", 0.02)
    monkeypatch.setattr("rods.synthesis.collect.LOOK", 0.01)


@pytest.mark.usefixtures("quick_pauses")
@pytest.mark.parametrize("parallel", [1, 4])
def test_a_writer_that_is_down_is_suspended_and_nothing_is_lost(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, parallel: int
) -> None:
    whole = made(tmp_path / "whole.sqlite")
    notes: list[tuple[str, str]] = []
    put = SqliteQueue.put
    monkeypatch.setattr(
        SqliteQueue,
        "put",
        lambda self, key, value: notes.append((key, value)) or put(self, key, value),
    )
    error = WriterError("http://here: HTTP 500", down=True)
    writer = Failing(lambda count: count in {3, 4, 5, 9}, error, parallel)
    collection = made(tmp_path / "j.sqlite", writer)
    told = [value for key, value in notes if key == "suspended"]
    assert "http://here: HTTP 500" in told[0] and told[-1] == ""
    assert collection.accepted == whole.accepted


@pytest.mark.slow
@pytest.mark.usefixtures("quick_pauses")
def test_a_writer_that_stays_down_is_given_up_with_its_reason(tmp_path: Path) -> None:
    for name, error in (
        ("down", WriterError("HTTP 500", down=True)),
        ("gone", WriterError("no key", fatal=True)),
    ):
        writer = Failing(lambda count: count >= 5, error)
        with pytest.raises(SynthesisError, match=f"after {SUSPENSIONS} pauses: {error}"):
            made(tmp_path / f"{name}.sqlite", writer)
        assert writer.count >= 5 + SUSPENSIONS
    writer = Failing(lambda _: True, WriterError("no key", fatal=True))
    with pytest.raises(SynthesisError, match=r"^no key$"):
        made(tmp_path / "never.sqlite", writer)
    assert writer.count == 1, "a wrong key is said at once"


class Told:
    """A pipeline that makes what it is told to make."""

    def __init__(self, result: Callable[[], Any], parallel: int = 4, pause: float = 0.0):
        self.parallel, self.result, self.pause = parallel, result, pause
        self.now = self.most = 0
        self.lock = threading.Lock()

    def make(self, seed: Task, rng_seed: int, seen: object) -> RequestOutcome:
        with self.lock:
            self.now += 1
            self.most = max(self.most, self.now)
        time.sleep(self.pause)
        with self.lock:
            self.now -= 1
        result = self.result()
        if isinstance(result, Exception):
            raise result
        return result

    def usage(self) -> dict[str, Any]:
        return {"plan": {"calls": 3}}

    def close(self) -> None: ...


@pytest.fixture
def queue(tmp_path: Path) -> Any:
    opened = SqliteQueue(tmp_path / "q.sqlite")
    for number, seed in enumerate(SEEDS[:4]):
        opened.submit(f"r{number}", seed, 0, 3, 1.0, 1)
    yield opened
    opened.close()


def played(queue: SqliteQueue, told: Told, seconds: float = 10.0) -> Generator:
    generator = Generator(queue, told, 0)  # type: ignore[arg-type]
    until = time.monotonic() + seconds
    while queue.open_requests() and not queue.get("suspended") and time.monotonic() < until:
        generator.turn()
    return generator


def failure() -> RequestOutcome:
    return RequestOutcome(None, 1.0, (Rejection("gate", "novelty"),))


def test_orders_are_worked_on_side_by_side_and_costs_add_up(queue: SqliteQueue) -> None:
    told = Told(failure, pause=0.02)
    played(queue, told).close()
    assert told.most == 4
    assert queue.statistics().tried == 12
    queue.submit("more", SEEDS[0], 3, 1, 1.0, 1)
    played(queue, told).close()  # after a restart the writer counts from nothing
    assert json.loads(queue.get("usage")) == {"plan": {"calls": 6}}


def test_an_unusable_writer_is_suspended_and_tried_again(
    queue: SqliteQueue, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(generator_module, "PAUSE", 0.05)
    broken = [True]
    error = WriterError("http://nowhere: no answer", fatal=True)
    generator = played(queue, Told(lambda: error if broken[0] else failure(), parallel=1))
    assert "no answer" in queue.get("suspended")
    assert queue.statistics().tried == 0
    broken[0] = False
    until = time.monotonic() + 10
    while queue.open_requests() and time.monotonic() < until:
        generator.turn()
    generator.close()
    assert queue.get("suspended") == ""
    assert queue.open_requests() == 0


def test_a_writer_that_keeps_failing_is_suspended(queue: SqliteQueue) -> None:
    lost = RequestOutcome(None, 1.0, (Rejection("writer", "pipeline_exception", "timed out"),))
    played(queue, Told(lambda: lost, parallel=1)).close()
    assert "timed out" in queue.get("suspended")
    assert queue.statistics().tried == FAILURES


def test_the_world_lock_lets_others_work_while_its_holder_waits() -> None:
    lock, log = threading.RLock(), list[str]()

    def other() -> None:
        with lock:
            log.append("other")

    with lock:
        thread = threading.Thread(target=other)
        thread.start()
        time.sleep(0.05)
        assert log == []
        with released(lock):
            thread.join(5)
        log.append("holder")
    assert log == ["other", "holder"]
    with released(lock):
        log.append("free")
    assert log[-1] == "free"


def test_pauses_grow_and_an_answer_ends_them() -> None:
    counted = Patience()
    lost = Rejection("writer", "pipeline_exception", "HTTP 500")
    told = [counted.take(RequestOutcome(None, 1.0, (lost,) * 3)) for _ in range(3)]
    assert told == ["", "", "9 failures in a row, the last: HTTP 500"]
    assert [counted.suspend("").seconds for _ in range(7)] == [2, 4, 8, 16, 32, 60, 60]
    gate = Rejection("gate", "novelty")
    assert (
        counted.take(RequestOutcome(None, 1.0, (lost, gate, lost))) == "" and counted.failures == 1
    )
    assert counted.suspend("").seconds == PAUSE < LONGEST


def test_failures_of_one_moment_are_one_pause(queue: SqliteQueue) -> None:
    error = WriterError("HTTP 500: no answer", down=True)
    generator = played(queue, Told(lambda: error, parallel=4, pause=0.02))
    until = time.monotonic() + 0.3
    while time.monotonic() < until:
        generator.turn()
    assert generator._patience.suspensions == 1  # pyright: ignore
    generator.close()
