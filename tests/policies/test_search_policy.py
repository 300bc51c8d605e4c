"""Demonstrations of searches, what they teach, and what a searching policy is not paid for."""

from __future__ import annotations

import asyncio
import json
import random
import statistics
from collections.abc import Callable
from pathlib import Path

import pytest

from pretrain.search import RESULTS, OtherWorld, search_conversations, search_tokenizer
from rods.assemble.engines import engine_of
from rods.config import load_config
from rods.config.bundled import TINY_SEARCH
from rods.dialects import get_dialect
from rods.envs.search.atlas import make_atlas
from rods.envs.search.environment import SearchEnvironment
from rods.envs.search.hops import HELD_OUT, HopQuestion, make_question, question_task
from rods.policies.demonstrations import Mixture
from rods.policies.searches import (
    DIALECT,
    SearchPlan,
    SearchQuestions,
    choose_queries,
    search_demonstrations,
)
from rods.reward import Score, score
from rods.rewards import get_reward
from rods.rollout.episode import RolloutContext
from rods.rollout.groups import run_groups
from rods.rollout.template import ChatTemplate
from rods.trainers.examples import read_examples
from rods.trainers.loading import load_model
from rods.trajectory import Group, Step
from rods.types import FinishReason, ParseVerdict, ToolCall, ToolResult
from sweeps import slow
from tir_cases import play, question
from verbs import rods

WAYS = ("necessary", "extra", "short", "useless")


def only(way: str) -> Mixture:
    return Mixture(*(float(name == way) for name in WAYS))


@pytest.fixture(scope="module")
def bundled() -> SearchQuestions:
    return SearchQuestions(results=1)


@pytest.fixture(scope="module")
def other() -> OtherWorld:
    return OtherWorld(provinces=3, seed=5, results=1)


# -- demonstrations ------------------------------------------------------------------------------


@pytest.mark.slow
def test_demonstrations_are_functions_of_seed_and_number(bundled: SearchQuestions) -> None:
    def made(seed: int, numbers: range) -> list[object]:
        return list(search_demonstrations(bundled, SearchPlan(), seed, numbers))

    assert made(3, range(5, 9)) == made(3, range(5, 9))
    assert made(3, range(5, 9))[1:] == made(3, range(6, 9))
    assert made(3, range(5, 9)) != made(4, range(5, 9))


@pytest.mark.slow
@pytest.mark.parametrize("held_out", [False, True])
def test_each_side_asks_its_own_questions(held_out: bool) -> None:
    world = SearchQuestions(held_out=held_out)
    for row in search_demonstrations(world, SearchPlan(), 0, range(20)):
        _, hops, seed, name = row.task_id.split("-")
        question = make_question(int(hops), int(seed))
        assert (int(seed) >= HELD_OUT) is held_out and name == DIALECT
        assert row.pieces[0] == (get_dialect(DIALECT).prompt(question.text), False)
        assert row.pieces[-1] == (f"<answer> {question.answer} </answer>", True)


def test_what_is_inserted_was_found(bundled: SearchQuestions) -> None:
    rows = search_demonstrations(bundled, SearchPlan(mixture=only("necessary")), 0, range(30))
    for row in rows:
        *searches, (answer, _) = row.pieces[1:]
        for (query, said), (found, inserted) in zip(searches[::2], searches[1::2], strict=True):
            parsed = get_dialect(DIALECT).read(query)
            assert parsed and said and not inserted
            assert found == get_dialect(DIALECT).insert(
                bundled.find(str(parsed.calls[0].arguments["query"]))
            )
        assert answer.removeprefix("<answer> ").removesuffix(" </answer>") in searches[-1][0]


def test_the_environment_knows_the_necessary_searches() -> None:
    environment = SearchEnvironment()
    assert [environment.calls_needed(question_task(hops, 7)) for hops in (1, 2, 3)] == [1, 2, 3]
    assert environment.calls_needed(question("Oslo", env="search")) is None


