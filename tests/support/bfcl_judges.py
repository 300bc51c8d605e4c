"""The two judges over whole trajectories: ours, and the benchmark's own in another process.

Owns playing given calls turn by turn and asking the package's checker. Never evaluates text here.

    [v.solved for v in judge_calls(task, [turn.ground_truth for turn in task.turns], environment)]
    official_verdicts([(task, calls_by_turn)])[0].valid
"""

from __future__ import annotations

import functools
import json
import keyword
import math
import subprocess
import sys
from collections.abc import Container, Iterable, Sequence
from pathlib import Path
from typing import Any, NamedTuple, cast

from rods.env import TurnVerdict
from rods.envs.bfcl import assets, tasks
from rods.envs.bfcl.world import BfclEnvironment
from rods.errors import EnvError
from rods.task import Task
from rods.types import ToolCall, Value

CallsByTurn = Sequence[Sequence[ToolCall]]
"""The calls of a trajectory, one sequence a turn."""


class OfficialVerdict(NamedTuple):
    """What the package's checker says of a whole trajectory."""

    valid: bool
    turn: int | None
    """The turn at which it gave up, from 0; None where valid."""
    error: str
    """The package's type of error; empty where valid."""


def judge_calls(
    task: Task, calls_by_turn: CallsByTurn, environment: BfclEnvironment
) -> list[TurnVerdict]:
    """Play calls in a fresh world and judge every turn."""
    world = environment.open(task)
    verdicts: list[TurnVerdict] = []
    try:
        for index, (_, calls) in enumerate(zip(task.turns, calls_by_turn, strict=True)):
            world.begin_turn(index)
            for call in calls:
                world.call(call)
            verdicts.append(world.end_turn())
    finally:
        world.close()
    return verdicts


def official_verdicts(
    cases: Iterable[tuple[Task, CallsByTurn]],
    wheel: str = "",
    *,
    reset: bool = True,
    timeout: float = 600.0,
) -> list[OfficialVerdict]:
    """Judge trajectories by the package's own executor and checker, in a separate process.

    Original tasks are judged against the package's own entries and ground-truth strings, variants
    against their own. Calls are rendered by `render`, so nothing but literals and nested calls of
    declared functions reaches the package's `eval`.

    Args:
        cases: Tasks with the calls of a trajectory, by turn.
        wheel: Path of the benchmark's wheel; empty as in `assets.obtain`.
        reset: Close the leaks of the package's classes (`bfcl_official.reset_leaks`).
        timeout: Seconds for the whole batch.

    Raises:
        EnvError: the process failed; the message holds its last words.
    """
    batch = [_case(task, calls, wheel) for task, calls in cases]
    body = {"wheel": wheel, "reset": reset, "cases": batch}
    done = subprocess.run(
        [sys.executable, str(Path(__file__).with_name("bfcl_official.py"))],
        input=json.dumps(body),
        capture_output=True,
        text=True,
        timeout=timeout,
        check=False,
    )
    rows = [json.loads(line) for line in done.stdout.splitlines()]
    if done.returncode or len(rows) != len(batch):
        last = (done.stderr.strip().splitlines() or ["no reason given"])[-1]
        raise EnvError(f"the benchmark's checker stopped after {len(rows)} verdicts: {last}")
    return [OfficialVerdict(**row) for row in rows]


def _case(task: Task, calls_by_turn: CallsByTurn, wheel: str) -> dict[str, Any]:
    origin = task.provenance.origin
    known = tasks.specs(cast("list[str]", task.world["classes"]), wheel)
    if task.is_original and origin in (entries := _entries(task.category, wheel)):
        entry, truth = entries[origin]
    else:
        marker = "long_context" if task.world.get("long_context") else "base"
        entry = {
            "id": f"multi_turn_{marker}_0",
            "initial_config": task.world["initial_config"],
            "involved_classes": task.world["classes"],
        }
        truth = [[render(call, known) for call in turn.ground_truth] for turn in task.turns]
    steps = [[[render(call, known) for call in calls]] if calls else [] for calls in calls_by_turn]
    return {"entry": entry, "ground_truth": truth, "steps": steps}


_UNDECLARED = "undeclared_function()"


def render(call: ToolCall, declared: Container[str]) -> str:
    """Write a call as the package's executor reads it, safe to be evaluated.

    A call of anything but a declared function, or with an argument name that is not a plain name,
    is written as a call that fails: the package would fail on it too, or be attacked by it.
    """
    try:
        return _render(call, declared)
    except _RefusedError:
        return _UNDECLARED


class _RefusedError(ValueError):
    pass


def _render(value: Value, declared: Container[str]) -> str:
    if isinstance(value, ToolCall):
        plain = all(k.isidentifier() and not keyword.iskeyword(k) for k in value.arguments)
        if value.name not in declared or not plain:
            raise _RefusedError(value.name)
        inner = (f"{key}={_render(item, declared)}" for key, item in value.arguments.items())
        return f"{value.name}({', '.join(inner)})"
    if isinstance(value, list):
        return f"[{', '.join(_render(item, declared) for item in value)}]"
    if isinstance(value, dict):
        inner = (f"{key!r}: {_render(item, declared)}" for key, item in value.items())
        return f"{{{', '.join(inner)}}}"
    if isinstance(value, float) and not math.isfinite(value):
        return {math.inf: "1e999", -math.inf: "-1e999"}.get(value, "(1e999 - 1e999)")
    return repr(value)


@functools.lru_cache(maxsize=8)
def _entries(category: str, wheel: str) -> dict[str, tuple[dict[str, Any], list[list[str]]]]:
    if category not in assets.CATEGORIES:
        return {}
    answers = {r["id"]: r["ground_truth"] for r in assets.rows("answer", category, wheel)}
    keys = ("id", "initial_config", "involved_classes")
    return {
        row["id"]: ({key: row[key] for key in keys}, answers[row["id"]])
        for row in assets.rows("question", category, wheel)
    }
