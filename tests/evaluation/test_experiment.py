"""A grid of arms and seeds: what its file says, what is run again, and how seeds are pooled."""

from __future__ import annotations

import io
import json
import shutil
import statistics
import subprocess
import sys
import time
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from rich.console import Console
from typer.testing import CliRunner

import forked
from report_runs import write_run
from rods.cli import experiment as verb
from rods.cli.common import writer_overrides
from rods.cli.main import app
from rods.cli.synth import _sources
from rods.config import RunConfig, load_config, with_overrides
from rods.errors import ConfigError, StoreError
from rods.evaluation.grid import EXPERIMENTS, Grid, GridRun, load_grid
from rods.evaluation.stats import paired_difference
from rods.report.experiment import Experiment, pooled
from rods.report.heldout import Point, TaskSubset, trajectories_to
from rods.report.run_data import load_run
from rods.reward import Score
from rods.rewards.filters import has_variance
from rods.store import FORMAT, RunDirectory, new_run_dir
from rods.task import write_tasks
from running import processes
from verbs import rods as program

FILE = """
profile = "small"
seeds = [0, 1]
baseline = "fixed"

[settings]
env.train_tasks = 24
evaluation.variants = 7
stages = [{name = "format", epochs = 1}, {name = "all", expand = true, epochs = 5}]

[arms.fixed]
curriculum = "static"

[arms.rods]
boundary.priority = "random"
"""


@pytest.fixture
def grid(tmp_path: Path) -> Grid:
    (tmp_path / "small.toml").write_text(FILE)
    return load_grid(str(tmp_path / "small.toml"))


@pytest.fixture
def runs(tmp_path: Path, grid: Grid) -> Path:
    """Finished runs of every arm and seed; their held-out tasks are the same."""
    for cell in grid.cells:
        curriculum = "static" if cell.arm.name == "fixed" else "rods"
        write_run(tmp_path / "runs" / cell.name, cell.seed, 12, curriculum=curriculum)
    return tmp_path / "runs"


def text_of(found: Experiment, width: int = 80) -> str:
    out = io.StringIO()
    Console(width=width, file=out).print(found.table())
    return out.getvalue()


# -- the file ------------------------------------------------------------------------------------


def test_an_arm_is_the_recipe_the_shared_settings_and_its_own(grid: Grid) -> None:
    assert [cell.name for cell in grid.cells] == ["fixed-0", "rods-0", "fixed-1", "rods-1"]
    fixed, rods = (grid.config(cell) for cell in grid.cells[2:])
    assert (fixed.curriculum, rods.curriculum) == ("static", "rods")
    assert rods.boundary.priority == "random" and rods.seed == fixed.seed == 1
    assert rods.evaluation.variants == fixed.evaluation.variants == 7
    assert rods.stages[1].epochs == 5 and rods.model.name == "tiny"


@pytest.mark.parametrize(
    ("change", "said"),
    [
        (('baseline = "fixed"', 'baseline = "fixt"'), "no arm 'fixt'.*Did you mean 'fixed'"),
        (("boundary.priority", "boundary.priorty"), "arm 'rods'.*boundary.priority"),
        (('profile = "small"', "speed = 1"), "speed"),
        (('curriculum = "static"', "static_variants = -1"), "expected a number from 0"),
        (("[arms.rods]", '[arms."a/b"]'), "letters, digits"),
        (("seeds = [0, 1]", "seeds = []"), "seeds"),
        (("seeds = [0, 1]", "seed = [0]"), "'seed' is not a key.*seeds"),
        (("seeds = [0, 1]", "seeds = 3"), "'seeds' must be whole numbers"),
        (("boundary.priority", "lr"), "arm 'rods': there is no setting 'lr'"),
        (
            ("[arms.rods]", "[arms.rods]\nstatic_variants = 1"),
            "'rods': static_variants .*; got 'rods'",
        ),
        (('boundary.priority = "random"', "seed = 4"), "arm 'rods': seed: arms share .*--seeds"),
        (('boundary.priority = "random"', 'recipe = "torl"'), "arm 'rods': recipe: arms share"),
        (("evaluation.variants", "profile"), "arm 'fixed': profile: arms share"),
        (
            ('[arms.fixed]\ncurriculum = "static"', "[arms]\nfixed = 3"),
            "must be a table of setting",
        ),
        (("seeds = [0, 1]", "seeds = [0.5]"), "^[^ ]* 'seeds.0' must be whole numbers, [^']*$"),
        (("seeds = [0, 1]", 'seeds = ["x"]'), "^[^ ]* 'seeds.0' must be whole numbers, [^']*$"),
        (("evaluation.variants = 7", "evaluation.variants = 2026-01-05"), "must be a .*2026-01-05"),
    ],
)
def test_a_wrong_file_is_refused_before_anything_runs(
    change: tuple[str, str], said: str, tmp_path: Path
) -> None:
    (tmp_path / "wrong.toml").write_text(FILE.replace(*change))
    with pytest.raises(ConfigError, match=f"(?s){said}"):
        load_grid(str(tmp_path / "wrong.toml"))


