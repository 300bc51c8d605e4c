"""Masked names (Hammer, arXiv 2410.04587): tools and parameters under names that say nothing.

Owns the renaming of one step; what a tool does must then be read from its description. User's words
are left as they are, values too.

    masked(task, random.Random(0)).turns[0].ground_truth      # (wqkzt_vbh(mxe='Oslo'),)
"""

from __future__ import annotations

import dataclasses
import random
import re
from collections.abc import Mapping
from typing import Any, cast

from rods.task import Task
from rods.types import Json, Message, ToolCall

_LETTERS = "abcdefghijklmnopqrstuvwxyz"


@dataclasses.dataclass(frozen=True)
class _Names:
    tools: Mapping[str, str]
    parameters: Mapping[str, Mapping[str, str]]
    """New names by tool (its old name) and old name."""

    def call(self, call: ToolCall) -> ToolCall:
        inner = self.parameters.get(call.name, {})
        arguments = {inner.get(name, name): value for name, value in call.arguments.items()}
        return ToolCall(self.tools.get(call.name, call.name), arguments)

    def message(self, message: Message) -> Message:
        return dataclasses.replace(message, calls=tuple(map(self.call, message.calls)))

    def text(self, text: str) -> str:
        """A description, in which tools are called by their new names."""
        return re.sub(r"[\w.]+", lambda word: self.tools.get(word[0], word[0]), text)


def masked(task: Task, rng: random.Random) -> Task:
    """The same single step (`world["tools"]`) under new names, none of which is used twice."""
    rows = cast("list[dict[str, Any]]", task.world["tools"])
    used: set[str] = set()
    names = _Names(
        {row["name"]: _fresh(rng, used) for row in rows},
        {
            row["name"]: {name: _fresh(rng, used) for name in row["parameters"]["properties"]}
            for row in rows
        },
    )
    tools: list[Json] = [_tool(row, names) for row in rows]
    turns = tuple(
        dataclasses.replace(turn, ground_truth=tuple(map(names.call, turn.ground_truth)))
        for turn in task.turns
    )
    origin = f"{task.provenance.origin}-masked"
    return dataclasses.replace(
        task,
        turns=turns,
        world={**task.world, "tools": tools},
        dialogue=tuple(map(names.message, task.dialogue)),
        provenance=dataclasses.replace(task.provenance, origin=origin),
    )


def _tool(row: dict[str, Any], names: _Names) -> dict[str, Json]:
    inner = names.parameters[row["name"]]
    schema = cast("dict[str, Any]", row["parameters"])
    properties: dict[str, Json] = {
        inner[name]: value for name, value in schema["properties"].items()
    }
    required: list[Json] = [inner.get(name, name) for name in schema.get("required", ())]
    return {
        "name": names.tools[row["name"]],
        "description": names.text(row["description"]),
        "parameters": {**schema, "properties": properties, "required": required},
    }


def _fresh(rng: random.Random, used: set[str]) -> str:
    while True:
        parts = ("".join(rng.choices(_LETTERS, k=rng.randint(3, 6))) for _ in range(2))
        name = "_".join(parts)
        if name not in used:
            used.add(name)
            return name
