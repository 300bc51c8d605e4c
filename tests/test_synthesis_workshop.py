"""The worker's process from inside: threads, suspension, the baton."""

from __future__ import annotations

import threading
import time
from pathlib import Path
from typing import Any

import pytest

from rods.errors import WriterError
from rods.synthesis.pipeline import Outcome
from rods.synthesis.rejection import Rejection
from rods.synthesis.worker import patience
from rods.synthesis.worker.patience import FAILURES, LONGEST, PAUSE, Patience
from rods.synthesis.worker.process import Workshop
from rods.synthesis.worker.queue import Order, SynthesisQueue
from rods.synthesis.writers.llm.baton import Baton
from synthesis_cases import sides

SEEDS = sides().train[:4]


class Maker:
    """Makes what it is told to make."""

    def __init__(self, results: Any, parallel: int = 4, pause: float = 0.0):
        self.parallel, self.results, self.pause = parallel, results, pause
        self.now = self.most = 0
        self.lock = threading.Lock()

    def make(self, order: Order, seen: object) -> Outcome:
        with self.lock:
            self.now += 1
            self.most = max(self.most, self.now)
        time.sleep(self.pause)
        with self.lock:
            self.now -= 1
        result = self.results(order)
        if isinstance(result, Exception):
            raise result
        return result

    def usage(self) -> dict[str, Any]:
        return {"plan": {"calls": 3}}


@pytest.fixture
def queue(tmp_path: Path) -> Any:
    made = SynthesisQueue(tmp_path / "q.sqlite")
    for number, seed in enumerate(SEEDS):
        made.submit(f"r{number}", seed, 3, number, 1.0, 1)
    yield made
    made.close()


def played(queue: SynthesisQueue, maker: Maker, seconds: float = 10.0) -> Workshop:
    shop = Workshop(queue, maker, 1000)  # type: ignore[arg-type]
    until = time.monotonic() + seconds
    while queue.counts().requests and not queue.get("suspended") and time.monotonic() < until:
        shop.turn()
    return shop


def failure() -> Outcome:
    return Outcome(None, 1.0, (Rejection("gate", "novelty"),))


def test_orders_are_worked_on_side_by_side_one_outcome_each(queue: SynthesisQueue) -> None:
    maker = Maker(lambda order: failure(), pause=0.02)
    shop = played(queue, maker)
    shop.close()
    assert maker.most == 4
    assert queue.counts().tried == 12
    assert '"calls": 3' in queue.get("usage")


def test_an_unusable_writer_is_suspended_and_tried_again(
    queue: SynthesisQueue, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(patience, "PAUSE", 0.05)
    broken = [True]
    error = WriterError("http://nowhere: no answer", fatal=True)
    maker = Maker(lambda order: error if broken[0] else failure(), parallel=1)
    shop = played(queue, maker)
    assert "no answer" in queue.get("suspended")
    assert queue.counts().tried == 0
    broken[0] = False
    until = time.monotonic() + 10
    while queue.counts().requests and time.monotonic() < until:
        shop.turn()
    shop.close()
    assert queue.get("suspended") == ""
    assert queue.counts().requests == 0


def test_a_writer_that_keeps_failing_is_suspended(queue: SynthesisQueue) -> None:
    lost = Outcome(None, 1.0, (Rejection("writer", "pipeline_exception", "timed out"),))
    shop = played(queue, Maker(lambda order: lost, parallel=1))
    shop.close()
    assert "timed out" in queue.get("suspended")
    assert queue.counts().tried == FAILURES


def test_the_baton_lets_others_work_while_its_holder_waits() -> None:
    baton, log = Baton(), list[str]()

    def other() -> None:
        with baton:
            log.append("other")

    with baton:
        thread = threading.Thread(target=other)
        thread.start()
        time.sleep(0.05)
        assert log == []
        with baton.away():
            thread.join(5)
        log.append("holder")
    assert log == ["other", "holder"]
    with baton.away():
        log.append("free")
    assert log[-1] == "free"


def test_pauses_grow_and_an_answer_ends_them() -> None:
    counted = Patience()
    lost = Rejection("writer", "pipeline_exception", "HTTP 500")
    told = [counted.take(Outcome(None, 1.0, (lost,) * 3)) for _ in range(3)]
    assert told == ["", "", "9 failures in a row, the last: HTTP 500"]
    assert [counted.suspend() for _ in range(7)] == [2, 4, 8, 16, 32, 60, 60]
    gate = Rejection("gate", "novelty")
    assert counted.take(Outcome(None, 1.0, (lost, gate, lost))) == "" and counted.failures == 1
    assert counted.suspend() == PAUSE < LONGEST


def test_failures_of_one_moment_are_one_pause(queue: SynthesisQueue) -> None:
    error = WriterError("HTTP 500: no answer", down=True)
    shop = played(queue, Maker(lambda order: error, parallel=4, pause=0.02))
    until = time.monotonic() + 0.3
    while time.monotonic() < until:
        shop.turn()
    assert shop._patience.suspensions == 1
    shop.close()