@pytest.mark.parametrize("hops", [1, 2, 3])
def test_ways_are_what_they_are_called(hops: int) -> None:
    for seed in range(20):
        asked, rng = make_question(hops, seed), random.Random(seed)
        right = list(asked.programs)
        assert choose_queries(asked, only("necessary"), rng) == right
        *before, more = choose_queries(asked, only("extra"), rng)
        assert before == right and more.startswith(asked.steps[-1].subject)
        assert choose_queries(asked, only("short"), rng) == right[:-1]
        first, *then = choose_queries(asked, only("useless"), rng)
        assert then == right and not any(step.subject in first for step in asked.steps)
        assert choose_queries(asked, only("none"), rng) == []


@pytest.mark.slow
def test_another_world_has_no_name_of_the_bundled_one(other: OtherWorld) -> None:
    known = {name for province in make_atlas().provinces for name in province.kinds}
    for row in search_demonstrations(other, SearchPlan(), 0, range(60)):
        assert not any(f" {name}" in text for text, _ in row.pieces for name in known), row


@pytest.mark.slow
def test_only_what_can_be_known_is_taught(other: OtherWorld) -> None:
    tokenizer = search_tokenizer(other, seed=0, corpus=60)
    template = ChatTemplate(tokenizer)
    plan = SearchPlan()
    rows = search_conversations(tokenizer, other, plan, 0, range(40))
    made = list(search_demonstrations(other, plan, 0, range(40)))
    assert {row.known for row in made} == {True, False}
    for demonstration, row in zip(made, rows, strict=True):
        taught = template.raw_decode([i for i, m in zip(row.ids, row.mask, strict=True) if m])
        *said, answer = [text for text, own in demonstration.pieces if own]
        assert taught == "".join(
            [*said, answer if demonstration.known else "<answer>  </answer>", "<|end|>"]
        )
        assert template.raw_decode(row.ids[:-1]) == "".join(t for t, _ in demonstration.pieces)
    assert len(tokenizer.encode("<search>")) == 1


