"""The benchmark's 800 entries as tasks, and their tool descriptions.

Owns the reading of entries, ground truth and function documentation. Never opens a world.

    tasks = load_tasks()
    tools = specs(["TwitterAPI"])
"""

from __future__ import annotations

import functools
import inspect
from collections.abc import Iterable, Mapping
from types import MappingProxyType
from typing import Any, cast

from rods.dialects.base import mapped
from rods.envs.bfcl import assets
from rods.envs.class_world import ToolClassWorld
from rods.errors import TaskError
from rods.infra.dotted import nearest
from rods.infra.pycall import CallSyntaxError, PyCall, PyValue, parse_python_calls
from rods.infra.rows import listed
from rods.task import LONG_CONTEXT, Provenance, Task, Turn
from rods.types import Json, ToolCall, ToolSpec, Value

_OTHER = {"dict": "object", "float": "number", "tuple": "array", "any": "string"}
_TYPES = {n: n for n in ("integer", "string", "boolean", "array", "object", "number")} | _OTHER


def load_tasks(wheel: str = "") -> list[Task]:
    """All 800 tasks: base, miss_func, miss_param, long_context, each in the benchmark's order.

    `wheel` is as in `assets.obtain`.

    Raises:
        PrerequisiteError: the benchmark cannot be obtained.
        TaskError: an entry cannot be read (names the entry).
    """
    return list(_load_tasks(wheel))


@functools.lru_cache(maxsize=2)
def _load_tasks(wheel: str) -> tuple[Task, ...]:
    tasks: list[Task] = []
    for category in assets.CATEGORIES:
        answers = {row["id"]: row["ground_truth"] for row in assets.rows("answer", category, wheel)}
        for entry in assets.rows("question", category, wheel):
            tasks.append(task_of(entry, answers[entry["id"]], category, wheel))
    return tuple(tasks)


def task_of(entry: Mapping[str, Any], answer: list[list[str]], category: str, wheel: str) -> Task:
    """One entry of the benchmark and its answer as a task.

    Raises:
        KeyError, ValueError, TypeError: it is not one, or its ground truth cannot be read.
    """
    name: str = entry["id"]
    classes: list[str] = entry["involved_classes"]
    known = specs(tuple(classes), wheel)
    missed = _given_back(entry, answer)
    turns: list[Turn] = []
    for index, (messages, calls) in enumerate(zip(entry["question"], answer, strict=True)):
        withheld = [function for function, turn in missed.items() if index < turn]
        try:
            truth = tuple(parse_call(text, known) for text in calls)
        except ValueError as error:
            raise TaskError(f"{name}, turn {index + 1}: ground truth {calls}: {error}.") from error
        user = "\n".join(m["content"] for m in listed(messages, "question") if m["role"] == "user")
        turns.append(Turn(user, truth, tuple(withheld)))
    long: dict[str, Json] = {LONG_CONTEXT: category == LONG_CONTEXT}
    world = ToolClassWorld(tuple(classes), entry["initial_config"], long).to_json()
    scenario = f"bfcl-{int(name.rsplit('_', 1)[1]):03d}"
    provenance = Provenance(origin=name, scenario=scenario, scenarios=(scenario,))
    return Task("bfcl", category, tuple(turns), world, provenance)


def _given_back(entry: Mapping[str, Any], answer: list[list[str]]) -> dict[str, int]:
    """Withheld functions, and the turn from which each is offered.

    The package's handlers add the functions under key k before they send turn k. The ground truth
    of one entry (miss_func_49) needs a function before that: it is offered from its first use on.
    """
    missed: dict[str, list[str]] = entry.get("missed_function", {})
    turns = {name: int(key) for key, names in missed.items() for name in names}
    for index, calls in enumerate(answer):
        for name in {call.partition("(")[0].strip() for call in calls} & set(turns):
            turns[name] = min(turns[name], index)
    return turns


def specs(classes: Iterable[str], wheel: str = "") -> Mapping[str, ToolSpec]:
    """Descriptions of all functions of these classes, by name, in the documentation's order.

    Schemas are JSON schema (`object`, `number`, ...), properties stand in the order of the
    signature. Raises `TaskError` for a class that the benchmark does not have.
    """
    return _specs(tuple(classes), wheel)


@functools.lru_cache(maxsize=512)
def _specs(classes: tuple[str, ...], wheel: str) -> Mapping[str, ToolSpec]:
    merged: dict[str, ToolSpec] = {}
    for name in classes:
        if name not in assets.CLASS_NAMES:
            known = f"{', '.join(assets.CLASS_NAMES)}.{nearest(name, assets.CLASS_NAMES)}"
            raise TaskError(f"world.classes: there is no class {name!r}; expected some of {known}")
        merged.update(_class_specs(name, wheel))
    return MappingProxyType(merged)


@functools.lru_cache(maxsize=32)
def _class_specs(name: str, wheel: str) -> Mapping[str, ToolSpec]:
    cls = assets.api_class(name, wheel)
    result: dict[str, ToolSpec] = {}
    for row in assets.rows("doc", name, wheel):
        schema = json_schema(row["parameters"])
        given = cast("dict[str, Json]", schema.get("properties", {}))
        order = [p for p in inspect.signature(getattr(cls, row["name"])).parameters if p in given]
        schema["properties"] = {key: given[key] for key in order}
        result[row["name"]] = ToolSpec(row["name"], row["description"], schema)
    return result


def json_schema(node: Mapping[str, Any]) -> dict[str, Json]:
    """Rewrite the benchmark's type names into those of JSON schema; raises `KeyError` of others."""
    result: dict[str, Json] = {}
    for key, value in node.items():
        if key == "type":
            result[key] = _TYPES[value]
        elif key == "properties":
            result[key] = {name: json_schema(inner) for name, inner in value.items()}
        elif key == "items":
            result[key] = json_schema(value)
        else:
            result[key] = value
    return result


class CallError(CallSyntaxError):
    """The text is a call, but not of a declared function or not with its parameters."""


def parse_call(text: str, specs: Mapping[str, ToolSpec]) -> ToolCall:
    """Read exactly one call, such as `cd(folder='x')`, of a declared function.

    Positional arguments are named by the signature; nested calls must be declared too.

    Raises:
        CallSyntaxError: not a plain call of literals (a `ValueError`).
        CallError: an unknown function, or positional arguments that do not fit it.
    """
    calls = parse_python_calls(text)
    if len(calls) != 1:
        raise CallSyntaxError(f"expected one call, got {len(calls)}")
    return name_arguments(calls[0], specs)


def name_arguments(call: PyCall, specs: Mapping[str, ToolSpec]) -> ToolCall:
    """Give positional arguments their names; raises `CallError` as `parse_call` does."""
    spec = specs.get(call.name)
    if spec is None:
        raise CallError(f"there is no function '{call.name}'")
    names = list(spec.properties)
    if len(call.positional) > len(names):
        raise CallError(
            f"{call.name} takes {len(names)} arguments, {len(call.positional)} were given"
        )

    def value(written: PyValue) -> Value:
        return mapped(written, lambda inner: name_arguments(inner, specs))

    arguments = {n: value(v) for n, v in zip(names, call.positional, strict=False)}
    for name, written in call.keyword.items():
        if name in arguments:
            raise CallError(f"{call.name}: argument '{name}' was given twice")
        arguments[name] = value(written)
    return ToolCall(call.name, arguments)
