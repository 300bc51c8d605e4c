"""Suites of published benchmarks: rolled out, saved, scored again, and their accuracies.

Owns the repeats of a suite's tasks, the file of those that ended (`Kept`) and the way from
trajectories to rows and accuracies. Never knows a benchmark: what is right is `SuiteRules.score`'s,
and nothing else's, for a new trajectory and for a saved one alike.

    groups = await roll_out_suite(rules, tasks, policy, dialect, template, rollout, repeats=3)
    accuracies(rules, suite_rows(rules, groups))
"""

from __future__ import annotations

import json
import logging
import math
from collections import defaultdict
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from statistics import fmean

from rods.config import RolloutSettings, RunConfig
from rods.config.evaluation import SuiteSettings
from rods.dialects import Dialect
from rods.errors import ConfigError, EnvError, StoreError
from rods.evaluation.rules import RuleOutcome, SuiteRules
from rods.evaluation.stats import Interval, mean_ci
from rods.evaluation.suite import NOISE, Progress, stratified
from rods.infra.dotted import changes, flat, nearest
from rods.infra.files import LineLog
from rods.policy import Policy
from rods.rollout.episode import RolloutContext
from rods.rollout.groups import run_groups
from rods.rollout.template import ChatTemplate
from rods.task import Task
from rods.trajectory import Group, Trajectory
from rods.trajectory_codec import from_json, read_parquet, to_json, write_parquet
from rods.types import Json, StopReason

_LOG = logging.getLogger(__name__)
CHOSEN = 0
"""Seed of the choice where `evaluation.suite.tasks` asks for some of the tasks."""


@dataclass(frozen=True, slots=True)
class SuiteRow:
    """One task of a suite with all its trajectories."""

    task_id: str
    origin: str
    """The suite's own name of the task."""
    category: str
    scenario: str
    """Unit of evidence: tasks of one scenario resemble each other."""
    right: tuple[bool, ...]
    """Verdict of each valid trajectory, in the order of the repeats."""
    why: tuple[str, ...]
    """Why each is wrong; empty where it is right."""
    process: tuple[float, ...]
    """Progress of each trajectory, where the suite measures it."""
    cut: tuple[str, ...]
    """Budgets that ended a trajectory, each once for every trajectory."""
    failures: tuple[str, ...]
    """Failure of infrastructure; such a trajectory counts in no accuracy."""
    greedy: bool = True
    """True if each valid trajectory was sampled at temperature 0; a saved one may not be."""


@dataclass(frozen=True, slots=True)
class Accuracy:
    """The accuracy of a category, or of an average over categories."""

    name: str
    is_average: bool
    tasks: int
    """With a valid trajectory."""
    mean: float | None
    """In [0, 1]; None without tasks."""
    interval: Interval | None
    """95 %, over scenarios; None where a category has fewer than two of them."""
    process: float | None
    """Mean of how far trajectories came; None where the suite does not measure it."""
    passes: tuple[float, ...] = ()
    """pass^2, pass^3 ...: the chance that so many trials of a task are all right, up to as many as
    every task has (arXiv 2406.12045); nothing where the suite does not quote it."""


def chosen_tasks(rules: SuiteRules, settings: SuiteSettings, rollouts: bool = True) -> list[Task]:
    """The tasks that the settings ask for, in the suite's order; without `rollouts` to be judged.

    Raises:
        ConfigError: a category is not the suite's.
        PrerequisiteError: one of the tasks cannot be rolled out or judged here.
    """
    tasks = list(rules.tasks())
    known = list(dict.fromkeys(task.category for task in tasks))
    for name in settings.categories:
        if name not in known:
            raise ConfigError(
                f"evaluation.suite.categories: {rules.name} has no category {name!r}."
                f"{nearest(name, known)} Known: {', '.join(known)}."
            )
    wanted = settings.categories or known
    left = [task for task in tasks if task.category in wanted]
    kept = [t for t in left if not any(text in t.provenance.origin for text in settings.omit)]
    if len(kept) < len(left):
        _LOG.warning("%d of %d tasks are left out by suite.omit", len(left) - len(kept), len(left))
    chosen = {task.id for task in stratified(kept, settings.tasks, CHOSEN)}
    found = [task for task in tasks if task.id in chosen]
    rules.ready(found, rollouts)
    return found


