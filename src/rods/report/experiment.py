"""Runs side by side, as one table and one page: those of an experiment, or any (`compare.py`).

Owns how seeds are pooled: every task's value is averaged over an arm's seeds, then tasks are paired
and clustered by scenario as in every other table. An arm is set against the baseline over the seeds
that both have finished. That interval speaks of other scenarios, not of other seeds, so the mean of
the differences by seed stands beside it with an interval of its own.

    found = Experiment.of(grid, Path("runs/bfcl"))
    Console().print(found.table())
    found.write(Path("runs/bfcl/experiment.html"))
"""

from __future__ import annotations

import math
import statistics
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import chain
from pathlib import Path

from rich.console import Group
from rich.table import Column, Table
from rich.text import Text

from rods.errors import StoreError
from rods.evaluation.grid import Grid
from rods.evaluation.stats import Interval, mean_ci
from rods.report import heldout
from rods.report.build import span, write_page
from rods.report.heldout import METRICS, MetricCell, Point, ResultRow, TaskSubset
from rods.report.panels import Figure, colors_of, overlay, overlays
from rods.report.plots import Axes, Series
from rods.report.results import NONE, change, heading, mean, numbers, plain_table, spread
from rods.report.run_data import EvalRow, EvaluationPass, RunData, StepRow, load_run
from rods.report.summary import SUFFIX, read_summary
from rods.store import MANIFEST
from rods.types import Json


@dataclass(frozen=True, slots=True)
class ArmResult:
    """One arm's finished runs."""

    name: str
    overrides: tuple[str, ...]
    runs: Mapping[int, RunData]
    """By seed."""
    rows: Sequence[ResultRow]
    by_seed: Mapping[str, Mapping[str, tuple[float, ...]]]
    """For each set, then each metric: this arm after training minus the baseline, for each seed
    that both have; empty for the baseline."""

    @classmethod
    def of(
        cls,
        name: str,
        overrides: Sequence[str],
        mine: Mapping[int, RunData],
        base: Mapping[int, RunData],
    ) -> ArmResult:
        """Set an arm's runs against the baseline's, which are empty for the baseline itself."""
        common = sorted(mine.keys() & base.keys())
        runs = [*mine.values()]
        rows = heldout.result_rows(
            pooled(runs, "before"),
            pooled(runs, "after"),
            pooled([base[seed] for seed in common], "after"),
            pooled([mine[seed] for seed in common], "after"),
        )
        return cls(name, tuple(overrides), mine, rows, _by_seed(mine, base))

    def cell(self, part: TaskSubset, metric: str) -> MetricCell:
        """What was measured of some tasks; empty where nothing was."""
        row = next((row for row in self.rows if row.part == part), None)
        return row.cells[metric] if row else MetricCell()

    @property
    def seeds(self) -> list[Json]:
        """Seed of each run, None: unknown; a baseline's only run, against all seeds, is one."""
        runs = {id(run): run for run in self.runs.values()}.values()
        return [run.manifest.get("seed", run.setting("seed")) for run in runs]

    @property
    def ahead(self) -> str:
        """In how many of the common seeds its greedy (else sampled) progress on variants (else
        originals) ends above the baseline's; empty for the baseline."""
        first = next((next(iter(found.values())) for found in self.by_seed.values()), ())
        return f"{sum(d > 0 for d in first)} of {len(first)}" if first else ""

    def over_seeds(self, part: TaskSubset, metric: str) -> Interval | None:
        """Mean of the differences by seed, with its 95 % t interval; None below two seeds."""
        return mean_ci(self.by_seed.get(part.set, {}).get(metric, ()))

    @property
    def budget(self) -> list[tuple[str, str]]:
        """What a run spent, and what came of it: name and mean over seeds with its range."""
        runs = [run for run in self.runs.values() if run.manifest or run.steps]
        took = [run.seconds for run in runs if run.seconds is not None]
        late = [shares[1] for run in runs if (shares := run.quarters("zero_variance"))]
        return [
            ("updates", spread([len(run.steps) for run in runs])),
            ("trajectories", spread([run.total("trajectories") for run in runs])),
            ("tokens", spread([run.total("tokens_generated") for run in runs])),
            ("no variance", spread(late)),
            ("injected", spread([run.injected for run in runs])),
            ("retired", spread([run.retired for run in runs])),
            ("time", span(statistics.fmean(took)) if took else "-"),
        ]


