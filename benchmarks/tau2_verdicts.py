"""tau2-bench's verdicts by us beside the checkout's own: what `suites_verdicts.py --tau2` asks.

Both sides run the checkout's code. Ours goes the whole way of `rods eval`: a scripted policy writes
text, a rollout reads it, the checkout's process executes it, its user simulator asks a chat server,
and a trajectory is scored. Theirs is the checkout's own orchestrator with a scripted agent and
user, judged by its own evaluator. Conversations are made of the tasks' own calls, whole and
altered, under the tasks' own bases and random ones; both sides ask the same judge.
"""

from __future__ import annotations

import ast
import json
import os
import random
import re
import subprocess
import sys
import zlib
from collections import Counter
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

from loopback import Loopback
from rods.config import load_config
from rods.dialects import get_dialect, structured
from rods.errors import PrerequisiteError
from rods.suites import make_suite
from rods.task import Task
from rods.types import ToolCall
from suite_cases import told

BASES = ("DB", "ACTION", "COMMUNICATE", "NL_ASSERTION")
WORDS = ("1,234.5 is the TOTAL", "Done")
THEIRS = """
import json, sys
from loguru import logger
logger.remove()
from tau2.data_model.message import AssistantMessage, ToolCall, UserMessage
from tau2.data_model.tasks import Task
from tau2.evaluator import evaluator_nl_assertions as nl
from tau2.evaluator.evaluator import EvaluationType, evaluate_simulation
from tau2.orchestrator.orchestrator import Orchestrator
from tau2.registry import registry
asked = json.load(sys.stdin)
nl.DEFAULT_LLM_NL_ASSERTIONS = "openai/loopback"
nl.DEFAULT_LLM_NL_ASSERTIONS_ARGS = {"api_base": asked["url"], "api_key": "none"}
class Scripted:
    def __init__(self, make, left):
        self.make, self.left = make, list(left)
    def get_init_state(self, message_history=None):
        return None
    def generate_next_message(self, message, state):
        return self.make(self.left.pop(0)), None
    def is_stop(self, message):
        return False
    def stop(self, message, state):
        pass
def agent(step):
    if isinstance(step, str):
        return AssistantMessage(role="assistant", content=step)
    named = enumerate(step)
    calls = [ToolCall(id=str(n), name=name, arguments=given) for n, (name, given) in named]
    return AssistantMessage(role="assistant", tool_calls=calls)
def user(text):
    return UserMessage(role="user", content=text)
verdicts = []
for case in asked["cases"]:
    task = Task.model_validate(case["row"])
    words = sum(isinstance(step, str) for step in case["steps"])
    said = ["Hello."] + ["ok"] * (words - 1) + ["###STOP###"]
    domain = asked["domain"]
    run = Orchestrator(
        domain=domain, agent=Scripted(agent, case["steps"]), user=Scripted(user, said),
        environment=registry.get_env_constructor(domain)(), task=task, max_steps=200,
    ).run()
    found = evaluate_simulation(run, task, EvaluationType.ALL, False, domain)
    verdicts.append(found.reward)
print(json.dumps(verdicts))
"""


def tau2(folder: Path, quick: bool = False) -> None:
    """Print how many verdicts differ, for each domain that the checkout can open.

    Args:
        folder: the checkout, in whose `.venv` its package is installed.
        quick: five tasks of each domain.
    """
    for domain in ("retail", "airline"):
        with Loopback(answer) as server:
            try:
                compare(folder, domain, server.url, quick)
            except PrerequisiteError as error:
                print(f"tau2-{domain}: not compared: {error}")


def compare(folder: Path, domain: str, url: str, quick: bool) -> None:
    named = [f"evaluation.suite.{one}.url={json.dumps(url)}" for one in ("user", "judge")]
    named += [f"evaluation.suite.folder={json.dumps(str(folder))}", 'model.dialect="pythonic"']
    rules: Any = make_suite(f"tau2-{domain}", load_config(overrides=named))
    tasks = list(rules.tasks())
    pool = [one for task in tasks for one in gold(task.world["row"])]
    cases = [case for task in tasks[: 5 if quick else None] for case in cases_of(task, pool)]
    theirs = official(folder, rules.environment.domain, domain, url, cases)
    ours = [verdict(rules, case) for case in cases]
    rules.environment.close()
    differ = [case for case, a, b in zip(cases, ours, theirs, strict=True) if a[0] != b]
    right = sum(int(one) for one, _ in ours)
    print(f"tau2-{domain}: {len(cases)} cases, {right} right by us, {len(differ)} verdicts differ")
    print(f"    ours: {dict(Counter(why or 'right' for _, why in ours))}")
    for case in differ[:5]:
        print(f"    {json.dumps(case['steps'])[:300]}")


