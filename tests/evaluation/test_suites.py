"""Rows and accuracies of suites, whichever they are, and what the verb refuses."""

from __future__ import annotations

import json
import random
import re
from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from rich.console import Console

from rods.config import RunConfig, load_config
from rods.config.evaluation import SuiteSettings
from rods.errors import ConfigError, EnvError, StoreError
from rods.evaluation.rules import RuleOutcome, SuiteRules
from rods.evaluation.stats import mean_ci
from rods.evaluation.suites import (
    Kept,
    SuiteRow,
    accuracies,
    chosen_tasks,
    pass_hat,
    saved_groups,
    suite_rows,
)
from rods.policy import ScriptedPolicy
from rods.report.results import suite_table
from rods.suites import make_suite
from rods.task import Task
from rods.trajectory import Trajectory
from rods.trajectory_codec import write_parquet
from rods.types import StopReason, ToolCall
from rollout_cases import TEMPLATE, script
from suite_cases import play
from verbs import rods
from worlds import NotesEnvironment, notes_task


class Notes(SuiteRules):
    """A suite of two categories, right where the counter was added to."""

    name = "notes"
    averages: Mapping[str, Sequence[str]] = {"overall": ("one", "two"), "all": ("one", "two")}
    pooled = frozenset({"all"})

    def __init__(self, config: RunConfig | None = None) -> None:
        self.environment = NotesEnvironment()

    def tasks(self) -> Sequence[Task]:
        add = [ToolCall("add", {"amount": 2})]
        names = ["one", "one", "one", "two"]
        made = [notes_task([(f"add {i}", add)], 0, 0, c, f"n{i}") for i, c in enumerate(names)]
        return made

    def score(self, task: Task, trajectory: Trajectory) -> RuleOutcome:
        return RuleOutcome(True) if trajectory.solved else RuleOutcome(False, "not added")


def row(category: str, scenario: str, *right: bool, failures: tuple[str, ...] = ()) -> SuiteRow:
    why = tuple("" if r else "wrong" for r in right)
    return SuiteRow(scenario + category, scenario, category, scenario, right, why, (), (), failures)


def test_every_task_is_played_so_many_times() -> None:
    groups = play(Notes(), Notes().tasks(), script("[add(amount=2)]", "ok"), repeats=3)
    rows = suite_rows(Notes(), groups)
    assert [r.right for r in rows] == [(True,) * 3] * 4
    assert {t.temperature for g in groups for t in g.trajectories} == {0.0}


def test_averages_weigh_categories_or_tasks() -> None:
    rows = [row("one", "a", True), row("one", "b", True), row("one", "c", False, True)]
    rows.append(row("two", "d", False))
    found = {one.name: one for one in accuracies(Notes(), rows)}
    assert found["one"].mean == pytest.approx(2.5 / 3)
    assert found["overall"].mean == pytest.approx((2.5 / 3 + 0) / 2)
    assert found["all"].mean == pytest.approx(2.5 / 4)
    assert found["two"].interval is found["overall"].interval is None, "one scenario of two"
    assert found["all"].interval is not None
    shown = Console(width=80, record=True, quiet=False)
    shown.print(suite_table("notes", [found["two"]], rows))
    assert "No ± is shown if there are too few" in " ".join(shown.export_text().split())
    assert [one.is_average for one in found.values()] == [False, False, True, True]
    assert "overall" not in {one.name for one in accuracies(Notes(), rows[:3])}


def test_invalid_trajectories_count_in_no_accuracy() -> None:
    groups = play(Notes(), Notes().tasks()[:1], script("[add(amount=2)]", "ok"), repeats=2)
    good, bad = groups[0].trajectories
    bad = replace(bad, stop=StopReason.FAILURE, failure="no server")
    (made,) = suite_rows(Notes(), [replace(groups[0], trajectories=(good, bad))])
    assert (made.right, made.failures) == ((True,), ("no server",))
    lost = row("one", "x", failures=("no server",))
    (one, *_) = accuracies(Notes(), [made, lost])
    assert (one.tasks, one.mean) == (1, 1.0)
    text = Console(width=80, record=True, quiet=False)
    text.print(suite_table("notes", accuracies(Notes(), [made, lost]), [made, lost]))
    assert "2 invalid, counted in no accuracy; most often (2): no server" in text.export_text()


