"""RODS: reinforcement learning for tool-using agents that makes its own tasks while it trains.

    run = rods.train(rods.load_config("rods", "small", ["seed=1"]))
    run.path / "report.html"

The public names, each imported when it is first asked for: `import rods` stays light.
"""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING

from rods.infra.install import VERSION as __version__

if TYPE_CHECKING:
    from rods.assemble import train as train
    from rods.assemble.library import evaluate as evaluate
    from rods.assemble.library import hosted as hosted
    from rods.assemble.library import synthesize as synthesize
    from rods.config import RunConfig as RunConfig
    from rods.config import load_config as load_config
    from rods.curriculum.online import OnlineCurriculum as OnlineCurriculum
    from rods.env import Environment as Environment
    from rods.env import World as World
    from rods.reward import Score as Score
    from rods.task import Task as Task
    from rods.task import Turn as Turn
    from rods.types import ToolCall as ToolCall

_HOMES = {
    "Environment": "rods.env",
    "OnlineCurriculum": "rods.curriculum.online",
    "RunConfig": "rods.config",
    "Score": "rods.reward",
    "Task": "rods.task",
    "ToolCall": "rods.types",
    "Turn": "rods.task",
    "World": "rods.env",
    "evaluate": "rods.assemble.library",
    "hosted": "rods.assemble.library",
    "load_config": "rods.config",
    "synthesize": "rods.assemble.library",
    "train": "rods.assemble",
}

__all__ = [
    "Environment",
    "OnlineCurriculum",
    "RunConfig",
    "Score",
    "Task",
    "ToolCall",
    "Turn",
    "World",
    "__version__",
    "evaluate",
    "hosted",
    "load_config",
    "synthesize",
    "train",
]


def __getattr__(name: str) -> object:
    if name not in _HOMES:
        raise AttributeError(f"module 'rods' has no attribute {name!r}")
    return getattr(importlib.import_module(_HOMES[name]), name)


def __dir__() -> list[str]:
    return sorted(__all__)
