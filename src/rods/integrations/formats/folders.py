"""Data sets as folders that `datasets.load_dataset` reads: a Parquet file a split, and a card.

Owns the columns of tasks and of trajectories, and the card (README.md), whose header names the
files. The license is the owner's to choose, so the card names none. Never makes or judges a task.

    write_folder(Path("variants"), task_tables({"train": tasks}, "bfcl"))
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Mapping, Sequence
from itertools import chain, islice
from pathlib import Path
from typing import Any, NamedTuple

from rods.errors import StoreError
from rods.infra.checkpoints import step_of
from rods.infra.files import pyarrow
from rods.infra.host import origin
from rods.infra.install import VERSION
from rods.infra.text import whole_text
from rods.report.run_data import load_run
from rods.store import RunDirectory
from rods.task import Task
from rods.trajectory import Trajectory
from rods.trajectory_codec import read_parquet

BATCH = 512
"""Rows that are held in memory at once."""
Row = Mapping[str, Any]


class Column(NamedTuple):
    """A column of a data set."""

    kind: str
    """Arrow's type; `[x]` is a list of x, and `messages` a list of role and content."""
    meaning: str


TASK_COLUMNS = {
    "task_id": Column("string", "hash of the task's content"),
    "category": Column("string", "kind of task"),
    "user_messages": Column("[string]", "what the user says, turn by turn"),
    "ground_truth": Column("[[string]]", "calls that solve each turn; none: no call is right"),
    "origin": Column("string", "name of the original task"),
    "scenario": Column("string", "unit of the split"),
    "ancestors": Column("[string]", "tasks that a variant was made from; none: an original"),
    "recipe": Column("string", "writer of a variant, and what it changed"),
    "seed": Column("int64", "random seed of a variant"),
    "task": Column("string", "the whole task as JSON; RODS reads it again"),
}
TRAJECTORY_COLUMNS = {
    "step": Column("int64", "update that learned from it"),
    "task_id": Column("string", "hash of the task's content"),
    "category": Column("string", "kind of task; null: not logged"),
    "member": Column("int64", "number within its group"),
    "policy_version": Column("int64", "updates of the policy at its start"),
    "seed": Column("int64", "random seed of sampling"),
    "temperature": Column("double", "of sampling"),
    "turns": Column("int64", "turns of the task"),
    "progress": Column("double", "share of turns solved; null: infrastructure failed"),
    "stop": Column("string", "why it ended"),
    "failure": Column("string", "what failed in the infrastructure; null: nothing"),
    "messages": Column("messages", "the conversation; calls are text, as the policy wrote them"),
    "input_ids": Column("[int32]", "all tokens, prompt included"),
    "assistant_masks": Column("[int8]", "1: sampled by the policy, and trained"),
    "logprobs": Column("[double]", "of sampled tokens when they were sampled; else 0"),
}


class Table(NamedTuple):
    """What a folder is to hold."""

    title: str
    about: str
    """What the rows are, in a sentence or two."""
    made: Mapping[str, object]
    """How they were made, by name."""
    columns: Mapping[str, Column]
    splits: Mapping[str, Iterable[Row]]


def task_table(splits: Mapping[str, Sequence[Task]], env: str, title: str) -> Table:
    """Tasks of each split."""
    all_of = list(chain(*splits.values()))
    variants = sum(not task.is_original for task in all_of)
    about = f"Tasks for tool-using agents: {len(all_of) - variants} originals, {variants} variants."
    made = {"environment": env, "command": origin()["command"], "RODS": VERSION}
    rows = {name: map(_task_row, tasks) for name, tasks in splits.items()}
    return Table(title, about, made, TASK_COLUMNS, rows)


