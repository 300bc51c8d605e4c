"""Everything that decides which variants come out of a worker, and its way into the process."""

from __future__ import annotations

import dataclasses
import hashlib
import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from rods.config import SynthesisSettings
from rods.config.base import Settings
from rods.config.sections import RaySettings
from rods.env import load_environment
from rods.infra.dotted import flat
from rods.registry import load
from rods.synthesis.pipeline import Pipeline
from rods.synthesis.worker.queue import SqliteQueue
from rods.task import Task, read_tasks, write_tasks
from rods.types import Json

NOT_DECIDING: Mapping[str, Any] = {
    "llm": {"url", "concurrency", "timeout", "price"},
    "variants_per_seed": True, "drain_seconds": True,
}  # fmt: skip
"""Settings of synthesis that do not change what comes out."""
SPLITS = ("training", "held_out")
SECTIONS: Mapping[str, type[Settings]] = {"synthesis": SynthesisSettings, "ray": RaySettings}


@dataclass(frozen=True)
class WorkerSettings:
    """Settings and tasks with which the worker makes variants."""

    training: Sequence[Task]
    """Originals of the training split: they may give words and turns."""
    held_out: Sequence[Task] = ()
    """Tasks that no variant may overlap."""
    environment: str = ""
    """`module:attribute` of an environment, or of what makes one."""
    pipeline: str = ""
    """`module:attribute` of what makes a `Pipeline` of settings, environment and tasks."""
    arguments: Mapping[str, Json] = field(default_factory=dict[str, Json])
    """Arguments of the environment's factory, by name."""
    synthesis: SynthesisSettings = field(default_factory=SynthesisSettings)
    ray: RaySettings = field(default_factory=RaySettings)
    rng_seed: int = 0
    max_waiting: int = 2000
    """The worker pauses while so many accepted variants wait to be taken."""
    niceness: int = 10
    """Increment of the worker's niceness, which lowers its priority."""

    def deciding(self) -> dict[str, Json]:
        """All on which the variants depend, by name: what a queue is bound to."""
        plain = flat(self.synthesis.model_dump(mode="json", exclude=dict(NOT_DECIDING)))
        return {
            "seed": self.rng_seed,
            "env": self.environment,
            **{f"synthesis.{key}": value for key, value in plain.items()},
            **{side: ids(getattr(self, side)) for side in SPLITS},
        }

    def make_pipeline(self, cache: Path | None = None) -> Pipeline:
        """Make the pipeline in this process; `cache`: file of a chat server's answers.

        Raises `ConfigError` where environment, pipeline or writer cannot be made.
        """
        environment = load_environment(self.environment, self.arguments)
        make: Callable[..., Pipeline] = load("synthesis.writer", self.pipeline)
        return make(self.synthesis, environment, self.training, self.held_out, cache)

    def write(self, queue: SqliteQueue, path: Path) -> None:
        """Leave everything beside the queue, where the process finds it."""
        plain = {f.name: getattr(self, f.name) for f in dataclasses.fields(self)}
        for section in SECTIONS:
            plain[section] = getattr(self, section).model_dump(mode="json")
        for side in SPLITS:
            write_tasks(_file(path, side), plain.pop(side))
        queue.put("settings", json.dumps(plain))

    @classmethod
    def read(cls, queue: SqliteQueue, path: Path) -> WorkerSettings:
        """Read what `write` left."""
        plain: dict[str, Any] = json.loads(queue.get("settings"))
        for section, kind in SECTIONS.items():
            plain[section] = kind.model_validate(plain[section])
        plain |= {side: tuple(read_tasks(_file(path, side))) for side in SPLITS}
        return cls(**plain)


def _file(queue: Path, side: str) -> Path:
    return queue.with_name(f"{queue.stem}-{side}.jsonl")


def ids(tasks: Sequence[Task]) -> str:
    """Tasks in a few words that differ where the tasks do."""
    digest = hashlib.sha256("\n".join(task.id for task in tasks).encode()).hexdigest()[:16]
    return f"{len(tasks)} tasks {digest}"
