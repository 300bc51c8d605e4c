"""Tasks in the benchmark's own JSON, as its package reads them, and as Environment Tuning does.

Owns the first format: a file a category, answers beside it; and what the second one's interaction
wants of verl's rows. What they cannot say is refused, never dropped. `files.load_entries` reads
both back.

    write_entries(Path("variants"), tasks, environment)
    write_tuning(Path("bfcl_train.parquet"), tasks, environment)
"""

from __future__ import annotations

import json
import re
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from rods.env import Environment
from rods.envs.class_world import ToolClassWorld
from rods.errors import TaskError
from rods.integrations.formats.exports import verl_row, verl_schema, write_rows
from rods.synthesis.structure.trace import owners
from rods.task import LONG_CONTEXT, Task
from rods.types import Json

FIRST_NUMBER = 1_000  # Numbers of variants begin here: the benchmark's own stay below

_ORIGIN = re.compile(r"multi_turn_[a-z_]+_\d+")


def write_entries(folder: Path, tasks: Sequence[Task], environment: Environment) -> None:
    """A folder that mirrors the package's `data`: a file a category, answers beside it.

    Raises:
        TaskError: the format cannot say one of the tasks.
    """
    entries: dict[str, list[str]] = {}
    answers: dict[str, list[str]] = {}
    for index, task in enumerate(tasks):
        name = _name(task, FIRST_NUMBER + index)
        entry = _entry(task, name, environment)
        answer = {
            "id": name,
            "ground_truth": [[str(call) for call in turn.ground_truth] for turn in task.turns],
        }
        entries.setdefault(task.category, []).append(json.dumps(entry, ensure_ascii=False))
        answers.setdefault(task.category, []).append(json.dumps(answer, ensure_ascii=False))
    (folder / "possible_answer").mkdir(parents=True)
    for place, rows in ((folder, entries), (folder / "possible_answer", answers)):
        for category, lines in rows.items():
            file = place / f"BFCL_v4_multi_turn_{category}.json"
            file.write_text("\n".join(lines) + "\n", encoding="utf-8")


def write_tuning(path: Path, tasks: Sequence[Task], environment: Environment) -> None:
    """Parquet rows for the interaction of Environment Tuning (inclusionAI/AWorld-RL).

    It finds its worlds by `interaction_kwargs.name`, pads results of tasks whose id says
    `long_context`, and understands the dialect `think` alone.

    Raises:
        PrerequisiteError: pyarrow is not installed.
    """
    rows: list[dict[str, Any]] = []
    for index, task in enumerate(tasks):
        row = verl_row(task, index, environment, "think", "train")
        name = _name(task, FIRST_NUMBER + index)
        row["data_source"] = row["extra_info"]["dataset_type"] = f"multi_turn_{task.category}"
        row["ability"] = "multi_turn_function_calling"
        row["extra_info"]["original_id"] = name
        row["extra_info"]["interaction_kwargs"] |= {"name": "multi_turn_tool_call", "id": name}
        rows.append(row)
    write_rows(path, rows, verl_schema())


def _name(task: Task, number: int) -> str:
    origin = task.provenance.origin
    if task.is_original and _ORIGIN.fullmatch(origin):
        return origin
    return f"multi_turn_{task.category}_{number}"


def _entry(task: Task, name: str, environment: Environment) -> dict[str, Json]:
    world = ToolClassWorld.of(task)
    if surplus := sorted(world.more.keys() - {LONG_CONTEXT}):
        raise TaskError(
            f"task {task.id}: the benchmark's format cannot express it: its world has "
            f"{', '.join(surplus)}."
        )
    owned = owners(environment, task)
    names = dict.fromkeys(call.name for call in task.calls)
    entry: dict[str, Any] = {
        "id": name,
        "question": [
            [{"role": "user", "content": turn.user}] if turn.user.strip() else []
            for turn in task.turns
        ],
        "initial_config": dict(world.initial_config),
        "path": [f"{owned.get(function, '')}.{function}" for function in names],
        "involved_classes": list(world.classes),
        "provenance": task.to_json()["provenance"],
    }
    missed = _missed(task)
    if missed:
        entry["missed_function"] = missed
    return entry


def _missed(task: Task) -> dict[str, list[str]]:
    """Withheld functions by the turn from which each is offered."""
    missed: dict[str, list[str]] = {}
    for function in dict.fromkeys(name for turn in task.turns for name in turn.withheld):
        hidden = [i for i, turn in enumerate(task.turns, 1) if function in turn.withheld]
        if hidden != list(range(1, len(hidden) + 1)):
            raise TaskError(
                f"task {task.id}: {function} is withheld in turns {hidden}; the benchmark's format "
                "can only withhold from the first turn on."
            )
        missed.setdefault(str(len(hidden)), []).append(function)
    return missed
