"""The policy `tiny-math`: what it is taught, and what it can do before any training."""

from __future__ import annotations

import asyncio
import itertools
import json
import random
import re
from pathlib import Path

import pytest

from pretrain.math import math_conversations, math_tokenizer
from rods.config import ModelSettings, load_config
from rods.config.bundled import TINY_MATH
from rods.dialects import DIALECTS as KNOWN
from rods.dialects import InlineDialect, get_dialect
from rods.envs.python_tool.environment import PythonToolEnvironment, shown
from rods.envs.questions.families import HELD_OUT, is_held_out, make_question, question_tasks
from rods.policies.demonstrations import (
    DIALECTS,
    FAULTS,
    PRETRAINED,
    Demonstration,
    Mixture,
    ProgramPlan,
    choose_programs,
    demonstrations,
    execute,
)
from rods.rollout.episode import RolloutContext
from rods.rollout.groups import run_groups
from rods.rollout.template import ChatTemplate
from rods.sandbox.pool import SandboxPool
from rods.trainers.examples import read_examples
from rods.trainers.loading import load_model
from rods.trajectory import Group
from rods.types import ParseVerdict
from verbs import rods


def said(made: Demonstration) -> str:
    return "".join(text for text, own in made.pieces if own)


def test_demonstrations_are_functions_of_seed_and_number() -> None:
    first, again = (list(demonstrations(ProgramPlan(), 3, range(5, 9))) for _ in range(2))
    assert first == again
    assert first[1:] == list(demonstrations(ProgramPlan(), 3, range(6, 9)))
    assert first != list(demonstrations(ProgramPlan(), 4, range(5, 9)))


def test_each_side_asks_its_own_questions() -> None:
    for held_out in (False, True):
        for made in demonstrations(ProgramPlan(held_out=held_out), 0, range(60)):
            family, difficulty, seed, name = made.task_id.split("-")
            question = make_question(family, int(difficulty), int(seed))
            assert is_held_out(question.text) is held_out is (int(seed) >= HELD_OUT)
            assert made.pieces[0] == (get_dialect(name).prompt(question.text), False)
            assert made.pieces[-1][1] and question.answer in made.pieces[-1][0]