@pytest.mark.slow
@pytest.mark.parametrize("path", sorted(EXPERIMENTS.glob("*.toml")), ids=lambda p: p.stem)
def test_bundled_experiments_are_valid(path: Path) -> None:
    grid = load_grid(path.stem)
    budgets = {grid.config(GridRun(arm, 0)).trajectories for arm in grid.arms}
    assert len(budgets) == 1 and budgets.pop() > 0  # equal budgets
    only = load_grid(path.stem, seeds=[4], arms=[grid.arms[1].name])
    assert [c.seed for c in only.cells] == [4] and only.baseline == grid.arms[1].name


# -- running -------------------------------------------------------------------------------------


@pytest.mark.slow
def test_finished_runs_are_kept_and_others_are_run(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "small.toml").write_text(FILE)
    played: list[str] = []

    def one(grid: Grid, cell: GridRun, where: Path, alone: bool) -> int:
        played.append(cell.name)
        path = write_run(where / cell.name, cell.seed, 6)
        manifest = json.loads((path / "manifest.json").read_text())
        config = grid.config(cell).model_dump(mode="json")
        manifest |= {"format": FORMAT, "rods": "0.1.0", "config": config}
        (path / "manifest.json").write_text(json.dumps(manifest))
        return 3 if cell.name == "rods-1" and len(played) < 5 else 0

    in_earnest = verb._one
    monkeypatch.setattr(verb, "_one", one)
    words = ["experiment", str(tmp_path / "small.toml"), "--out", str(tmp_path / "runs")]
    first = CliRunner().invoke(app, words)
    assert played == ["fixed-0", "rods-0", "fixed-1", "rods-1"]
    assert first.exit_code and "rods-1 ended with 3" in str(first.exception)
    shutil.rmtree(tmp_path / "runs" / "fixed-1")
    again = CliRunner().invoke(app, words)
    assert again.exit_code == 0, again.output
    # What another command has finished in the meantime is neither run again nor an error.
    grid = load_grid(str(tmp_path / "small.toml"))
    assert in_earnest(grid, grid.cells[0], tmp_path / "runs", False) == 0
    assert not (tmp_path / "runs" / "fixed-0.log").exists()
    assert played[4:] == ["fixed-1"] and (tmp_path / "runs" / "experiment.html").is_file()
    usual, chosen = tmp_path / "runs" / "experiment.html", tmp_path / "chosen.html"
    usual.unlink()
    assert CliRunner().invoke(app, [*words, "--show"]).exit_code == 0
    assert not usual.exists(), "--show writes nothing that nobody asked for"
    assert CliRunner().invoke(app, [*words, "--show", "--page", str(chosen)]).exit_code == 0
    assert chosen.is_file() and not usual.exists()
    # What a resume of one run may change would compare runs of other budgets or tasks.
    for key, value in (
        *(("train.lr", "0.5"), ("updates", "99"), ("trajectories", "99")),
        *(("evaluation.tasks", "1"), ("env.tasks", __file__)),
    ):
        other = CliRunner().invoke(app, [*words, f"--{key}", value])
        assert isinstance(other.exception, StoreError) and key in str(other.exception)
    assert len(played) == 5


