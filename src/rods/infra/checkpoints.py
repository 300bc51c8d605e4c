"""A folder of checkpoints: each is whole or not there, and the last two are kept.

    checkpoint/step-000012/   written beside, then renamed
    checkpoint/latest         name of the one to go on from

Owns their names and their safety: a kill, or a full disk, at any moment leaves what was there.
"""

from __future__ import annotations

import json
import re
import shutil
from collections.abc import Callable, Generator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from rods.errors import StoreError
from rods.infra.files import disk, sync, write_atomic
from rods.types import Json

LATEST = "latest"
MARK = "mark.json"
"""File of a checkpoint that says its step and whatever its maker wants to remember."""
KEPT = 2  # checkpoints that are kept


@dataclass(frozen=True, slots=True)
class Checkpoint:
    """A complete checkpoint."""

    step: int
    """Updates that it has seen."""
    path: Path

    def mark(self) -> dict[str, Json]:
        """Values that its maker noted; raises `StoreError` where they are damaged."""
        mark = self.read(MARK)
        if not isinstance(mark, dict):
            raise self.damaged("not an object")
        return mark

    def read(self, name: str) -> Any:
        """Return the JSON in one of its files; raises `StoreError` where it is damaged."""
        try:
            return json.loads((self.path / name).read_text(encoding="utf-8"))
        except (OSError, ValueError) as error:
            raise self.damaged(str(error), name) from error

    def remark(self, **values: Json) -> None:
        """Note other values beside it."""
        write_atomic(self.path / MARK, json.dumps({**self.mark(), **values}) + "\n")

    def damaged(self, why: str, name: str = MARK) -> StoreError:
        """The error that says so of one of its files, and what to do."""
        return StoreError(
            f"{self.path / name}: damaged ({why}). Remove the folder {self.path} to resume from "
            "the checkpoint before it."
        )


class Checkpoints:
    """The checkpoints of one run. One process writes them at a time."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder

    @contextmanager
    def write(self, step: int, mark: Callable[[], Mapping[str, Json]]) -> Generator[Path]:
        """Write a checkpoint: fill the folder that is given; it counts when the block ends.

        `mark` gives the values beside it when the block ends. `StoreError` if the disk is full.
        """
        final = self.folder / f"step-{step:06d}"
        part = self.folder / f".step-{step:06d}.part"
        with disk(final, "writing"):
            shutil.rmtree(part, ignore_errors=True)
            self.folder.mkdir(exist_ok=True)  # not the run, which somebody may have removed
            part.mkdir()
            try:
                yield part
                text = json.dumps({"step": step, **mark()})
                (part / MARK).write_text(text + "\n", encoding="utf-8")
                for path in (*part.rglob("*"), part):
                    sync(path)
                self._remove(final)
                part.rename(final)
            finally:
                shutil.rmtree(part, ignore_errors=True)
        write_atomic(self.folder / LATEST, final.name + "\n")
        for old in self._complete()[:-KEPT]:
            with disk(old.path, "removing"):
                self._remove(old.path)

    def _remove(self, path: Path) -> None:
        """Take a checkpoint away whole: a kill while its files go leaves none that looks whole."""
        gone = path.with_name(f".{path.name}.gone.part")
        shutil.rmtree(gone, ignore_errors=True)
        if path.exists():
            path.rename(gone)
            shutil.rmtree(gone, ignore_errors=True)

    def _complete(self) -> list[Checkpoint]:
        return [Checkpoint(step_of(path.name), path) for path in by_step(self.folder)]

    def latest(self) -> Checkpoint | None:
        """The checkpoint to go on from; None before the first."""
        complete = self._complete()
        pointer = self.folder / LATEST
        name = pointer.read_text(encoding="utf-8").strip() if pointer.is_file() else ""
        named = [c for c in complete if c.path.name == name]
        return next(iter(named or complete[-1:]), None)

    def go_back(self, fits: Callable[[Checkpoint], bool]) -> Checkpoint | None:
        """Make the newest checkpoint that fits the one to go on from; None where none does."""
        latest = self.latest()
        old = [c for c in self._complete() if latest and c.step <= latest.step]
        found = next(filter(fits, reversed(old)), None)
        if found and found != latest:
            write_atomic(self.folder / LATEST, found.path.name + "\n")
        return found


def step_of(stem: str) -> int:
    """The step that a file or folder is named after."""
    return int(stem.removeprefix("step-"))


def by_step(folder: Path, ending: str = "") -> list[Path]:
    """List what a folder holds for each step, in order; copies of another name are not ours."""
    found = {path: path.name.removesuffix(ending) for path in folder.glob(f"step-*{ending}")}
    ours = [path for path, stem in found.items() if re.fullmatch(r"step-[0-9]+", stem)]
    return sorted(ours, key=lambda path: step_of(found[path]))


def require_unfinished(folder: Path, done: int, total: int, updates: int) -> None:
    """Raise `StoreError` where `done` of `total` steps of a host are all; 0: it names no end."""
    if 0 < total <= done:
        raise StoreError(
            f"{folder}: this training is finished, after {updates} updates; nothing was changed. "
            f"Train it for longer (--updates {2 * updates}), or choose another --out."
        )
