"""Whoever came first is next, wherever threads wait for a place."""

from __future__ import annotations

import signal
import threading
import time
from collections.abc import Callable
from typing import Any

import pytest

from rods.infra.turns import FairPlaces
from rods.rewards import verifier
from rods.sandbox.pool import SandboxPool
from rods.synthesis.chat import LlmWriterSettings
from rods.synthesis.chat.client import ChatClient
from sandbox_cases import LACKS


def test_as_many_as_there_are_places_and_in_order() -> None:
    turns, order, most, now = FairPlaces(2), list[int](), [0], [0]
    turns.__enter__()
    turns.__enter__()

    def wait(number: int) -> None:
        with turns:
            now[0] += 1
            most[0] = max(most[0], now[0])
            order.append(number)
            time.sleep(0.01)
            now[0] -= 1

    threads = [threading.Thread(target=wait, args=(number,)) for number in range(20)]
    for number, thread in enumerate(threads):
        thread.start()
        while len(turns._waiting) <= number:
            time.sleep(0.001)
    turns.__exit__()
    for thread in threads:
        thread.join()
    assert order == list(range(20)) and most[0] == 1
    turns.__exit__()
    assert turns._free == 2 and not turns._waiting


def made_by(name: str) -> tuple[Any, Callable[[], None]]:
    """The turns of something that has them, and what ends it."""
    if name == "verifier":
        return verifier._slots, verifier.close
    if name == "sandbox":
        if LACKS:
            pytest.xfail("nothing can be locked")
        pool = SandboxPool(verifier.SIZE, preload=())
        return pool.turns, pool.close
    settings = LlmWriterSettings(url="http://127.0.0.1:1/v1", concurrency=verifier.SIZE)
    client = ChatClient(settings)
    return client._slots, client.close


@pytest.mark.slow
@pytest.mark.parametrize("name", ["verifier", "sandbox", "chat client"])
def test_nobody_is_overtaken_again_and_again(name: str) -> None:
    """Threads that ask for a place again at once do not pass those who wait."""
    turns, end = made_by(name)
    stop, taken, overtaken = threading.Event(), [0], list[int]()

    def take() -> None:
        while not stop.is_set():
            before = taken[0]
            with turns:
                overtaken.append(taken[0] - before)
                taken[0] += 1
                time.sleep(0.001)

    threads = [threading.Thread(target=take) for _ in range(8 * verifier.SIZE)]
    for thread in threads:
        thread.start()
    time.sleep(0.7)
    stop.set()
    for thread in threads:
        thread.join()
    end()
    assert len(overtaken) > 2 * len(threads)
    assert max(overtaken) <= 2 * len(threads)


def test_one_that_is_interrupted_leaves_its_place() -> None:
    turns = FairPlaces(1)

    def interrupt(*_: object) -> None:
        raise KeyboardInterrupt

    before = signal.signal(signal.SIGALRM, interrupt)
    try:
        with turns:
            signal.setitimer(signal.ITIMER_REAL, 0.05)
            with pytest.raises(KeyboardInterrupt):
                turns.__enter__()
            assert not turns._waiting
    finally:
        signal.signal(signal.SIGALRM, before)
    assert turns._free == 1
