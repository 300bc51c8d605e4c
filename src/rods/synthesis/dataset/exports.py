"""Data sets for others: our JSON lines, Parquet rows of verl, or a format of the environment's.

Owns the first two. Whatever a format cannot say is refused, never dropped. Nothing that exists
is overwritten: everything is written beside and renamed. Never makes or judges a task.

    export(tasks, Path("variants.parquet"), "parquet", environment)
"""

from __future__ import annotations

import filecmp
import json
import shutil
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from rods.dialects import structured
from rods.env import Environment
from rods.errors import StoreError
from rods.infra.files import pyarrow
from rods.synthesis.structure.trace import all_tools
from rods.task import Task, Turn, write_tasks

FORMATS = ("jsonl", "parquet")


def formats(environment: Environment) -> tuple[str, ...]:
    """All formats in which tasks of an environment can be written."""
    return (*FORMATS, *environment.exporters())


def export(
    tasks: Sequence[Task],
    path: Path,
    form: str,
    environment: Environment,
    *,
    dialect: str = "hermes",
    split: str = "train",
) -> None:
    """Write a data set.

    Args:
        tasks: In order.
        path: A file, or a folder where the format is one. If it exists with exactly this content,
            all is well.
        form: One of `formats`.
        environment: Opens the tasks' worlds, to learn their functions.
        dialect: How the system prompt of Parquet rows asks for calls.
        split: What the Parquet rows call themselves.

    Raises:
        StoreError: the path exists with other content, or cannot be written.
        TaskError: the format cannot say one of the tasks.
        ConfigError: there is no such dialect.
        PrerequisiteError: pyarrow is not installed.
    """
    part = path.with_name(path.name + ".part")
    _remove(part)
    try:
        if form == "jsonl":
            write_tasks(part, tasks)
        elif form == "parquet":
            rows = [_row(t, i, environment, dialect, split) for i, t in enumerate(tasks)]
            _write_parquet(part, rows)
        elif form in environment.exporters():
            environment.exporters()[form](part, tasks)
        else:
            known = ", ".join(formats(environment))
            raise StoreError(f"there is no format {form!r}; known: {known}.")
        if not path.exists():
            part.replace(path)
        elif not _same(part, path):
            raise StoreError(f"{path}: exists, with other content. It was left as it is.")
    except OSError as error:
        if isinstance(error, StoreError):
            raise
        raise StoreError(f"{path}: cannot be written: {error}.") from error
    finally:
        _remove(part)


def _remove(path: Path) -> None:
    if path.is_dir():
        shutil.rmtree(path)
    else:
        path.unlink(missing_ok=True)


def _same(a: Path, b: Path) -> bool:
    if a.is_dir() != b.is_dir():
        return False
    if a.is_file():
        return filecmp.cmp(a, b, shallow=False)
    ours, theirs = (sorted(p.relative_to(x) for p in x.rglob("*")) for x in (a, b))
    return ours == theirs and all(_same(a / p, b / p) for p in ours if (a / p).is_file())


def call_texts(turn: Turn) -> list[str]:
    """The ground truth of a turn as Python calls."""
    return [str(call) for call in turn.ground_truth]


# -- Parquet rows of verl and Environment Tuning --------------------------------------------------


def _row(
    task: Task, index: int, environment: Environment, dialect: str, split: str
) -> dict[str, Any]:
    truth = [call_texts(turn) for turn in task.turns]
    question = [[{"role": "user", "content": turn.user}] for turn in task.turns]
    kwargs = {
        "name": task.env,
        "id": task.id,
        "initial_config": json.dumps(task.world.get("initial_config"), ensure_ascii=False),
        "involved_classes": task.world.get("classes", []),
        "ground_truth": truth,
        "question": question,
        "processed_question": question[1:],
        "withheld": [list(turn.withheld) for turn in task.turns],
    }
    return {
        "data_source": f"rods/{task.env}",
        "prompt": _prompt(task, environment, dialect),
        "ability": task.category,
        "reward_model": {"style": "interaction", "ground_truth": truth},
        "extra_info": {
            "index": index,
            "split": split,
            "task_id": task.id,
            "task": json.dumps(task.to_json(), ensure_ascii=False),
            "need_tools_kwargs": False,
            "interaction_kwargs": kwargs,
        },
    }


def _prompt(task: Task, environment: Environment, dialect: str) -> list[dict[str, str]]:
    """What the policy reads first, as our own rollouts show it."""
    speech = structured(dialect)
    first = task.turns[0]
    tools = [s for s in all_tools(environment, task).values() if s.name not in first.withheld]
    system = f"{speech.system_prompt()}\n\n{speech.describe(tools)}"
    return [{"role": "system", "content": system}, {"role": "user", "content": first.user}]


def _schema(arrow: Any) -> Any:
    """Written out: the first rows may have empty lists, from which no type can be guessed."""
    text = arrow.string()
    texts = arrow.list_(text)
    truth = arrow.list_(texts)
    messages = arrow.list_(arrow.struct({"role": text, "content": text}))
    kwargs = {
        "name": text,
        "id": text,
        "initial_config": text,
        "involved_classes": texts,
        "ground_truth": truth,
        "question": arrow.list_(messages),
        "processed_question": arrow.list_(messages),
        "withheld": truth,
    }
    extra = {
        "index": arrow.int64(),
        "split": text,
        "task_id": text,
        "task": text,
        "need_tools_kwargs": arrow.bool_(),
        "interaction_kwargs": arrow.struct(kwargs),
    }
    columns = {
        "data_source": text,
        "prompt": messages,
        "ability": text,
        "reward_model": arrow.struct({"style": text, "ground_truth": truth}),
        "extra_info": arrow.struct(extra),
    }
    return arrow.schema(list(columns.items()))


def _write_parquet(path: Path, rows: Sequence[Mapping[str, Any]]) -> None:
    arrow, parquet = pyarrow()
    parquet.write_table(arrow.Table.from_pylist(list(rows), _schema(arrow)), path)
