"""Trackers by name: TensorBoard, Weights & Biases, MLflow, trackio.

Owns how records of the log become figures by name and step, and which functions of which package
take them; a package is imported when it is asked for. A resumed run goes on under the tracker's
same run. A tracker that fails never stops training: it is reported, and the manifest counts it.

    with tracking(run, display.message):
        ...                                     # every record that `run.log` writes goes out, too
"""

from __future__ import annotations

import importlib
from collections.abc import Callable, Generator, Mapping, Sequence
from contextlib import contextmanager
from functools import partial
from statistics import fmean
from typing import Any, NamedTuple, cast

from rods.config import RunConfig
from rods.errors import ConfigError
from rods.infra.dotted import not_among
from rods.infra.host import masked
from rods.infra.install import needed
from rods.integrations import TrackSettings
from rods.store import RunDirectory
from rods.types import Json


def shown(config: RunConfig) -> dict[str, Any]:
    """The settings as others may see them: no logins of addresses, no secrets."""

    def safe(value: Json, name: str = "") -> Json:
        if isinstance(value, dict):
            return {key: safe(inner, key) for key, inner in value.items()}
        if isinstance(value, list):
            return [safe(inner, name) for inner in value]
        return masked(value, name) if isinstance(value, str) else value

    return {name: safe(value, name) for name, value in config.model_dump(mode="json").items()}


class Tracker(NamedTuple):
    """Where figures go."""

    id: str
    """By which it finds the run again; empty: it needs none."""
    log: Callable[[dict[str, float], int], object]
    """Takes the figures of one update, and its number."""
    close: Callable[[], object]
    """The run ends here, or pauses."""


Opens = Callable[[RunDirectory, Any, str], Tracker]
"""Starts a tracker, or goes on: from the run, the package, and the id that it had (empty: new)."""


def _tensorboard(run: RunDirectory, package: Any, known: str) -> Tracker:
    checkpoint = run.latest_checkpoint()
    # What a killed run wrote after its checkpoint is made again.
    purge = None if checkpoint is None else checkpoint.step + 1
    writer = package.SummaryWriter(str(run.path / "tensorboard"), purge_step=purge)

    def log(figures: dict[str, float], step: int) -> None:
        for name, value in figures.items():
            writer.add_scalar(name, value, step)

    return Tracker("", log, writer.close)


def _wandb(run: RunDirectory, package: Any, known: str) -> Tracker:
    made = package.init(
        project=run.config.section(TrackSettings).project,
        name=run.path.name,
        id=known or None,
        resume="allow",
        dir=str(run.path),
        config=shown(run.config),
    )
    # Steps that a resumed run makes again would be refused as its own steps.
    made.define_metric("*", step_metric="update")
    return Tracker(str(made.id), lambda f, step: made.log({**f, "update": step}), made.finish)


def _mlflow(run: RunDirectory, package: Any, known: str) -> Tracker:
    package.set_experiment(run.config.section(TrackSettings).project)
    started = package.start_run(run_id=known or None, run_name=run.path.name)
    if not known:
        package.log_dict(shown(run.config), "config.json")
    return Tracker(
        str(started.info.run_id),
        lambda figures, step: package.log_metrics(figures, step=step),
        package.end_run,
    )


def _trackio(run: RunDirectory, package: Any, known: str) -> Tracker:
    name, project = known or run.path.name, run.config.section(TrackSettings).project
    package.init(project=project, name=name, resume="allow", config=shown(run.config))
    return Tracker(name, lambda figures, step: package.log(figures, step=step), package.finish)


TRACKERS: dict[str, tuple[str, Opens]] = {
    "tensorboard": ("torch.utils.tensorboard", _tensorboard),
    "wandb": ("wandb", _wandb),
    "mlflow": ("mlflow", _mlflow),
    "trackio": ("trackio", _trackio),
}
"""Module and adapter by name; the name is also that of the extra that installs it."""


def require_known(names: Sequence[str]) -> None:
    """Raise `ConfigError` unless there is a tracker of each name."""
    for name in names:
        if name not in TRACKERS:
            raise ConfigError(not_among("track.names", name, TRACKERS.keys()))


def packages_of(names: Sequence[str]) -> dict[str, Any]:
    """The modules of trackers, by their names.

    Raises:
        ConfigError: there is no such tracker.
        PrerequisiteError: a package is missing; the message has the line that installs it.
    """
    require_known(names)
    found: dict[str, Any] = {}
    for name in names:
        with needed(f"--track {name} needs a package that is not installed", name):
            found[name] = importlib.import_module(TRACKERS[name][0])
    return found


@contextmanager
def tracking(run: RunDirectory, say: Callable[[str], None]) -> Generator[None]:
    """Send every record that is logged inside the block to the trackers of the run's settings.

    Raises:
        ConfigError: there is no such tracker.
        PrerequisiteError: a package is missing.
    """
    packages = packages_of(run.config.section(TrackSettings).names)
    earlier: dict[str, Any] = cast("Any", run.manifest.get("trackers")) or {}
    states: dict[str, dict[str, Any]] = {
        name: {"id": "", "failures": 0, **earlier.get(name, {})} for name in packages
    }
    warned: set[str] = set()
    opened: dict[str, Tracker] = {}

    def safely(name: str, call: Callable[[], object]) -> Any:
        try:
            return call()
        except Exception as error:  # noqa: BLE001 - whatever a tracker does, training goes on
            states[name]["failures"] += 1
            if name not in warned:
                say(
                    f"tracker {name} failed ({type(error).__name__}: {error}). Training "
                    "continues; manifest.json counts further failures."
                )
            warned.add(name)
            return None

    def note() -> None:
        if states:
            run.update_manifest(trackers={**earlier, **states})

    def send(record: Mapping[str, Json]) -> None:
        figures, step = figures_of(record), cast("int", record["step"])
        for name, state in states.items():
            if name in opened:
                safely(name, partial(opened[name].log, dict(figures), step))
            else:
                state["failures"] += 1

    for name, package in packages.items():
        _, opens = TRACKERS[name]
        if made := safely(name, partial(opens, run, package, states[name]["id"])):
            opened[name], states[name]["id"] = made, made.id
    note()  # a kill must not lose the ids
    run.watchers.append(send)
    try:
        yield
    finally:
        run.watchers.remove(send)
        for name, tracker in opened.items():
            safely(name, tracker.close)
        note()


def figures_of(record: Mapping[str, Json]) -> dict[str, float]:
    """All numbers of a record, as `kind/name/part`; of rows, means by `kind/set/name`."""
    kind = str(record.get("kind", "run"))
    skipped = ("kind", "step", "rows")
    found = _flat({k: v for k, v in record.items() if k not in skipped}, kind)
    means: dict[str, list[float]] = {}
    for row in cast("list[dict[str, Json]]", record.get("rows") or []):
        # Original tasks and variants are different measurements, so they share no mean.
        for name, value in _flat(row, f"{kind}/{row['set']}" if "set" in row else kind).items():
            means.setdefault(name, []).append(value)
    return found | {name: fmean(values) for name, values in means.items()}


def _flat(value: Json, name: str) -> dict[str, float]:
    if isinstance(value, bool | int | float):
        return {name: float(value)}
    if isinstance(value, list):  # a task's samples
        numbers = [float(v) for v in value if isinstance(v, bool | int | float)]
        return {name: fmean(numbers)} if numbers else {}
    if isinstance(value, dict):
        return {
            k: v for key, part in value.items() for k, v in _flat(part, f"{name}/{key}").items()
        }
    return {}
