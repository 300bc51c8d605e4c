"""A run directory as typed, frozen rows. Owns the reading of `metrics.jsonl`, draws nothing.

Format, one JSON object a line, told apart by `kind`:

* `step`: step, epoch, stage, numbers (`reward_mean`, `zero_variance`, `kl`, ...), those of the
  `schedule` {groups_queued, staleness_mean, ...} and of the `buffer` {seed_emitted, ...},
  `regions` {hard, boundary, mastered}, and `judgements`: [{task_id, category, origin (original or
  variant), rbar, phi, variance, n_valid, region, first_visit}]. Also `synthesis` as below.
* `epoch`, written at an epoch's start: epoch, stage, step; alive now: originals and generated;
  since the epoch record before: injected, deferred, retired {reason: n}; over the whole run so
  far: synthesis {tried, accepted, rejected {reason: n}, seconds}.
* `unused`: groups that were begun and are in no update at the run's end: finished, in_flight.
* `eval`: when ("before", "after" or "update 8"), rows: [{task_id, category, set (original or
  variant), of the samples progress: [..], solved: [..], official: [..], the same of the greedy
  trajectory as greedy_progress and so on, and optionally scenario and recipe}].

A run that was killed and resumed may repeat steps; the last record of a step counts. What cannot be
read, or was repeated, is stated in `RunData.notes`; nothing is left out silently.

    run = load_run(Path("runs/today"))
    run.steps[-1].numbers["reward_mean"], run.notes
"""

from __future__ import annotations

import json
import math
from collections.abc import Iterable, Mapping, Sequence
from contextlib import closing, nullcontext, suppress
from dataclasses import dataclass, field, replace
from datetime import datetime
from itertools import pairwise
from pathlib import Path
from statistics import fmean
from typing import Any, TypeVar, cast

from pydantic import JsonValue, TypeAdapter, ValidationError

from rods.config.drift import deciding, may_change
from rods.errors import StoreError
from rods.infra.files import text_of
from rods.infra.text import counted
from rods.records import unused_words
from rods.store import MANIFEST, METRICS
from rods.synthesis.worker.queue import SqliteQueue
from rods.synthesis.yields import SeedYield, low_yields
from rods.types import Json

REGIONS = ("hard", "boundary", "mastered")
SAMPLED = ("progress", "solved", "official")
GREEDY = tuple(f"greedy_{name}" for name in SAMPLED)
HARMLESS = {"updates", "trajectories", "evaluation.every", "evaluation.suite"}  # change no value


@dataclass(frozen=True, slots=True, kw_only=True)
class JudgedGroup:
    """One group's judgement at one step."""

    task_id: str
    category: str = ""
    origin: str = "original"
    rbar: float
    variance: float
    n_valid: int = 0
    region: str = ""
    first_visit: bool = False


@dataclass(frozen=True, slots=True)
class Made:
    """What synthesis did so far in the run."""

    tried: int = 0
    accepted: int = 0
    rejected: Mapping[str, int] = field(default_factory=dict[str, int])
    """Candidates by the reason of their rejection."""
    seconds: float = 0.0


@dataclass(frozen=True, slots=True, kw_only=True)
class StepRow:
    """One update."""

    step: int
    numbers: Mapping[str, float]
    """Every scalar of the record, nested ones as `schedule.acceptance` and `buffer.judged`; a
    missing key means that it was not measured."""
    epoch: int = 0
    stage: str = ""
    regions: Mapping[str, int] = field(default_factory=dict[str, int])
    judgements: tuple[JudgedGroup, ...] = ()
    made: Made = field(default_factory=Made)


@dataclass(frozen=True, slots=True, kw_only=True)
class EpochRow:
    """The pool at an epoch's start, and what happened to it since the start before."""

    epoch: int
    stage: str = ""
    step: int = 0
    originals: int = 0
    generated: int = 0
    injected: int = 0
    deferred: int = 0
    retired: Mapping[str, int] = field(default_factory=dict[str, int])
    made: Made = field(default_factory=Made)


