"""Two runs or more, side by side. Owns what may be compared, and says where it is not fair.

The first run is the baseline. Differences after training are paired task by task, over the tasks
that both runs evaluated; without common tasks there is no difference, and the reader is told.

    comparison = compare_runs([Path("runs/static"), Path("runs/rods")])
    Console().print(comparison.table(), *comparison.warnings)
    comparison.write(Path("compare.html"))
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence, Set
from dataclasses import dataclass
from pathlib import Path
from string import ascii_uppercase
from typing import NamedTuple

from rich.table import Column, Table
from rich.text import Text

from rods.errors import StoreError
from rods.report import heldout
from rods.report.build import details, identity, write_page
from rods.report.heldout import LEADING, SETS, Key, MetricCell, TaskSubset
from rods.report.panels import colours_of, landing_of, overlays
from rods.report.results import change, heading, mean, plain_table
from rods.report.run_data import RunData
from rods.report.summary import runs_at

BUDGET = (
    "updates",
    "minutes",
    "rollout.k",
    "rollout.tasks_per_step",
    "rollout.generated_tokens",
    "env.train_tasks",
)
"""Settings that decide how much a run may spend."""
SHOWN = 3
"""Ids that are named of tasks which only one run has."""


class ComparisonRow(NamedTuple):
    """One metric on one part of one set; a cell for each run."""

    part: TaskSubset
    metric: str
    cells: Sequence[MetricCell]


@dataclass(frozen=True, slots=True)
class Comparison:
    """Runs side by side."""

    runs: tuple[RunData, ...]
    labels: tuple[str, ...]
    """A letter and the name of each run, unique."""
    rows: tuple[ComparisonRow, ...]
    facts: tuple[tuple[str, tuple[str, ...]], ...]
    """Name of a number, and one text a run."""
    warnings: tuple[str, ...]
    differing: tuple[tuple[str, tuple[str, ...]], ...]
    """Settings whose values differ: dotted key, one text a run."""

    def table(self) -> Table:
        """Results and numbers for a terminal; the warnings are for the caller to say."""
        table = plain_table(
            "Held-out results after training (gain over before; difference to A)",
            "\N{PLUS-MINUS SIGN}: half of the paired 95 % interval, by scenario",
            Column("", max_width=24),
            *(Column(Text(n, overflow="fold"), justify="right", min_width=19) for n in self.labels),
            padding=(0, 1),
        )
        for name in SETS:
            for part, metric, cells in self.rows:
                if part == TaskSubset(name) and metric in LEADING:
                    what = f"{heading(metric, ', ')}\n{SETS[name].lower()}"
                    table.add_row(Text(what), *map(_cell_text, cells))
        table.add_section()
        for name, values in self.facts:
            table.add_row(Text(name, style="dim"), *[Text(v) for v in values])
        return table

    def write(self, out: Path) -> Path:
        """Write one self-contained page and return its path; raises `StoreError` if it cannot."""
        context = {
            "comparison": self,
            "colours": colours_of(self.runs),
            "identities": [dict(identity(run)) for run in self.runs],
            "curves": overlays(self.runs, self.labels),
        }
        return write_page(out, "compare.html.j2", context)


def compare_runs(paths: Sequence[Path]) -> Comparison:
    """Read runs and summaries of runs and set them side by side; the first is the baseline.

    Raises:
        StoreError: fewer than two runs were given, or one cannot be read.
    """
    runs = tuple(run for path in paths for run in runs_at(path))
    if len(runs) < 2:
        raise StoreError(f"a comparison needs two runs or more, got {len(runs)}.")
    labels = tuple(f"{_letter(i)}: {run.name}" for i, run in enumerate(runs))
    facts, differing = list(map(_facts, runs)), _differing(runs)
    named = tuple((name, tuple(mine[name] for mine in facts)) for name in facts[0])
    warnings = tuple(_warnings(runs, labels, dict(differing)))
    return Comparison(runs, labels, tuple(_rows(runs)), named, warnings, differing)


def _cell_text(cell: MetricCell) -> Text:
    lines = [Text(mean(cell.after))]
    if cell.difference:
        lines.append(Text.assemble("gain ", change(cell.difference)))
    if cell.against:
        lines.append(Text.assemble("to A ", change(cell.against)))
    return Text("\n").join(lines)


def _rows(runs: Sequence[RunData]) -> list[ComparisonRow]:
    first = runs[0].last_evaluation
    found = [heldout.compared((runs[0].evaluation("before"), first))]
    for run in runs[1:]:
        last = run.last_evaluation
        found.append(heldout.compared((run.evaluation("before"), last), (first, last)))
    parts, metrics = heldout.parts_and_metrics(found)
    return [
        ComparisonRow(part, m, [cells.get((part, m), MetricCell()) for cells in found])
        for part in parts
        for m in metrics
    ]


def _facts(run: RunData) -> dict[str, str]:
    landing, quarters = landing_of(run), map(run.quarters, ("zero_variance", "entropy"))
    late = [f"{found[1]:.3f}" if found else "-" for found in quarters]
    return {
        "updates": str(len(run.steps)),
        "trajectories": f"{run.total('trajectories'):.0f}",
        "generated tokens": f"{run.total('tokens_generated'):.0f}",
        "groups without variance, last quarter": late[0],
        "entropy, last quarter": late[1],
        "variants injected": str(run.injected),
        "variants retired": str(run.retired),
        "mean reward of new variants, median": f"{landing.median:.2f}" if landing else "-",
    }


def _differing(runs: Sequence[RunData]) -> tuple[tuple[str, tuple[str, ...]], ...]:
    configs = [run.manifest.get("config") for run in runs]
    settings = [details(c) if isinstance(c, dict) else {} for c in configs]
    names = dict.fromkeys(key for s in settings for key in s)
    found = [(key, tuple(s.get(key, "-") for s in settings)) for key in names]
    return tuple((key, values) for key, values in found if len(set(values)) > 1)


def _warnings(
    runs: Sequence[RunData], labels: Sequence[str], differing: Mapping[str, Sequence[str]]
) -> list[str]:
    found = [f"{key} differs: {', '.join(differing[key])}." for key in BUDGET if key in differing]
    found += heldout.uneven_budgets("runs", [[run] for run in runs], [""] * len(runs))
    if any(key.startswith("stages.") for key in differing):
        found.append("the stages of the curriculum differ.")
    for name in ("seed", "profile", "split_hash", "template_hash", "rods"):
        values = [str(run.manifest.get(name, run.setting(name))) for run in runs]
        if len(set(values)) > 1:
            found.append(f"{name.replace('_', ' ')} differs: {', '.join(values)}.")
    if any(key.startswith("evaluation.") for key in differing):
        found.append("the runs were evaluated differently.")
    found += _not_shared(runs, labels)
    for run, label in zip(runs, labels, strict=True):
        found += [f"{label}: {note}" for note in run.notes]
    return found


def _not_shared(runs: Sequence[RunData], labels: Sequence[str]) -> list[str]:
    """Which run has which held-out tasks, where they are not those of the first run."""
    first, found = heldout.by_key(runs[0].last_evaluation), list[str]()
    for run, label in zip(runs[1:], labels[1:], strict=True):
        theirs = heldout.by_key(run.last_evaluation)
        if not first or not theirs or first.keys() == theirs.keys():
            continue  # one that was not evaluated says so itself
        common = len(first.keys() & theirs.keys())
        alone = (
            f"{name} alone has {_named(mine.keys() - other.keys())}"
            for name, mine, other in ((labels[0], first, theirs), (label, theirs, first))
        )
        so = "differences are of those" if common else "there is no difference to show"
        found.append(
            f"{labels[0]} and {label} have {common or 'no'} evaluated "
            f"task{'s' if common > 1 else ''} in common, so {so}; {'; '.join(alone)}."
        )
    return found


def _named(keys: Set[Key]) -> str:
    """How many tasks of each set, with the first ids."""
    sets = {name: sorted(task for kind, task in keys if kind == name) for name, _ in keys}
    listed = [
        f"{len(ids)} {SETS.get(name, name).lower()} ({', '.join(ids[:SHOWN])}"
        f"{', ...' if len(ids) > SHOWN else ''})"
        for name, ids in sorted(sets.items())
    ]
    return " and ".join(listed) or "none"


def _letter(index: int) -> str:
    return f"{ascii_uppercase[index % 26]}{index // 26 or ''}"
