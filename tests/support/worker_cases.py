"""The synthesis worker without a process of its own, where a test needs none."""

from __future__ import annotations

import os
import threading
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from rods.errors import RodsError
from rods.synthesis.pipeline import Pipeline
from rods.synthesis.worker import process
from rods.synthesis.worker.client import SynthesisWorker
from rods.synthesis.worker.generator import Generator
from rods.synthesis.worker.queue import SqliteQueue


class ThreadProcess:
    """What `subprocess.Popen` gives: the same `run`, its parent alive, in a thread."""

    pid = 0

    def __init__(self, command: list[str], **_: Any) -> None:
        self.returncode: int | None = None
        self._thread = threading.Thread(target=self._run, args=(Path(command[-3]),), daemon=True)
        self._thread.start()

    def _run(self, path: Path) -> None:
        try:
            process.run(path, os.getppid())
        except RodsError as error:
            with path.with_suffix(".log").open("a") as log:
                log.write(f"{type(error).__name__}: {error}\n")
            self.returncode = 1
        else:
            self.returncode = 0

    def poll(self) -> int | None:
        return self.returncode

    def wait(self, timeout: float | None = None) -> int:
        self._thread.join(60.0)
        assert not self._thread.is_alive(), "the generator does not end"
        return self.returncode or 0

    def kill(self) -> None:
        raise AssertionError("it should have ended by itself")


class Stepped(SynthesisWorker):
    """A worker whose generator takes its turns while it is waited for, with any pipeline."""

    def __init__(self, path: Path, pipeline: Pipeline, rng_seed: int = 0) -> None:
        self.queue = SqliteQueue(path)
        self._process = None
        self._lock = path.with_suffix(".log").open("ab")
        self.generator = Generator(self.queue, pipeline, rng_seed)

    def drain(self, request_ids: Sequence[str], timeout: float) -> bool:
        until = time.monotonic() + timeout
        while self.unfinished(request_ids):
            if time.monotonic() >= until:
                return False
            self.generator.turn()
        return True

    def stop(self) -> None:
        self.generator.close()
        super().stop()
