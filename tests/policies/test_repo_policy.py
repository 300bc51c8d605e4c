"""Repairs that a policy is pretrained on, that they are what happens, and what is left open."""

from __future__ import annotations

import asyncio
import functools
import json
import statistics

import pytest

from pretrain import repo
from pretrain.conversations import DIALECT
from pretrain.repairs import (
    DIFFICULTIES,
    WIDE,
    Rehearsals,
    bug_of,
    calls_of,
    repair_conversations,
    tasks_apart,
    texts_of,
)
from pretrain.tokenizer import train_tokenizer
from rods.assemble.engines import engine_of
from rods.config import load_config
from rods.config.bundled import TINY_REPO
from rods.dialects import get_dialect, structured
from rods.envs import make_environment
from rods.envs.repo.environment import RepoEnvironment
from rods.envs.repo.mutations import mutations
from rods.envs.repo.plant import REPOSITORIES, plant, repository
from rods.policies.ground_truth import rehearse
from rods.rollout.episode import RolloutContext
from rods.rollout.groups import run_groups
from rods.rollout.template import ChatTemplate
from rods.task import Task
from rods.trainers.loading import load_model
from rods.trajectory import Group

NAMES = ("shelf",)
SETTINGS = load_config("skyrl_v0", "small")


@functools.cache
def asked() -> tuple[Task, ...]:
    return plant(6, DIFFICULTIES, 0, NAMES)


@functools.cache
def template() -> ChatTemplate:
    texts = [text for task in asked() for text in texts_of(task)]
    return ChatTemplate(train_tokenizer(texts, (), 400, repo.INDENT))


def conversations(early: float, seed: int, numbers: range) -> list[str]:
    made = repair_conversations(asked(), template(), SETTINGS.rollout, early, seed, numbers)
    return [template().raw_decode(row.ids) for row in made]


@pytest.mark.parametrize("name", REPOSITORIES)
def test_slips_are_some_of_what_could_stand_there(name: str) -> None:
    for text in repository(name).files.values():
        slips = mutations(text)
        assert {*slips} <= {*mutations(text, WIDE)}
        assert len(mutations(text, WIDE)) > 2 * len(slips) or not slips


@pytest.mark.slow
def test_no_bug_that_is_asked_about_is_pretrained() -> None:
    pretrained = tasks_apart(asked(), 1, NAMES)
    assert len(pretrained) > 5 * len(asked())
    assert not {bug_of(task) for task in pretrained} & {bug_of(task) for task in asked()}
    assert all(len(task.turns[0].ground_truth) == 2 for task in pretrained)


@pytest.mark.slow
def test_conversations_are_functions_of_seed_and_number() -> None:
    made = conversations(0.5, 3, range(6))
    assert made == conversations(0.5, 3, range(6))
    assert made[1:] == conversations(0.5, 3, range(1, 6))
    assert made != conversations(0.5, 4, range(6))
    assert len({"str_replace'" in text for text in made}) == 2


def test_what_is_taught_is_what_the_agent_says() -> None:
    dialect = structured(DIALECT)
    [row] = repair_conversations(asked()[:1], template(), SETTINGS.rollout, 0.0, 0, range(1))
    taught = [i for i, m in zip(row.ids, row.mask, strict=True) if m]
    said = [dialect.write([call]) + "<|end|>" for call in calls_of(asked()[0])]
    assert template().raw_decode(taught) == "".join(said)


@pytest.mark.slow
@pytest.mark.parametrize("early", [False, True])
def test_a_rehearsal_reads_as_the_real_thing(early: bool) -> None:
    dialect = structured(DIALECT)
    for task in asked()[:2]:
        look, repair, finish = calls_of(task)
        calls = [look, finish] if early else [look, repair, finish]
        texts = [dialect.write([call]) for call in calls]
        real, played = (
            rehearse(task, environment, dialect, template(), SETTINGS.rollout, texts)
            for environment in (RepoEnvironment(), Rehearsals())
        )
        assert real.ledger.ids == played.ledger.ids
        assert real.solved == (not early)


def test_bugs_or_whole_repositories_stand_on_one_side() -> None:
    tasks = plant(12, DIFFICULTIES, 0, ("shelf", "parcel"))
    sides = {
        apart: make_environment("repo", {"apart": apart}).part(tasks, 0.5)
        for apart in ("bugs", "repositories")
    }

    def names(side: tuple[Task, ...]) -> set[str]:
        return {task.world["repository"] for task in side}

    assert names(sides["bugs"].train) == names(sides["bugs"].held_out) == {"shelf", "parcel"}
    assert not names(sides["repositories"].train) & names(sides["repositories"].held_out)
    for split in sides.values():
        assert not {*map(bug_of, split.train)} & {*map(bug_of, split.held_out)}
        assert len(split.train) + len(split.held_out) == len(tasks)


# -- the bundled policy --------------------------------------------------------------------------


def test_it_is_small_and_its_card_is_complete() -> None:
    assert (TINY_REPO / "model.safetensors").stat().st_size < 2 * 2**20
    card = json.loads((TINY_REPO / "card.json").read_text())
    for key in ("command", "steps", "tokens", "loss", "seconds", "held_out", "seed", "limits"):
        assert key in card, key
    assert "Left open" in card["limits"] and "--kind repo" in card["command"]


def test_the_smoke_profile_asks_what_the_policy_was_taught() -> None:
    assert (SETTINGS.model.name, SETTINGS.model.dialect) == ("tiny-repo", DIALECT)
    assert SETTINGS.env.repo.difficulty == DIFFICULTIES and SETTINGS.env.repo.apart == "bugs"


@pytest.mark.slow
def test_it_repairs_and_leaves_something_to_learn() -> None:
    config = load_config("skyrl_v0", "small", ["model.threads=1"])
    model, tokenizer = load_model(config.model)

    async def groups() -> list[Group]:
        theirs = ChatTemplate(tokenizer)
        engine, dialect = engine_of(config, model, theirs), get_dialect(DIALECT)
        how = config.rollout.model_copy(update={"k": 4})
        context = RolloutContext(RepoEnvironment(), engine, dialect, theirs, how)
        made = run_groups(context, repo.asked()[:3])
        return [group async for group in made]

    played = [t for group in asyncio.run(groups()) for t in group.trajectories]
    assert all(t.valid for t in played)
    repaired: dict[bool, list[bool]] = {True: [], False: []}
    for t in played:
        tried = any("str_replace'" in str(call) for step in t.steps for call in step.calls)
        repaired[tried].append(t.solved)
    assert min(map(len, repaired.values())) > len(played) / 10  # both ways are open
    assert statistics.fmean(repaired[True]) > 0.4 and not any(repaired[False])
