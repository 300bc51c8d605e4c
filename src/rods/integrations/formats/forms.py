"""Task rows as other trainers read them: verl, TRL, verifiers.

Owns the columns. Every row carries the whole task as JSON text, so that `rods.task.read_tasks` gets
it back; what a format cannot say is refused. Never writes a file.

    verl_row(task, 0, environment, "hermes", "train")["prompt"]

* verl: `prompt`, `data_source`, `ability`, `reward_model`, `extra_info` with `interaction_kwargs`,
  as the README of Environment Tuning (inclusionAI/AWorld-RL) prints them
* TRL: `prompt` and `environment`, the name of one of
  `rods.integrations.trl_environments`; the other
  columns reach its `reset`
* verifiers: fields of its `TaskData`
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

from rods.abilities import initial_state
from rods.dialects import structured
from rods.env import Environment
from rods.errors import TaskError
from rods.infra.files import pyarrow
from rods.rollout.episode import MORE_TOOLS
from rods.synthesis.structure.trace import all_tools, tool_group
from rods.task import Task


def verl_row(
    task: Task, index: int, environment: Environment, dialect: str, split: str
) -> dict[str, Any]:
    """A row for verl's data set class."""
    truth = [[str(call) for call in turn.ground_truth] for turn in task.turns]
    messages, later = _said(task, environment, dialect)
    start = initial_state(environment, task)
    config = dict(start.values) if start.owners else None
    kwargs = {
        "name": task.env,
        "id": task.id,
        "initial_config": json.dumps(config, ensure_ascii=False),
        "involved_classes": list(start.owners),
        "ground_truth": truth,
        "question": [_spoken(turn.user) for turn in task.turns],
        "processed_question": later,
        "withheld": [list(turn.withheld) for turn in task.turns],
    }
    return {
        "data_source": f"rods/{task.env}",
        "prompt": messages,
        "ability": task.category,
        "reward_model": {"style": "interaction", "ground_truth": truth},
        "extra_info": {
            "index": index,
            "split": split,
            "task_id": task.id,
            "task": _text(task),
            "original_id": task.provenance.origin,
            "dataset_type": task.category,
            "need_tools_kwargs": False,
            "interaction_kwargs": kwargs,
        },
    }


def _said(
    task: Task, environment: Environment, dialect: str
) -> tuple[list[dict[str, str]], list[str]]:
    """What the policy reads before its first step, and at each later turn, as in our rollouts."""
    speech = structured(dialect)
    tools = list(all_tools(environment, task).values())
    offered = [[s for s in tools if s.name not in turn.withheld] for turn in task.turns]
    system = f"{speech.system_prompt()}\n\n{speech.describe(offered[0])}"
    opening = speech.opening(task.dialogue, task.turns[0].user)
    known, later = {spec.name for spec in offered[0]}, list[str]()
    for turn, specs in zip(task.turns[1:], offered[1:], strict=True):
        new = [spec for spec in specs if spec.name not in known]
        known.update(spec.name for spec in new)
        more = f"{MORE_TOOLS}\n{speech.describe(new)}" if new else ""
        later.append("\n\n".join(part for part in (turn.user, more) if part.strip()))
    first = [{"role": m.role, "content": m.content} for m in opening]
    return [{"role": "system", "content": system}, *first], later


def trl_row(task: Task, environment: Environment, dialect: str) -> dict[str, Any]:
    """A row for TRL's environments; its chat template shows the tools.

    Raises:
        TaskError: the task withholds tools: TRL's are the same in all turns.
    """
    if any(turn.withheld for turn in task.turns):
        raise TaskError(
            f"task {task.id} ({task.category}): cannot be said to TRL: it withholds tools, and "
            "those of a TRL environment are the same in all turns. Leave its category out."
        )
    opening = structured(dialect).opening(task.dialogue, task.turns[0].user)
    return {
        "prompt": [{"role": m.role, "content": m.content} for m in opening],
        "environment": tool_group(environment, task),
        "task_id": task.id,
        "category": task.category,
        "task": _text(task),
    }


def verifiers_row(task: Task, index: int) -> dict[str, Any]:
    """A row that is a `TaskData` of verifiers.

    Raises:
        TaskError: something was said before the first turn.
    """
    if task.dialogue:
        raise TaskError(
            f"task {task.id}: cannot be said to verifiers: its dialogue before the first turn has "
            "calls without ids."
        )
    return {
        "idx": index,
        "id": task.id,
        "name": task.provenance.origin or task.id,
        "description": task.category,
        "prompt": task.turns[0].user,
        "task": _text(task),
    }


def verl_schema() -> Any:
    """Written out: the first rows may have empty lists, from which no type can be guessed."""
    arrow, _ = pyarrow()
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
        "processed_question": texts,
        "withheld": truth,
    }
    extra = {
        "index": arrow.int64(),
        "split": text,
        "task_id": text,
        "task": text,
        "original_id": text,
        "dataset_type": text,
        "need_tools_kwargs": arrow.bool_(),
        "interaction_kwargs": arrow.struct(kwargs),
    }
    columns: Mapping[str, Any] = {
        "data_source": text,
        "prompt": messages,
        "ability": text,
        "reward_model": arrow.struct({"style": text, "ground_truth": truth}),
        "extra_info": arrow.struct(extra),
    }
    return arrow.schema(list(columns.items()))


def _spoken(text: str) -> list[dict[str, str]]:
    return [{"role": "user", "content": text}]


def _text(task: Task) -> str:
    """A text, because tables have one type a column and worlds differ."""
    return json.dumps(task.to_json(), ensure_ascii=False)
