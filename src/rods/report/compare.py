"""Two runs or more, side by side. Owns what may be compared, and says where it is not fair.

The first run is the baseline. Differences after training are paired task by task, over the tasks
that both runs evaluated; without common tasks there is no difference, and the reader is told.

    comparison = compare_runs([Path("runs/static"), Path("runs/rods")])
    Console().print(comparison.table(), *comparison.notes)
    comparison.write(Path("compare.html"))
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence, Set
from pathlib import Path
from string import ascii_uppercase

from rods.errors import StoreError
from rods.report import heldout
from rods.report.build import details
from rods.report.experiment import ArmResult, Experiment
from rods.report.heldout import SETS, Key
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


def compare_runs(paths: Sequence[Path]) -> Experiment:
    """Set runs, summaries and evaluations side by side; the first is the baseline.

    Raises:
        StoreError: fewer than two runs were given, or one cannot be read.
    """
    runs = [run for path in paths for run in runs_at(path)]
    if len(runs) < 2:
        raise StoreError(f"a comparison needs two runs or more, got {len(runs)}.")
    letters = (f"{ascii_uppercase[i % 26]}{i // 26 or ''}" for i in range(len(runs)))
    labels = [f"{letter}: {run.name}" for letter, run in zip(letters, runs, strict=True)]
    differing = _differing(runs)
    arms = [
        ArmResult.of(
            label,
            [f"{key}={values[i]}" for key, values in differing.items()],
            {0: run},
            {0: runs[0]} if i else {},
        )
        for i, (label, run) in enumerate(zip(labels, runs, strict=True))
    ]
    notes = _warnings(runs, labels, differing)
    return Experiment(f"{len(runs)} runs", labels[0], tuple(arms), tuple(notes))


def _differing(runs: Sequence[RunData]) -> dict[str, tuple[str, ...]]:
    """Settings whose values differ between runs that have any: dotted key, one text a run."""
    configs = [run.manifest.get("config") for run in runs]
    settings = [details(c) if isinstance(c, dict) else {} for c in configs]
    names = sorted({key for s in settings for key in s})
    known = {key: {s.get(key, "-") for s in settings if s} for key in names}
    return {k: tuple(s.get(k, "-") for s in settings) for k in names if len(known[k]) > 1}


def _warnings(
    runs: Sequence[RunData], labels: Sequence[str], differing: Mapping[str, Sequence[str]]
) -> list[str]:
    found = [f"{key} differs: {', '.join(differing[key])}." for key in BUDGET if key in differing]
    trained = [[run] for run in runs if run.manifest] or [runs]
    found += heldout.uneven_budgets("runs", trained, [""] * len(trained))
    if any(key.startswith("stages.") for key in differing):
        found.append("the stages of the curriculum differ.")
    for name in ("seed", "profile", "split_hash", "template_hash", "rods"):
        values = [str(r.manifest.get(name, r.setting(name))) for r in runs if r.manifest]
        if len(set(values)) > 1:
            found.append(f"{name.replace('_', ' ')} differs: {', '.join(values)}.")
    if any(key.startswith("evaluation.") for key in differing):
        found.append("the runs were evaluated differently.")
    found += _not_shared(runs, labels)
    notes: dict[str, list[str]] = {}
    for run, label in zip(runs, labels, strict=True):
        for note in run.notes:
            notes.setdefault(note, []).append(label)
    return found + [f"{', '.join(who)}: {note}" for note, who in notes.items()]


def _not_shared(runs: Sequence[RunData], labels: Sequence[str]) -> list[str]:
    """Which runs have which held-out tasks, where they are not those of the first run."""
    first, found = heldout.by_key(runs[0].last_evaluation), dict[tuple[int, str, str], list[str]]()
    for run, label in zip(runs[1:], labels[1:], strict=True):
        theirs = heldout.by_key(run.last_evaluation)
        if not first or not theirs or first.keys() == theirs.keys():
            continue  # one that was not evaluated says so itself
        common = len(first.keys() & theirs.keys())
        mine, other = (_named(a.keys() - b.keys()) for a, b in ((first, theirs), (theirs, first)))
        found.setdefault((common, mine, other), []).append(label)
    return [
        f"{labels[0]} and {(who := ', '.join(those))} have {common} of {len(first)} evaluated "
        f"tasks in common; only those have a difference. {labels[0]} alone has {mine}; {who} alone "
        f"has {other}."
        for (common, mine, other), those in found.items()
    ]


def _named(keys: Set[Key]) -> str:
    """How many tasks of each set, with the first ids."""
    sets = {name: sorted(task for kind, task in keys if kind == name) for name, _ in keys}
    listed = [
        f"{len(ids)} {SETS.get(name, name).lower()} ({', '.join(ids[:SHOWN])}"
        f"{', ...' if len(ids) > SHOWN else ''})"
        for name, ids in sorted(sets.items())
    ]
    return " and ".join(listed) or "none"
