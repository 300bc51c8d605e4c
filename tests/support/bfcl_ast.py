"""The benchmark's own match of single calls, in a process of its own, and what it is asked.

Its module imports every vendor's SDK and a parser of Java; both are left out, for Python's calls
need neither.

    official_faults([(functions, calls, accepted, "simple_python")])    # [""], or its error types
"""

from __future__ import annotations

import json
import random
import subprocess
import sys
from collections.abc import Callable, Mapping, Sequence
from typing import Any, cast

from rods.envs.bfcl import assets
from rods.task import Task
from rods.types import ToolCall

Case = tuple[Sequence[Mapping[str, Any]], Sequence[ToolCall], Sequence[Any], str]
"""Functions, calls, accepted calls, category."""

SCRIPT = """
import json, sys, types
sys.path.insert(0, sys.argv[1])
name = "bfcl_eval.eval_checker.ast_eval.type_convertor"
for path in ("bfcl_eval.constants.model_config", name, f"{name}.java_type_converter",
             f"{name}.js_type_converter"):
    sys.modules[path] = types.ModuleType(path)
sys.modules["bfcl_eval.constants.model_config"].MODEL_CONFIG_MAPPING = {
    "m": types.SimpleNamespace(underscore_to_dot=False)}
sys.modules[f"{name}.java_type_converter"].java_type_converter = None
sys.modules[f"{name}.js_type_converter"].js_type_converter = None
from bfcl_eval.constants.enums import Language
from bfcl_eval.eval_checker.ast_eval.ast_checker import ast_checker
for functions, calls, accepted, category in json.load(sys.stdin):
    try:
        found = ast_checker(functions, calls, accepted, Language.PYTHON, category, "m")
        print("" if found["valid"] else found["error_type"])
    except (AttributeError, KeyError, TypeError) as error:
        print(f"crash: {error!r}")
"""


def official_faults(cases: Sequence[Case]) -> list[str]:
    """The package's type of error of each case; empty where it is right."""
    body = [
        [list(functions), [{c.name: dict(c.arguments)} for c in calls], list(accepted), category]
        for functions, calls, accepted, category in cases
    ]
    command = [sys.executable, "-c", SCRIPT, str(assets.obtain())]
    done = subprocess.run(
        command, input=json.dumps(body), capture_output=True, text=True, timeout=600, check=False
    )
    assert done.returncode == 0, done.stderr[-2000:]
    found = done.stdout.split("\n")[:-1]
    assert len(found) == len(cases)
    return found


def wanted(task: Task, rng: random.Random) -> list[ToolCall]:
    """Calls that are accepted: one of the values of each parameter."""
    made: list[ToolCall] = []
    for one in cast("list[Any]", task.world["accepted"]):
        ((name, values),) = one.items()
        arguments: dict[str, Any] = {}
        for key, options in values.items():
            some = rng.choice(options or [""])
            if some == "" and len(options) > 1:
                continue
            arguments[key] = _literal(some, rng)
        made.append(ToolCall(name, arguments))
    return made


def _literal(value: Any, rng: random.Random) -> Any:
    """An accepted object has lists of accepted values."""
    if isinstance(value, dict):
        chosen = {k: rng.choice(v) if isinstance(v, list) and v else v for k, v in value.items()}
        return {k: v for k, v in chosen.items() if v != ""}
    if isinstance(value, list):
        return [_literal(item, rng) if isinstance(item, dict) else item for item in value]
    return value


def _other(value: Any, rng: random.Random) -> Any:
    """The value said otherwise: sometimes as good, sometimes not."""
    if isinstance(value, bool):
        return rng.choice([not value, str(value), int(value)])
    if isinstance(value, int | float):
        return rng.choice([float(value), int(value), value + 1, str(value), bool(value), [value]])
    if isinstance(value, str):
        said = [value.upper(), f" {value}.", value.replace(" ", "_"), f"{value}x", "", "'" + value]
        return rng.choice([*said, 7, [value], None])
    if isinstance(value, list):
        turned = [value[::-1], value[1:], [*value, *value], [], [str(v) for v in value]]
        inner = [[_other(v, rng) for v in value], {"a": 1}, [None], ""]
        return rng.choice([*turned, *inner])
    if isinstance(value, dict):
        less = dict(list(value.items())[1:])
        inner = {k: _other(v, rng) for k, v in value.items()}
        return rng.choice([less, {**value, "surplus": 1}, inner, {}, [value], str(value)])
    return rng.choice(["", 0])


def _altered(calls: list[ToolCall], rng: random.Random) -> list[ToolCall]:
    place = rng.randrange(len(calls))
    arguments = dict(calls[place].arguments)
    if arguments:
        key = rng.choice(sorted(arguments))
        arguments[key] = _other(arguments[key], rng)
    return [*calls[:place], ToolCall(calls[place].name, arguments), *calls[place + 1 :]]


def _dropped(calls: list[ToolCall], rng: random.Random) -> list[ToolCall]:
    place = rng.randrange(len(calls))
    arguments = dict(calls[place].arguments)
    if arguments:
        arguments.pop(rng.choice(sorted(arguments)))
    return [*calls[:place], ToolCall(calls[place].name, arguments), *calls[place + 1 :]]


def _surplus(calls: list[ToolCall], rng: random.Random) -> list[ToolCall]:
    first = calls[0]
    return [ToolCall(first.name, {**first.arguments, "surplus": 1}), *calls[1:]]


def _shuffled(calls: list[ToolCall], rng: random.Random) -> list[ToolCall]:
    return rng.sample(calls, len(calls))


def _counted(calls: list[ToolCall], rng: random.Random) -> list[ToolCall]:
    return rng.choice([calls[1:], [*calls, calls[0]], [calls[0]] * len(calls)])


def _named(calls: list[ToolCall], rng: random.Random) -> list[ToolCall]:
    first = calls[0]
    name = rng.choice([first.name.upper(), first.name.replace(".", "_"), "no_such"])
    return [ToolCall(name, first.arguments), *calls[1:]]


CHANGES: Mapping[str, Callable[[list[ToolCall], random.Random], list[ToolCall]]] = {
    "as wanted": lambda calls, rng: calls,
    "altered": _altered,
    "altered twice": lambda calls, rng: _altered(_altered(calls, rng), rng),
    "dropped": _dropped,
    "surplus": _surplus,
    "shuffled": _shuffled,
    "counted": _counted,
    "named": _named,
}