def test_no_average_lacks_a_category_all_of_whose_trajectories_are_invalid() -> None:
    """As those that a judge decides, where it does not answer."""
    rows = [row("one", "a", True), row("one", "b", False), row("two", "c", failures=("no judge",))]
    found = {one.name: one for one in accuracies(Notes(), rows)}
    assert found["one"].mean == 0.5 and found["two"].mean is None
    assert found["overall"].mean is None and found["all"].mean is None


def test_saved_trajectories_that_were_not_greedy_are_not_said_to_be() -> None:
    groups = play(Notes(), Notes().tasks()[:2], script("[add(amount=2)]", "ok"))
    warm = [replace(t, temperature=1.0) for t in groups[0].trajectories]
    for first, said in ((groups[0].trajectories, "Sampled"), (warm, "Not all sampled")):
        rows = suite_rows(Notes(), [replace(groups[0], trajectories=first), groups[1]])
        shown = Console(width=80, record=True, quiet=False)
        shown.print(suite_table("notes", accuracies(Notes(), rows), rows))
        assert f"over scenarios. {said} greedily, 1 valid" in " ".join(shown.export_text().split())


def test_the_mean_of_one_stratum_is_the_mean() -> None:
    values, clusters = [0.2, 0.4, 0.1, 0.9, 0.5], ["a", "a", "b", "c", "c"]
    whole, one = mean_ci(values, clusters), mean_ci(values, clusters, [0] * 5)
    assert whole is not None and one is not None
    assert (one.mean, one.low) == pytest.approx((whole.mean, whole.low))


def test_strata_of_one_value_each_leave_no_spread() -> None:
    """What differs between fixed categories is no uncertainty."""
    found = mean_ci([1.0, 1.0, 0.0, 0.0], ["a", "b", "a", "b"], ["x", "x", "y", "y"])
    assert found is not None
    assert (found.mean, found.half_width) == (0.5, 0.0)


def test_the_interval_of_a_mean_of_means_by_hand() -> None:
    """Two strata of 3 and 2, clusters of their own: each has its G/(G-1), and 2 + 1 degrees."""
    values, strata = [1.0, 0.0, 0.5, 1.0, 0.0], ["x", "x", "x", "y", "y"]
    found = mean_ci(values, list("abcde"), strata)
    parts = (3 / 2, (0.5 / 6, -0.5 / 6, 0.0)), (2 / 1, (0.5 / 4, -0.5 / 4))
    spread = sum(factor * sum(s * s for s in shares) for factor, shares in parts) ** 0.5
    assert found is not None
    assert found.half_width == pytest.approx(3.182446305 * spread)


def test_clusters_that_reach_over_all_strata_count_once() -> None:
    values = [0.2, 0.8, 0.5, 0.1, 0.4, 0.9, 0.3, 0.2]
    found = mean_ci(values, list("abcdabcd"), list("xxxxyyyy"))
    means = mean_ci([(a + b) / 2 for a, b in zip(values[:4], values[4:], strict=True)])
    assert found is not None and means is not None
    assert (found.low, found.high) == pytest.approx((means.low, means.high))


def test_a_stratum_of_one_cluster_leaves_no_interval() -> None:
    assert mean_ci([1.0, 0.0, 1.0], None, ["x", "x", "y"]) is None


def test_the_interval_of_a_mean_of_means_covers_the_truth_about_95_times_in_100() -> None:
    rng, covered = random.Random(7), 0
    strata = [stratum for stratum in range(4) for _ in range(2)]
    for _ in range(600):
        found = mean_ci([rng.gauss(stratum, 1.0) for stratum in strata], None, strata)
        assert found is not None
        covered += found.low <= 1.5 <= found.high
    assert 0.925 <= covered / 600 <= 0.975


def test_some_tasks_of_some_categories() -> None:
    assert len(chosen_tasks(Notes(), SuiteSettings(tasks=2))) == 2
    (only,) = chosen_tasks(Notes(), SuiteSettings(categories=("two",)))
    assert only.category == "two"
    with pytest.raises(ConfigError, match=r"notes has no category 'twoo'.*'two'.*Known: one, two"):
        chosen_tasks(Notes(), SuiteSettings(categories=("twoo",)))