def test_the_mixture_is_kept() -> None:
    plan = ProgramPlan(mixture=Mixture(one=0.3, several=0.2, failing=0.0, useless=0.0))
    counts = [len(made.pieces) // 2 - 1 for made in demonstrations(plan, 0, range(600))]
    assert 0.42 < sum(c > 0 for c in counts) / 600 < 0.58
    assert 0.12 < sum(c > 1 for c in counts) / 600 < 0.28


@pytest.mark.parametrize("name", DIALECTS)
def test_programs_in_demonstrations_print_what_is_inserted(name: str) -> None:
    plan = ProgramPlan((name,), mixture=Mixture(one=0.5, several=0.5, failing=0.0, useless=0.0))
    for made in demonstrations(plan, 0, range(12)):
        parts = made.pieces[1:]
        for (own, written), (inserted, other) in zip(parts[::2], parts[1::2], strict=False):
            assert written and not other
            program = re.search(r"(?:```python|<python>)\n(.*?)\n(?:```|</python>)", own, re.DOTALL)
            assert program and execute(program[1]).content.strip() in inserted
        assert parts[-1][1]


@pytest.mark.slow
def test_our_own_results_are_those_of_the_sandbox() -> None:
    programs = [fault.format("3 * 4") for fault in FAULTS]
    with SandboxPool(1, preload=()) as pool:
        for program in ["print(6 * 7)", "print(7 % 4)", *programs]:
            assert shown(pool.execute(program)) == execute(program)


def test_useless_and_failing_programs_are_what_they_are_called() -> None:
    question = make_question("multiply", 4, 1)
    failing = Mixture(0.0, 0.0, 1.0, 0.0)
    for seed in range(8):
        first, right = choose_programs(question, failing, random.Random(seed))
        assert execute(first).failed and execute(right).content.strip() == question.answer
    useless = choose_programs(question, Mixture(0.0, 0.0, 0.0, 1.0), random.Random(0))
    assert execute(useless[0]).content.strip() in question.text
    assert execute(useless[0]).content.strip() != question.answer


def test_only_what_the_policy_writes_is_taught() -> None:
    tokenizer = math_tokenizer(seed=0, corpus=60)
    template = ChatTemplate(tokenizer)
    rows = math_conversations(tokenizer, ProgramPlan(), 0, range(12))
    for made, row in zip(demonstrations(ProgramPlan(), 0, range(12)), rows, strict=True):
        own = [i for i, m in zip(row.ids, row.mask, strict=True) if m]
        text = said(made) + "<|end|>"
        assert template.raw_decode(own) in (text, re.sub(r"\d", "", text))
    assert len(tokenizer.encode("2026")) == 4
    inner = tokenizer.encode("((27 * 147) - 26) + 1")
    for text in ("Compute ((27 * 147) - 26) + 1.", "print(((27 * 147) - 26) + 1)"):
        assert str(inner)[1:-1] in str(tokenizer.encode(text))


@pytest.mark.slow
def test_demonstrate_writes_what_sft_reads(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    out = tmp_path / "d.jsonl"
    words = ["demonstrate", "--out", str(out), "--n", "20", "--families", "add,multiply"]
    assert rods(*words, "--difficulties", "1,2", monkeypatch=monkeypatch) == 0
    template = ChatTemplate(math_tokenizer(seed=0, corpus=60))
    read = read_examples([out], template, 512, 2048)
    assert len(read.samples) == 20
    assert {s.task_id.split("-")[0] for s in read.samples} == {"add", "multiply"}
    assert rods(*words, monkeypatch=monkeypatch) == 2
    assert "exists" in capsys.readouterr().err
    words[2] = str(tmp_path / "e.jsonl")
    for wrong in (["--dialect", "hermes"], ["--needed", "0.9"], ["--difficulties", "x"]):
        assert rods(*words, *wrong, monkeypatch=monkeypatch) == 2


@pytest.mark.slow
@pytest.mark.parametrize("name", [*DIALECTS, "search_r1"])
def test_demonstrate_knows_each_inline_dialect(
    name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    out = tmp_path / "d.jsonl"
    words = ["demonstrate", "--out", str(out), "--n", "12", "--dialect", name]
    assert rods(*words, monkeypatch=monkeypatch) == 0
    rows = [json.loads(line) for line in out.read_text().splitlines()]
    assert len(rows) == 12
    dialect = get_dialect(name)
    assert isinstance(dialect, InlineDialect)
    inserted = 0
    for row in rows:
        for (own, _), (_, other) in itertools.pairwise(row["pieces"][1:]):
            if not other:
                read = dialect.read(own)
                assert read is not None and read.verdict is ParseVerdict.CALLS, own
                inserted += 1
    assert inserted > 3


def test_every_inline_dialect_has_demonstrations() -> None:
    inline = {n for n in KNOWN if isinstance(get_dialect(n), InlineDialect)}
    assert inline == {*DIALECTS, "search_r1"}


def test_it_is_small_and_its_card_is_complete() -> None:
    assert (TINY_MATH / "model.safetensors").stat().st_size <= 3 * 2**20
    card = json.loads((TINY_MATH / "card.json").read_text())
    assert 0.5e6 <= card["parameters"] <= 1.5e6
    for key in ("command", "steps", "tokens", "loss", "seconds", "held_out", "seed", "limits"):
        assert key in card, key


def play(dialect: str, difficulty: int, count: int, temperature: float) -> list[Group]:
    from rods.assemble.engines import engine_of

    config = load_config(
        "rods",
        "small",
        [
            "model.name=tiny-math",
            f"model.dialect={dialect}",
            "model.threads=1",
            "rollout.context_tokens=512",
            "rollout.generated_tokens=256",
            "rollout.calls=3",
        ],
    )
    model, tokenizer = load_model(config.model)
    template = ChatTemplate(tokenizer)
    environment = PythonToolEnvironment(size=1)
    tasks = question_tasks(["add", "multiply", "shopping"], [difficulty], count)

    async def groups() -> list[Group]:
        sampling = {"temperature": temperature, "k": 8 if temperature else 1}
        context = RolloutContext(
            environment,
            engine_of(config, model, template),
            get_dialect(dialect),
            template,
            config.rollout.model_copy(update=sampling),
        )
        return [group async for group in run_groups(context, tasks)]

    try:
        return asyncio.run(groups())
    finally:
        environment.close()


@pytest.mark.slow
@pytest.mark.parametrize("dialect", PRETRAINED)
def test_it_speaks_each_dialect(dialect: str) -> None:
    groups = play(dialect, 1, 10, temperature=0.0)
    assert sum(t.solved for g in groups for t in g.trajectories) >= 5


@pytest.mark.slow
def test_it_leaves_something_to_learn() -> None:
    trajectories = [t for g in play(PRETRAINED[0], 3, 24, 1.0) for t in g.trajectories]
    coded = [t for t in trajectories if any(step.results for step in t.steps)]
    direct = [t for t in trajectories if not any(step.results for step in t.steps)]
    assert 0.25 <= len(coded) / len(trajectories) <= 0.5
    with_code, without = (sum(t.solved for t in some) / len(some) for some in (coded, direct))
    assert 0.35 < with_code < 0.95
    assert without < 0.3 and without < with_code / 2  # code pays, so there is something to learn
    assert all(t.valid for t in trajectories)


def test_it_loads_by_its_name() -> None:
    model, tokenizer = load_model(ModelSettings(name="tiny-math", threads=1))
    assert model.config.model_type == "qwen3" and len(tokenizer) <= 512
    template = ChatTemplate(tokenizer)
    text = get_dialect("retool").prompt("What is 473 * 28?")
    assert template.raw_decode(template.encode(text)) == text
