"""The asynchronous producer: another process makes variants, beside the process that requests them.

The process runs at low priority, never imports torch, dies with its parent, and can be killed at
any moment: the queue keeps what was made. Calls are millisecond operations on the queue and never
wait for a variant, but for `drain`.

    with SynthesisWorker(path, settings) as worker:
        worker.submit("e1-0", seed, first=0, n=2, priority=1.0, epoch=1)
        worker.drain(["e1-0"], timeout=10)
        worker.results(["e1-0"])
"""

from __future__ import annotations

import fcntl
import json
import logging
import os
import sys
import time
from collections.abc import Mapping, Sequence
from contextlib import AbstractContextManager, ExitStack, closing, suppress
from pathlib import Path
from subprocess import DEVNULL, Popen, TimeoutExpired
from typing import BinaryIO

from rods.errors import RodsError, StoreError, SynthesisError
from rods.infra.files import HELD, disk
from rods.synthesis.worker.generator import IDLE, Suspension
from rods.synthesis.worker.queue import SqliteQueue
from rods.synthesis.worker.settings import WorkerSettings
from rods.task import Task
from rods.types import Json

RESTARTS = 3
"""Number of starts of a worker that died, nothing made between, before it is an error."""
_log = logging.getLogger(__name__)


class SynthesisWorker(AbstractContextManager["SynthesisWorker"]):
    """The driver's end: request variants, take what is there, see how it goes."""

    def __init__(
        self,
        path: Path,
        settings: WorkerSettings,
        bound: Mapping[str, Json] | None = None,
        drift: bool = False,
    ):
        """Open the queue and start the process.

        Args:
            path: the queue's file; its folder must exist.
            settings: what variants are made with.
            bound: what the queue belongs to besides, such as the seeds of a data set.
            drift: a queue that was made with other settings of synthesis is used as well.

        Raises `StoreError` where the queue's file is damaged or another process's, or the disk is
        full or cannot be written; `SynthesisError` where it belongs to other tasks or settings.
        """
        self._path, self._settings = path, settings
        self._process: Popen[bytes] | None = None
        self._starts = self._made = 0
        """Starts since an outcome was made, and the tries that there were by then."""
        with ExitStack() as undo:
            self._lock = undo.enter_context(self._locked())
            self.queue = undo.enter_context(closing(SqliteQueue(path)))
            self.queue.bind({**settings.deciding(), **(bound or {})}, drift)
            for note in ("stop", "suspended", "error"):
                self.queue.put(note, "")
            settings.write(self.queue, path)
            self._start()
            undo.pop_all()

    def __exit__(self, *_: object) -> None:
        self.stop()

    def submit(
        self, request_id: str, seed: Task, first: int, n: int, priority: float, epoch: int
    ) -> None:
        """Request outcomes `first` to `first + n - 1` of a seed and return at once. The same id
        again changes nothing.

        Raises `SynthesisError` where the worker cannot begin, or dies at once, again and again; the
        message holds its last words. One that has worked before is suspended instead.
        """
        self.queue.submit(request_id, seed, first, n, priority, epoch)
        self._revive()

    def results(self, request_ids: Sequence[str]) -> list[tuple[str, int, Task, float]]:
        """Accepted variants so far, as `SqliteQueue.results` gives them."""
        return self.queue.results(request_ids)

    def unfinished(self, request_ids: Sequence[str]) -> list[str]:
        """Which of these requests are not finished."""
        return self.queue.unfinished(request_ids)

    def drain(self, request_ids: Sequence[str], timeout: float) -> bool:
        """Wait at most `timeout` seconds; whether all of these requests are finished.

        Raises as `submit`.
        """
        until = time.monotonic() + timeout
        while self.queue.unfinished(request_ids):
            self._revive()
            if time.monotonic() >= until or self.suspended:
                return False
            time.sleep(min(IDLE, max(0.0, until - time.monotonic())))
        return True

    def state(self) -> Mapping[str, Json]:
        """Counts so far: tried, accepted, rejected (by reason, by stage), seconds, usage. A worker
        that died is started again; raises as `submit`.
        """
        self._revive()
        return {
            **self.queue.statistics().figures(),
            "waiting": self.queue.waiting(),
            "requests": self.queue.open_requests(),
            "alive": self._alive(),
            "suspended": self.suspended,
            "usage": {stage: dict(row) for stage, row in self.usage().items()},
        }

    def usage(self) -> Mapping[str, Mapping[str, float]]:
        """Return what the writer has asked of a server, by stage."""
        return json.loads(self.queue.get("usage") or "{}")

    @property
    def pid(self) -> int | None:
        """Process id of the worker; None where there is no process."""
        return self._process.pid if self._process is not None else None

    @property
    def suspension(self) -> Suspension | None:
        """Why the writer pauses (it is tried again from time to time); None while it works."""
        note = self.queue.get("suspended")
        return Suspension(*json.loads(note)) if note else None

    @property
    def suspended(self) -> str:
        """The reason of the suspension; empty while the writer works."""
        return suspension.reason if (suspension := self.suspension) else ""

    def stop(self) -> None:
        """End the process; what is unfinished is finished after the next start."""
        process, self._process = self._process, None
        if process is not None:
            with suppress(RodsError):  # a damaged file must not keep it alive
                self.queue.put("stop", "1")
            try:
                process.wait(timeout=2)
            except TimeoutExpired:
                process.kill()
                process.wait()
        self.queue.close()
        self._lock.close()

    def _locked(self) -> BinaryIO:
        """The log, held against other drivers of the same queue."""
        with disk(self._log, "writing"):
            log = self._log.open("ab")
        try:
            fcntl.flock(log, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError as error:
            log.close()
            busy = "another process is at work on these variants"
            lost = f"the file system cannot lock it: {error.strerror}"  # NFS without a lock service
            raise StoreError(f"{self._path}: {busy if error.errno in HELD else lost}.") from error
        return log

    def _alive(self) -> bool:
        return self._process is not None and self._process.poll() is None

    def _revive(self) -> None:
        if self._process is None or self._alive():
            return
        words, tried = self.queue.get("error"), self.queue.statistics().tried
        if tried > self._made:
            self._starts, self._made = 1, tried
        if not words and self._starts <= RESTARTS:
            how = f"ended (exit code {self._process.returncode}) and is started again"
            _log.warning("the synthesis worker %s; its last words: %s", how, self._tail())
            self._start()
            return
        if not words:
            words = (
                f"the synthesis worker ended {self._starts} times (exit code "
                f"{self._process.returncode}); its last words, from {self._log}: {self._tail()}"
            )
        if not tried:
            raise SynthesisError(words)
        self.queue.put("suspended", json.dumps(Suspension(words)))

    def _start(self) -> None:
        self._starts += 1
        module = "rods.synthesis.worker.process"
        arguments = [str(self._path), str(os.getpid()), str(self._settings.niceness)]
        with disk(self._log, "writing"), self._log.open("ab") as log:
            self._process = Popen(
                [sys.executable, "-m", module, *arguments],
                stdin=DEVNULL,
                stdout=log,
                stderr=log,
                start_new_session=True,  # Ctrl-C is for the driver, which tells it to stop
            )

    @property
    def _log(self) -> Path:
        return self._path.with_suffix(".log")

    def _tail(self) -> str:
        lines = self._log.read_text(errors="replace").strip().splitlines()
        return " ".join(lines[-3:]) or "(nothing)"
