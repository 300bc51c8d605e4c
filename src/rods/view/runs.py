"""One run as the pages see it: its rows, its tasks, its candidates, its trajectories.

Owns what is read again when a file of the run changes. Writes nothing.

    run = RunView(Path("runs/today"), "today")
    run.refresh()
    run.data.steps, run.tasks["8b0d3000fe176954"], run.candidates
"""

from __future__ import annotations

import json
import sqlite3
import threading
from collections.abc import Iterator, Sequence
from contextlib import closing
from functools import cached_property
from pathlib import Path
from typing import Any, NamedTuple
from urllib.parse import quote

from rods.errors import RodsError, StoreError
from rods.infra.files import is_locked
from rods.report.run_data import RunData, load_run
from rods.report.viewer import FOLDER, Decode, decoder_for
from rods.store import LOCK, METRICS
from rods.synthesis.worker.queue import rejections_of
from rods.task import Task
from rods.view.index import TrajectoryIndex

QUEUE = "synthesis.sqlite"
TASKS = ("synthesis-training.jsonl", "synthesis-held_out.jsonl")


class CandidateRow(NamedTuple):
    """What became of one outcome of a synthesis request."""

    seed: str
    """Id of the task it was made from."""
    number: int
    variant: Task | None
    """The accepted variant; None: all its candidates were rejected."""
    rejections: Sequence[Sequence[str]]
    """Stage, reason, detail and message of each rejected candidate, oldest first."""
    distance: float
    seconds: float


class RunView:
    """A run that may still be in training."""

    def __init__(self, path: Path, label: str) -> None:
        """Open a run; raises `StoreError` where the folder is none."""
        self.path, self.label = path, label
        self.data: RunData = load_run(path)
        self.index = TrajectoryIndex(path / FOLDER)
        self.version, self.state = 0, ""  # Rises when a page would show more or another state
        self.tasks: dict[str, Task] = {}
        self.candidates: list[CandidateRow] = []
        self._marks: dict[str, object] = {}
        self._lock = threading.Lock()

    def refresh(self) -> int:
        """Read what is new; returns the version."""
        with self._lock:
            changed, was = self.index.refresh(), self.state
            if self._changed(METRICS, "manifest.json"):
                self.data = load_run(self.path)
                self.index.categorize({j.task_id: j.category for _, j in self.data.judgements})
                changed = True
            training = "training" if is_locked(self.path / LOCK) else "not finished"
            self.state = "finished" if self.data.manifest.get("finished") else training
            self.version += changed or self.state != was
            return self.version

    def read_tasks(self) -> None:
        """Read tasks and candidates, where their files have changed."""
        with self._lock:
            if self._changed(*TASKS):
                self.tasks |= {task.id: task for task in self._originals()}
            if self._changed(QUEUE, f"{QUEUE}-wal"):
                seeds, self.candidates = _outcomes(self.path)
                made = [c.variant for c in self.candidates if c.variant]
                self.tasks |= {task.id: task for task in (*seeds, *made)}

    @cached_property
    def decode(self) -> Decode | None:
        """The decoder of the run's tokenizer, if it is known."""
        return decoder_for(self.data)

    def turns_of(self, seed: str, number: int, attempt: int) -> list[list[str]] | None:
        """Message and calls of each turn of a rejected candidate; empty: they are not kept.

        None: this run keeps them of no candidate.
        """
        if not _rows(self.path, "SELECT 1 FROM sqlite_master WHERE name = 'candidates'"):
            return None
        text = "SELECT turns FROM candidates WHERE seed = ? AND number = ? AND attempt = ?"
        found = _rows(self.path, text, seed, number, attempt)
        return json.loads(found[0][0]) if found else []

    def name_of(self, task_id: str) -> str:
        """The name of a task for people: that of its original, and its id where it is a variant."""
        task = self.tasks.get(task_id)
        if task is None or not task.provenance.origin:
            return task_id
        origin = task.provenance.origin
        return origin if task.is_original else f"{origin} \N{MIDDLE DOT} {task_id[:6]}"

    def close(self) -> None:
        """Release what the index holds."""
        self.index.close()

    def _changed(self, *names: str) -> bool:
        marks: dict[str, object] = {}
        for name in names:
            path = self.path / name
            state = path.stat() if path.is_file() else None
            marks[name] = state and (state.st_mtime_ns, state.st_size)
        old = {name: self._marks.get(name) for name in names}
        self._marks |= marks
        return old != marks

    def _originals(self) -> Iterator[Task]:
        for name in TASKS:
            path = self.path / name
            for line in path.read_text(encoding="utf-8").split("\n") if path.is_file() else ():
                if task := _task(line):
                    yield task


def open_runs(paths: Sequence[Path]) -> list[RunView]:
    """Open runs under names that differ; raises `StoreError` where a folder is not a run."""
    found: list[RunView] = []
    for path in paths:
        name = label = path.resolve().name
        number = 1
        while label in {run.label for run in found}:
            number += 1
            label = f"{name} ({number})"
        found.append(RunView(path, label))
    return found


def _task(text: str | None) -> Task | None:
    """A task from a line; None where it is empty or was not written to its end."""
    try:
        return Task.from_json(json.loads(text)) if text else None
    except (ValueError, RodsError):
        return None


def _rows(path: Path, text: str, *values: str | int) -> list[Any]:
    """Rows of a run's synthesis queue, which its worker may be writing; none where it has none."""
    if not (queue := path / QUEUE).is_file():
        return []
    place = f"file:{quote(str(queue.resolve()))}?mode=ro"
    try:
        with closing(sqlite3.connect(place, uri=True)) as db:
            return db.execute(text, values).fetchall()
    except sqlite3.Error as error:
        raise StoreError(f"{queue}: cannot be read: {error}.") from error


def _outcomes(path: Path) -> tuple[list[Task], list[CandidateRow]]:
    columns = "seed, number, task, rejected, distance, seconds"
    rows = _rows(path, f"SELECT {columns} FROM outcomes ORDER BY rowid DESC")
    seeds = [task for (text,) in _rows(path, "SELECT task FROM seeds") if (task := _task(text))]
    return seeds, [
        CandidateRow(seed, number, _task(task), rejections_of(rejected), distance, seconds)
        for seed, number, task, rejected, distance, seconds in rows
    ]