@dataclass(frozen=True, slots=True)
class Experiment:
    """All arms that have finished runs."""

    name: str
    baseline: str
    arms: tuple[ArmResult, ...]
    notes: tuple[str, ...]
    """What is missing or not fair, in sentences."""

    @classmethod
    def of(cls, grid: Grid, folder: Path) -> Experiment:
        """Read the finished runs of a grid, from run folders and from summaries of arms.

        Raises:
            StoreError: none is finished, or a summary is damaged.
        """
        files = [folder / f"{arm.name}{SUFFIX}" for arm in grid.arms]
        kept = {run.name: run for file in files if file.is_file() for run in read_summary(file)}
        runs: dict[str, dict[int, RunData]] = {arm.name: {} for arm in grid.arms}
        missing: list[str] = []
        notes: list[str] = []
        for cell in grid.cells:
            path = folder / cell.name
            run = load_run(path) if (path / MANIFEST).is_file() else kept.get(cell.name)
            if run is None or not (run.manifest.get("finished") and run.evaluation("after")):
                missing.append(cell.name)
                continue
            runs[cell.arm.name][cell.seed] = run
            if other := "; ".join(grid.differing(cell, run.manifest.get("config"))):
                notes.append(f"{cell.name} was trained with other settings: {other}.")
        if not any(runs.values()):
            raise StoreError(f"{folder}: no run of the experiment {grid.name!r} is finished yet.")
        base = {arm: runs[grid.baseline] for arm in runs if arm != grid.baseline}
        done = [arm for arm in grid.arms if runs[arm.name]]
        arms = [ArmResult.of(a.name, a.settings, runs[a.name], base.get(a.name, {})) for a in done]
        left = [f"not finished, and left out: {', '.join(missing)}."] if missing else []
        return cls(grid.name, grid.baseline, tuple(arms), (*left, *notes, *_unfair(arms)))

    @property
    def reached(self) -> list[tuple[str, float, dict[str, float | None]]]:
        """For each metric of the first set: the baseline's best level, and after how many
        trajectories each arm reached it (mean over seeds; None: not). Empty where nothing was
        evaluated on the way."""
        found: list[tuple[str, float, dict[str, float | None]]] = []
        for metric in self.metrics:
            curves = {arm.name: self._curve(arm, metric) for arm in self.arms}
            best = max((p.value for p in curves.get(self.baseline, [])), default=None)
            if best is not None and all(len(curve) > 2 for curve in curves.values()):
                spent = {arm: heldout.trajectories_to(curves[arm], best) for arm in curves}
                found.append((metric, best, spent))
        return found

    def _curve(self, arm: ArmResult, metric: str) -> list[Point]:
        return heldout.held_out_curve([*arm.runs.values()], self.parts[0].set, metric)

    def curves(self) -> list[Figure]:
        """Held-out results over trajectories, then the learning curves."""
        found: list[Figure] = []
        for metric, _, _ in self.reached:
            lines: list[Series] = []
            for arm, css in zip(self.arms, colors_of(self.arms), strict=True):
                spent, values, _ = zip(*self._curve(arm, metric), strict=True)
                lines.append(Series(arm.name, spent, values, css))
            title = f"Held out: {' '.join(METRICS[metric]).lower()}"
            caption = "Means over the seeds." if self.several else ""
            found.append(overlay(title, caption, lines, Axes("trajectories")))
        runs = [_mean_run(arm) for arm in self.arms]
        return [*found, *overlays(runs, [arm.name for arm in self.arms])]

    @property
    def parts(self) -> list[TaskSubset]:
        """Parts of the held-out tasks that any arm has values of, in their order."""
        return [*dict.fromkeys(row.part for arm in self.arms for row in arm.rows)]

    @property
    def metrics(self) -> list[str]:
        """What was measured, of those that tables lead with."""
        return heldout.measured(row for arm in self.arms for row in arm.rows)

    @property
    def is_apart(self) -> bool:
        """Whether the baseline and others were evaluated, but no other on one of its tasks."""
        rows = [row for arm in self.arms[1:] for row in arm.rows]
        both = bool(rows) and bool(self.arms[0].rows)
        return both and not any(cell.common for row in rows for cell in row.cells.values())

    @property
    def several(self) -> bool:
        """Whether any arm has several seeds."""
        return any(len(arm.runs) > 1 for arm in self.arms)

    @property
    def short(self) -> str:
        """Name of the baseline where there is little room."""
        return self.baseline.partition(":")[0]

    @property
    def repeated(self) -> list[tuple[TaskSubset, tuple[ArmResult, ...]]]:
        """For each set, the arms that share it with the baseline in at least two seeds."""
        sets = {part: self.arms for part in self.parts if not part.by}
        for part in sets:
            sets[part] = tuple(a for a in self.arms if any(a.over_seeds(part, m) for m in METRICS))
        return [(part, arms) for part, arms in sets.items() if arms]

    def table(self) -> Group:
        """Results and budgets for a terminal, 80 columns."""
        tables = [_results(self)]
        if self.repeated:
            tables.append(_seeds(self))
        tables.append(_budgets(self))
        if self.reached:
            tables.append(_reached(self))
        return Group(*tables)

    def write(self, out: Path) -> Path:
        """Write the page, self-contained; raises `StoreError` where it cannot be written."""
        note = heldout.WRITERS_NOTE if any(part.by == "writer" for part in self.parts) else ""
        context = {"experiment": self, "curves": self.curves(), "writers_note": note}
        return write_page(out, "experiment.html.j2", context)