def run_table(path: Path, title: str) -> Table:
    """The training trajectories of a run.

    Raises:
        StoreError: there is no such run, or it holds no trajectories.
    """
    run = RunDirectory.open(path)
    files = sorted(run.trajectories.glob("step-*.parquet"))
    if not files:
        raise StoreError(f"{path}: this run holds no trajectories.")
    data, config = load_run(path), run.config
    kinds = {judged.task_id: judged.category for _, judged in data.judgements}
    made = {
        "command": data.manifest.get("command"),
        "seed": config.seed,
        "environment": config.env.name,
        "model": Path(config.model.name).name,
        "dialect of calls": config.model.dialect,
        "updates": len(data.steps),
        "RODS": data.manifest.get("rods"),
        "exported by": origin()["command"],
    }
    about = (
        "Trajectories of an agent in training by reinforcement learning. Each row is one attempt "
        "at one task. System messages and tools stand in the tokens only."
    )
    rows = (_trajectory_row(t, step_of(f.stem), kinds) for f in files for t in read_parquet(f))
    return Table(title, about, made, TRAJECTORY_COLUMNS, {"train": rows})


def write_folder(folder: Path, table: Table) -> dict[str, int]:
    """Write a new folder; returns the number of rows of each split.

    Raises:
        OSError: it cannot be written.
        PrerequisiteError: pyarrow is not installed.
    """
    arrow, parquet = pyarrow()
    names = [(name, _arrow_type(column.kind)) for name, column in table.columns.items()]
    schema, counts = arrow.schema(names), dict[str, int]()
    (folder / "data").mkdir(parents=True)
    for name, rows in table.splits.items():
        file = folder / "data" / f"{name}-00000-of-00001.parquet"
        counts[name], left = 0, iter(rows)
        with parquet.ParquetWriter(file, schema, compression="zstd") as writer:
            while batch := list(islice(left, BATCH)):
                writer.write_table(arrow.Table.from_pylist(batch, schema))
                counts[name] += len(batch)
    (folder / "README.md").write_text("\n".join(_card(table, counts)), encoding="utf-8")
    return counts


def _arrow_type(kind: str) -> Any:
    arrow, _ = pyarrow()
    if kind == "messages":
        return arrow.list_(arrow.struct({"role": arrow.string(), "content": arrow.string()}))
    if kind.startswith("["):
        return arrow.list_(_arrow_type(kind[1:-1]))
    return arrow.type_for_alias(kind)


def _card(table: Table, counts: Mapping[str, int]) -> Iterator[str]:
    yield from ("---", "# license: choose one; what the rows come from may ask for its own")
    yield from ("tags: [tool-use, reinforcement-learning, rods]", "configs:")
    yield from ("- config_name: default", "  data_files:")
    for split in counts:
        yield from (f"  - split: {split}", f"    path: data/{split}-*.parquet")
    yield from ("---", "", f"# {table.title}", "", table.about, "", "## How it was made", "")
    yield from (f"* {name}: `{value}`" for name, value in table.made.items())
    yield from ("", "## Rows", "", "| split | rows |", "|---|---|")
    yield from (f"| {split} | {count:,} |" for split, count in counts.items())
    yield from ("", "## Columns", "", "| column | type | meaning |", "|---|---|---|")
    for name, column in table.columns.items():
        yield f"| `{name}` | `{column.kind}` | {column.meaning} |"
    yield ""


def _task_row(task: Task) -> Row:
    p = task.provenance
    return {
        "task_id": task.id,
        "category": task.category,
        "user_messages": [turn.user for turn in task.turns],
        "ground_truth": [[str(call) for call in turn.ground_truth] for turn in task.turns],
        "origin": p.origin,
        "scenario": p.scenario,
        "ancestors": list(p.ancestors),
        "recipe": p.recipe,
        "seed": p.seed,
        "task": json.dumps(task.to_json(), ensure_ascii=False),
    }


def _trajectory_row(trajectory: Trajectory, step: int, kinds: Mapping[str, str]) -> Row:
    solved, ledger = sum(v.solved for v in trajectory.verdicts), trajectory.ledger
    return {
        "step": step,
        "task_id": trajectory.task_id,
        "category": kinds.get(trajectory.task_id),
        "member": trajectory.member,
        "policy_version": trajectory.policy_version,
        "seed": trajectory.seed,
        "temperature": trajectory.temperature,
        "turns": trajectory.n_turns,
        "progress": solved / trajectory.n_turns if trajectory.valid else None,
        "stop": trajectory.stop.value,
        "failure": trajectory.failure,
        "messages": [
            {"role": m.role, "content": whole_text(m.content)} for m in trajectory.messages
        ],
        "input_ids": ledger.ids,
        "assistant_masks": ledger.mask,
        "logprobs": ledger.logprobs,
    }
