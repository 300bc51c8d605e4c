"""The bundled policy: small, loadable, honest about itself, and with something left to learn."""

from __future__ import annotations

import json

import pytest

from rods.config import ModelSettings, load_config
from rods.config.bundled import TINY
from rods.trainers.loading import load_model, load_tokenizer


def test_it_is_small_and_its_card_is_complete() -> None:
    weights = TINY / "model.safetensors"
    assert weights.stat().st_size <= 16 * 2**20
    card = json.loads((TINY / "card.json").read_text())
    assert 3e6 <= card["parameters"] <= 8e6
    for key in ("command", "steps", "tokens", "loss", "seconds", "held_out", "seed", "limits"):
        assert key in card, key


def test_it_loads_and_speaks_its_dialect() -> None:
    from rods.dialects import get_dialect
    from rods.rollout.template import ChatTemplate
    from rods.types import Message, ToolCall

    model, tokenizer = load_model(ModelSettings(name="tiny", threads=1))
    assert model.config.model_type == "qwen3"
    template = ChatTemplate(tokenizer)
    text = get_dialect("compact").write([ToolCall("cd", {"folder": "temp"})])
    assert template.decode(template.encode(text)) == text
    assert template.prompt([Message("system", "s"), Message("user", "u")])


@pytest.mark.slow
def test_its_template_joins_by_increments() -> None:
    from rods.evaluation.template_check import check_template

    assert check_template(load_tokenizer(ModelSettings(name="tiny")), "compact").ok


@pytest.mark.slow
def test_a_quarter_of_the_training_tasks_have_something_to_teach() -> None:
    import asyncio

    from pool_cases import judge
    from rods.assemble.engines import engine_of
    from rods.assemble.tasks import splits_of
    from rods.dialects import get_dialect
    from rods.envs.remote.processes import environment_of
    from rods.reward import score_group
    from rods.rewards import get_reward
    from rods.rollout.episode import RolloutContext
    from rods.rollout.groups import run_groups
    from rods.rollout.template import ChatTemplate

    config = load_config("rods", "small", ["env.train_tasks=4"])
    model, tokenizer = load_model(config.model)
    template = ChatTemplate(tokenizer)
    tasks = splits_of(config).originals

    async def roll_out():
        context = RolloutContext(
            environment_of(config),
            engine_of(config, model, template),
            get_dialect(config.model.dialect),
            template,
            config.rollout,
            seed=1,
        )
        return [group async for group in run_groups(context, tasks)]

    groups = asyncio.run(roll_out())
    scored = [score_group(get_reward("progress"), group) for group in groups]
    judged = [judge(g, s, config.boundary, 0) for g, s in zip(groups, scored, strict=True)]
    teach = [j for j in judged if j and j.region == "boundary" and j.variance > 0]
    assert len(teach) >= len(tasks) / 4
