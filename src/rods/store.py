"""A run's folder: manifest, metrics, trajectories, checkpoints. Every write is all or nothing.

    runs/today/
      manifest.json             versions, seed, settings, hashes, command
      metrics.jsonl             one record a line, appended
      trajectories/step-000012.parquet
      synthesis.sqlite          the synthesis worker's queue
      checkpoint/step-000012/   written beside, then renamed; the last two are kept
      checkpoint/latest         name of the one to resume from

Owns names, formats and their safety: a kill, or a full disk, at any moment leaves what was there.
A checkpoint remembers how long the log was, so log a step first; a resume cuts what came later.

    run = RunDirectory.create(new_run_dir("runs"), config, split_hash=...)
    run.log({"kind": "step", "step": 1, "reward_mean": 0.4})
    with run.checkpoint(step=1) as folder: ...
"""

from __future__ import annotations

import json
import logging
import shutil
import weakref
from collections.abc import Callable, Mapping, Sequence
from contextlib import AbstractContextManager
from datetime import datetime
from itertools import chain, count
from pathlib import Path
from typing import TYPE_CHECKING, Any, cast

from rods.config import RunConfig, Start, parse_config
from rods.config.drift import require_same
from rods.config.unread import without_replaced
from rods.errors import StoreError
from rods.infra.checkpoints import Checkpoint, Checkpoints, by_step, step_of
from rods.infra.files import LineLog, disk, locked, released, remove, text_of, write_atomic
from rods.infra.host import now, origin
from rods.infra.install import VERSION
from rods.infra.text import counted, quoted
from rods.types import Json

if TYPE_CHECKING:
    from rods.trajectory import Signals, Trajectory

MANIFEST, METRICS, LOCK = "manifest.json", "metrics.jsonl", ".lock"
FORMAT = 3
"""Version of run folders; it rises when an older folder would be misread."""
TRAIN = "train"
"""The kind of run that `rods train` makes; older manifests name none."""
BEFORE_MANIFEST = (LOCK, f"{MANIFEST}.")
"""Prefixes of the only names that a run folder holds before its manifest is written."""

_log = logging.getLogger(__name__)


def new_run_dir(base: str | Path = "runs", name: str = "") -> Path:
    """Make an empty folder `base/name`, or one named by the time; `StoreError` if it is taken."""
    path = first = Path(base) / (name or datetime.now().strftime("%Y%m%d-%H%M%S"))
    for number in count(2):
        with disk(path, "making"):
            try:
                path.mkdir(parents=True)
                break
            except FileExistsError:
                if name:
                    require_free(path)
                    break
        path = first.with_name(f"{first.name}-{number}")
    return path


def require_free(path: Path) -> None:
    """Refuse a folder that holds more than what a start leaves that was killed at once.

    Raises:
        StoreError: a run is there, or something else.
    """
    held = [p.name for p in path.iterdir()] if path.is_dir() else list[str]()
    if (path / MANIFEST).exists():  # looked for last: it is there before anything else is
        verb = f"rods {RunDirectory.open(path).manifest.get('kind', TRAIN)}"
        how = f"Choose another name, or continue it: `{verb} --resume {quoted(path)}`."
        raise StoreError(f"{path}: this run of `{verb}` exists already. {how}")
    if path.is_file() or not all(name.startswith(BEFORE_MANIFEST) for name in held):
        how = "Choose another name; nothing was written."
        raise StoreError(f"{path}: exists already, and is not a run of rods. {how}")