@dataclass(frozen=True, slots=True)
class EvalRow:
    """One task's evaluation, averaged over its samples."""

    task_id: str
    category: str
    set: str
    scenario: str
    """Cluster of the interval; the task id where the run did not say."""
    writer: str
    """What wrote a variant, by its short name; empty for originals."""
    values: Mapping[str, float]
    """`progress`, `solved` and `official`, means over samples, and the same of the greedy
    trajectory after `greedy_`, each in [0, 1]; a missing key was not measured."""
    samples: int
    """Samples behind a mean."""
    invalid: int = 0
    """Trajectories that infrastructure failed; they are in no mean."""


@dataclass(frozen=True, slots=True)
class EvaluationPass:
    """One pass over the held-out tasks."""

    when: str
    """`before`, `after`, or the epoch's number as text."""
    rows: tuple[EvalRow, ...]

    @property
    def lost(self) -> list[str]:
        """Invalid trajectories in words; nothing where there are none."""
        invalid = sum(row.invalid for row in self.rows)
        many = counted(invalid, "invalid trajectory")
        return [f"{many}, counted in no value: infrastructure failed"] * bool(invalid)


@dataclass(frozen=True, slots=True)
class RunData:
    """All that a report needs but the trajectories."""

    path: Path
    manifest: Mapping[str, JsonValue]
    steps: tuple[StepRow, ...] = ()
    epochs: tuple[EpochRow, ...] = ()
    evaluations: tuple[EvaluationPass, ...] = ()
    notes: tuple[str, ...] = field(default=())
    """What is missing or could not be read, in sentences."""

    @property
    def name(self) -> str:
        """Name of the run directory."""
        return self.path.resolve().name

    @property
    def judgements(self) -> list[tuple[int, JudgedGroup]]:
        """All judgements with their steps, in order."""
        return [(row.step, j) for row in self.steps for j in row.judgements]

    @property
    def made(self) -> Made:
        """What synthesis did over the whole run, by the fullest record."""
        rows = (*self.epochs, *self.steps)
        return max((row.made for row in rows), key=lambda made: made.tried, default=Made())

    def evaluation(self, when: str) -> EvaluationPass | None:
        """The evaluation of this name, or `None`."""
        return next((e for e in self.evaluations if e.when == when), None)

    @property
    def last_evaluation(self) -> EvaluationPass | None:
        """The final evaluation; without it the latest one made after some epoch."""
        between = [e for e in self.evaluations if e.when not in ("before", "after")]
        return self.evaluation("after") or (between[-1] if between else None)

    def setting(self, dotted: str) -> Json:
        """A value of the configuration by its dotted key; `None` where the manifest lacks it."""
        value: Json = self.manifest.get("config")
        for part in dotted.split("."):
            value = value.get(part) if isinstance(value, dict) else None
        return value

    @property
    def split(self) -> Json:
        """How the environment parts its tasks, where its section of the settings says so."""
        return self.setting(f"env.{self.setting('env.name')}.split")

    @property
    def stage_starts(self) -> list[tuple[float, str]]:
        """The first update of each stage, with its name; empty for a single stage."""
        changes = [now for last, now in pairwise(self.steps) if now.stage != last.stage]
        starts = [self.steps[0], *changes] if changes else []
        return [(float(row.step), row.stage) for row in starts]

    def total(self, key: str) -> float:
        """Sum of one number over all steps."""
        return math.fsum(row.numbers.get(key, 0.0) for row in self.steps)

    @property
    def injected(self) -> int:
        """Variants that entered the pool."""
        return sum(e.injected for e in self.epochs)

    @property
    def retired(self) -> int:
        """Variants that left it."""
        return sum(sum(e.retired.values()) for e in self.epochs)

    def quarters(self, key: str) -> tuple[float, float] | None:
        """Means of a number over the first and the last quarter of the steps that have it."""
        values = [row.numbers[key] for row in self.steps if key in row.numbers]
        size = max(1, len(values) // 4)
        return (fmean(values[:size]), fmean(values[-size:])) if values else None

    @property
    def seconds(self) -> float | None:
        """Wall-clock seconds from start to finish; `None` where the clock does not say."""
        started, finished = (moment(self.manifest.get(k)) for k in ("started", "finished"))
        took = (finished - started).total_seconds() if started and finished else -1.0
        return took if took >= 0 else None  # the clock was set back in between


Row = TypeVar("Row")
STEP, EPOCH = TypeAdapter(StepRow), TypeAdapter(EpochRow)


def load_run(path: Path) -> RunData:
    """Read a run directory.

    Raises:
        StoreError: there is no such directory, or it holds neither manifest nor metrics.
    """
    if not path.is_dir():
        raise StoreError(f"{path}: there is no such run. `rods train` starts one.")
    if not (path / MANIFEST).is_file() and not (path / METRICS).is_file():
        raise StoreError(
            f"{path}: neither {MANIFEST} nor {METRICS} is here, so it is no run of `rods train`. "
            "Inside TRL or verl there is none: evaluate a checkpoint with `rods eval`."
        )
    notes: list[str] = []
    manifest = _manifest(path / MANIFEST, notes)
    steps: dict[int, StepRow] = {}
    epochs: dict[tuple[str, int], EpochRow] = {}
    evaluations: dict[str, EvaluationPass] = {}
    unused, repeated = "", 0
    for number, row in _lines(path / METRICS, notes):
        kind = row.get("kind")
        try:
            if kind == "step":
                step = _read(STEP, row, numbers=_numbers(row))
                repeated += step.step in steps
                steps[step.step] = step
            elif kind == "epoch":
                epoch = _read(EPOCH, row)
                epochs[epoch.stage, epoch.epoch] = epoch
            elif kind == "eval":
                found = evaluation_of(str(row["when"]), row["rows"])
                evaluations[found.when] = found
            elif kind == "unused":
                unused = unused_words(int(row["finished"]), int(row["in_flight"]))
        except (KeyError, TypeError, ValueError, AttributeError) as error:
            first = error.errors()[0] if isinstance(error, ValidationError) else None
            why = f"{'.'.join(map(str, first['loc']))}: {first['msg']}" if first else error
            notes.append(f"{METRICS}:{number}: a broken {kind} record left out ({why}).")
    if unused:
        notes.append(unused)
    if repeated:
        notes.append(
            f"Updates repeated after a resume: {repeated}; the last record of each counts."
        )
    in_order = tuple(steps[key] for key in sorted(steps))
    pools = tuple(sorted(epochs.values(), key=lambda e: (e.step, e.epoch)))
    run = RunData(path, manifest, in_order, pools, tuple(evaluations.values()))
    return replace(run, notes=(*notes, *_missing(run), *_uneven(run)))


def yields_of(run: RunData) -> tuple[list[SeedYield], list[str]]:
    """Return the yields of a run's seed tasks, and lines on the low ones, or why there are none."""
    queue = run.path / "synthesis.sqlite"
    try:
        with closing(SqliteQueue(queue)) if queue.is_file() else nullcontext() as opened:
            found = opened.yields() if opened else []
    except StoreError as error:
        return [], [str(error)]
    return found, low_yields(found)


def moment(value: Json) -> datetime | None:
    """A time in the manifest, or `None`."""
    try:
        return datetime.fromisoformat(value) if isinstance(value, str) else None
    except ValueError:
        return None


def _manifest(path: Path, notes: list[str]) -> dict[str, Json]:
    if not path.exists():
        notes.append(f"There is no {MANIFEST}: settings and versions of this run are unknown.")
        return {}
    try:
        data = json.loads(text_of(path, "a run's settings", StoreError))
    except json.JSONDecodeError as error:
        raise StoreError(f"{path}: not JSON ({error}); the run directory is damaged.") from error
    if not isinstance(data, dict):
        raise StoreError(f"{path}: expected a JSON object, got {type(data).__name__}.")
    return data


def _lines(path: Path, notes: list[str]) -> list[tuple[int, dict[str, Any]]]:
    if not path.is_file():
        notes.append(f"There is no {METRICS}: the run stopped before its first record.")
        return []
    rows: list[tuple[int, dict[str, Any]]] = []
    # Not splitlines, which also parts at U+2028 and the like: JSON holds them as they are.
    lines = path.read_text(encoding="utf-8", errors="replace").split("\n")
    for number, line in enumerate(lines, 1):
        if not line.strip():
            continue
        row: Any = None
        with suppress(ValueError):
            row = json.loads(line)
        if isinstance(row, dict):
            rows.append((number, cast("dict[str, Any]", row)))
        else:
            torn = " (torn when the run was stopped)" if number == len(lines) else ""
            notes.append(f"{METRICS}:{number} is not a record{torn}; it was left out.")
    return rows


def _numbers(row: Mapping[str, Any]) -> dict[str, float]:
    named = dict(row)
    for part in ("schedule", "buffer"):
        nested = cast("Mapping[str, Any]", row.get(part) or {})
        named |= {f"{part}.{key}": value for key, value in nested.items()}
    scalars = {k: v for k, v in named.items() if isinstance(v, int | float)}
    return {k: float(v) for k, v in scalars.items() if math.isfinite(v)}


def _read(kind: TypeAdapter[Row], row: Mapping[str, Any], **more: object) -> Row:
    """A record as its row; what it lacks or leaves empty has the row's default."""
    given = {**row, "made": row.get("synthesis"), **more}
    return kind.validate_python({k: v for k, v in given.items() if v is not None})


def evaluation_of(when: str, rows: Iterable[Mapping[str, object]]) -> EvaluationPass:
    """An evaluation of this name from its records, one a task, as `evaluate_tasks` gives them."""
    return EvaluationPass(when, tuple(map(_eval_row, rows)))


def _eval_row(row: Mapping[str, Any]) -> EvalRow:
    values: dict[str, float] = {}
    samples = 0
    for name in (*SAMPLED, *GREEDY):
        given: Sequence[Any] = row.get(name) or ()
        valid = [float(v) for v in given if v is not None and math.isfinite(v)]
        if valid:
            values[name] = math.fsum(valid) / len(valid)
            samples = max(samples, 0 if name in GREEDY else len(valid))
    task_id, kind = str(row["task_id"]), str(row.get("set", "original"))
    writer = "" if kind == "original" else str(row.get("recipe") or "").partition(":")[0]
    category, scenario = str(row.get("category", "")), str(row.get("scenario") or task_id)
    invalid = int(row.get("invalid") or 0)
    return EvalRow(task_id, category, kind, scenario, writer, values, samples, invalid)


def _missing(run: RunData) -> list[str]:
    before, last = run.evaluation("before"), run.last_evaluation
    finish = run.manifest.get("finished")
    instead = f" The one at {last.when} is shown instead." if last else ""
    found = {
        "The run has no finish time: it is still running, or it was stopped early.": finish,
        "No update is recorded, so there are no curves.": run.steps,
        "No epoch is recorded, so nothing is known of the replay buffer.": run.epochs,
        "There is no evaluation before training, so no difference can be given.": before,
        f"There is no evaluation after training.{instead}": run.evaluation("after"),
    }
    return [note for note, there in found.items() if not there]


def _uneven(run: RunData) -> list[str]:
    """Sentences about what else than training may differ between evaluations of the run."""
    passes = [one for one in (run.evaluation("before"), run.last_evaluation) if one]
    found = [f"Evaluation {one.when}: {why}." for one in passes for why in one.lost]
    tasks = [{(row.set, row.task_id) for row in one.rows} for one in passes]
    if once := len(tasks[0] ^ tasks[-1]) if tasks else 0:
        found.append(f"Evaluated only once, so in no difference: {counted(once, 'task')}.")
    if isinstance(made := run.manifest.get("changes"), list):
        steps = {str(c["setting"]): c["step"] for c in made if isinstance(c, dict)}
        texts = deciding(steps, may_change(compared=True) | HARMLESS)
        found += [f"A resume after update {steps[text]} changed {text}." for text in texts]
    return found
