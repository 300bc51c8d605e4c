"""Data sets for others: our JSON lines, rows of verl, TRL, verifiers, or of the environment's own.

Owns files and columns. Whatever a format cannot say is refused, never dropped. Nothing that exists
is overwritten: everything is written beside and renamed. Every row carries the whole task as JSON
text, so that `rods.task.read_tasks` gets it back. Never makes or judges a task.

    export(tasks, Path("variants.parquet"), "verl", environment)

* verl: `prompt`, `data_source`, `ability`, `reward_model`, `extra_info` with `interaction_kwargs`,
  as the README of Environment Tuning (inclusionAI/AWorld-RL) prints them
* datasets: a folder with a card (`rods.integrations.formats.folders`)
* TRL: `prompt` and `environment`, the name of one of `rods.integrations.trl_environments`; the
  other columns reach its `reset`
* verifiers: fields of its `TaskData`
"""

from __future__ import annotations

import filecmp
import json
import os
from collections.abc import Callable, Generator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Any

from rods.abilities import Exporting, ability, initial_state
from rods.dialects import structured
from rods.env import Environment
from rods.errors import ConfigError, StoreError, TaskError
from rods.infra.dotted import not_among
from rods.infra.files import disk, is_table, pyarrow, remove
from rods.infra.text import quoted
from rods.integrations.formats import folders
from rods.integrations.task_rollout import later_turn, opening_of
from rods.synthesis.structure.trace import all_tools, tool_group
from rods.task import Task, write_tasks

FORMATS = ("jsonl", "datasets", "verl", "trl", "verifiers")


def _own(environment: Environment) -> Mapping[str, Callable[[Path, Sequence[Task]], None]]:
    """Writers of tasks in the environment's own formats, by name."""
    exporting = ability(environment, Exporting)
    return exporting.exporters() if exporting else {}


def require_format(form: str, environment: Environment) -> None:
    """Raise `ConfigError` for a format in which tasks of an environment cannot be written."""
    known = (*FORMATS, *_own(environment))
    if form not in known:
        raise ConfigError(not_among("--format", form, known))


def export(
    tasks: Sequence[Task],
    path: Path,
    form: str,
    environment: Environment,
    *,
    dialect: str = "hermes",
    split: str = "train",
    held_out: Sequence[Task] = (),
    dry: bool = False,
) -> None:
    """Write a data set.

    Args:
        tasks: In order.
        path: A file, or a folder where the format is one. If it exists with exactly this content,
            all is well. Rows of TRL and verifiers are Parquet by the name's ending.
        form: One of `FORMATS`, or of the environment's own.
        environment: Opens the tasks' worlds, to learn their functions.
        dialect: How prompts ask for calls, where the format has prompts.
        split: What verl rows call themselves, `train` or `val`.
        held_out: Tasks for a split of their own, `test`, where the format has splits.
        dry: Only find what would be refused; nothing stays.

    Raises:
        StoreError: the path exists with other content, cannot be written, or its ending says JSON
            lines where the format is Parquet, or Parquet where it is not.
        TaskError: the format cannot say one of the tasks.
        ConfigError: there is no such dialect or format.
        PrerequisiteError: pyarrow is not installed.
    """
    require_format(form, environment)
    with _beside(path, dry) as part:
        if form == "jsonl":
            write_tasks(part, tasks)
        elif form == "datasets":
            splits = {"train" if split == "train" else "test": tasks}
            splits |= {"test": held_out} if held_out else {}
            folders.write_task_folder(part, path.name, splits, environment.name)
        elif form == "verl":
            rows = [verl_row(t, i, environment, dialect, split) for i, t in enumerate(tasks)]
            write_rows(part, rows, verl_schema())
        elif form == "trl":
            require_all_tools(tasks)
            _write_either(part, path.suffix, [trl_row(t, environment, dialect) for t in tasks])
        elif form == "verifiers":
            _write_either(part, path.suffix, [verifiers_row(t, i) for i, t in enumerate(tasks)])
        else:
            _own(environment)[form](part, tasks)


def export_run(run: Path, path: Path) -> int:
    """Write a run's trajectories as a folder of `datasets`; return how many. Raises as `export`."""
    with _beside(path) as part:
        return folders.write_run_folder(part, path.name, run)


@contextmanager
def _beside(path: Path, dry: bool = False) -> Generator[Path]:
    """A path whose content becomes that of `path`, unless this differs, or the writing is dry."""
    part = path.with_name(f"{path.name}.{os.getpid()}.part")  # what `claimed` removes after a kill
    with disk(path, "writing"), ExitStack() as after:
        after.callback(remove, part)
        yield part
        _require_ending(part, path)
        if not (dry or path.exists()):
            part.replace(path)
        elif not (dry or _same(part, path)):
            raise StoreError(f"{path}: exists, with other content. It was left as it is.")


def _require_ending(part: Path, path: Path) -> None:
    """Raise `StoreError` if the ending, by which readers go, names another form."""
    if part.is_dir() or path.suffix not in (".parquet", ".json", ".jsonl"):
        return
    table = is_table(part)
    if table != (path.suffix == ".parquet"):
        form, ending = ("Parquet", ".parquet") if table else ("JSON lines", ".jsonl")
        raise StoreError(f"{path}: this format is {form}. Let the name end in {ending}.")


