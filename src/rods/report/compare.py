"""Runs, or arms of several runs, side by side. Owns what may be compared, and notes what is unfair.

The first is the baseline. Differences after training are paired task by task, over the tasks that
both evaluated; without common tasks there is no difference, and a note reports it.

    comparison = compare_runs(["fixed=runs/fixed-*", "rods=runs/rods-*"])
    Console().print(comparison.table(), *comparison.notes)
    comparison.write(Path("compare.html"))
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence, Set
from glob import glob
from pathlib import Path
from string import ascii_uppercase
from typing import Any

from rods.errors import StoreError
from rods.report import heldout
from rods.report.build import details
from rods.report.experiment import ArmResult, Experiment, unequal_seeds
from rods.report.heldout import SETS, Key
from rods.report.run_data import RunData
from rods.report.summary import is_read, runs_at

BUDGET = (
    *("updates", "minutes", "rollout.k", "rollout.tasks_per_step"),
    *("rollout.generated_tokens", "env.train_tasks"),
)
"""Settings that decide how much a run may spend."""
SHOWN = 3
"""Ids that are named of tasks which only one run has."""


def compare_runs(named: Sequence[str | Path]) -> Experiment:
    """Set runs, summaries and evaluations side by side; the first is the baseline.

    Args:
        named: paths, each run of which stands for itself, and arms: `NAME=PATH,PATH`, where a path
            may be a pattern. Arms are paired by the seeds of their runs; evaluations, whose seeds
            are not known, by their order.

    Raises:
        StoreError: fewer than two were given, one cannot be read, or arms cannot be paired.
    """
    arms = _arms(named)
    if len(arms) < 2:
        raise StoreError(f"a comparison needs two runs or more, or two arms; got {len(arms)}.")
    notes = _repeated(arms)  # before a baseline's only run stands against each of an arm
    by_seed = _seeds(arms)
    arms = {name: [runs[seed] for seed in sorted(runs)] for name, runs in by_seed.items()}
    differing = _differing([runs[0] for runs in arms.values()])
    labels = list(arms)
    results: list[ArmResult] = []
    for index, label in enumerate(labels):
        overrides = [f"{key}={values[index]}" for key, values in differing.items()]
        base = by_seed[labels[0]] if index else {}
        results.append(ArmResult.of(label, overrides, by_seed[label], base))
    notes += _warnings(arms, differing) + unequal_seeds(results)
    most = max(len(runs) for runs in arms.values())
    pairs = [(seed, run) for runs in by_seed.values() for seed, run in runs.items()]
    if most > 1 and any(_value(run, "seed") != seed for seed, run in pairs):
        rows = [" with ".join(arms[name][i].name for name in labels) for i in range(most)]
        notes.append(f"no seeds are known that all arms have; paired by order: {', '.join(rows)}.")
    if len(by_seed[labels[0]]) > len(results[0].seeds):
        notes.append(f"{labels[0]} is one run, so intervals over seeds cover no other seed of it.")
    what = "runs" if most == 1 else "arms"
    return Experiment(f"{len(arms)} {what}", labels[0], tuple(results), tuple(notes))


def _arms(named: Sequence[str | Path]) -> dict[str, list[RunData]]:
    arms: dict[str, list[RunData]] = {}
    for argument in map(str, named):
        name, is_arm, patterns = argument.partition("=")
        if is_arm and not Path(argument).exists():
            if not (name and all(patterns.split(","))):
                raise StoreError(f"{argument!r} lacks a name or a path; expected NAME=PATH,PATH.")
            globs = ((text, sorted(filter(is_read, glob(text)))) for text in patterns.split(","))
            paths = [path for text, found in globs for path in found or [text]]
            if name in arms:
                raise StoreError(
                    f"two arms are named {name!r}. Separate the paths of one by commas."
                )
            arms[name] = [run for path in paths for run in runs_at(Path(path))]
            continue
        for run in runs_at(Path(argument)):
            letter = f"{ascii_uppercase[len(arms) % 26]}{len(arms) // 26 or ''}"
            arms[f"{letter}: {run.name}"] = [run]
    return arms


def _seeds(arms: Mapping[str, Sequence[RunData]]) -> dict[str, dict[int, RunData]]:
    """Each arm's runs by seed, or by their order; a baseline of one run stands against each."""
    known = {name: [_value(run, "seed") for run in runs] for name, runs in arms.items()}
    sizes = {name: len(runs) for name, runs in arms.items()}
    most = max(sizes.values())
    distinct = all(None not in seeds and len({*seeds}) == len(seeds) for seeds in known.values())
    if distinct and most > 1 and set.intersection(*map(set, known.values())):
        return {name: dict(zip(known[name], runs, strict=True)) for name, runs in arms.items()}
    first, *others = sizes.values()
    if {*others} != {most} or first not in (1, most):
        raise StoreError(f"arms are paired run by run; expected as many runs of each, got {sizes}.")
    return {name: dict(enumerate([*runs] * (most // len(runs)))) for name, runs in arms.items()}


def _repeated(arms: Mapping[str, Sequence[RunData]]) -> list[str]:
    """Return a note on each run that stands in two arms, or twice in one."""
    all_runs = [(run.path.resolve(), name) for name, runs in arms.items() for run in runs]
    names = {path: [name for p, name in all_runs if p == path] for path, _ in all_runs}
    twice = ((path, who) for path, who in names.items() if len(who) > 1)
    return [f"one run counts {len(who)} times ({', '.join(who)}): {path}." for path, who in twice]


def _value(run: RunData, name: str) -> Any:
    """Return a value of the manifest or a setting; `None` where it is not known."""
    return run.manifest.get(name, run.setting(name))


def _settings(run: RunData) -> Mapping[str, str]:
    config = run.manifest.get("config")
    return details(config) if isinstance(config, dict) else {}


def _differing(runs: Sequence[RunData]) -> dict[str, tuple[str, ...]]:
    """Settings whose values differ between runs that have any: dotted key, one text a run."""
    settings = [_settings(run) for run in runs]
    keys = sorted({key for one in settings for key in one})
    differ = [key for key in keys if len({one.get(key, "-") for one in settings if one}) > 1]
    return {key: tuple(one.get(key, "-") for one in settings) for key in differ}


def _warnings(
    arms: Mapping[str, Sequence[RunData]], differing: Mapping[str, Sequence[str]]
) -> list[str]:
    budgets = [f"{key}: {', '.join(differing[key])}" for key in BUDGET if key in differing]
    found = [f"the budgets differ ({'; '.join(budgets)}), so this is not fair."] * bool(budgets)
    runs = [runs[0] for runs in arms.values()]
    trained = [mine for mine in arms.values() if mine[0].manifest] or [runs]
    found += heldout.uneven_budgets("runs", trained, [""] * len(trained))
    found += heldout.without_variants(arms)
    several = any(len(mine) > 1 for mine in arms.values())  # then a note lists seeds that differ
    if any(key.startswith("stages.") for key in differing):
        found.append("the stages of the curriculum differ.")
    for name in ("seed", "profile", "split_hash", "template_hash", "rods")[several:]:
        values = [str(_value(r, name)) for r in runs if r.manifest]
        if len(set(values)) > 1:
            found.append(f"{name.replace('_', ' ')} differs: {', '.join(values)}.")
    if any(key.startswith("evaluation.") for key in differing):
        found.append("the runs were evaluated differently.")
    found += _not_shared([(label, run) for label, mine in arms.items() for run in mine])
    for label, mine in arms.items():
        known = [one for one in map(_settings, mine) if one]
        differ = _differing(mine).keys() - {"seed"}
        inside = sorted(key for key in differ if all(key in one for one in known))  # of any version
        found += [f"{label}: its runs differ in {', '.join(inside)}."] if inside else []
    return found + heldout.notes_of(arms)


def _not_shared(runs: Sequence[tuple[str, RunData]]) -> list[str]:
    """Which runs have which held-out tasks, where they are not those of the first run."""
    (start, base), *others = runs
    first = heldout.by_key(base.last_evaluation).keys()
    labels: dict[tuple[int, str, str], dict[str, None]] = {}
    for label, run in others:
        theirs = heldout.by_key(run.last_evaluation).keys()
        if first and theirs and first != theirs:  # a run without an evaluation has its own note
            overlap = len(first & theirs), _named(first - theirs), _named(theirs - first)
            labels.setdefault(overlap, {})[label] = None
    notes: list[str] = []
    for (common, mine, other), same in labels.items():
        who = ", ".join(same)
        shared = f"have {common} of {len(first)} evaluated tasks in common; only those have a"
        shared = shared if common else "have no evaluated task in common, so there is no"
        notes.append(
            f"{start} and {who} {shared} difference. {start} alone has {mine}; "
            f"{who} alone has {other}."
        )
    return notes


def _named(keys: Set[Key]) -> str:
    """How many tasks of each set, with the first ids."""
    sets = {name: sorted(task for kind, task in keys if kind == name) for name, _ in keys}
    listed = [
        f"{len(ids)} {SETS.get(name, name).lower()} ({', '.join(ids[:SHOWN])}"
        f"{', ...' if len(ids) > SHOWN else ''})"
        for name, ids in sorted(sets.items())
    ]
    return " and ".join(listed) or "none"