class Kept:
    """Trajectories of a suite: kept at once, resumed, and one Parquet file at the end.

    Until the last rollout a file beside it has the settings, then a trajectory a line. A kill at
    any moment leaves what was there; a line that it tore is owed again.
    """

    def __init__(self, path: Path, config: RunConfig, suite: str, weights: str) -> None:
        """Begin, or continue what an earlier call left. A first trajectory starts the file.

        Args:
            path: the Parquet file to be, which is not there yet.
            weights: which checkpoint samples; empty: the settings' model.

        Raises:
            StoreError: what is there was rolled out under other settings, or is damaged.
        """
        log = self._log = LineLog(path.with_name(f"{path.name}.unfinished"))
        settings = self._settings = _settings_of(config, suite, weights)
        log.cut(log.size())
        first, *rows = log.records() or [settings]
        changed = changes(first, settings)
        if changed and rows:
            raise StoreError(
                f"{log.path}: {len(rows)} trajectories were rolled out under other settings: "
                f"{'; '.join(changed)}. Repeat the old command to resume, or remove the file."
            )
        self._path = path
        self._members: dict[str, list[Trajectory]] = defaultdict(list)
        for number, row in enumerate(rows, 2):
            one = from_json(json.loads(str(row.get("trajectory"))), f"{log.path}:{number}")
            self._members[one.task_id].append(one)
        if not rows:
            log.cut(0)

    def of(self, task_id: str) -> list[Trajectory]:
        """Trajectories of a task, by their members."""
        return sorted(self._members.get(task_id, ()), key=lambda one: one.member)

    def add(self, trajectory: Trajectory) -> None:
        """Keep one more; its member is the first one of its task that is free.

        One that infrastructure failed is not kept: it is rolled out again by the next call.
        """
        if not trajectory.valid:
            return
        taken = {one.member for one in self._members[trajectory.task_id]}
        member = next(n for n in range(len(taken) + 1) if n not in taken)
        numbered = replace(trajectory, member=member)
        if not any(self._members.values()):
            self._log.append(self._settings)
        self._log.append({"trajectory": json.dumps(to_json(numbered))})
        self._members[trajectory.task_id].append(numbered)

    def finish(self, trajectories: Iterable[Trajectory]) -> None:
        """Write the Parquet file, and remove the other one."""
        write_parquet(self._path, trajectories)
        self._log.path.unlink(missing_ok=True)


def _settings_of(config: RunConfig, suite: str, weights: str) -> dict[str, Json]:
    """Settings that decide how a conversation goes, by dotted keys, as JSON reads them again.

    Where servers are and how many conversations are in flight may differ: a server that went away
    comes back elsewhere.
    """
    wanted = ("model.", "rollout.", "engine.", "evaluation.suite.folder", "evaluation.suite.user.")
    every = flat(config.model_dump(mode="json"))
    free = ("engine.url", "evaluation.suite.user.url", "rollout.concurrency", "model.threads")
    settings = {k: value for k, value in every.items() if k.startswith(wanted) and k not in free}
    return {"suite": suite, "weights": weights, **settings}


async def roll_out_suite(
    rules: SuiteRules,
    tasks: Sequence[Task],
    policy: Policy,
    dialect: Dialect,
    template: ChatTemplate,
    rollout: RolloutSettings,
    repeats: int = 1,
    progress: Progress = lambda done, total: None,
    kept: Kept | None = None,
) -> list[Group]:
    """Roll out each task greedily, so many times, by the suite's rules before the settings.

    `kept` gets each trajectory as it ends, and what it has already is not rolled out again.

    Raises:
        EnvError: too many trajectories failed for reasons of infrastructure.
        StoreError: a trajectory cannot be kept.
    """
    there = {task.id: kept.of(task.id)[:repeats] if kept is not None else [] for task in tasks}
    total = len(tasks) * repeats
    done = sum(map(len, there.values()))

    def count(trajectory: Trajectory) -> None:
        nonlocal done
        done += 1
        if kept is not None:
            kept.add(trajectory)
        progress(done, total)

    progress(done, total)
    owed = [task for task in tasks for _ in range(repeats - len(there[task.id]))]
    how = rules.rollout(rollout).model_copy(update={"temperature": 0.0, "k": 1})
    what = (rules.environment, policy, rules.dialect(dialect), template, how)
    context = RolloutContext(*what, seed=NOISE, noise_version=0)
    async for group in run_groups(context, owed, count):
        there[group.task.id] += group.trajectories
    numbered = [[replace(one, member=n) for n, one in enumerate(there[t.id])] for t in tasks]
    return list(map(_group, tasks, numbered))


def _group(task: Task, members: Sequence[Trajectory]) -> Group:
    return Group(task, tuple(members), min(one.policy_version for one in members))


