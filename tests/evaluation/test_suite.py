"""Rows of the held-out evaluation."""

from __future__ import annotations

import asyncio
import json
from collections import Counter
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from pool_cases import group, original
from rods.config import EvaluationSettings, load_config, with_overrides
from rods.config.bundled import local_path
from rods.errors import ConfigError
from rods.evaluation.suite import NOISE, evaluate_tasks, row_of, stratified
from rods.policy import Completion, episode_seed
from rods.rollout.episode import RolloutContext
from rods.task import Provenance
from rods.trajectory import Group
from rods.types import FinishReason, StopReason, ToolCall
from rollout_cases import DIALECT, TEMPLATE
from rollout_cases import settings as rollout_settings
from worlds import NotesEnvironment, notes_task


def test_a_row_has_a_value_for_each_valid_sample() -> None:
    played, _ = group(original(0), [1.0, 0.0], invalid=1)
    greedy, _ = group(original(0), [1.0])
    row = row_of(greedy, played)
    assert row["progress"] == [1.0, 0.0]
    assert row["solved"] == [True, False]
    assert row["official"] == [True, True]
    assert row["invalid"] == 1
    assert row["greedy_progress"] == [1.0] and row["greedy_solved"] == [True]
    alone = row_of(greedy, None)
    assert alone["greedy_progress"] == [1.0] and "progress" not in alone


def test_worlds_that_judge_answers_have_no_official_verdict() -> None:
    played, _ = group(original(0), [1.0, 1.0])
    right, wrong = (
        replace(t, verdicts=(replace(t.verdicts[0], correct=said),))
        for t, said in zip(played.trajectories, (True, False), strict=True)
    )
    cut = replace(right, verdicts=(), stop=StopReason.SECONDS)
    row = row_of(played, Group(played.task, [right, wrong, cut], 0))
    assert row["solved"] == [True, False, False]
    assert row["official"] == row["greedy_official"] == [], "one that was cut has none either"


@pytest.mark.parametrize("seed", range(5))
def test_a_choice_of_tasks_is_even_over_categories(seed: int) -> None:
    tasks = [
        replace(original(n, category), provenance=Provenance(f"{n}", f"s{n % 3}"))
        for n, category in enumerate(["base"] * 9 + ["miss_func"] * 6 + ["miss_param"])
    ]
    chosen = stratified(tasks, 9, seed)
    assert len({task.id for task in chosen}) == 9 and {t.id for t in chosen} <= {
        t.id for t in tasks
    }
    assert Counter(t.category for t in chosen) == {"base": 4, "miss_func": 4, "miss_param": 1}
    assert stratified(tasks, 0, seed) == stratified(tasks, 16, seed) == tasks
    others = {tuple(t.id for t in stratified(tasks, 9, other)) for other in range(20)}
    assert len(others) > 10, "at random"


class SureWhenGreedy:
    """Does as it is told at temperature 0, and nothing otherwise."""

    def __init__(self) -> None:
        self.version, self.open_at_once, self.most_at_once = 7, 0, 0
        self.seeds: set[int] = set()

    def open(self, seed: int, shared_prompt: Sequence[int] = ()) -> SureWhenGreedy.Session:
        self.seeds.add(seed)
        self.open_at_once += 1
        self.most_at_once = max(self.most_at_once, self.open_at_once)
        return SureWhenGreedy.Session(self)

    class Session:
        def __init__(self, policy: SureWhenGreedy) -> None:
            self._policy, self._said = policy, 0

        async def generate(
            self, new_ids: Sequence[int], max_tokens: int, temperature: float, *how: Any
        ) -> Completion:
            await asyncio.sleep(0)
            self._said += 1
            text = "[add(amount=2)]" if temperature == 0 and self._said == 1 else "ok"
            ids = (*TEMPLATE.encode(text), TEMPLATE.end_id)
            return Completion(ids, (-0.1,) * len(ids), FinishReason.STOP, self._policy.version)

        def close(self) -> None:
            self._policy.open_at_once -= 1


def evaluated(**settings: Any) -> tuple[list[dict[str, Any]], SureWhenGreedy, list[Any]]:
    """Rows of two tasks, the policy, and what was told of the progress."""
    policy, seen = SureWhenGreedy(), []
    tasks = [notes_task([(f"add two, {i}", [ToolCall("add", {"amount": 2})])]) for i in range(2)]
    play = evaluate_tasks(
        tasks,
        EvaluationSettings(**settings),
        RolloutContext(NotesEnvironment(), policy, DIALECT, TEMPLATE, rollout_settings()),
        lambda done, total: seen.append((done, total)),
    )
    return asyncio.run(play), policy, seen


