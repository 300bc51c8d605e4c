"""Data sets as folders that `datasets.load_dataset` reads: a Parquet file a split, and a card.

Owns the columns (`columns.toml`) and the card (a template beside it), whose header names the
files. The license is the owner's to choose, so the card names none. Never makes or judges a task.

    write_task_folder(Path("variants"), "Variants", {"train": tasks}, "bfcl")
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping, Sequence
from itertools import islice
from pathlib import Path
from typing import Any, TypeAlias

from jinja2 import Template

from rods.errors import StoreError
from rods.infra.checkpoints import by_step, step_of
from rods.infra.files import pyarrow, toml_of
from rods.infra.host import origin
from rods.infra.install import VERSION
from rods.infra.text import whole_text
from rods.report.run_data import load_run
from rods.store import RunDirectory
from rods.task import Task
from rods.trajectory_codec import Signaled, read_signals

BATCH = 512  # Rows that are held in memory at once
Row = Mapping[str, Any]
_HERE = Path(__file__).parent
_SAME = ("task_id", "member", "policy_version", "seed", "temperature", "n_turns", "stop", "failure")


def write_task_folder(
    folder: Path, title: str, splits: Mapping[str, Sequence[Task]], env: str
) -> None:
    """Write the tasks of each split; raises `OSError`, or `PrerequisiteError` without pyarrow."""
    originals = sum(task.is_original for tasks in splits.values() for task in tasks)
    variants = sum(map(len, splits.values())) - originals
    rows = {name: map(_task_row, tasks) for name, tasks in splits.items()}
    _write(folder, "tasks", rows, title=title, env=env, originals=originals, variants=variants)


def write_run_folder(folder: Path, title: str, path: Path) -> int:
    """Write a run's trajectories; return how many. `StoreError` if the run or they are missing."""
    run = RunDirectory.open(path)
    files = by_step(run.trajectories, ".parquet")
    if not files:
        raise StoreError(f"{path}: this run holds no trajectories.")
    data = load_run(path)
    kinds = {judged.task_id: judged.category for _, judged in data.judgements}
    rows = (_trajectory_row(row, step_of(f.stem), kinds) for f in files for row in read_signals(f))
    splits = {"train": rows}
    return _write(folder, "trajectories", splits, title=title, run=data, config=run.config)["train"]


def columns_of(kind: str) -> Mapping[str, Any]:
    """The columns of a kind of rows, as `columns.toml` has them."""
    return toml_of("integrations", "formats", "columns.toml")[kind]


Column: TypeAlias = "str | list[Column] | dict[str, Column]"
"""Arrow's name of a type; a list of one; an object of some. As `columns.toml` has them."""


def schema_of(columns: Mapping[str, Column]) -> Any:
    """Arrow's schema of columns: names of types, lists with the type inside, or objects."""
    arrow, _ = pyarrow()

    def type_of(kind: Column) -> Any:
        if isinstance(kind, str):
            return arrow.type_for_alias(kind)
        if isinstance(kind, list):
            return arrow.list_(type_of(kind[0]))
        return arrow.struct([(name, type_of(inner)) for name, inner in kind.items()])

    return arrow.schema([(name, type_of(kind)) for name, kind in columns.items()])


def _write(
    folder: Path, kind: str, splits: Mapping[str, Iterable[Row]], **about: object
) -> Mapping[str, int]:
    """Write files and card into a new folder; returns the number of rows of each split."""
    arrow, parquet = pyarrow()
    columns, counts = columns_of(kind), dict.fromkeys(splits, 0)
    schema = schema_of({name: of for name, (of, _) in columns.items()})
    (folder / "data").mkdir(parents=True)
    for name, rows in splits.items():
        file, left = folder / "data" / f"{name}-00000-of-00001.parquet", iter(rows)
        with parquet.ParquetWriter(file, schema, compression="zstd") as writer:
            while batch := list(islice(left, BATCH)):
                writer.write_table(arrow.Table.from_pylist(batch, schema))
                counts[name] += len(batch)
    about |= {"columns": columns, "schema": schema, "counts": counts, "version": VERSION}
    card = Template((_HERE / "card.md.j2").read_text(encoding="utf-8"), keep_trailing_newline=True)
    text = card.render(about, command=origin()["command"])
    (folder / "README.md").write_text(text, encoding="utf-8")
    return counts


def _task_row(task: Task) -> Row:
    p = task.provenance
    return {
        "task_id": task.id,
        "category": task.category,
        "user_messages": [turn.user for turn in task.turns],
        "ground_truth": [[str(call) for call in turn.ground_truth] for turn in task.turns],
        **{
            name: getattr(p, name) for name in ("origin", "scenario", "ancestors", "recipe", "seed")
        },
        "task": json.dumps(task.to_json(), ensure_ascii=False),
    }


def _trajectory_row(row: Signaled, step: int, kinds: Mapping[str, str]) -> Row:
    trajectory, signal = row
    spans, advantages = trajectory.spans, signal.span_advantages if signal else ()
    ledger = trajectory.ledger
    messages = [{"role": m.role, "content": whole_text(m.content)} for m in trajectory.messages]
    return {
        **{name: getattr(trajectory, name) for name in _SAME},
        "step": step,
        "category": kinds.get(trajectory.task_id),
        "progress": trajectory.progress if trajectory.valid else None,
        "reward": signal and signal.reward,
        "reward_parts": signal and json.dumps(signal.reward_parts),
        "messages": messages,
        "input_ids": ledger.ids,
        "assistant_masks": ledger.mask,
        "logprobs": ledger.logprobs,
        "advantages": signal and [a for s, a in zip(spans, advantages, strict=True) for _ in s.ids],
    }
