"""A suite's trajectories as they end: kept at once, resumed, and one Parquet file at the end.

Owns the file beside the one that `--save` names, there until the last rollout: the settings, then
a trajectory a line. A kill at any moment leaves what was there; a line that it tore is owed again.
Never scores.

    kept = Kept(Path("sampled.parquet"), config, "bfcl-multi-turn", weights="")
    kept.add(trajectory)
    kept.finish(trajectories)
"""

from __future__ import annotations

import json
from collections import defaultdict
from collections.abc import Iterable
from dataclasses import replace
from pathlib import Path

from rods.config import RunConfig
from rods.errors import StoreError
from rods.infra.dotted import changes, flat
from rods.infra.lines import LineLog
from rods.trajectory import Trajectory
from rods.trajectory_codec import from_json, to_json, write_parquet
from rods.types import Json


class Kept:
    """What was rolled out so far."""

    def __init__(self, path: Path, config: RunConfig, suite: str, weights: str) -> None:
        """Begin, or go on where an earlier call was broken off.

        Nothing is written before the first trajectory ends.

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
        """Write the Parquet file; the other one goes."""
        write_parquet(self._path, trajectories)
        self._log.path.unlink(missing_ok=True)


def _settings_of(config: RunConfig, suite: str, weights: str) -> dict[str, Json]:
    """What decides how a conversation goes, by dotted keys, as JSON reads it again.

    Where servers are and how many conversations are in flight may differ: a server that went away
    comes back elsewhere.
    """
    wanted = ("model.", "rollout.", "engine.", "evaluation.suite.folder", "evaluation.suite.user.")
    every = flat(config.model_dump(mode="json"))
    free = ("engine.url", "evaluation.suite.user.url", "rollout.concurrency", "model.threads")
    settings = {k: value for k, value in every.items() if k.startswith(wanted) and k not in free}
    return {"suite": suite, "weights": weights, **settings}