@pytest.mark.slow
def test_demonstrate_writes_what_sft_reads(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    out = tmp_path / "d.jsonl"
    words = ["demonstrate", "--out", str(out), "--n", "20", "--dialect", DIALECT]
    more = ["--difficulties", "1,2", "--results", "1"]
    assert rods(*words, *more, monkeypatch=monkeypatch) == 0
    template = ChatTemplate(search_tokenizer(SearchQuestions(1), seed=0, corpus=40))
    read = read_examples([out], template, 1024, 4096)
    assert len(read.samples) == 20
    assert {s.task_id.rsplit("-", 2)[0] for s in read.samples} == {"hops-1", "hops-2"}
    words[2] = str(tmp_path / "e.jsonl")
    for wrong in (["--families", "add"], ["--difficulties", "4"], ["--needed", "0.9"]):
        assert rods(*words, *wrong, monkeypatch=monkeypatch) == 2
    assert "search questions have none" in capsys.readouterr().err


# -- what does not pay ---------------------------------------------------------------------------

ASKED = [(hops, seed) for hops in (1, 2) for seed in range(100)]
Player = Callable[[HopQuestion], tuple[list[str], str]]
"""Queries of a policy without a model, and its answer."""


def paid(
    player: Player, reward: str = "otc_grpo", world: SearchQuestions | None = None
) -> list[Score]:
    made: list[Score] = []
    for hops, seed in ASKED:
        task, (queries, answer) = question_task(hops, seed), player(make_question(hops, seed))
        steps = [searched(query, world) for query in queries]
        trajectory = play(*steps, f"<answer> {answer} </answer>", task=task)
        made.append(score(get_reward(reward), task, trajectory))
    return made


def searched(query: str, world: SearchQuestions | None) -> Step:
    calls = (ToolCall("search", {"query": query}),)
    found = (ToolResult(world.find(query) if world else ""),)
    text = f"<search> {query} </search>"
    return Step(0, text, ParseVerdict.CALLS, FinishReason.STOP, calls, found, 10)


def mean(scores: list[Score]) -> float:
    return statistics.fmean(s.value for s in scores)


def last_name(question: HopQuestion) -> str:
    return question.steps[0].subject


@pytest.mark.parametrize("reward", ["outcome", *slow("otc_ppo", "otc_grpo", "otc_ppo_additive")])
@pytest.mark.parametrize(
    "answer",
    [
        lambda q: q.text,
        last_name,
        lambda q: "",
        lambda q: f"{q.answer} or {q.steps[0].subject}",
        lambda q: f"the answer is {q.answer}",
    ],
)
def test_copying_the_question_or_saying_several_things_is_wrong(
    reward: str, answer: Callable[[HopQuestion], str]
) -> None:
    scores = paid(lambda q: ([], answer(q)), reward)
    assert not any(s.parts["correct"] for s in scores)


@pytest.mark.slow
def test_copying_what_was_found_is_wrong(bundled: SearchQuestions) -> None:
    def whole(question: HopQuestion) -> tuple[list[str], str]:
        return [question.text], bundled.find(question.text)

    assert not any(s.parts["correct"] for s in paid(whole, world=bundled))


@pytest.mark.slow
def test_the_best_guess_is_hardly_ever_right() -> None:
    values = [make_question(hops, seed).answer for hops, seed in ASKED]
    best = max(set(values), key=values.count)
    assert mean(paid(lambda q: ([], best), "otc_ppo")) < 0.05


@pytest.mark.slow
def test_the_same_search_again_costs_and_never_pays() -> None:
    necessary = lambda q: ([*q.programs], q.answer)  # noqa: E731
    often = lambda q: ([*q.programs, *[q.programs[-1]] * 2], q.answer)  # noqa: E731
    for reward in ("otc_ppo", "otc_ppo_additive"):
        assert mean(paid(often, reward)) < mean(paid(necessary, reward))
    assert mean(paid(often, "outcome")) == mean(paid(necessary, "outcome")) == 1.0
    group_reward = get_reward("otc_grpo")
    for hops, seed in ASKED[:5] + ASKED[-5:]:
        task, question = question_task(hops, seed), make_question(hops, seed)
        said = f"<answer> {question.answer} </answer>"
        members = [
            play(*[searched(query, None) for query in queries], said, task=task)
            for queries in (question.programs, (*question.programs, *question.programs[-1:] * 2))
        ]
        few, many = group_reward.score_group(Group(task, members, 0))  # type: ignore[attr-defined]
        assert few.value == 1.0 > many.value > 0.0


# -- the bundled policy --------------------------------------------------------------------------


def test_it_is_small_and_its_card_is_complete() -> None:
    assert (TINY_SEARCH / "model.safetensors").stat().st_size < 2 * 2**20
    card = json.loads((TINY_SEARCH / "card.json").read_text())
    for key in ("command", "steps", "tokens", "loss", "seconds", "held_out", "seed", "limits"):
        assert key in card, key
    assert "Left open" in card["limits"] and "--kind search" in card["command"]


@pytest.mark.parametrize("recipe", ["otc_ppo", "otc_grpo"])
def test_the_search_profile_asks_what_the_policy_was_taught(recipe: str) -> None:
    config = load_config(recipe, "small_search")
    assert (config.env.name, config.model.name, config.model.dialect) == (
        "search",
        "tiny-search",
        DIALECT,
    )
    assert (config.env.search.results, config.env.questions.difficulty) == (RESULTS, (1, 2))
    assert config.env.tasks == () and config.env.search.corpus == ""


@pytest.mark.slow
def test_it_searches_and_leaves_something_to_learn() -> None:
    config = load_config("otc_grpo", "small_search", ["model.threads=1"])
    environment = SearchEnvironment(results=RESULTS)
    tasks = [question_task(hops, HELD_OUT + n) for hops in (1, 2) for n in range(12)]
    model, tokenizer = load_model(config.model)
    template = ChatTemplate(tokenizer)

    async def groups() -> list[Group]:
        engine, dialect = engine_of(config, model, template), get_dialect(DIALECT)
        how = config.rollout.model_copy(update={"k": 4})
        made = run_groups(RolloutContext(environment, engine, dialect, template, how), tasks)
        return [group async for group in made]

    played = [(g.task, t) for g in asyncio.run(groups()) for t in g.trajectories]
    assert all(t.valid for _, t in played)
    solved: dict[bool, list[bool]] = {True: [], False: []}
    for task, trajectory in played:
        calls = sum(len(step.results) for step in trajectory.steps)
        solved[calls >= (environment.calls_needed(task) or 0)].append(trajectory.solved)
    assert min(len(solved[True]), len(solved[False])) > len(played) / 10  # both ways are open
    assert statistics.fmean(solved[True]) > 0.2 > 0.1 > statistics.fmean(solved[False])
