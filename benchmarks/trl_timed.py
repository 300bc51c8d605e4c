"""The clock of a TRL trainer that makes one update for each line that it reads.

Runs in TRL's interpreter and imports nothing of RODS; `trl_process.py` is the other end.
"""

from __future__ import annotations

import json
import sys
import time
from collections.abc import Callable, Mapping
from typing import Any

from transformers import TrainerCallback


class Timed(TrainerCallback):
    """Waits for a line before each update, and answers with what the update took, as JSON.

    Args:
        figures: what an answer holds beside seconds, from a row of the trainer's log; empty: the
            row is of no update.
    """

    def __init__(self, figures: Callable[[Mapping[str, Any]], dict[str, float]]) -> None:
        self._wall = self._cpu = 0.0
        self._figures = figures

    def on_step_begin(self, *args: Any, **kwargs: Any) -> None:
        sys.stdin.readline()
        self._wall, self._cpu = time.perf_counter(), time.process_time()

    def on_step_end(self, *args: Any, **kwargs: Any) -> None:
        self._wall = time.perf_counter() - self._wall
        self._cpu = time.process_time() - self._cpu

    def on_log(self, args: Any, state: Any, control: Any, logs: Any, **kwargs: Any) -> None:
        if found := self._figures(logs):
            took = {"wall": self._wall, "cpu": self._cpu, **found}
            sys.__stdout__.write(f"{json.dumps(took)}\n")  # type: ignore[union-attr]
            sys.__stdout__.flush()  # type: ignore[union-attr]
