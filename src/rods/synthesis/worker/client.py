"""The asynchronous generator: variants are made in a process of its own, beside training.

Owns that process: how it starts, what it works on, how it ends. It runs at low priority, never
imports torch, dies with its parent, and can be killed at any moment: the queue keeps what was
accepted. The driver's calls are millisecond operations on the queue and never wait for a variant,
but for `drain`, which is asked to wait.

    with SynthesisWorker(path, WorkerSettings.of(config, training, held_out)) as worker:
        worker.submit("e1-0", seed, n=2, rng_seed=5, priority=1.0, epoch=1)
        worker.drain(["e1-0"], timeout=10)
        worker.results(["e1-0"])
"""

from __future__ import annotations

import contextlib
import dataclasses
import hashlib
import json
import os
import subprocess
import sys
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, cast

from rods.config import RunConfig
from rods.errors import RodsError, SynthesisError
from rods.infra.files import disk
from rods.synthesis.worker.queue import SynthesisQueue
from rods.task import Task, write_tasks
from rods.types import Json

if TYPE_CHECKING:
    from rods.synthesis.worker.process import Maker

IDLE = 0.05
"""Seconds between two looks at an empty or full queue."""
RESTARTS = 3
"""How often a worker that died is started again before it is an error."""


@dataclass(frozen=True)
class WorkerSettings:
    """Everything that decides which variants come out."""

    training: Sequence[Task]
    """Originals of the training side: they may give words and turns."""
    held_out: Sequence[Task] = ()
    """Tasks that no variant may overlap."""
    environment: str = "bfcl"
    """Short name or `module:attribute`."""
    arguments: Mapping[str, Json] = field(default_factory=dict[str, Json])
    """What the environment's factory is called with, by name."""
    writer: str = "resample"
    """Short name or `module:attribute`."""
    resample_share: float = 0.0
    """Share of the proposals that the resample writer makes beside it."""
    attempts: int = 3
    """Whole attempts for one variant, K_max."""
    max_distance: float = 0.25
    """Largest profile distance."""
    max_waiting: int = 2000
    """The worker pauses while so many accepted variants wait to be taken."""
    options: Mapping[str, Json] = field(default_factory=dict[str, Json])
    """The run's `synthesis` settings, for writers that need more than the pool."""
    inline: bool = False
    """Work inside `drain` and `results`, without a process (tests)."""
    niceness: int = 10
    """How far the worker's priority is lowered."""

    @classmethod
    def of(
        cls, config: RunConfig, training: Sequence[Task], held_out: Sequence[Task]
    ) -> WorkerSettings:
        """The settings that a run's configuration means."""
        return cls(
            training=training,
            held_out=held_out,
            environment=config.env.name,
            arguments=cast("Mapping[str, Json]", config.env.arguments),
            writer=config.synthesis.writer,
            resample_share=config.synthesis.resample.share,
            attempts=config.synthesis.attempts,
            max_distance=config.synthesis.max_distance,
            options=config.synthesis.model_dump(mode="json"),
        )

    def digest(self) -> str:
        """First 16 hex digits of a hash of all that decides the variants."""
        ids = [[task.id for task in side] for side in (self.training, self.held_out)]
        writer: list[object] = [self.writer, self.resample_share]
        if self.writer == "llm":
            keys = (
                "model",
                "models",
                "planner",
                "narrative",
                "coherence",
                "feedback",
                "max_tokens",
            )
            chat = cast("Mapping[str, Json]", self.options.get("llm", {}))
            writer += [chat.get(key) for key in keys]
        plain = [self.environment, writer, self.attempts, self.max_distance, ids]
        return hashlib.sha256(json.dumps(plain).encode()).hexdigest()[:16]


