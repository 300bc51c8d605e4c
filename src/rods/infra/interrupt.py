"""Coroutines within a notebook, Ctrl-C that waits for a safe place, exceptions of foreign code."""

from __future__ import annotations

import asyncio.runners
import dis
import signal
import sys
import threading
from collections.abc import Callable, Coroutine, Generator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager, suppress
from functools import partial
from types import TracebackType
from typing import Any, TypeVar

from rods.infra.text import encoded

STOPPING = "Stopping at the next safe point. Press Ctrl-C again to stop at once."
AFTER_UPDATE = (
    "stopping after this update; Ctrl-C again stops at once and a resume repeats this update"
)
T = TypeVar("T")


def run_to_end(main: Coroutine[object, object, T], run: Callable[..., T] = asyncio.run) -> T:
    """Run a coroutine by `run`, but in a thread if a loop runs here, as in a notebook.

    An exception that ends the wait for the thread, such as a Ctrl-C, cancels the coroutine.
    """
    try:
        asyncio.get_running_loop()
    except RuntimeError:
        return run(main)
    tasks: list[asyncio.Task[T]] = []

    async def noted() -> T:
        tasks.append(asyncio.ensure_future(main))
        return await tasks[0]

    with ThreadPoolExecutor(1) as beside:
        try:
            return beside.submit(run, noted()).result()
        finally:  # the executor waits for its thread
            for task in tasks:
                with suppress(RuntimeError):  # its loop has ended
                    task.get_loop().call_soon_threadsafe(task.cancel)


@contextmanager
def ctrl_c(say: Callable[[], object] | None = None) -> Generator[Any]:
    """The first Ctrl-C asks for a stop at a safe point and says so, the second stops at once."""
    pressed: list[int] = []

    def note(number: int, _frame: object) -> None:
        if pressed:
            raise KeyboardInterrupt
        pressed.append(number)
        # In a thread, because the signal may have come while this one holds the stream's lock.
        threading.Thread(target=say or partial(print, STOPPING, file=sys.stderr)).start()

    if threading.current_thread() is not threading.main_thread():  # it alone gets signals
        yield lambda: False
        return
    former = signal.signal(signal.SIGINT, note)
    try:
        yield lambda: bool(pressed)
    finally:
        signal.signal(signal.SIGINT, former)


def unless_ctrl_c(error: BaseException) -> None:
    """Raise a Ctrl-C of the user again; everything else is whoever's who caught it.

    A tool may raise `KeyboardInterrupt`, `SystemExit` or `GeneratorExit`: the program goes on.
    """
    seen: BaseException | None = error
    known = set[int]()
    while seen is not None and id(seen) not in known:  # foreign code may make a circle of them
        if isinstance(seen, KeyboardInterrupt) and _signalled(seen.__traceback__):
            raise seen
        known.add(id(seen))
        seen = seen.__context__


def error_text(error: BaseException) -> str:
    """Message of an exception; nothing where its own code for that fails."""
    try:
        key = isinstance(error, KeyError) and error.args
        return encoded(str.__str__(str(key[0] if key else error))).decode()
    except BaseException as fault:  # noqa: BLE001 (`__str__` of foreign code may raise anything)
        unless_ctrl_c(fault)
        return ""


def shown(error: BaseException) -> str:
    """Kind and text of an exception; the kind alone where it says nothing."""
    return f"{type(error).__name__}: {error_text(error)}".removesuffix(": ")


def _signalled(at: TracebackType | None) -> bool:
    """True if the signal's handler raised an exception, not a `raise` in other code.

    Python runs handlers in the main thread. The usual one is no Python code, so that the exception
    begins at an instruction that is no `raise`.
    """
    if at is None or threading.current_thread() is not threading.main_thread():
        return False
    while at.tb_next is not None:
        at = at.tb_next
    code = at.tb_frame.f_code
    handler = getattr(signal.getsignal(signal.SIGINT), "__code__", None)
    if code is handler or code.co_filename in (__file__, asyncio.runners.__file__):
        return True
    raised = (i.offset for i in dis.get_instructions(code) if i.opname == "RAISE_VARARGS")
    return at.tb_lasti not in raised
