"""Coroutines of public functions: in a script, and in a notebook, whose thread runs a loop."""

from __future__ import annotations

import asyncio
import re
import signal
import threading
import time
from collections.abc import Callable
from typing import Any

import pytest

from notebook_cell import in_cell
from places import SOURCE
from rods.infra.interrupt import ctrl_c, run_to_end

PLACES = pytest.mark.parametrize(
    "place", [lambda work: work(), in_cell], ids=["script", "notebook"]
)


@PLACES
def test_a_coroutine_returns_or_raises_as_asyncio_run_does(place: Callable[..., Any]) -> None:
    async def value(given: int) -> int:
        await asyncio.sleep(0)
        return 10 // given

    assert place(lambda: run_to_end(value(2))) == 5
    with pytest.raises(ZeroDivisionError):
        place(lambda: run_to_end(value(0)))


OWN_LOOP = ("cli", "engines/replica.py", "infra/listen.py")
"""What a notebook never calls: verbs of the program, and services in processes of their own."""


def test_whatever_a_notebook_may_call_runs_its_coroutines_by_run_to_end() -> None:
    starts = re.compile(r"asyncio\.run\(|run_until_complete\(")
    found = {
        path.relative_to(SOURCE).as_posix()
        for path in SOURCE.rglob("*.py")
        if starts.search(path.read_text(encoding="utf-8"))
    }
    assert not [name for name in found if not name.startswith(OWN_LOOP)]


@PLACES
def test_calls_by_one_runner_share_its_loop(place: Callable[..., Any]) -> None:
    async def loop() -> asyncio.AbstractEventLoop:
        return asyncio.get_running_loop()

    with asyncio.Runner() as runner:
        both = place(lambda: [run_to_end(loop(), runner.run) for _ in range(2)])
        assert both[0] is both[1]


@pytest.mark.slow
def test_ctrl_c_in_a_notebook_cancels_what_it_waits_for() -> None:
    """The handler is the one of a notebook's process, which raises where the cell waits."""
    began, cleaned, main = threading.Event(), threading.Event(), threading.get_ident()

    async def endless() -> None:
        began.set()
        try:
            await asyncio.sleep(300)
        finally:
            await asyncio.sleep(0)  # such as the end of an engine
            cleaned.set()

    def press() -> None:
        assert began.wait(30)
        time.sleep(0.2)  # until the cell waits
        signal.pthread_kill(main, signal.SIGINT)

    def cell() -> None:
        former = signal.signal(signal.SIGINT, signal.default_int_handler)
        try:
            with pytest.raises(KeyboardInterrupt):
                run_to_end(endless())
        finally:
            signal.signal(signal.SIGINT, former)

    pressing = threading.Thread(target=press)
    pressing.start()
    in_cell(cell)
    pressing.join()
    assert cleaned.is_set()


def test_training_in_a_thread_leaves_ctrl_c_to_the_main_one() -> None:
    former, found = signal.getsignal(signal.SIGINT), list[object]()

    def work() -> None:
        with ctrl_c() as stopped:
            found.extend([stopped(), signal.getsignal(signal.SIGINT)])

    thread = threading.Thread(target=work)
    thread.start()
    thread.join()
    assert found == [False, former]
