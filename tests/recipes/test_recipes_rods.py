"""RODS on top of every recipe: its tasks grow, or the program says before the start why not."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from rods.assemble import train
from rods.assemble.library import hosted
from rods.assemble.refusals import require_named, require_variants
from rods.config import load_config, profile_name
from rods.config.bundled import BUNDLED
from rods.env import Environment
from rods.envs.python_tool.environment import PythonToolEnvironment
from rods.errors import ConfigError
from rods.registry import recipe_names
from rods.task import Task, Turn
from rods.types import ToolCall
from tir_cases import question
from verbs import rods
from worlds import NotesEnvironment

REFUSED = {
    "toolrl": "function_call",
    "tool_n1": "function_call",
    "skyrl_v0": "repo",
}
"""Recipes whose tasks have no variants, and the environment that a refusal must name."""
ALL = recipe_names()
GROWING = [name for name in ALL if name not in REFUSED]
PLAYED = [
    *((name, "small") for name in ("envtuning", "otc_ppo", "retool", "torl")),
    ("otc_grpo", "small_search"),
]
"""One recipe for each environment and writer, and those of python_tool that differ in more."""
SMALL = (
    "curriculum=rods", "updates=2", "model.threads=1", "model.device=cpu",
    "rollout.k=2", "rollout.tasks_per_step=2", "env.train_tasks=2",
    "rollout.generated_tokens=96", "rollout.step_tokens=48",
    "boundary.low=0.0", "boundary.high=1.0", "replay.inject=1.0", "replay.retire=[]",
    "evaluation.tasks=1", "evaluation.samples=0", "evaluation.variants=0",
    "synthesis.drain_seconds=60", "synthesis.variants_per_seed=1",
)  # fmt: skip
"""An update is an epoch and every task is at the boundary: the second epoch has variants."""


@pytest.mark.parametrize("name", ALL)
def test_what_a_recipe_plays_without_a_profile_fits_a_laptop(name: str) -> None:
    assert load_config(name, "small").model.name in BUNDLED


@pytest.mark.slow
@pytest.mark.parametrize(("name", "profile"), PLAYED)
def test_the_tasks_of_a_recipe_grow(name: str, profile: str, tmp_path: Path) -> None:
    config = load_config(name, profile, SMALL)
    [grows, *_] = [stage for stage in config.stages if stage.expand]
    stage = {**grows.model_dump(mode="json"), "epochs": 2, "slice": 0, "tasks": 0, "categories": []}
    only = f"stages={json.dumps([stage]).replace(': ', '=')}"
    config = load_config(name, profile, [*SMALL, "envtuning.hints=[]", only])
    assert config.stages[0].reward == grows.reward
    run = train(config, str(tmp_path / "run"))
    steps = [row for row in run.metrics() if row["kind"] == "step"]
    assert len(steps) == 2
    drawn = [str(row["origin"]) for step in steps for row in step["judgements"]]  # type: ignore
    assert set(drawn[:2]) == {"original"} and "variant" in drawn


@pytest.mark.parametrize("name", REFUSED)
def test_a_recipe_whose_tasks_have_no_variants_says_so(name: str) -> None:
    for profile in ("full", profile_name(name, "small")):
        config = load_config(name, profile, ["curriculum=rods"])
        with pytest.raises(ConfigError) as refused:
            require_named(config)
        said = str(refused.value)
        assert f"no writer of variants for env.name '{REFUSED[name]}'" in said
        assert "--curriculum static" in said


@pytest.mark.slow
def test_the_others_are_not_refused_by_their_settings() -> None:
    for name, profile in PLAYED:
        require_named(load_config(name, profile, ["curriculum=rods"]))
    for name in GROWING:
        require_named(load_config(name, "small", ["curriculum=rods"]))
        config = load_config(name, "full", ["curriculum=rods", 'env.search.corpus=""'])
        if config.rollout.k > 1:
            require_named(config)
            continue
        with pytest.raises(ConfigError, match=r"rollout\.k = 1 a group has one reward"):
            require_named(config)


@pytest.mark.parametrize(
    ("override", "said"),
    [
        ("stages=[{name='all', epochs=2}]", "no stage has expand = true"),
        ("rollout.k=1", "rollout.k = 1"),
        (
            "synthesis.writer=llm",
            "the writer llm needs the base URL of an OpenAI-compatible chat server",
        ),
    ],
)
def test_settings_with_which_nothing_would_grow_are_refused(override: str, said: str) -> None:
    given = ["curriculum=rods", "train.advantage=reinforce++", "train.credit=trajectory", override]
    with pytest.raises(ConfigError) as refused:
        require_named(load_config("artist_fc", "small", given))
    assert said in str(refused.value)
    require_named(load_config("artist_fc", "small", [*given, "curriculum=static"]))


def test_a_pool_that_the_writer_cannot_vary_is_refused() -> None:
    questions, calls = PythonToolEnvironment(), NotesEnvironment()
    of_file, made = question(), questions.tasks(0.0)[0]
    called = Task("none", "base", (Turn("do", (ToolCall("ls"),)),), {})

    def check(environment: Environment, tasks: list[Task], *given: str) -> None:
        given = ("curriculum=rods", *given)
        require_variants(load_config("torl", "small", given), environment, tasks)

    for writer in ("family", "resample", "graph"):
        said = "none of the 2 tasks of env.name = 'python_tool' is a generated question"
        with pytest.raises(ConfigError, match=said):
            check(questions, [of_file, of_file], f"synthesis.writer={writer}")
        check(questions, [of_file, made], f"synthesis.writer={writer}")
    for writer in ("resample", "graph", "llm"):
        with pytest.raises(ConfigError, match="has calls in its ground truth, which is what"):
            check(calls, [of_file], f"synthesis.writer={writer}")
        check(calls, [of_file, called], f"synthesis.writer={writer}")
    with pytest.raises(ConfigError, match="is a generated question"):
        check(calls, [called], "synthesis.writer=family")
    check(questions, [of_file], "synthesis.writer=my_module:MyWriter")
    check(questions, [of_file], "curriculum=static")


@pytest.mark.slow
def test_questions_of_a_file_are_refused_before_the_start(tmp_path: Path) -> None:
    rows = [{"problem": f"What is {n} + {n}?", "answer": str(2 * n)} for n in range(1, 13)]
    file = tmp_path / "questions.jsonl"
    file.write_text("".join(json.dumps(row) + "\n" for row in rows))
    config = load_config("torl", "small", ["curriculum=rods", f"env.tasks={file}"])
    with pytest.raises(ConfigError, match="those of files have no family"):
        train(config, str(tmp_path / "run"))
    assert not (tmp_path / "run").exists()
    with pytest.raises(ConfigError, match="those of files have no family"), hosted(config):
        pass


@pytest.mark.slow
def test_hints_that_are_not_at_work_are_told(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def stopped(*_: object, **__: object) -> None:
        raise ConfigError("stopped here")

    monkeypatch.setattr("rods.assemble.train", stopped)
    words = ["train", "--recipe", "envtuning", "--curriculum"]
    for curriculum, told in (("rods", True), ("envtuning", False)):
        assert rods(*words, curriculum, monkeypatch=monkeypatch) == 2
        said = capsys.readouterr().err
        assert ("envtuning.hints has no effect" in said) is told and "stopped here" in said
