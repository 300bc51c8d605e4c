"""RODS: reinforcement learning for tool-using agents that makes its own tasks while it trains.

    run = rods.train(rods.load_config("rods", "quick", ["seed=1"]))
    run.path / "report.html"

The public names, each imported when it is first asked for: `import rods` stays light.
"""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING

from rods.infra.install import VERSION as __version__

if TYPE_CHECKING:
    from rods.assemble import train as train
    from rods.assemble.hosted import hosted as hosted
    from rods.config import RunConfig as RunConfig
    from rods.config import load_config as load_config

__all__ = ["RunConfig", "__version__", "hosted", "load_config", "train"]

_HOMES = {
    "RunConfig": "rods.config",
    "hosted": "rods.assemble.hosted",
    "load_config": "rods.config",
    "train": "rods.assemble",
}


def __getattr__(name: str) -> object:
    if name not in _HOMES:
        raise AttributeError(f"module 'rods' has no attribute {name!r}")
    return getattr(importlib.import_module(_HOMES[name]), name)