def _write_either(path: Path, ending: str, rows: Sequence[Mapping[str, object]]) -> None:
    """Parquet by the name's ending, else JSON lines."""
    if ending == ".parquet":
        write_rows(path, rows)
    else:
        lines = [json.dumps(row, ensure_ascii=False) + "\n" for row in rows]
        path.write_text("".join(lines), encoding="utf-8")


def _same(a: Path, b: Path) -> bool:
    if a.is_dir() != b.is_dir():
        return False
    if a.is_file():
        return filecmp.cmp(a, b, shallow=False)
    ours, theirs = (sorted(p.relative_to(x) for p in x.rglob("*")) for x in (a, b))
    return ours == theirs and all(_same(a / p, b / p) for p in ours if (a / p).is_file())


def write_rows(path: Path, rows: Sequence[Mapping[str, object]], schema: object = None) -> None:
    """Write rows as Parquet."""
    arrow, parquet = pyarrow()
    parquet.write_table(arrow.Table.from_pylist(list(rows), schema), path)


# -- rows ----------------------------------------------------------------------------------------


def verl_row(
    task: Task, index: int, environment: Environment, dialect: str, split: str
) -> dict[str, Any]:
    """A row for verl's data set class."""
    truth = [[str(call) for call in turn.ground_truth] for turn in task.turns]
    messages, later = _prompt_messages(task, environment, dialect)
    start = initial_state(environment, task)
    config = dict(start.values) if start.owners else None
    kwargs = {
        "name": task.env,
        "id": task.id,
        "initial_config": json.dumps(config, ensure_ascii=False),
        "involved_classes": list(start.owners),
        "ground_truth": truth,
        "question": [[{"role": "user", "content": turn.user}] for turn in task.turns],
        "processed_question": later,
        "withheld": [list(turn.withheld) for turn in task.turns],
    }
    return {
        "data_source": f"rods/{task.env}",
        "prompt": messages,
        "ability": task.category,
        "reward_model": {"style": "interaction", "ground_truth": truth},
        "extra_info": {
            "index": index, "split": split, "task_id": task.id, "task": _text(task),
            "original_id": task.provenance.origin, "dataset_type": task.category,
            "need_tools_kwargs": False, "interaction_kwargs": kwargs,
        },
    }  # fmt: skip


def _prompt_messages(
    task: Task, environment: Environment, dialect: str
) -> tuple[list[dict[str, str]], list[str]]:
    """Prompt before the first step, and at each later turn, as in our rollouts."""
    speech = structured(dialect)
    tools = list(all_tools(environment, task).values())
    offered = [[s for s in tools if s.name not in turn.withheld] for turn in task.turns]
    known, later = {spec.name for spec in offered[0]}, list[str]()
    for turn, specs in zip(task.turns[1:], offered[1:], strict=True):
        new = [spec for spec in specs if spec.name not in known]
        known.update(spec.name for spec in new)
        later.append(later_turn(speech, turn.user, new))
    first = opening_of(speech, task, offered[0])
    return [{"role": m.role, "content": m.content} for m in first], later


def require_all_tools(tasks: Sequence[Task]) -> None:
    """Raise `TaskError` for a task that withholds tools: TRL's are the same in all turns."""
    if withholding := [task for task in tasks if any(turn.withheld for turn in task.turns)]:
        task = withholding[0]
        rest = ",".join(sorted({t.category for t in tasks} - {t.category for t in withholding}))
        way = (
            f"Take the other categories: --categories {quoted(rest)}." if rest else "Leave it out."
        )
        raise TaskError(
            f"task {task.id} ({task.category}): TRL cannot express it: it withholds tools, and "
            f"TRL's are the same in all turns. {way}"
        )


def trl_row(task: Task, environment: Environment, dialect: str) -> dict[str, Any]:
    """A row for TRL, whose chat template shows the tools."""
    opening = structured(dialect).opening(task.dialogue, task.turns[0].user)
    return {
        "prompt": [{"role": m.role, "content": m.content} for m in opening],
        "environment": tool_group(environment, task),
        "task_id": task.id,
        "category": task.category,
        "task": _text(task),
    }


def verifiers_row(task: Task, index: int) -> dict[str, Any]:
    """A `TaskData` of verifiers; raises `TaskError` if something was said before the first turn."""
    if task.dialogue:
        raise TaskError(
            f"task {task.id}: verifiers cannot express it: its dialogue before the first turn has "
            "calls without ids."
        )
    return {
        "idx": index, "id": task.id, "name": task.provenance.origin or task.id,
        "description": task.category, "prompt": task.turns[0].user, "task": _text(task),
    }  # fmt: skip


def verl_schema() -> Any:
    """Written out: the first rows may have empty lists, from which no type can be guessed."""
    return folders.schema_of(folders.columns_of("verl"))


def _text(task: Task) -> str:
    """A text, because tables have one type a column and worlds differ."""
    return json.dumps(task.to_json(), ensure_ascii=False)
