"""Our form of the official verdict equals the package's own checker, run in another process."""

import random
import sys
from collections import Counter
from pathlib import Path

import pytest

from bfcl_judges import judge_calls, official_verdicts, render
from bfcl_mutants import KINDS, Calls, truth
from rods.envs.bfcl.tasks import load_tasks, parse_call, specs
from rods.envs.bfcl.world import BfclEnvironment
from rods.errors import EnvError
from rods.infra.pycall import CallSyntaxError
from rods.task import Task, Turn
from rods.types import ToolCall

ENVIRONMENT = BfclEnvironment()


def first_failure(task: Task, calls: Calls) -> int | None:
    """The turn at which our form of it is the first to say no."""
    verdicts = judge_calls(task, calls, ENVIRONMENT)
    return next((index for index, verdict in enumerate(verdicts) if not verdict.official), None)


def mutants(tasks: list[Task], repeats: int) -> list[tuple[str, Task, Calls]]:
    return [
        (kind, task, mutate(task, random.Random(f"{kind}-{number}-{task.id}")))
        for task in tasks
        for kind, mutate in KINDS.items()
        for number in range(repeats)
    ]


def disagreements(cases: list[tuple[str, Task, Calls]]) -> tuple[list[str], Counter[str]]:
    official = official_verdicts([(task, calls) for _, task, calls in cases])
    wrong: list[str] = []
    counts: Counter[str] = Counter()
    for (kind, task, calls), verdict in zip(cases, official, strict=True):
        counts[f"{kind} {'valid' if verdict.valid else 'invalid'}"] += 1
        if first_failure(task, calls) != verdict.turn:
            wrong.append(f"{kind} {task.provenance.origin} {verdict} {calls}")
    return wrong, counts


@pytest.mark.slow
def test_parity_on_mutated_trajectories():
    """Shown with `pytest -rP`. Other expressions than literals and calls are counted below."""
    wrong, counts = disagreements(mutants(load_tasks()[::16], 1))
    sys.stdout.write(f"mutants by kind and official verdict: {dict(sorted(counts.items()))}\n")
    assert wrong == []
    assert counts.total() == 250
    assert all(counts[f"{kind} invalid"] > 3 for kind in KINDS)


@pytest.mark.slow
def test_expressions_are_refused_and_never_reach_a_judge():
    expressions = ["1 + 1", "f'{x}'", "[i for i in 'ab']", "lambda: 1", "open", "().__class__"]
    refused = 0
    for task in load_tasks()[::8]:
        known = specs(task.world["classes"])
        for number, turn in enumerate(task.turns):
            for call in turn.ground_truth:
                key = next(iter(call.arguments), "x")
                expression = expressions[number % len(expressions)]
                with pytest.raises(CallSyntaxError):
                    parse_call(f"{call.name}({key}={expression})", known)
                refused += 1
    assert refused > 500


@pytest.mark.slow
def test_ground_truths_pass_the_official_checker():
    tasks = load_tasks()[::4]
    assert all(v.valid for v in official_verdicts([(task, truth(task)) for task in tasks]))


@pytest.mark.slow
def test_a_variant_is_judged_against_its_own_ground_truth():
    calls = (ToolCall("add", {"a": 1, "b": 2}),)
    world = {"classes": ["MathAPI"], "initial_config": {}, "long_context": False}
    task = Task("bfcl", "base", (Turn("x", calls),), world)
    right, wrong, empty = official_verdicts([(task, [calls]), (task, [calls * 0]), (task, [()])])
    assert right.valid
    assert (wrong.valid, wrong.turn) == (False, 0)
    assert empty.error == "multi_turn:empty_turn_model_response"


@pytest.mark.slow
def test_the_leaking_defaults_are_why_the_process_resets_them():
    """Without the reset the package rejects its own ground truth; with it, it does not."""
    post, mention = (
        ToolCall("post_tweet", {"content": "x"}),
        ToolCall("mention", {"tweet_id": 0, "mentioned_usernames": ["@b"]}),
    )
    config = {"TwitterAPI": {"authenticated": True}}
    world = {"classes": ["TwitterAPI"], "initial_config": config, "long_context": False}
    task = Task("bfcl", "base", (Turn("x", (post, mention)),), world)
    case = (task, [[post, mention]])
    assert not official_verdicts([case], reset=False)[0].valid
    assert official_verdicts([case])[0].valid
    assert judge_calls(task, case[1], ENVIRONMENT)[0].solved


@pytest.mark.slow
def test_the_official_rewriting_of_text_is_known():
    """A literal that looks like a call is the one place where the executors differ by design."""
    config = {"GorillaFileSystem": {"root": {"r": {"type": "directory", "contents": {}}}}}
    world = {"classes": ["GorillaFileSystem"], "initial_config": config, "long_context": False}
    echo = ToolCall("echo", {"content": "call sort (x)", "file_name": "a"})
    task = Task("bfcl", "base", (Turn("x", (ToolCall("touch", {"file_name": "a"}), echo)),), world)
    assert judge_calls(task, truth(task), ENVIRONMENT)[0].official
    assert not official_verdicts([(task, truth(task))])[0].valid


@pytest.mark.slow
def test_calls_from_a_model_cannot_attack_the_official_process(tmp_path: Path):
    target = tmp_path / "x"
    code = f"__import__('pathlib').Path({str(target)!r}).touch()"
    task = load_tasks()[0]
    turns = len(task.turns)
    calls = (
        ToolCall(code, {}),
        ToolCall(f"[{code}] or cd", {"folder": "x"}),
        ToolCall("cd", {f"folder=[{code}], x": 1}),
        ToolCall("cd", {"folder": ToolCall(code, {})}),
        ToolCall("cd", {"folder": [{code: ToolCall(code, {})}]}),
        ToolCall("cd", {"folder": "' + " + code + " + '"}),
    )
    verdicts = official_verdicts([(task, [[call]] * turns) for call in calls])
    assert [v.valid for v in verdicts] == [False] * len(calls)
    assert not target.exists()


def test_rendered_calls_read_back_as_they_were():
    known = specs(["TwitterAPI", "MathAPI"])
    inner = ToolCall("mean", {"numbers": [1, -2.5, True, None]})
    call = ToolCall("post_tweet", {"content": 'it\'s "so"\n\\d', "tags": [inner, {"a b": [1]}]})
    assert parse_call(render(call, known), known) == call
    assert render(ToolCall("divide", {"a": float("inf"), "b": 1}), known) == "divide(a=1e999, b=1)"


@pytest.mark.slow
def test_a_process_that_fails_says_why():
    config = {"VehicleControlAPI": 3}
    world = {"classes": ["VehicleControlAPI"], "initial_config": config, "long_context": False}
    task = Task("bfcl", "base", (Turn("x", (ToolCall("displayCarStatus", {}),)),), world)
    with pytest.raises(EnvError, match=r"stopped after 0 verdicts.*'int' object"):
        official_verdicts([(task, truth(task))])
