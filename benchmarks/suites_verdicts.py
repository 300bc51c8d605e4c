r"""Suites' verdicts beside those of the suites' own code, on calls of their ground truths.

    python benchmarks/suites_verdicts.py --api-bank DAMO-ConvAI/api-bank --acebench ACEBench
    python benchmarks/suites_verdicts.py --tau2 tau2-bench [--quick]

API-Bank: each dialogue's own call, by us and by the folder's tool manager. ACEBench: the calls of
each task's milestones as they are, with one less, one twice and in another order, by us and by the
folder's executor and checker, which give text to `eval`: these are its own calls, not a model's.
tau2-bench: `tau2_verdicts.py`; the checkout's `.venv` has its package.
"""

from __future__ import annotations

import json
import random
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from shared import Options

from rods.config import load_config
from rods.infra.pycall import CallSyntaxError, parse_python_calls
from rods.suites import make_suite
from rods.types import FinishReason, ParseVerdict, ToolCall

API_BANK = """
import contextlib, io, json, sys, types
sys.path.insert(0, ".")
asked = json.load(sys.stdin)
for name in asked["absent"]:
    sys.modules[name] = types.ModuleType(name)
    sys.modules[name].ToolSearcher = object
from tool_manager import ToolManager
found = []
for row in asked["rows"]:
    with contextlib.redirect_stdout(io.StringIO()):
        manager = ToolManager()
        try:
            result = manager.api_call(row["api_name"], **row["param_dict"])
            tool = manager.init_tool(row["api_name"])
            found.append(bool(tool.check_api_call_correctness(result, row["result"])))
        except Exception:
            found.append(False)
json.dump(found, sys.stdout)
"""
ACEBENCH = """
import contextlib, io, json, sys
sys.path.insert(0, ".")
from model_eval.checker import agent_checker
from model_inference.multi_step import multi_step_utils
from model_inference.multi_turn import multi_turn_utils
kinds = {"multi_step": multi_step_utils, "multi_turn": multi_turn_utils}
asked, found = json.load(sys.stdin), []
for number, row in enumerate(asked["rows"]):
    objects = {}
    with contextlib.redirect_stdout(io.StringIO()):
        for call in row["calls"]:
            _, got = kinds[row["kind"]].execute_agent_func_call(
                [call], row["config"], row["classes"], f"m{number}", "0", row["language"])
            objects = got if isinstance(got, dict) else objects
    saved = asked["saved"]
    states = [{name: {key: value for key, value in vars(one).items() if key in saved[name]}}
              for name, one in objects.items()]
    states = json.loads(json.dumps(states))
    right, last = len(states) == len(row["truth"]), {"valid": True}
    for wanted in row["truth"] if right else []:
        same = next((state for state in states if set(state) == set(wanted)), None)
        last = agent_checker(same, wanted) if same else last
        right = right and last["valid"]
    found.append(right)
json.dump(found, sys.stdout)
"""


def main() -> None:
    parser = Options(__doc__, {})
    parser.add_argument("--api-bank", type=Path)
    parser.add_argument("--acebench", type=Path)
    parser.add_argument("--tau2", type=Path, help="a checkout")
    options = parser.parse_args()
    if not (options.api_bank or options.acebench or options.tau2):
        parser.error("name a checkout")
    if options.api_bank:
        report("api-bank", *api_bank(options.api_bank))
    if options.acebench:
        report("acebench-agent", *acebench(options.acebench))
    if options.tau2:
        from tau2_verdicts import tau2

        tau2(options.tau2, options.quick)


def report(name: str, ours: Sequence[bool], theirs: Sequence[bool]) -> None:
    differ = sum(a != b for a, b in zip(ours, theirs, strict=True))
    print(f"{name}: {len(ours)} cases, {sum(ours)} right by us, {differ} verdicts differ")


def suite(name: str, folder: Path) -> Any:
    return make_suite(
        name, load_config(overrides=[f"evaluation.suite.folder={json.dumps(str(folder))}"])
    )


def official(script: str, folder: Path, asked: dict[str, Any]) -> list[bool]:
    """Verdicts of the folder's own code, in a process of its own."""
    done = subprocess.run(
        [sys.executable, "-c", script],
        input=json.dumps(asked),
        stdout=subprocess.PIPE,
        text=True,
        cwd=folder,
        check=True,
    )
    return json.loads(done.stdout)


class Played:
    """A trajectory of given calls, as far as a score reads it."""

    def __init__(self, calls: Sequence[ToolCall]) -> None:
        self.calls, self.results, self.turn = tuple(calls), tuple(calls), 0
        self.verdict, self.finish = ParseVerdict.CALLS, FinishReason.STOP
        self.steps = [self]


def api_bank(folder: Path) -> tuple[list[bool], list[bool]]:
    rules = suite("api-bank", folder)
    catalog = rules._catalog
    tasks = [t for t in rules.tasks() if t.world["wanted"]["api_name"] in catalog.classes]
    rows = [task.world["wanted"] for task in tasks]
    ours = [
        rules.score(task, Played([ToolCall(row["api_name"], row["param_dict"])])).right
        for task, row in zip(tasks, rows, strict=True)
    ]
    rules.environment.close()
    return ours, official(API_BANK, folder, {"rows": rows, "absent": list(catalog.failed)})


def acebench(folder: Path) -> tuple[list[bool], list[bool]]:
    from rods.suites.ace_world import SAVED

    rules = suite("acebench-agent", folder)
    ours: list[bool] = []
    rows: list[dict[str, Any]] = []
    for task in rules.tasks():
        world: Any = task.world
        keys = ("kind", "language", "classes", "config", "truth")
        for calls in sequences(world["milestones"], task.id):
            rows.append({**{key: world[key] for key in keys}, "calls": [str(c) for c in calls]})
            played = rules.environment.open(task)
            played.begin_turn(0)
            for call in calls:
                played.call(call)
            ours.append(not played.fault())
            played.close()
    rules.environment.close()
    return ours, official(ACEBENCH, folder, {"rows": rows, "saved": SAVED})


def sequences(milestones: list[Any], seed: str) -> list[list[ToolCall]]:
    """The milestones that are Python, each way of them four times; some have a quote too many."""
    ways = milestones if milestones and isinstance(milestones[0], list) else [milestones]
    made: list[list[ToolCall]] = []
    for number, way in enumerate(ways):
        rng = random.Random(f"{seed}-{number}")
        try:
            parsed = [call for stone in way for call in parse_python_calls(stone)]
        except CallSyntaxError:
            continue
        calls = [ToolCall(call.name, call.keyword) for call in parsed]
        place = rng.randrange(len(calls)) if calls else 0
        less, twice = calls[:place] + calls[place + 1 :], calls[: place + 1] + calls[place:]
        made += [calls, less, twice, rng.sample(calls, len(calls))]
    return made


if __name__ == "__main__":
    main()