@pytest.mark.slow
@pytest.mark.parametrize(
    ("words", "said"),
    [
        (["--suite", "bfcl-multi-turm"], "Did you mean 'bfcl-multi-turn'"),
        (["--save", "x.parquet"], "Add --suite NAME"),
        (["--suite", "bfcl-multi-turn", "--save", "."], ".: exists. Choose another name"),
        (["--suite", "bfcl-multi-turn", "--trajectories", "absent.parquet"], "absent.parquet"),
        (["--suite", "bfcl-multi-turn", "--trajectories", "x", "y"], "y"),
        (["--suite", "bfcl-multi-turn", "--evaluation.suite.repeats", "0"], "suite.repeats"),
        (["--suite", "bfcl-multi-turn", "--model.dialect", "torl"], "is inline"),
    ],
)
def test_a_mistake_is_one_message(
    words: list[str],
    said: str,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    monkeypatch.chdir(tmp_path)
    assert rods("eval", *words, monkeypatch=monkeypatch) == 2
    assert said in capsys.readouterr().err


def test_without_settings_a_suite_has_the_defaults() -> None:
    assert load_config().evaluation.suite == SuiteSettings()


def test_a_suite_of_your_own_is_named_by_module_and_attribute(tmp_path: Path) -> None:
    assert make_suite("test_suites:Notes", load_config()).name == "notes"
    with pytest.raises(ConfigError, match="is not called with the configuration"):
        make_suite("test_suites:row", load_config())
    with pytest.raises(ConfigError, match=r"has no 'averages', .*'environment', .*'name'"):
        make_suite("test_suites:LessThanASuite", load_config())


@pytest.mark.slow
def test_a_run_of_the_program_and_its_saved_trajectories_say_the_same(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """The bundled policy, four conversations twice; both times every row is the same."""
    path = str(tmp_path / "played.parquet")
    asked = ["eval", "--suite", "bfcl-multi-turn", "--evaluation.suite.tasks", "4", "--json"]
    more = ["--evaluation.suite.repeats", "2", "--model.threads", "1", "--save", path]
    assert rods(*asked, *more, monkeypatch=monkeypatch) == 0
    played = json.loads(capsys.readouterr().out)
    assert [len(one["right"]) for one in played] == [2] * 4
    assert {one["category"] for one in played} == {
        "base", "miss_func", "miss_param", "long_context"
    }  # fmt: skip
    assert all(one["why"][0] == one["why"][1] for one in played)  # greedy, the engine repeats
    assert rods(*asked, "--trajectories", path, monkeypatch=monkeypatch) == 0
    assert json.loads(capsys.readouterr().out) == played


def keeping(path: Path, *more: str) -> Kept:
    return Kept(path, load_config(overrides=[*more]), "notes", weights="")


def test_pass_k_is_the_share_of_choices_of_which_all_are_right() -> None:
    assert pass_hat((True, True, False, True), 2) == 0.5
    assert pass_hat((True, True, False, True), 4) == 0.0

    class Trials(Notes):
        trials = True

    rows = [row("one", "a", True, True, True), row("one", "b", True, False, True, True)]
    (one,) = accuracies(Trials(), rows)
    assert one.passes == pytest.approx(((1 + 0.5) / 2, (1 + 0.25) / 2))
    (one,) = accuracies(Notes(), rows)
    assert one.passes == ()
    text = Console(width=80, record=True, quiet=False)
    text.print(suite_table("notes", accuracies(Trials(), rows), rows))
    assert re.search(r"pass\^2\s+pass\^3", text.export_text())


def test_a_judge_that_does_not_answer_fails_one_trajectory_and_no_other() -> None:
    class Judged(Notes):
        def score(self, task: Task, trajectory: Trajectory) -> RuleOutcome:
            if trajectory.member:
                raise EnvError("no judge")
            return RuleOutcome(True)

    groups = play(Judged(), Notes().tasks()[:1], script("[add(amount=2)]", "ok"), repeats=2)
    (made,) = suite_rows(Judged(), groups)
    assert (made.right, made.failures) == ((True,), ("not scored: no judge",))


def test_what_was_played_is_kept_at_once_and_gone_on_with(tmp_path: Path) -> None:
    """A policy that breaks in the seventh of eight conversations; the next call plays two."""
    rules, path = Notes(), tmp_path / "x.parquet"
    begun: list[int] = []
    broken = ["from the seventh on"]

    class Breaking(ScriptedPolicy):
        def open(self, *given: Any, **more: Any) -> Any:
            begun.append(1)
            if broken and len(begun) > 6:
                raise RuntimeError("broken off")
            return super().open(*given, **more)

    said = [[*TEMPLATE.encode(text), TEMPLATE.end_id] for text in ("[add(amount=2)]", "\ud800")]
    with pytest.raises(RuntimeError, match="broken off"):
        play(rules, rules.tasks(), Breaking(said), 2, keeping(path), concurrency=1)
    assert not path.exists()
    assert len((tmp_path / "x.parquet.unfinished").read_text().split("\n")) == 1 + 6 + 1
    begun.clear()
    broken.clear()
    done: list[tuple[int, int]] = []
    kept = keeping(path)
    groups = play(
        rules,
        rules.tasks(),
        Breaking(said),
        2,
        kept,
        progress=lambda *numbers: done.append(numbers),
        concurrency=1,
    )
    assert len(begun) == 2 and done == [(6, 8), (7, 8), (8, 8)]
    assert [[t.member for t in group.trajectories] for group in groups] == [[0, 1]] * 4
    kept.finish(t for group in groups for t in group.trajectories)
    assert [entry.name for entry in tmp_path.iterdir()] == ["x.parquet"]
    again = saved_groups(rules, rules.tasks(), path)
    assert suite_rows(rules, again) == suite_rows(rules, groups)


def test_a_torn_line_is_owed_again_and_failures_are_not_kept(tmp_path: Path) -> None:
    rules, path = Notes(), tmp_path / "x.parquet"
    (group, _, _, _) = play(rules, rules.tasks(), script("[add(amount=2)]", "ok"), 2)
    kept = keeping(path)
    for trajectory in group.trajectories:
        kept.add(trajectory)
        kept.add(replace(trajectory, failure="no server"))
    with (tmp_path / "x.parquet.unfinished").open("a") as log:
        log.write('{"trajectory": "{\\"ver')
    name = group.task.id
    assert keeping(path).of(name) == list(group.trajectories)
    keeping(path).add(replace(group.trajectories[0], member=0))
    assert [one.member for one in keeping(path).of(name)] == [0, 1, 2]


def test_other_settings_do_not_go_on_with_what_was_played(tmp_path: Path) -> None:
    path, rules = tmp_path / "x.parquet", Notes()
    (group, *_) = play(rules, rules.tasks(), script("[add(amount=2)]", "ok"))
    kept = keeping(path)
    assert not list(tmp_path.iterdir())  # a start that is refused leaves nothing
    kept.add(group.trajectories[0])
    with pytest.raises(StoreError, match=r": 1 traj.*: model\.dialect: compact -> llama\. Repeat"):
        keeping(path, 'model.dialect="llama"')
    for other in ("evaluation.suite.repeats=3", "rollout.concurrency=1"):
        assert len(keeping(path, other).of(group.task.id)) == 1


def test_a_server_that_moved_goes_on_with_what_was_played(tmp_path: Path) -> None:
    path, server = tmp_path / "x.parquet", ('engine.name="openai"', 'engine.url="http://x"')
    rules = Notes()
    (group, *_) = play(rules, rules.tasks(), script("[add(amount=2)]", "ok"))
    keeping(path, *server).add(group.trajectories[0])
    assert len(keeping(path, server[0], 'engine.url="http://y"').of(group.task.id)) == 1


class LessThanASuite:
    """Has a score alone."""

    def __init__(self, config: RunConfig) -> None: ...

    def score(self, task: Task, trajectory: Trajectory) -> RuleOutcome:
        return RuleOutcome(True)


def test_saved_trajectories_of_other_tasks_are_counted(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    rules = Notes()
    groups = play(rules, rules.tasks(), script("[add(amount=2)]", "ok"), repeats=2)
    write_parquet(tmp_path / "x.parquet", [t for g in groups for t in g.trajectories])
    again = saved_groups(rules, rules.tasks()[:1], tmp_path / "x.parquet")
    assert suite_rows(rules, again) == suite_rows(rules, groups[:1])
    assert "6 trajectories are of tasks that were not asked for" in caplog.text