# -- pooling -------------------------------------------------------------------------------------


def pooled(runs: Sequence[RunData], when: str) -> EvaluationPass:
    """One evaluation of several runs: each task's values averaged over those that all runs have.

    Of a run that is not finished, `after` is its last evaluation.
    """
    passes = [r.last_evaluation if when == "after" else r.evaluation(when) for r in runs]
    by_run = [heldout.by_key(evaluation) for evaluation in passes if evaluation]
    rows: list[EvalRow] = []
    for key, first in by_run[0].items() if by_run else ():
        same = [rows[key] for rows in by_run if key in rows]
        if len(same) == len(runs):
            shared = [name for name in first.values if all(name in row.values for row in same)]
            values = {n: math.fsum(row.values[n] for row in same) / len(same) for n in shared}
            rows.append(replace(first, values=values, samples=sum(row.samples for row in same)))
    return EvaluationPass(when, tuple(rows))


def _by_seed(
    mine: Mapping[int, RunData], base: Mapping[int, RunData]
) -> dict[str, dict[str, tuple[float, ...]]]:
    found: dict[str, dict[str, tuple[float, ...]]] = {}
    for seed in sorted(mine.keys() & base.keys()):
        rows = heldout.result_rows(base[seed].last_evaluation, mine[seed].last_evaluation)
        for row in (row for row in rows if not row.part.by):
            for metric in heldout.measured([row]):
                # Of the means, one may lack a task whose trajectory is invalid in that run alone.
                if difference := row.cells[metric].difference:
                    of = found.setdefault(row.part.set, {})
                    of[metric] = *of.get(metric, ()), difference.mean
    return found


def _mean_run(arm: ArmResult) -> RunData:
    """The arm's seeds as one run whose numbers are their means, step by step, for its curves."""
    steps: dict[int, list[StepRow]] = {}
    for row in chain.from_iterable(run.steps for run in arm.runs.values()):
        steps.setdefault(row.step, []).append(row)
    means: list[StepRow] = []
    for _, rows in sorted(steps.items()):
        if len(rows) == len(arm.runs):
            shared = set[str](rows[0].numbers).intersection(*(row.numbers for row in rows))
            numbers = {k: statistics.fmean(r.numbers[k] for r in rows) for k in sorted(shared)}
            means.append(replace(rows[0], numbers=numbers))
    first = next(iter(arm.runs.values()))
    return RunData(first.path, first.manifest, tuple(means))


def _unfair(arms: Sequence[ArmResult]) -> list[str]:
    by_arm = {arm.name: [*arm.runs.values()] for arm in arms}
    found = heldout.uneven_budgets("arms", [*by_arm.values()], [*by_arm])
    found += heldout.without_variants(by_arm)
    runs = [*chain.from_iterable(by_arm.values())]
    for when, what in (
        ("before", "the runs did not start from the same policy, or were evaluated differently"),
        ("after", "the runs were not evaluated on the same held-out tasks"),
    ):
        seen = [e for run in runs if (e := run.evaluation(when))]
        keys = [heldout.by_key(e).keys() for e in seen]
        same = all(k == keys[0] for k in keys)
        if same and when == "before":
            values = [{r.task_id: sorted(r.values.items()) for r in e.rows} for e in seen]
            same = all(v == values[0] for v in values)
        if not same:
            found.append(f"{what}.")
    return found + unequal_seeds(arms) + heldout.notes_of(by_arm)