class RunDirectory:
    """One run's folder. One process writes it at a time."""

    def __init__(self, path: Path, manifest: dict[str, Json]) -> None:
        self.path = path
        self.manifest = manifest
        self.checkpoints = Checkpoints(path / "checkpoint")
        self.trajectories = path / "trajectories"
        self._log = LineLog(path / METRICS)
        self.watchers: list[Callable[[Mapping[str, Json]], None]] = []  # they get what is logged

    def _claim(self) -> None:
        """Refuse to write beside another process; a process that died holds nothing."""
        how = "Stop it first, wait, or choose another folder; nothing was changed."
        busy = f"{self.path}: another process is training in this run. {how}"
        weakref.finalize(self, released, locked(self.path / LOCK, busy))

    # -- making and opening -----------------------------------------------------------------

    @classmethod
    def create(
        cls,
        path: Path,
        config: RunConfig,
        *,
        seeds: Mapping[str, int] | None = None,
        template_hash: str = "",
        split_hash: str = "",
        start: Start | None = None,
        command: Sequence[str] | None = None,
    ) -> RunDirectory:
        """Write the manifest of a new run into an existing folder.

        Args:
            path: an empty folder, as `new_run_dir` makes it.
            config: settings of the run.
            seeds: seeds beside the configuration's, by name.
            template_hash: of the chat template in use.
            split_hash: of the ids on each side of the split.
            start: what its settings were read from.
            command: the command line; by default this process's. Folders are cut from it.
        """
        about: dict[str, Json] = {
            "seeds": {"seed": config.seed, **(seeds or {})},
            "digest": config.digest(),
            **({} if start is None else start._asdict()),
            "template_hash": template_hash,
            "split_hash": split_hash,
            **({} if command is None else origin(command)),
            "config": cast("Json", config.model_dump(mode="json")),
        }
        return cls.begin(path, about)

    @classmethod
    def begin(cls, path: Path, about: Mapping[str, Json], kind: str = TRAIN) -> RunDirectory:
        """Write the manifest of a run of any kind into an existing folder.

        Args:
            path: an empty folder, as `new_run_dir` makes it.
            about: what the manifest says of it: `config` and `digest` at least.
            kind: the command that makes it.
        """
        made: dict[str, Json] = {"format": FORMAT, "rods": VERSION, "kind": kind, "finished": None}
        run = cls(path, {**made, **origin(), **about})
        require_free(path)  # a claim in vain would give up this process's own, where it has one
        run._claim()
        require_free(path)
        try:
            run.update_manifest()
            run._folder()
        except BaseException:  # Ctrl-C too: a folder without a run must not block the next start
            run.abandon()
            raise
        return run

    def _folder(self) -> None:
        with disk(self.checkpoints.folder, "making"):
            self.checkpoints.folder.mkdir(exist_ok=True)

    def abandon(self, *, refused: bool = False) -> None:
        """Remove what a failed start left, so that the next one may have the folder.

        Does nothing once there is a checkpoint: then the run can be resumed.

        Args:
            refused: the policy was refused; before the first update a checkpoint is of no use then.
        """
        checkpoint = self.latest_checkpoint()
        updated = any(record.get("kind") == "step" for record in self.metrics())
        if checkpoint is None or (refused and checkpoint.step == 0 and not updated):
            shutil.rmtree(self.path, ignore_errors=True)

    @classmethod
    def open(cls, path: str | Path, kind: str = TRAIN) -> RunDirectory:
        """Open a run of any kind for reading. `kind` is the command that the user has in mind.

        Raises:
            StoreError: there is no run, or its manifest is damaged.
        """
        path = Path(path)
        file = path / MANIFEST
        if not path.is_dir():
            raise StoreError(f"{path}: there is no such run. `rods {kind}` starts one.")
        if not file.exists():
            raise StoreError(f"{path}: there is no {MANIFEST} here, so this is not a run of rods.")
        try:
            data: Any = json.loads(text_of(file, "a run's settings", StoreError))
        except json.JSONDecodeError as error:
            raise StoreError(f"{file}: not JSON: {error}. The run is damaged.") from error
        held: Mapping[str, Json] = data if isinstance(data, dict) else {}
        if missing := [key for key in ("rods", "digest", "config") if key not in held]:
            raise StoreError(f"{file}: {', '.join(missing)} missing; the run is damaged.")
        return cls(path, data)

    @classmethod
    def resume(
        cls,
        path: Path,
        config: RunConfig | None = None,
        start: Start | None = None,
        kind: str = TRAIN,
        drift: bool = False,
    ) -> RunDirectory:
        """Open a run to resume it from its last checkpoint; what was logged after it is cut.

        Args:
            path: the run's folder.
            config: settings of the command line; None takes the run's own. Those of
                `drift.may_change` may differ, and hold from now on.
            start: what these were read from.
            kind: the command that made the run.
            drift: more settings may differ, not those of `drift.SAVED`; the manifest names them.

        Raises:
            StoreError: the folder is no such run, its version or settings differ (the message lists
                them), or it is finished and they ask for no more.
        """
        run = cls.open(path, kind)
        run._require_kind(kind)
        run.require_version()
        changes = [] if config is None else run.config.changed(config)
        require_same(str(path), changes, drift)
        if (finished := run.manifest["finished"]) and kind == TRAIN:
            run.require_more(config or run.config)
        run._claim()
        run._folder()
        results = [r for r in run.metrics() if r.get("when") == "after"] if finished else []
        run._cut()
        if finished:
            run._keep(results)
            run.update_manifest(finished=None)
        if changes and config is not None:
            run._adopt(config, changes, start)
        return run

    def _require_kind(self, kind: str) -> None:
        if (theirs := self.manifest.get("kind", TRAIN)) != kind:
            raise StoreError(
                f"{self.path}: this is a run of `rods {theirs}`, not of `rods {kind}`. Continue "
                f"it: `rods {theirs} --resume {quoted(self.path)}`."
            )

    def require_more(self, asked: RunConfig) -> None:
        """Refuse a finished run to which these settings add nothing; raises `StoreError`."""
        checkpoint, sampled = self.latest_checkpoint(), self.sampled()
        step = checkpoint.step if checkpoint else 0
        stages_done = self.manifest.get("stages_done")
        if not (self.manifest["finished"] and (stages_done or asked.spent(step, sampled))):
            return
        limit, number = "updates", 2 * step
        if 0 < asked.trajectories <= sampled:
            limit, number = "trajectories", 2 * sampled
        more = f"rods train --resume {quoted(self.path)} --{limit} {number}"
        way = f"Train it for longer ({more}), or start"
        if stages_done:
            way = "All its stages are done, so no task is left. Start"
        raise StoreError(
            f"{self.path}: this run is finished, after {counted(step, 'update')}; nothing was "
            f"changed. {way} a new run: rods train."
        )

    def require_version(self) -> None:
        """Refuse to resume a run of another version or format; raises `StoreError`."""
        theirs, form = str(self.manifest["rods"]), self.manifest.get("format")
        if theirs.split(".")[:2] == VERSION.split(".")[:2] and form == FORMAT:
            return
        raise StoreError(
            f"{self.path}: this run was made by rods {theirs} in format {form}, this is rods "
            f"{VERSION}, which reads format {FORMAT}. Resume it with the rods that made it, or "
            "start a new run. `rods report` and `rods compare` read this one as it is."
        )

    def _adopt(self, config: RunConfig, changes: Sequence[str], start: Start | None) -> None:
        before = cast("list[Json]", self.manifest.get("changes") or [])
        step = checkpoint.step if (checkpoint := self.latest_checkpoint()) else 0
        self.update_manifest(
            config=config.model_dump(mode="json"),
            digest=config.digest(),
            **({} if start is None else start._asdict()),
            changes=[*before, *({"step": step, "setting": text} for text in changes)],
        )

    @property
    def config(self) -> RunConfig:
        """Settings of the run, as the manifest holds them."""
        self._require_kind(TRAIN)
        self.require_version()
        data = cast("Mapping[str, Any]", self.manifest["config"])
        return parse_config(without_replaced(data), str(self.path / MANIFEST))

    @property
    def start(self) -> Start | None:
        """Sources of its settings, if they are known."""
        recipe, profile = (self.manifest.get(name) for name in ("recipe", "profile"))
        if not isinstance(recipe, str) or not isinstance(profile, str):
            return None
        return Start(recipe, profile, cast("list[str]", self.manifest.get("overrides") or []))

    def update_manifest(self, **values: Json) -> None:
        """Set keys of the manifest and write it."""
        self.manifest.update(values)
        text = json.dumps(self.manifest, indent=2, ensure_ascii=False)
        write_atomic(self.path / MANIFEST, text + "\n")

    def finish(self, stages_done: bool = True) -> None:
        """Note that the run came to its end, by its stages or by a limit such as `updates`."""
        self.update_manifest(finished=now(), stages_done=stages_done)

    # -- metrics ----------------------------------------------------------------------------

    def log(self, record: Mapping[str, Json]) -> None:
        """Append one record to `metrics.jsonl`; its `step` is the number of updates done.

        Raises:
            StoreError: `step` is missing, or the line cannot be written (what was there stays).
        """
        if not isinstance(record.get("step"), int):
            raise StoreError(f"a record of {METRICS} needs a whole number `step`, got {record}.")
        self._log.append(record)
        for watch in self.watchers:
            watch(record)

    def metrics(self) -> list[dict[str, Json]]:
        """Read all records; a last line that a kill cut is left out, since it is written again.

        Raises:
            StoreError: a line before the last is damaged.
        """
        return self._log.records()

    def sampled(self) -> int:
        """Trajectories of all updates in the log."""
        return sum(int(str(record.get("trajectories", 0))) for record in self.metrics())

    def _keep(self, results: Sequence[Mapping[str, Json]]) -> None:
        """Log the final evaluation of a run that is trained for longer as one between updates."""
        if results and (checkpoint := self.latest_checkpoint()):
            self.log({**results[-1], "when": f"update {checkpoint.step}"})
            checkpoint.remark(metrics=self._log.sync())

    def _cut(self) -> None:
        """Forget what was logged after the checkpoint; those steps are done again."""
        checkpoint = latest = self.latest_checkpoint()
        held, step, size = self._log.size(), -1, 0
        if latest:
            checkpoint = self.checkpoints.go_back(lambda c: _logged(c) <= held)
            if checkpoint != latest:
                lost = f"the end that {latest.path.name} knew is lost"
                where = f"back to {checkpoint.path.name}" if checkpoint else "it resumes with a gap"
                _log.warning("%s: %s; %s", self.path / METRICS, lost, where)
            checkpoint = checkpoint or latest
            step, size = checkpoint.step, _logged(checkpoint)
        left = self._log.cut(size)
        if checkpoint and left < size:
            checkpoint.remark(metrics=left)
        for file in by_step(self.trajectories, ".parquet"):
            if step_of(file.stem) > step:
                file.unlink()
        for left in (*self.trajectories.glob("*.part"), *self.checkpoints.folder.glob(".*.part")):
            remove(left)

    # -- trajectories -----------------------------------------------------------------------

    def write_trajectories(
        self, step: int, trajectories: Sequence[Trajectory], signals: Signals = ()
    ) -> None:
        """Keep one step's trajectories as Parquet, with what the update made of each, by group."""
        from rods.trajectory_codec import write_parquet

        path = self.trajectories / f"step-{step:06d}.parquet"
        with disk(path, "writing"):
            self.trajectories.mkdir(exist_ok=True)
            write_parquet(path, trajectories, signals=[*chain(*signals)])

    # -- checkpoints ------------------------------------------------------------------------

    def checkpoint(self, step: int) -> AbstractContextManager[Path]:
        """Write a checkpoint, as `Checkpoints.write` does; it remembers how long the log is."""
        return self.checkpoints.write(step, lambda: {"metrics": self._log.sync()})

    def latest_checkpoint(self) -> Checkpoint | None:
        """The checkpoint to resume from; None before the first."""
        return self.checkpoints.latest()


def _logged(checkpoint: Checkpoint) -> int:
    """Bytes that the log had when a checkpoint was made."""
    size = checkpoint.mark().get("metrics")
    if not isinstance(size, int):
        raise checkpoint.damaged("the length of the log is missing")
    return size
