"""The embedded engine in several processes, one a core: `engine.name = "processes"`.

`engine.py` shares sessions out and hands weights over, `replica.py` is the program that samples,
`wire.py` what they say to each other. None of it runs on a GPU.
"""

from __future__ import annotations

from rods.config import RolloutSettings
from rods.engines.threads import most_threads

ROWS = 8
"""Trajectories in flight that are worth a process: fewer make a batch that reads weights for
little."""


def processes_of(rollout: RolloutSettings) -> int:
    """How many: one a core that may be used, and none without work."""
    return max(1, min(most_threads(), rollout.in_flight // ROWS))
