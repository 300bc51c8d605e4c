"""Recipes of function calling and ARTIST: what was looked up, one update of each small profile."""

from __future__ import annotations

from pathlib import Path

import pytest

from calls_cases import FEW, SMALL
from rods.assemble import train
from rods.assemble.refusals import require_named, require_single_steps
from rods.config import load_config
from rods.dialects import InlineDialect, get_dialect
from rods.errors import ConfigError, RewardError
from rods.store import RunDirectory
from rods.task import Task, Turn
from rods.trajectory_codec import read_parquet
from rods.types import ToolCall

RECIPES = ("toolrl", "tool_n1", "artist_math", "artist_fc")


def test_full_settings_are_what_was_looked_up() -> None:
    toolrl, n1 = load_config("toolrl", "full"), load_config("tool_n1", "full")
    assert [(c.rollout.k, c.rollout.tasks_per_step, c.train.minibatch) for c in (toolrl, n1)] == [
        (4, 512, 128 * 4),
        (5, 1024, 256 * 5),
    ]
    assert [(c.train.kl, c.train.kl_in, c.train.entropy) for c in (toolrl, n1)] == [
        (1e-3, "reward", 1e-3),
        (1e-3, "loss", 0.0),
    ]
    assert [c.stages[0].epochs for c in (toolrl, n1)] == [15, 7]
    assert (toolrl.rollout.temperature, n1.rollout.temperature) == (1.0, 0.7)
    for config in (toolrl, n1):
        assert config.rollout.steps_per_turn == 1 and config.train.dual_clip == 0
    for name in RECIPES:
        full, small = load_config(name, "full"), load_config(name, "small")
        assert not full.rewards, "the papers' tags, unless a profile says so"
        assert full.stages[0].reward == small.stages[0].reward == name
        assert isinstance(get_dialect(full.model.dialect), InlineDialect) is (name == "artist_math")
        assert full.train.advantage == "grpo" and full.curriculum == "static"


@pytest.mark.parametrize("reward", ["toolrl", "tool_n1", "tool_n1_names"])
def test_a_single_step_reward_of_several_generations_is_refused_before_the_start(
    reward: str,
) -> None:
    given = [f"stages=[{{name='all', reward='{reward}'}}]", "rollout.steps_per_turn=2"]
    with pytest.raises(ConfigError, match=f"stages.0.reward: '{reward}' scores one"):
        require_named(load_config("toolrl", "small", given))
    require_named(load_config("toolrl", "small", [*given, "rollout.steps_per_turn=1"]))
    require_named(load_config("artist_fc", "small", ["rollout.steps_per_turn=2"]))


def test_conversations_are_refused_by_a_single_step_reward_before_the_start() -> None:
    config = load_config("toolrl", "small")
    single = Task("x", "y", (Turn("a", (ToolCall("ls"),)),), {})
    talk = Task("x", "y", (Turn("a"), Turn("b")), {})
    with pytest.raises(RewardError, match="has 2 turns; this reward scores single steps"):
        require_single_steps(config, [single, talk])
    require_single_steps(config, [single])
    require_single_steps(load_config("artist_fc", "small"), [single, talk])


@pytest.mark.slow
def test_no_folder_is_left_where_conversations_meet_a_single_step_reward(tmp_path: Path) -> None:
    given = (*SMALL, "env.name=bfcl", "model.dialect=compact")
    with pytest.raises(RewardError, match="this reward scores single steps"):
        train(load_config("toolrl", "small", given), str(tmp_path / "run"))
    assert not (tmp_path / "run").exists()


PARTS = {
    "tool_n1": {"thought", "names"},
    "artist_math": {"answer", "tool", "form"},
    "artist_fc": {"state", "sequence", "form"},
}


@pytest.mark.slow
@pytest.mark.parametrize("name", ["tool_n1", "artist_math", "artist_fc"])
def test_a_smoke_profile_plays_an_update_and_logs_each_part(name: str, tmp_path: Path) -> None:
    run: RunDirectory = train(load_config(name, "small", [*SMALL, FEW]), str(tmp_path / "run"))
    [record] = [row for row in run.metrics() if row["kind"] == "step"]
    parts = record["reward_parts"]
    assert isinstance(parts, dict) and PARTS[name] <= set(parts)
    if name in ("artist_math", "artist_fc"):
        whole = sum(float(str(parts[part])) for part in PARTS[name])
        assert record["reward_mean"] == pytest.approx(whole)
    [file] = (run.path / "trajectories").iterdir()
    for played in read_parquet(file):
        sampled = sum(step.tokens for step in played.steps)
        assert sum(played.ledger.mask) == sampled, "what was said before carries no loss"
        if name == "tool_n1":
            assert len(played.steps) == 1
