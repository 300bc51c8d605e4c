"""The method on one page: what the file may import, and that its few functions do what they say."""

from __future__ import annotations

import ast
import dataclasses
import random
import re
import sys
from collections.abc import Generator, Iterator
from contextlib import contextmanager
from importlib import util
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest

import forked
from places import ROOT

PAGE = ROOT / "examples" / "one_page_loop.py"


@pytest.fixture(scope="module")
def page() -> Iterator[ModuleType]:
    pytest.importorskip("transformers")
    spec = util.spec_from_file_location("one_page_loop", PAGE)
    assert spec is not None and spec.loader is not None
    module = util.module_from_spec(spec)
    sys.modules[spec.name] = module  # its data classes look themselves up
    spec.loader.exec_module(module)
    yield module
    del sys.modules[spec.name]


def test_it_is_one_page_and_imports_torch_and_transformers_only() -> None:
    text = PAGE.read_text(encoding="utf-8")
    assert len(text.splitlines()) <= 300
    found: set[str] = set()
    for node in ast.walk(ast.parse(text)):
        if isinstance(node, ast.Import):
            found |= {name.name.split(".")[0] for name in node.names}
        elif isinstance(node, ast.ImportFrom):
            assert node.level == 0
            found.add((node.module or "").split(".")[0])
    assert found - sys.stdlib_module_names == {"torch", "transformers"}


def test_its_verbs_stand_in_the_order_of_the_paper() -> None:
    verbs = "draw, roll out, score, judge, request variants, update, ingest variants, retire"
    comments = re.findall(r"^ {8}# ([a-z ]+)", PAGE.read_text(encoding="utf-8"), re.M)
    found = [v for c in comments for v in verbs.split(", ") if c.startswith(v)]
    assert ", ".join(found) == verbs


def test_phi_is_one_where_half_is_solved_and_nothing_at_the_ends(page: ModuleType) -> None:
    assert (page.phi(0.0), page.phi(0.5), page.phi(1.0)) == (0.0, 1.0, 0.0)
    assert page.phi(0.25) == pytest.approx(0.75) == page.phi(0.75)


def tasks_of(page: ModuleType, count: int) -> list[Any]:
    return page.original_tasks(random.Random(3), count, set())


def test_seed_tasks_are_on_the_boundary_by_phi_within_a_quota_for_each_type(
    page: ModuleType,
) -> None:
    one = [task for task in tasks_of(page, 12) if task.type == page.TYPES[0]]
    two = [task for task in tasks_of(page, 12) if task.type == page.TYPES[1]]
    judged = dict(zip(one, (0.19, 0.86, 0.20, 0.5, 0.6, 0.85), strict=True)) | {two[0]: 0.3}
    assert page.choose_seed_tasks(judged, []) == [one[3], one[4], two[0]]  # no quota is lent
    assert page.choose_seed_tasks(judged, [one[3]]) == [one[4], one[2], two[0]]


def test_verified_refuses_what_fails_is_not_said_or_is_known(page: ModuleType) -> None:
    task = tasks_of(page, 1)[0]
    assert page.verified(task, set())
    assert not page.verified(task, {task})
    quiet = dataclasses.replace(task, messages=("put in .", *task.messages[1:]))
    assert not page.verified(quiet, set())
    failing = ((("take", "red", "9"),), *task.truth[1:])
    said = (page.say(failing[0]), *task.messages[1:])
    empty = tuple((box, 0) for box in page.BOXES)
    assert not page.verified(page.Task(task.type, empty, said, failing), set())
    full = tuple((box, 90) for box in page.BOXES)
    assert page.verified(page.Task(task.type, full, said, failing), set()), "only the call failed"


def test_variants_have_the_tools_of_their_seed_task_and_are_new(page: ModuleType) -> None:
    seed_task, known = tasks_of(page, 2)[1], set[Any]()
    made = page.variants(seed_task, random.Random(1), known)
    assert len({*made, seed_task}) == page.PER_SEED + 1 and known == {*made}
    for task in made:
        tools = [[[call[0] for call in calls] for calls in t.truth] for t in (task, seed_task)]
        assert tools[0] == tools[1] and task.type == seed_task.type


def test_an_answer_is_data_and_a_failing_call_ends_its_turn(page: ModuleType) -> None:
    world = dict.fromkeys(page.BOXES, 5)
    after = page.execute(world, (("put", "red", "3"), ("take", "blue", "5")))
    assert after == world and after is not world
    assert (world["red"], world["blue"]) == (8, 0)
    for wrong in (("take", "blue", "1"), ("put", "red"), ("ok", "red", "1"), ("put", "1", "red")):
        assert page.execute(world, (wrong, ("put", "red", "3"))) is None
    assert world["red"] == 8


def test_the_buffer_injects_a_share_and_retires_by_reason(page: ModuleType) -> None:
    tasks = tasks_of(page, 16)
    buffer = page.Buffer(tasks[:10], pending=tasks[10:])
    buffer.ingest()
    assert buffer.active == tasks[10:12] and buffer.pending == tasks[12:]
    buffer.ingest()
    a, b, c, d = buffer.active
    buffer.retire({a: 0.96, b: 0.19, c: 0.5, tasks[0]: 1.0})
    assert buffer.active == [c, d] and buffer.retired == {"mastered": 1, "burn-in": 1}
    buffer.retire({c: 0.1, d: 0.95})
    assert buffer.active == [d] and buffer.retired["too hard"] == 1
    assert buffer.originals == tasks[:10]
    assert buffer.first == {a: 0.96, b: 0.19, c: 0.5, d: 0.95}