def unequal_seeds(arms: Sequence[ArmResult]) -> list[str]:
    """A sentence about arms that do not all have the same seeds."""
    seeds = {arm.name: ", ".join(map(str, sorted(arm.runs))) for arm in arms}
    listed = "; ".join(f"{name} {of}" for name, of in seeds.items())
    what = f"the arms have different seeds: {listed}. A difference is of the seeds that both have."
    return [what] if len({*seeds.values()}) > 1 else []


# -- tables --------------------------------------------------------------------------------------


def _by_metric(found: Experiment, title: str, caption: str) -> Table:
    """A table with a column for each metric."""
    first = Column("", max_width=24)
    return plain_table(title, caption, first, *numbers(map(heading, found.metrics)))


def _results(found: Experiment) -> Table:
    title = f"Held-out results of {found.name}, after training"
    each = "this arm" if found.several else "this run"
    to = f" Minus {found.short}: {each} minus {found.short}, both after." * (len(found.arms) > 1)
    half = "\N{PLUS-MINUS SIGN}: half of the 95 % interval over scenarios, differences by task"
    caption = f"Gain: after minus before training.{to} {half}"
    over = ", each task averaged over seeds. " if found.several else ". "
    table = _by_metric(found, title, caption + over + NONE)
    for part in (part for part in found.parts if not part.by):
        table.add_section()
        known = [arm.cell(part, metric).after for arm in found.arms for metric in found.metrics]
        sizes = [after.n for after in known if after]
        tasks = " to ".join(str(n) for n in sorted({min(sizes), max(sizes)})) if sizes else "0"
        table.add_row(Text(f"{part.title} ({tasks} tasks)"), style="bold")
        for arm in found.arms:
            lines = ["  gain", f"  minus {found.short}"] if arm.ahead else ["  gain"]
            texts = [_cell(arm.cell(part, metric), arm.ahead != "") for metric in found.metrics]
            first = Text("\n".join([arm.name, *lines]), no_wrap=True, overflow="ellipsis")
            table.add_row(first, *texts)
    return table


def _cell(cell: MetricCell, compared: bool) -> Text:
    if not cell.before and not cell.after:
        return Text("-")
    lines = [Text(mean(cell.after)), change(cell.difference)]
    return Text("\n").join([*lines, change(cell.against)] if compared else lines)


def _seeds(found: Experiment) -> Table:
    title = f"Arm minus {found.baseline}, seed by seed"
    caption = "\N{PLUS-MINUS SIGN}: half of the 95 % t interval over seeds. "
    table = _by_metric(found, title, caption + NONE.replace("scenarios", "seeds"))
    for part, arms in found.repeated:
        table.add_section()
        table.add_row(Text(part.title), style="bold")
        for arm in arms:
            table.add_row(Text(arm.name), *(change(arm.over_seeds(part, m)) for m in found.metrics))
    return table


def _budgets(found: Experiment) -> Table:
    names = [name for name, _ in found.arms[0].budget if name not in ("injected", "retired")]
    ahead = ""
    if found.several:
        metrics = (m for arm in found.arms for of in arm.by_seed.values() for m in of)
        how = METRICS[next(metrics, "greedy_progress")][1]
        ahead = f" Ahead: seeds whose progress ({how}) ends above {found.baseline}."
    heads = ["seeds", *names, "ahead"] if found.several else names
    table = plain_table(
        "Budgets, mean over seeds" if found.several else "Budgets",
        "No variance: share of groups without variance in the last quarter of the updates." + ahead,
        "",
        *(Column(name, justify="right") for name in heads),
    )
    for arm in found.arms:
        figures = dict(arm.budget)
        texts = [figures[name].partition(" (")[0] for name in names]
        if found.several:
            texts = [str(len(arm.seeds)), *texts, arm.ahead or "-"]
        table.add_row(Text(arm.name), *texts)
    return table


def _reached(found: Experiment) -> Table:
    heads = [f"{heading(m, ' ')}\n{level:.3f}" for m, level, _ in found.reached]
    table = plain_table(
        f"Trajectories until the best level of {found.baseline} on the way",
        "Means over seeds, straight lines between evaluations.",
        "",
        *(Column(head, justify="right") for head in heads),
    )
    for arm in found.arms:
        spent = [by_arm[arm.name] for _, _, by_arm in found.reached]
        table.add_row(Text(arm.name), *("not" if s is None else f"{s:.0f}" for s in spent))
    return table
