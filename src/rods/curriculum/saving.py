"""A curriculum's state as two files of a checkpoint: `save` writes them, `load` reads them."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from rods.curriculum.online import OnlineCurriculum
from rods.errors import StoreError

STATE, VARIANTS = "curriculum.json", "variants.jsonl"
"""Everything but variants, and one variant a line."""


def save(curriculum: OnlineCurriculum, folder: Path) -> None:
    """Write both files into a checkpoint's folder."""
    state = curriculum.state_dict()
    variants = state["buffer"]["pool"].pop("variants")
    (folder / STATE).write_text(json.dumps(state), encoding="utf-8")
    with (folder / VARIANTS).open("w", encoding="utf-8") as lines:
        lines.writelines(json.dumps(row) + "\n" for row in variants)


def load(curriculum: OnlineCurriculum, folder: Path) -> None:
    """Continue from what `save` wrote.

    Raises:
        StoreError: a file is missing or damaged, or it was made with other original tasks or
            another seed. Then nothing has changed.
    """
    path = folder / STATE
    try:
        state: dict[str, Any] = json.loads(path.read_text(encoding="utf-8"))
        path = folder / VARIANTS
        with path.open(encoding="utf-8") as lines:
            state["buffer"]["pool"]["variants"] = [json.loads(line) for line in lines]
    except (OSError, ValueError, KeyError) as error:
        raise StoreError(
            f"{path}: this checkpoint cannot be read: {error}. Remove the folder "
            f"{folder} to resume from the checkpoint before it."
        ) from error
    curriculum.load_state_dict(state)