class SynthesisWorker:
    """The driver's end: order variants, take what is there, see how it goes."""

    def __init__(self, path: Path, settings: WorkerSettings):
        """Open the queue and start the process (inline: neither process nor waiting).

        Raises:
            StoreError: the queue's file is damaged, or the disk is full or cannot be written.
            SynthesisError: it belongs to other tasks or settings.
        """
        self._path, self._settings = path, settings
        self._queue = SynthesisQueue(path)
        self._queue.bind(settings.digest())
        self._queue.put("stop", "")
        self._queue.put("suspended", "")
        self._process: subprocess.Popen[bytes] | None = None
        self._maker: Maker | None = None
        self._starts = 0
        if not settings.inline:
            self._write_setup()
            self._start()

    def __enter__(self) -> SynthesisWorker:
        return self

    def __exit__(self, *_: object) -> None:
        self.stop()

    def submit(
        self, request_id: str, seed: Task, n: int, rng_seed: int, priority: float, epoch: int
    ) -> None:
        """Order `n` variants of a seed and return at once. The same id again changes nothing.

        Raises:
            SynthesisError: the worker dies at once, again and again; the message holds its last
                words. One that has worked before is suspended instead.
        """
        self._queue.submit(request_id, seed, n, rng_seed, priority, epoch)
        self._revive()

    def results(self, request_ids: Sequence[str]) -> list[tuple[str, int, Task, float]]:
        """Accepted variants so far: (request id, index, task, profile distance).

        Ordered by the requests as given, then by index. Asking again gives them again.
        """
        if self._settings.inline:
            self._work_inline(request_ids)
        return self._queue.results(request_ids)

    def drain(self, request_ids: Sequence[str], timeout: float) -> bool:
        """Wait at most `timeout` seconds; whether all of these requests are finished.

        Raises:
            SynthesisError: as `submit`.
        """
        if self._settings.inline:
            self._work_inline(request_ids)
        until = time.monotonic() + timeout
        while self._queue.unfinished(request_ids):
            if time.monotonic() >= until or self.suspended:
                return False
            self._revive()
            time.sleep(min(IDLE, max(0.0, until - time.monotonic())))
        return True

    def state(self) -> Mapping[str, Json]:
        """Counts so far: tried, accepted, rejected (by reason, by stage), seconds, usage."""
        counts = self._queue.counts()
        return {
            "tried": counts.tried,
            "accepted": counts.accepted,
            "rejected": dict(counts.rejected),
            "stages": dict(counts.stages),
            "seconds": round(counts.seconds, 3),
            "seconds_per_variant": round(counts.seconds / max(counts.accepted, 1), 4),
            "waiting": counts.waiting,
            "requests": counts.requests,
            "alive": self._settings.inline or self._alive(),
            "suspended": self.suspended,
            "usage": json.loads(self._queue.get("usage") or "{}"),
        }

    @property
    def pid(self) -> int | None:
        """Process id of the worker; None where there is no process."""
        return self._process.pid if self._process is not None else None

    @property
    def suspended(self) -> str:
        """Why the writer pauses (it is tried again from time to time); empty while it works."""
        return self._queue.get("suspended")

    def stop(self) -> None:
        """End the process; what is unfinished is finished after the next start."""
        process, self._process = self._process, None
        if process is not None:
            with contextlib.suppress(RodsError):  # a damaged file must not keep it alive
                self._queue.put("stop", "1")
            try:
                process.wait(timeout=2)
            except subprocess.TimeoutExpired:
                process.kill()
                process.wait()
        self._queue.close()

    def _alive(self) -> bool:
        return self._process is not None and self._process.poll() is None

    def _revive(self) -> None:
        if self._settings.inline or self._process is None or self._alive():
            return
        if self._starts <= RESTARTS:
            self._start()
            return
        words = (
            f"the synthesis worker ended {self._starts} times (exit code "
            f"{self._process.returncode}); its last words, from {self._log}: {self._tail()}"
        )
        if not self._queue.counts().tried:
            raise SynthesisError(words)
        self._queue.put("suspended", words)

    def _start(self) -> None:
        self._starts += 1
        command = [
            sys.executable,
            "-m",
            "rods.synthesis.worker.process",
            str(self._path),
            str(os.getpid()),
        ]
        with disk(self._log, "writing"), self._log.open("ab") as log:
            self._process = subprocess.Popen(
                command, stdin=subprocess.DEVNULL, stdout=log, stderr=log
            )

    @property
    def _log(self) -> Path:
        return self._path.with_suffix(".log")

    def _tail(self) -> str:
        lines = self._log.read_text(errors="replace").strip().splitlines()
        return " ".join(lines[-3:]) or "(nothing)"

    def _write_setup(self) -> None:
        plain = dataclasses.asdict(dataclasses.replace(self._settings, training=(), held_out=()))
        self._queue.put("settings", json.dumps(plain))
        for side in ("training", "held_out"):
            tasks = cast("Sequence[Task]", getattr(self._settings, side))
            path = tasks_file(self._path, side)
            with disk(path, "writing"):
                write_tasks(path, tasks)

    def _work_inline(self, request_ids: Sequence[str]) -> None:
        if self._maker is None:
            from rods.synthesis.worker.process import Maker

            self._maker = Maker(self._settings)
        while self._queue.unfinished(request_ids):
            order = self._queue.next_order()
            if order is None:
                return
            self._maker.work(self._queue, order)


def tasks_file(queue: Path, side: str) -> Path:
    """Where a queue keeps the tasks of one side (`training`, `held_out`)."""
    return queue.with_name(f"{queue.stem}-{side}.jsonl")
