"""Rows of SWE-Gym: how they are read, and how they are played and judged in containers.

No docker runs here: `container_engine.py` stands for it. Its containers are name spaces.
"""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from repo_cases import bash
from rods.config import load_config
from rods.envs.repo.container import Container
from rods.envs.repo.environment import RepoEnvironment
from rods.envs.repo.swe import load_rows
from rods.errors import EnvError, TaskError
from rods.evaluation.tool_metrics import ending_metrics
from rods.task import Task
from rods.trajectory import Trajectory
from rods.types import ToolCall
from rollout_cases import play, script
from swe_cases import ROW


def task(tmp_path: Path) -> Task:
    path = tmp_path / "rows.jsonl"
    path.write_text(json.dumps(ROW) + "\n")
    (found,) = load_rows(path, "repo")
    return found


def test_a_row_is_a_task(tmp_path: Path) -> None:
    found = task(tmp_path)
    assert found.world["image"] == "xingyaoww/sweb.eval.x86_64.some_s_repo-12"
    assert found.world["fail_to_pass"] == ["test_it.py::test_half"]
    assert "half(4) should be 2." in found.turns[0].user
    assert "test_half" not in found.turns[0].user
    assert (found.category, found.provenance.scenario) == ("some/repo", "Some__repo-12")


@pytest.mark.parametrize(
    ("row", "said"),
    [
        ({k: v for k, v in ROW.items() if k != "test_patch"}, "no test_patch"),
        ({**ROW, "FAIL_TO_PASS": "test_it"}, "not a list of tests"),
        (["x"], "not an object"),
    ],
)
def test_a_broken_row_is_named(tmp_path: Path, row: object, said: str) -> None:
    path = tmp_path / "rows.jsonl"
    path.write_text(f"{json.dumps(ROW)}\n{json.dumps(row)}\n")
    with pytest.raises(TaskError, match=rf"rows\.jsonl:2: .*{said}"):
        load_rows(path, "repo")
    with pytest.raises(TaskError, match="no such file"):
        load_rows(tmp_path / "missing.jsonl", "repo")


@pytest.mark.parametrize(
    ("new", "solved"),
    [("n // 2", True), ("n // 4", False), (None, False)],
)
@pytest.mark.slow
def test_a_patch_is_judged_in_a_fresh_container(
    environment: RepoEnvironment, tmp_path: Path, new: str | None, solved: bool
) -> None:
    world = environment.open(task(tmp_path))
    world.begin_turn(0)
    assert world.call(bash("ls")).content == "code_of_it.py\ntest_it.py"
    if new:
        change = {"command": "str_replace", "path": "code_of_it.py", "old_str": "n // 3"}
        assert not world.call(ToolCall("str_replace_editor", {**change, "new_str": new})).failed
    world.call(bash("echo 'def test_half(): pass' > test_it.py"))
    world.call(ToolCall("finish"))
    assert world.end_turn().solved is solved
    world.close()
    assert not list((tmp_path / "containers").iterdir())


@pytest.mark.slow
def test_tests_that_the_agent_planted_are_not_asked(
    environment: RepoEnvironment, tmp_path: Path
) -> None:
    world = environment.open(task(tmp_path))
    world.begin_turn(0)
    world.call(bash("printf 'def test_half():\\n    pass\\n' > test_it.py"))
    assert not world.end_turn().solved
    world.close()


@pytest.mark.slow
def test_an_image_that_is_not_here_is_a_failure_of_infrastructure(
    environment: RepoEnvironment, tmp_path: Path
) -> None:
    missing = task(tmp_path)
    world = {**missing.world, "image": "nowhere"}
    with pytest.raises(EnvError, match=r"nowhere does not start.*No such image"):
        environment.open(Task("repo", "x", missing.turns, world))
    with pytest.raises(EnvError, match="no-such-command"):
        Container("x", 100, "no-such-command")


@pytest.mark.slow
def test_a_command_that_takes_too_long_is_said(
    environment: RepoEnvironment, tmp_path: Path
) -> None:
    place = Container("xingyaoww/sweb.eval.x86_64.some_s_repo-12", 100, str(tmp_path / "docker"))
    assert place.run(["sleep", "9"], seconds=0.2).limit == "time"
    assert place.run(["sh", "-c", "exit 3"]).code == 3
    text, failed = place.edit({"command": "view", "path": "missing.py"})
    assert failed and "No such file" in text
    place.close()


def test_the_recipe_has_the_papers_runs() -> None:
    seven, eight, fourteen = (load_config("skyrl_v0", p) for p in ("full", "qwen3_8b", "qwen3_14b"))
    assert [c.rollout.k * c.rollout.tasks_per_step for c in (seven, eight, fourteen)] == [256] * 3
    assert [c.rollout.steps_per_turn for c in (seven, eight, fourteen)] == [15, 25, 35]
    assert [c.rollout.worlds.running for c in (seven, eight, fourteen)] == [64, 64, 192]
    assert (seven.train.advantage, fourteen.train.advantage) == ("grpo", "gae")
    assert (fourteen.train.gae.critic_lr, fourteen.train.clip_high) == (1e-5, 0.28)
    assert {c.train.kl for c in (seven, eight, fourteen)} == {1e-3}
    lengths = [(c.rollout.step_tokens, c.rollout.context_tokens) for c in (seven, eight, fourteen)]
    assert lengths == [(1536, 31232 + 1536)] * 2 + [(3072, 31744 + 3072)]
    assert {c.train.dual_clip for c in (seven, eight, fourteen)} == {3.0}
    assert fourteen.train.gae.value_clip == 0.5 and seven.stages[0].epochs == 100
    planted = load_config("skyrl_v0", "planted")
    assert not (planted.env.tasks or planted.evaluation.files) and planted.env.held_out == 0.25


@pytest.mark.slow
def test_meters_say_how_turns_ended(environment: RepoEnvironment, tmp_path: Path) -> None:
    def ends(*said: str, steps: int = 5) -> Trajectory:
        return play(task(tmp_path), script(*said), environment, seconds=300, steps_per_turn=steps)

    looks = "[bash(command='ls')]"
    played = [ends("[finish()]"), ends(*[looks] * 5), ends(looks, steps=1), ends("Done.")]
    assert ending_metrics(played) == {
        "ended_finish": 0.25,
        "ended_stuck": 0.25,
        "ended_by_limit": 0.25,
    }
    assert ending_metrics(played[2:]) == {}
