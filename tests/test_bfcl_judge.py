"""Our parity verdict equals the package's own checker, run in another process."""

import random
from collections import Counter

import pytest

from bfcl_mutants import KINDS, Calls, truth
from rods.envs.bfcl.judge import judge_calls, official_verdicts
from rods.envs.bfcl.tasks import load_tasks
from rods.envs.bfcl.world import BfclEnvironment
from rods.errors import EnvError
from rods.task import Task, Turn
from rods.types import ToolCall

ENVIRONMENT = BfclEnvironment()


def first_failure(task: Task, calls: Calls) -> int | None:
    """The turn at which our parity verdict is the first to say no."""
    verdicts = judge_calls(task, calls, ENVIRONMENT)
    return next((index for index, verdict in enumerate(verdicts) if not verdict.parity), None)


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


def test_parity_on_a_sample_of_mutants():
    wrong, counts = disagreements(mutants(load_tasks()[::32], 1))
    assert wrong == []
    assert counts.total() == 125


@pytest.mark.slow
def test_parity_on_8000_mutated_trajectories(record_property: pytest.FixtureRequest):
    """Refused expressions (unknown functions among them) are counted apart by test_pycall."""
    wrong, counts = disagreements(mutants(load_tasks(), 2))
    for name, number in sorted(counts.items()):
        record_property(name, number)  # pyright: ignore[reportCallIssue]
    assert wrong == []
    assert counts.total() == 8000
    assert all(counts[f"{kind} invalid"] > 100 for kind in KINDS)


@pytest.mark.slow
def test_all_800_ground_truths_pass_the_official_checker():
    tasks = load_tasks()
    assert all(v.valid for v in official_verdicts([(task, truth(task)) for task in tasks]))


def test_a_variant_is_judged_against_its_own_ground_truth():
    calls = (ToolCall("add", {"a": 1, "b": 2}),)
    world = {"classes": ["MathAPI"], "initial_config": {}, "long_context": False}
    task = Task("bfcl", "base", (Turn("x", calls),), world)
    right, wrong, empty = official_verdicts([(task, [calls]), (task, [calls * 0]), (task, [()])])
    assert right.valid
    assert (wrong.valid, wrong.turn) == (False, 0)
    assert empty.error == "multi_turn:empty_turn_model_response"


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


def test_the_official_rewriting_of_text_is_known():
    """A literal that looks like a call is the one place where the executors differ by design."""
    config = {"GorillaFileSystem": {"root": {"r": {"type": "directory", "contents": {}}}}}
    world = {"classes": ["GorillaFileSystem"], "initial_config": config, "long_context": False}
    echo = ToolCall("echo", {"content": "call sort (x)", "file_name": "a"})
    task = Task("bfcl", "base", (Turn("x", (ToolCall("touch", {"file_name": "a"}), echo)),), world)
    assert judge_calls(task, truth(task), ENVIRONMENT)[0].parity
    assert not official_verdicts([(task, truth(task))])[0].valid


def test_a_process_that_fails_says_why():
    world = {"classes": ["Nope"], "initial_config": {}, "long_context": False}
    task = Task("bfcl", "base", (Turn("x", (ToolCall("add", {}),)),), world)
    with pytest.raises(EnvError, match=r"stopped after 0 verdicts.*Nope"):
        official_verdicts([(task, truth(task))])