def saved_groups(rules: SuiteRules, tasks: Sequence[Task], path: Path) -> list[Group]:
    """Saved trajectories by their tasks, in the order of the tasks; a task may have none.

    Raises:
        StoreError: there is no such file, it is damaged, or a trajectory's task is not the suite's.
    """
    files = sorted(path.glob("*.parquet")) if path.is_dir() else [path]
    if not files:
        raise StoreError(f"{path}: the folder has no .parquet file; expected trajectories.")
    wanted = {task.id: task for task in tasks}
    known = wanted.keys() | {task.id for task in rules.tasks()}
    found: dict[str, list[Trajectory]] = defaultdict(list)
    for file in files:
        for number, trajectory in enumerate(read_parquet(file), 1):
            if trajectory.task_id not in known:
                raise StoreError(
                    f"{file}, row {number}: task {trajectory.task_id} is not one of {rules.name}. "
                    "Name the suite that it was rolled out in, and the same data."
                )
            found[trajectory.task_id].append(trajectory)
    others = sum(len(many) for key, many in found.items() if key not in wanted)
    if others:
        _LOG.warning("%s: %d trajectories are of tasks that were not asked for", path, others)
    return [_group(task, found[key]) for key, task in wanted.items() if key in found]


def suite_rows(rules: SuiteRules, groups: Iterable[Group]) -> list[SuiteRow]:
    """A row a task, scored by the suite's rules."""
    rows: list[SuiteRow] = []
    for group in groups:
        task, valid = group.task, [t for t in group.trajectories if t.valid]
        failures = [t.failure for t in group.trajectories if t.failure is not None]
        scored: list[RuleOutcome] = []
        for trajectory in valid:
            try:
                scored.append(rules.score(task, trajectory))
            except EnvError as error:  # who judges it does not answer, such as a chat server
                failures.append(f"not scored: {error}")
        ended = [t.stop for t in valid if t.stop not in (StopReason.DONE, StopReason.STEPS)]
        row = SuiteRow(
            task.id,
            task.provenance.origin,
            task.category,
            task.provenance.scenario,
            right=tuple(outcome.right for outcome in scored),
            why=tuple(outcome.why for outcome in scored),
            process=tuple(one.process for one in scored if one.process is not None),
            cut=tuple(stop.value for stop in ended),
            failures=tuple(failures),
            greedy=all(t.temperature == 0 for t in valid),
        )
        rows.append(row)
    return rows


def accuracies(rules: SuiteRules, rows: Sequence[SuiteRow]) -> list[Accuracy]:
    """Categories in the order of the rows, then the averages of which all categories are there.

    A task's value is the share of its valid trajectories that are right; a task without one is left
    out (`SuiteRow.failures` says why).
    """
    by: dict[str, list[SuiteRow]] = defaultdict(list)
    for row in rows:
        by[row.category].append(row)
    valued = {name: [row for row in found if row.right] for name, found in by.items()}
    made = [_accuracy(name, False, {name: found}, rules.trials) for name, found in valued.items()]
    for name, wanted in rules.averages.items():
        if set(wanted) <= valued.keys() and len(wanted) > 1:
            parts: Mapping[str, list[SuiteRow]] = {c: valued[c] for c in wanted}
            if name in rules.pooled and all(parts.values()):
                parts = {name: [row for found in parts.values() for row in found]}
            made.append(_accuracy(name, True, parts, rules.trials))
    return made


def _accuracy(
    name: str, average: bool, parts: Mapping[str, Sequence[SuiteRow]], trials: bool
) -> Accuracy:
    rows = [row for found in parts.values() for row in found]
    if not all(parts.values()):
        return Accuracy(name, average, len(rows), None, None, None)

    def mean(value: Callable[[SuiteRow], float]) -> float:
        return fmean(fmean(map(value, found)) for found in parts.values())

    values, scenarios = [fmean(row.right) for row in rows], [row.scenario for row in rows]
    interval = mean_ci(values, scenarios, [part for part, found in parts.items() for _ in found])
    process = mean(lambda row: fmean(row.process)) if all(row.process for row in rows) else None
    trial = range(2, min(len(row.right) for row in rows) + 1) if trials else ()
    passes = tuple(mean(lambda row, k=k: pass_hat(row.right, k)) for k in trial)
    right = mean(lambda row: fmean(row.right))
    return Accuracy(name, average, len(rows), right, interval, process, passes)


def pass_hat(right: Sequence[bool], k: int) -> float:
    """Share of the choices of k trials in which all are right."""
    return math.comb(sum(right), k) / math.comb(len(right), k)