def test_a_run_resumes_with_the_settings_of_this_command(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A server or a folder may have moved; with --parallel, each run has one thread."""
    (tmp_path / "small.toml").write_text(FILE)
    begun: list[list[str]] = []

    class Done:
        def __init__(self, command: list[str], **_: object) -> None:
            begun.append(command)

        def wait(self) -> int:
            return 0

    monkeypatch.setattr(verb, "Popen", Done)
    file = str(tmp_path / "small.toml")
    made = load_grid(file, overrides=["env.name=./tools.py:bistro"])
    path = new_run_dir(tmp_path, made.cells[1].name)
    RunDirectory.create(path, made.config(made.cells[1]))
    now = ["env.name=/new/tools.py:bistro", "synthesis.drain_seconds=9.0"]
    moved = load_grid(file, overrides=now)
    assert verb._one(moved, moved.cells[1], tmp_path, alone=True) == 0
    resume, folder, *settings = begun[0][4:]
    assert (resume, folder) == ("--resume", str(path))
    assert {*(f"--{text}" for text in now), "--model.threads=1"} <= {*settings}
    words = [text.removeprefix("--") for text in settings]
    resumed = RunDirectory.resume(path, with_overrides(made.config(made.cells[1]), words))
    assert resumed.config.synthesis.drain_seconds == 9 and resumed.config.model.threads == 1


@pytest.mark.slow
def test_an_arm_of_static_variants_makes_them_once_and_trains_on_them(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    text = FILE.replace('curriculum = "static"', 'curriculum = "static"\nstatic_variants = 5')
    (tmp_path / "small.toml").write_text(text)
    grid = load_grid(str(tmp_path / "small.toml"))
    commands: list[list[str]] = []

    class Done:
        def __init__(self, command: list[str], **_: Any) -> None:
            commands.append(command[3:])

        def wait(self) -> int:
            return 0

    monkeypatch.setattr(verb, "Popen", Done)
    assert verb._one(grid, grid.cells[0], tmp_path, True) == 0
    synth, train = commands[:2]
    assert synth[0] == "synth" and synth[synth.index("--n") + 1] == str(5 * 24)
    target = tmp_path / "fixed-0.variants.jsonl"
    assert synth[synth.index("--out") + 1] == str(target)
    queue = tmp_path / f"{target.name}.synthesis" / "synthesis.sqlite"
    queue.parent.mkdir()
    queue.touch()
    assert verb._one(grid, grid.cells[0], tmp_path, True) == 0
    assert commands[2][commands[2].index("--resume") + 1] == str(target), "what a kill left resumes"
    assert train[0] == "train" and f'--static.variants=["{target}"]' in train
    assert "--model.threads=1" in train


def test_a_dry_run_shows_variants_that_are_made_before(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    file = tmp_path / "small.toml"
    file.write_text(
        FILE.replace('curriculum = "static"', 'curriculum = "static"\nstatic_variants = 5')
    )
    words = ["experiment", str(file), "--arms", "rods, fixed", "--dry-run", "--json"]
    assert program(*words, "--out", str(tmp_path / "runs"), monkeypatch=monkeypatch) == 0
    fixed, rods = json.loads(capsys.readouterr().out)
    assert fixed["settings"][-1] == "static_variants=5" and "static" not in rods["settings"][-1]
    assert program(*words, "--seed", "3", monkeypatch=monkeypatch) == 2
    assert "--seeds 0,1" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("wrong", "why"),
    [
        ('stages.0.reward = "rewards.py:brif"', "no 'brif'. It has 'brief'"),
        ('model.dialect = "torrl"', "'torrl'. Did you mean 'torl'?"),
    ],
)
def test_a_name_that_means_nothing_is_refused_before_the_first_run(
    wrong: str,
    why: str,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "rewards.py").write_text("def brief(task, trajectory): ...\n")
    (tmp_path / "grid.toml").write_text(f'recipe = "torl"\narms.fixed = {{}}\narms.mine.{wrong}\n')
    assert program("experiment", "grid.toml", "--dry-run", monkeypatch=monkeypatch) == 2
    shown = capsys.readouterr().err
    assert "arm 'mine'" in shown and why in shown
    assert (
        program("experiment", "grid.toml", "--arms", "fixed", "--dry-run", monkeypatch=monkeypatch)
        == 0
    )


def test_a_run_has_the_settings_that_its_arm_states(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """A writer that is named works alone; otherwise no finished run would be the arm's."""
    (tmp_path / "small.toml").write_text(f'{FILE}synthesis.writer = "resample"\n')
    words = [str(tmp_path / "small.toml"), "--dry-run", "--json", "--out", str(tmp_path / "runs")]
    assert program("experiment", *words, monkeypatch=monkeypatch) == 0
    rods = json.loads(capsys.readouterr().out)[1]["settings"]
    trained = writer_overrides([f"--{text}" for text in rods])
    assert load_config("rods", "small", trained) == load_config("rods", "small", rods)


LONG = "import pathlib, sys, time; pathlib.Path(sys.argv[1]).touch(); time.sleep(300)"


def test_sigterm_ends_the_runs_too(tmp_path: Path) -> None:
    """A batch system signals the program that it started, not the runs of that one."""
    (tmp_path / "small.toml").write_text(FILE)
    code = f"""
import sys
from rods.cli import experiment, main
from subprocess import Popen
words = [sys.executable, "-c", {LONG!r}, "begun"]
experiment.Popen = lambda command, **how: Popen(words, **how)
sys.argv = ["rods", "experiment", "small.toml", "--out", "runs"]
main.main()
"""
    command = [sys.executable, "-c", code]
    started = subprocess.Popen(command, cwd=tmp_path, stderr=subprocess.PIPE, text=True)
    begun = time.monotonic()
    while not (tmp_path / "begun").exists() and time.monotonic() < begun + 200:
        time.sleep(0.1)
    started.terminate()
    _, said = started.communicate(timeout=200)
    assert started.returncode == 130 and "The same command resumes" in said, said
    assert not [one for one in processes().values() if LONG in one.words]


# -- results -------------------------------------------------------------------------------------


@pytest.mark.slow
def test_tasks_are_averaged_over_seeds_and_paired_by_scenario(grid: Grid, runs: Path) -> None:
    found = Experiment.of(grid, runs)
    assert [arm.name for arm in found.arms] == ["fixed", "rods"] and found.notes == ()
    ends = {
        name: [load_run(runs / f"{name}-{seed}").evaluation("after") for seed in (0, 1)]
        for name in ("fixed", "rods")
    }
    rows = [r for r in ends["rods"][0].rows if r.set == "variant"]  # type: ignore[union-attr]

    def averaged(name: str) -> list[float]:
        by_task = [{r.task_id: r for r in e.rows} for e in ends[name]]  # type: ignore[union-attr]
        values = [[rows[row.task_id].values["greedy_progress"] for rows in by_task] for row in rows]
        return [sum(v) / len(v) for v in values]

    expected = paired_difference(
        averaged("fixed"), averaged("rods"), [row.scenario for row in rows]
    )
    cell = found.arms[1].cell(TaskSubset("variant"), "greedy_progress")
    assert cell.against == expected and expected is not None and expected.clusters == 30
    assert found.arms[0].cell(TaskSubset("variant"), "greedy_progress").against is None
    assert found.arms[1].ahead == "2 of 2"


@pytest.mark.slow
def test_what_seeds_differ_by_has_an_interval_of_its_own(grid: Grid, runs: Path) -> None:
    fixed, rods = Experiment.of(grid, runs).arms
    variants, originals = TaskSubset("variant"), TaskSubset("original")
    assert fixed.by_seed == {} and fixed.over_seeds(variants, "greedy_progress") is None
    first, second = rods.by_seed["variant"]["greedy_progress"]
    for seed, found in enumerate((first, second)):
        after = [pooled([load_run(runs / f"{arm}-{seed}")], "after") for arm in ("fixed", "rods")]
        means = [
            statistics.fmean(r.values["greedy_progress"] for r in e.rows if r.set == "variant")
            for e in after
        ]
        assert found == pytest.approx(means[1] - means[0])
    assert rods.by_seed["original"]["progress"] != rods.by_seed["variant"]["progress"]
    assert rods.over_seeds(originals, "progress") != rods.over_seeds(variants, "progress")
    over = rods.over_seeds(variants, "greedy_progress")
    assert over is not None and over.mean == pytest.approx((first + second) / 2)
    # Two values: half their distance times the quantile of one degree of freedom.
    assert over.half_width == pytest.approx(12.706 * abs(first - second) / 2, rel=1e-3)
    assert "seed by seed" in text_of(Experiment.of(grid, runs))


@pytest.mark.slow
def test_any_arm_may_be_compared_with(tmp_path: Path, grid: Grid, runs: Path) -> None:
    file = str(tmp_path / "small.toml")
    turned = load_grid(file, arms=["fixed"], baseline="rods")
    assert [arm.name for arm in turned.arms] == ["fixed", "rods"] and turned.baseline == "rods"
    there, back = (Experiment.of(g, runs).arms for g in (grid, turned))
    assert back[0].by_seed["variant"]["greedy_progress"] == pytest.approx(
        [-d for d in there[1].by_seed["variant"]["greedy_progress"]]
    )
    with pytest.raises(ConfigError, match="Did you mean 'rods'"):
        load_grid(file, baseline="rod")


def test_pooled_values_are_means_of_the_tasks_that_all_seeds_have(runs: Path) -> None:
    one, other = load_run(runs / "rods-0"), load_run(runs / "fixed-0")
    rows = pooled([one, other], "after").rows
    mine = one.evaluation("after")
    theirs = other.evaluation("after")
    assert mine is not None and theirs is not None
    for row, a, b in zip(rows, mine.rows, theirs.rows, strict=True):
        assert row.task_id == a.task_id == b.task_id
        assert row.values["progress"] == pytest.approx(
            (a.values["progress"] + b.values["progress"]) / 2
        )


@pytest.mark.slow
def test_the_table_fits_a_terminal_and_shows_both_ways(grid: Grid, runs: Path) -> None:
    text = text_of(Experiment.of(grid, runs))
    assert max(map(len, text.splitlines())) <= 80 and "…" not in text
    assert text.index("Held-out variants") < text.index("Held-out original tasks")
    assert "greedy" in text and "sampled" in text and "2 of 2" in text


@pytest.mark.slow
def test_what_is_missing_or_unfair_is_said(grid: Grid, runs: Path) -> None:
    shutil.rmtree(runs / "rods-1")
    path = write_run(runs / "rods-0", 0, 24)
    text = (path / "metrics.jsonl").read_text().replace("variant-7", "variant-x")
    (path / "metrics.jsonl").write_text(text)
    notes = " ".join(Experiment.of(grid, runs).notes)
    for part in (
        "not finished, and left out: rods-1",
        "different budgets of trajectories: fixed 1536, rods 3072",
        "did not start from the same policy",
        "not evaluated on the same held-out tasks",
        "the arms have different seeds: fixed 0, 1; rods 0. A difference is of the seeds that both",
    ):
        assert part in notes, notes
    with pytest.raises(StoreError, match="no run of the experiment"):
        Experiment.of(grid, runs / "nowhere")


def test_runs_of_other_settings_and_notes_of_runs_are_named(grid: Grid, runs: Path) -> None:
    """`--show` reads what is there, whatever the file or the command line says by now."""
    assert Experiment.of(grid, runs).notes == ()
    manifest = runs / "rods-1" / "manifest.json"
    made = json.loads(manifest.read_text())
    made["config"]["stages"][1]["epochs"] = 9
    manifest.write_text(json.dumps(made))
    with (runs / "fixed-0" / "metrics.jsonl").open("a") as log:
        log.write("not a record\n")
    other, damaged = Experiment.of(grid, runs).notes
    assert other == "rods-1 was trained with other settings: stages.1.epochs: 5 -> 9."
    assert damaged.startswith("fixed (fixed-0): metrics.jsonl:") and "left out" in damaged


@pytest.mark.slow
def test_the_page_is_whole_and_escapes_what_it_is_given(grid: Grid, runs: Path) -> None:
    page = Experiment.of(grid, runs).write(runs / "experiment.html").read_text()
    for part in (
        "Held-out variants",
        "Progress, greedy",
        "human-written messages",
        "Budgets",
        "data-figure",
    ):
        assert part in page, part
    assert "&#34;random&#34;" in page and "http://" not in page


# -- what the arms need --------------------------------------------------------------------------


def test_dynamic_sampling_counts_groups_whose_valid_scores_differ() -> None:
    equal = [Score(0.5), Score(0.5), Score(0.0, valid=False)]
    assert not has_variance(equal) and not has_variance([])
    assert has_variance([*equal, Score(1.0)])
    assert not has_variance([Score(0.1 + 0.2), Score(0.3)]), "no advantage comes of rounding"


def questions(*overrides: str) -> RunConfig:
    told = ["env.name=python_tool", "env.questions.count=40", "env.train_tasks=6", *overrides]
    return load_config("rods", "small", told)


def test_a_fixed_pool_holds_variants_made_before_but_none_of_held_out_scenarios(
    tmp_path: Path,
) -> None:
    from rods.assemble.tasks import splits_of

    sides = splits_of(questions())
    parent = sides.originals[0]
    made = [
        replace(task, provenance=replace(task.provenance, ancestors=(parent.id,), recipe="family"))
        for task in (sides.train[-1], sides.held_out[0])
    ]
    ours, theirs = tmp_path / "ours.jsonl", tmp_path / "theirs.jsonl"
    write_tasks(ours, made[:1])
    write_tasks(theirs, made)
    fixed = ["curriculum=static", f"static.variants=[{json.dumps(str(ours))}]"]
    assert [*splits_of(questions(*fixed)).originals] == [*sides.originals, made[0]]
    with pytest.raises(ConfigError, match=r"static\.variants.*holds out.*env\.held_out"):
        splits_of(questions(fixed[0], f"static.variants=[{json.dumps(str(theirs))}]"))
    # One turn of a held-out scenario, or a held-out ancestor, is enough.
    beside = (sides.train[-1].provenance.scenario, sides.held_out[0].provenance.scenario)
    for changed in ({"scenarios": beside}, {"ancestors": (sides.held_out[0].id,)}):
        foreign = replace(made[0], provenance=replace(made[0].provenance, **changed))
        write_tasks(theirs, [foreign])
        with pytest.raises(ConfigError, match=r"static\.variants.*holds out"):
            splits_of(questions(fixed[0], f"static.variants=[{json.dumps(str(theirs))}]"))
    # `rods synth` keeps away from held-out questions, whatever seeds it is given.
    assert _sources(questions(), ours, None, stages=False)[1].held_out == sides.held_out
    with pytest.raises(ConfigError, match="fixed pool"):
        questions(fixed[1])


def test_a_fixed_pool_of_the_papers_split_holds_variants_made_before(tmp_path: Path) -> None:
    """Its scenarios are in both splits; every variant was refused as held out."""
    from rods.assemble.tasks import splits_of

    papers = ["env.bfcl.split=paper", "curriculum=static"]
    sides = splits_of(load_config("rods", "small", papers))
    seed = sides.train[0]
    origin = replace(seed.provenance, ancestors=(seed.id,), recipe="resample:rename")
    made = replace(seed, turns=seed.turns[:1], provenance=origin)
    assert origin.scenario in {task.provenance.scenario for task in sides.held_out}
    write_tasks(tmp_path / "made.jsonl", [made])
    papers.append(f"static.variants=[{json.dumps(str(tmp_path / 'made.jsonl'))}]")
    assert splits_of(load_config("rods", "small", papers)).originals[-1] == made


TINY = """
profile = "small"
seeds = [0]
baseline = "fixed"

[settings]
updates = 2
trajectories = 8
env.train_tasks = 4
rollout.k = 2
rollout.tasks_per_step = 2
rollout.generated_tokens = 96
rollout.step_tokens = 48
evaluation.tasks = 2
evaluation.variants = 1
evaluation.samples = 1
model.threads = 1
stages = [{name = "all", epochs = 50, expand = true}]

[arms.fixed]
curriculum = "static"

[arms.offline]
curriculum = "static"
static_variants = 1
train.filter = "dapo"
train.filtering.redraw = 1
"""


@pytest.mark.slow
def test_a_real_grid_runs_and_is_kept(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """Its runs are forks, without the imports that a process of their own would need."""

    class Forked:
        def __init__(self, command: list[str], stdout: Any, **_: Any) -> None:
            self.done = forked.run(command[1:], tmp_path)
            stdout.write(self.done.stdout + self.done.stderr)

        def wait(self) -> int:
            return self.done.returncode

    (tmp_path / "tiny.toml").write_text(TINY)
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(verb, "Popen", Forked)
    words, made = ["experiment", "tiny.toml", "--out", "runs"], []
    for _ in range(2):
        status = program(*words, monkeypatch=monkeypatch)
        logs = "".join(path.read_text() for path in (tmp_path / "runs").glob("*.log"))
        made.append(capsys.readouterr())
        assert status == 0, made[-1].err + logs
    assert "0 of 2 runs are finished" in made[0].err
    assert "2 of 2 runs are finished" in made[1].err and made[0].out == made[1].out
    offline = load_run(tmp_path / "runs" / "offline-0")
    assert {j.origin for _, j in offline.judgements} == {"original", "variant"}
    spent = {name: load_run(tmp_path / "runs" / f"{name}-0") for name in ("fixed", "offline")}
    assert all(8 <= run.total("trajectories") <= 14 for run in spent.values())


# -- on the way ----------------------------------------------------------------------------------


def evaluated(path: Path, when: str, value: float) -> None:
    """Append an evaluation of two variants with this greedy progress to a run."""
    rows = [
        {"task_id": f"t{n}", "category": "base", "set": "variant", "scenario": f"s{n}",
         "greedy_progress": [value + n], "progress": [value + n]}
        for n in (-0.01, 0.01)
    ]  # fmt: skip
    with (path / "metrics.jsonl").open("a") as out:
        out.write(json.dumps({"kind": "eval", "step": 99, "when": when, "rows": rows}) + "\n")


def without_evaluations(path: Path) -> None:
    lines = (path / "metrics.jsonl").read_text().splitlines(keepends=True)
    kept = [line for line in lines if json.loads(line)["kind"] != "eval"]
    (path / "metrics.jsonl").write_text("".join(kept))


@pytest.mark.slow
def test_the_level_of_the_baseline_is_reached_after_so_many_trajectories(
    grid: Grid, runs: Path
) -> None:
    levels = {"fixed": (0.2, 0.4, 0.5, 0.4), "rods": (0.2, 0.6, 0.7, 0.8)}
    for cell in grid.cells:
        path = runs / cell.name
        without_evaluations(path)
        for when, value in zip(("before", "update 4", "update 8", "after"), levels[cell.arm.name],
                               strict=True):  # fmt: skip
            evaluated(path, when, value)
    found = Experiment.of(grid, runs)
    steps = found.arms[0].runs[0].steps
    spent = {n: sum(r.numbers["trajectories"] for r in steps if r.step <= n) for n in (4, 8)}
    metric, best, reached = found.reached[0]
    assert metric == "greedy_progress" and best == pytest.approx(0.5)
    assert reached["fixed"] == pytest.approx(spent[8])
    assert reached["rods"] == pytest.approx(spent[4] * (0.5 - 0.2) / (0.6 - 0.2))
    assert "Trajectories until the best level of fixed" in " ".join(text_of(found).split())
    page = found.write(runs / "page.html").read_text()
    assert "Held out: progress greedy" in page and "until the best level" in page


def test_a_level_that_is_never_reached_is_said_so() -> None:
    curve = [Point(0, 0.1), Point(64, 0.3)]
    assert trajectories_to(curve, 0.4) is None
    assert trajectories_to(curve, 0.1) == 0
    assert trajectories_to(curve, 0.2) == pytest.approx(32)


@pytest.mark.slow
def test_without_evaluations_on_the_way_nothing_is_said_of_levels(grid: Grid, runs: Path) -> None:
    found = Experiment.of(grid, runs)
    assert not found.reached and "best level" not in " ".join(text_of(found).split())