def test_nothing_enters_above_the_cap(page: ModuleType, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(page, "CAP", 1)
    tasks = tasks_of(page, 16)
    buffer = page.Buffer(tasks[:10], pending=tasks[10:])
    buffer.ingest()
    buffer.ingest()
    assert buffer.active == tasks[10:11]


class Scripted:
    """A policy whose logits are free parameters, one row for each position."""

    def __init__(self, logits: Any) -> None:
        self.logits = logits

    def __call__(self, ids: Any) -> Scripted:
        return self


def batch_of(page: ModuleType, k: int = 4) -> Any:
    """Trajectories of a policy that knows nothing, and so answers with anything."""
    import torch
    from transformers import LlamaConfig, LlamaForCausalLM

    torch.manual_seed(0)
    with threads(1):
        config = LlamaConfig(
            vocab_size=len(page.WORDS), hidden_size=16, intermediate_size=16,
            num_hidden_layers=1, num_attention_heads=1,
        )  # fmt: skip
        return page.roll_out(LlamaForCausalLM(config), tasks_of(page, 2), k)


@contextmanager
def threads(count: int) -> Generator[None]:
    import torch

    before = torch.get_num_threads()
    torch.set_num_threads(count)
    try:
        yield
    finally:
        torch.set_num_threads(before)


@pytest.mark.slow
def test_only_sampled_tokens_carry_loss(page: ModuleType) -> None:
    """Invariant 1: no token of the user, of a tool or after an answer's end has a gradient."""
    import torch

    batch = batch_of(page)
    length = batch.ids.shape[1]
    logits = torch.zeros(len(batch.tasks), length - 1, len(page.WORDS), requires_grad=True)
    page.grpo_loss(Scripted(logits), batch, torch.ones(len(batch.tasks))).backward()
    assert logits.grad is not None
    assert ((logits.grad != 0).any(-1) == batch.sampled[:, 1:]).all()
    turn = page.MESSAGE + 2 + page.ANSWER + 1
    assert length == page.TURNS * turn
    for row, mask in zip(batch.ids.tolist(), batch.sampled.tolist(), strict=True):
        for start in range(0, length, turn):
            answer = row[start + page.MESSAGE + 2 : start + turn - 1]
            ended = answer.index(page.END) + 1 if page.END in answer else page.ANSWER
            expected = [i < ended for i in range(page.ANSWER)]
            assert mask[start : start + turn] == [False] * (page.MESSAGE + 2) + expected + [False]
            assert page.WORDS[row[start + turn - 1]] in ("ok", "error")


@pytest.mark.slow
def test_groups_of_equal_rewards_have_no_gradient(page: ModuleType) -> None:
    import torch

    batch = batch_of(page)
    shape = (len(batch.tasks), batch.ids.shape[1] - 1, len(page.WORDS))
    logits = torch.zeros(shape, requires_grad=True)
    rewards = torch.tensor([[1 / 3] * 4, [0.0, 0.0, 1.0, 1.0]])
    advantages = page.advantages(rewards)
    assert advantages[0].eq(0).all()
    assert advantages[1].tolist() == pytest.approx([-1, -1, 1, 1], abs=1e-4)
    page.grpo_loss(Scripted(logits), batch, advantages.flatten()).backward()
    assert logits.grad is not None
    assert logits.grad[:4].eq(0).all() and logits.grad[4:].ne(0).any()


@pytest.mark.slow
def test_each_trajectory_has_a_world_of_its_own(page: ModuleType) -> None:
    batch = batch_of(page)
    assert len({id(world) for world in batch.worlds}) == len(batch.tasks) == 8
    for task, row, reward in zip(batch.tasks, batch.states, page.score(batch), strict=True):
        wanted = sum(a == b for a, b in zip(row, task.states(), strict=True))
        assert reward.item() == pytest.approx(wanted / page.TURNS)


UPDATE = re.compile(
    r"update +(\d+)  reward (\d\.\d\d)  groups without variance (\d)/6"
    r"  variants +\d+, first rewards (?:nan|\d\.\d\d), retired \{.*\}"
)
HELD_OUT = re.compile(r"held-out progress (before|after): greedy (\d\.\d\d), sampled (\d\.\d\d)")


def commands() -> list[str]:
    """Commands of docs/start/one-page.md."""
    guide = (PAGE.parents[1] / "docs" / "start" / "one-page.md").read_text(encoding="utf-8")
    return re.findall(r"^    python (examples/one_page_loop\.py.*)$", guide, re.M)


def test_the_guide_says_how_to_run_it() -> None:
    assert [command.split()[1:] for command in commands()] == [[], ["--curriculum", "static"]]


@pytest.mark.slow
def test_two_updates_as_a_program(tmp_path: Path) -> None:
    path, *words = commands()[0].split()
    words += ["--updates", "2", "--warm-up", "2", "--tasks", "6"]
    done = forked.run([str(PAGE.parents[1] / path), *words], tmp_path)
    assert done.returncode == 0, done.stderr
    first, *updates, last = done.stdout.splitlines()
    matches = [UPDATE.fullmatch(line) for line in updates]
    assert [match and match[1] for match in matches] == ["1", "2"], done.stdout
    before, after = HELD_OUT.fullmatch(first), HELD_OUT.fullmatch(last)
    assert before and after and (before[1], after[1]) == ("before", "after"), done.stdout