def test_every_task_is_played_greedily_and_sampled_at_once() -> None:
    rows, policy, seen = evaluated(samples=3)
    for row in rows:
        assert (row["greedy_progress"], row["progress"]) == ([1.0], [0.0] * 3)
        assert (row["greedy_solved"], row["solved"]) == ([True], [False] * 3)
    assert policy.most_at_once == 8  # both ways of both tasks: one batch
    assert seen[-1] == (8, 8)


def test_the_noise_does_not_depend_on_the_policy_version() -> None:
    _, policy, _ = evaluated(samples=2)
    tasks = [notes_task([(f"add two, {i}", [ToolCall("add", {"amount": 2})])]) for i in range(2)]
    assert policy.seeds == {
        episode_seed(NOISE, task.id, member, policy_version=0)
        for task in tasks
        for member in range(2)
    }


def test_samples_can_be_left_out() -> None:
    (row, _), _, seen = evaluated(samples=0)
    assert row["greedy_progress"] == [1.0] and "progress" not in row and seen[-1] == (2, 2)


def test_samples_at_temperature_0_are_refused() -> None:
    with pytest.raises(ConfigError, match=r"for only greedy rollouts set evaluation\.samples = 0"):
        load_config("rods", "small", ["evaluation.temperature=0"])


@pytest.mark.slow
def test_variants_of_the_evaluation_do_not_depend_on_who_writes_for_training() -> None:
    from rods.assemble.tasks import held_out_tasks, splits_of
    from rods.envs.remote.processes import ProcessEnvironment, environment_of, local

    small = ["evaluation.tasks=1", "evaluation.variants=3"]
    config = load_config("rods", "small", small)
    environment, sides = environment_of(config), splits_of(config)
    plain = held_out_tasks(config, environment, sides)
    alone = ["synthesis.resample.share=0.0", 'synthesis.writer="llm"']
    other = load_config("rods", "small", [*small, *alone])
    assert held_out_tasks(other, environment, sides) == plain
    elsewhere = ProcessEnvironment(environment, local("bfcl", {}), processes=1, seconds=30)
    assert held_out_tasks(config, elsewhere, sides) == plain  # without a world elsewhere
    assert not elsewhere._all  # pyright: ignore[reportPrivateUsage]
    assert {t.provenance.recipe.partition(":")[0] for t in plain[1:]} == {"graph", "resample"}


def test_the_tuning_side_is_cut_out_of_the_training_side() -> None:
    from rods.assemble.tasks import splits_of

    whole = splits_of(load_config("rods", "small"))
    cut = splits_of(load_config("rods", "small", ["env.bfcl.split=tuning"]))
    of = {t.id for t in whole.train}
    assert {t.id for t in cut.train} | {t.id for t in cut.held_out} == of
    assert not {t.id for t in whole.held_out} & {t.id for t in cut.held_out}
    tuned, trained = ({t.provenance.scenario for t in s} for s in (cut.held_out, cut.train))
    assert len(tuned) == 20 and len(trained) == 80 and not tuned & trained
    assert {t.id for t in cut.originals} <= {t.id for t in cut.train}
    assert cut.digest != whole.digest


@pytest.mark.slow
@pytest.mark.parametrize("known", ["by its run", "by its folder", "of another task"])
def test_an_evaluation_on_tasks_that_were_trained_on_is_said_to_be_one(
    known: str, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    """As after a change of the file of tasks, or with `--env.held_out`."""
    from rods.assemble.evaluated import evaluation_of
    from rods.assemble.tasks import held_out_tasks, splits_of
    from rods.envs.remote.processes import environment_of

    config = load_config("rods", "small", ["evaluation.tasks=2", "evaluation.variants=0"])
    sides = splits_of(config)
    tasks = held_out_tasks(config, environment_of(config), sides)
    trained = (sides.train if known == "of another task" else tasks)[0]
    judged = [{"task_id": trained.id, "rbar": 0.5, "variance": 0.0}]
    log = json.dumps({"kind": "step", "step": 1, "judgements": judged})
    (tmp_path / "metrics.jsonl").write_text(log + "\n", encoding="utf-8")
    (tmp_path / "manifest.json").write_text("{}", encoding="utf-8")
    run: Path | None = tmp_path
    if known == "by its folder":
        policy = tmp_path / "checkpoint" / "step-000001" / "policy"
        policy.parent.mkdir(parents=True)
        policy.symlink_to(local_path(config.model.name))
        config, run = with_overrides(config, [f"model.name={json.dumps(str(policy))}"]), None
    with evaluation_of(config, run):
        said = "1 of the 2 evaluated tasks were trained on: tasks, their split or evaluation.files"
        assert (f"{tmp_path}: {said}" in caplog.text) is (known != "of another task")