def answer(body: Mapping[str, Any]) -> str:
    """The user's words, or a verdict on each assertion that depends on it and on the case."""
    first, last = body["messages"][0]["content"], body["messages"][-1]["content"]
    if "expectedOutcomes:" not in last:
        says = sum(one["role"] == "assistant" for one in body["messages"])
        over = re.search(r"Bye (\d+)\.", last)
        return "###STOP###" if over else "ok" if says else "Hello." if first else ""
    case = re.findall(r"Bye (\d+)\.", last)[-1]
    asserted = ast.literal_eval(last.rpartition("expectedOutcomes:")[2].strip())
    met = [bool(zlib.crc32((one + case).encode()) % 4) for one in asserted]
    rows = [{"expectedOutcome": "", "reasoning": "", "metExpectation": one} for one in met]
    return json.dumps({"results": rows})


def gold(row: Mapping[str, Any]) -> list[Any]:
    """The task's own calls of the agent."""
    actions = row["evaluation_criteria"]["actions"] or []
    return [[one["name"], one["arguments"]] for one in actions if one["requestor"] == "assistant"]


def cases_of(task: Task, pool: list[Any]) -> list[dict[str, Any]]:
    """Conversations with the task's calls, whole and altered, and words that say what is wanted."""
    row: Any = task.world["row"]
    rng = random.Random(f"tau2-case-{row['id']}")
    calls, criteria = gold(row), row["evaluation_criteria"]
    made: list[dict[str, Any]] = []
    for number in range(4):
        place = rng.randrange(len(calls)) if calls else 0
        ways = [
            calls,
            calls,
            calls[:place] + calls[place + 1 :],
            calls[: place + 1] + calls[place:],
        ]
        ways += [rng.sample(calls, len(calls)), [*calls, rng.choice(pool)]]
        ways += [[*calls, *[["no_such", {}]] * rng.choice((9, 10))]]
        steps: list[Any] = [[one] for one in rng.choice(ways)]
        if len(steps) > 1 and rng.random() < 0.3:  # two calls at once
            steps[:2] = [[*steps[0], *steps[1]]]
        words = [*(criteria["communicate_info"] or []), *WORDS]
        for word in rng.sample(words, rng.randint(0, len(words))):
            steps.insert(rng.randint(0, len(steps)), f"It is {word.upper()}, you see.")
        basis = rng.sample(BASES, rng.randint(1, 4)) if number % 2 else criteria["reward_basis"]
        altered = {**row, "evaluation_criteria": {**criteria, "reward_basis": basis}}
        steps.append(f"Bye {rng.randrange(10**6)}.")
        made.append({"row": altered, "steps": steps, "task": task})
    return made


def verdict(rules: Any, case: Mapping[str, Any]) -> tuple[float, str]:
    """Ours on a case: a rollout of a scripted policy, and its score."""
    task, dialect = (
        replace(case["task"], world={"row": case["row"]}),
        structured(get_dialect("pythonic")),
    )
    texts = [
        one if isinstance(one, str) else dialect.write([ToolCall(*call) for call in one])
        for one in case["steps"]
    ]
    trajectory = told(rules, task, *texts)
    assert trajectory.failure is None, trajectory.failure
    found = rules.score(task, trajectory)
    return float(found.right), found.why


def official(
    folder: Path, known: Mapping[str, Any], domain: str, url: str, cases: list[dict[str, Any]]
) -> list[float]:
    """Theirs on the cases, by the checkout's orchestrator and evaluator."""
    assert (known["messages"], known["errors"]) == (200, 10), known
    own = folder.absolute() / ".venv" / "bin" / "python"
    paths = {"PYTHONPATH": str(folder.absolute() / "src")}
    paths |= {"TAU2_DATA_DIR": str(folder.absolute() / "data")}
    sent = [{key: one[key] for key in ("row", "steps")} for one in cases]
    done = subprocess.run(
        [str(own) if own.exists() else sys.executable, "-c", THEIRS],
        input=json.dumps({"domain": domain, "url": url, "cases": sent}),
        stdout=subprocess.PIPE,
        text=True,
        env={**os.environ, **paths, "LITELLM_LOCAL_MODEL_COST_MAP": "True"},
        check=True,
    )
    return json.loads(done.stdout.splitlines()[-1])
