"""verl's data set over the live curriculum: a task is drawn when verl fetches a row.

Owns when a draw happens and that the curriculum's state stands in verl's own `data.pt`. It lives in
the process of verl's trainer, where `trainer.py` binds it to the run. It also registers our agent
loop: each of verl's agent workers looks at the data set's class before it rolls out.

    dataset = CurriculumDataset([], None, None)
    dataset.bind(run, folder, version=lambda: trainer.global_steps - 1)
    dataset[0]["ticket"]
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import torch
from torch.utils.data import Dataset

from rods.errors import TrainError
from rods.integrations.verl.agent import CurriculumAgentLoop
from rods.integrations.verl.rows import row_of, ticket_of
from rods.trainers.hosted import Drawn, HostedRun

__all__ = ["CurriculumAgentLoop", "CurriculumDataset"]

ENDLESS = 1 << 31  # Rows that it pretends to have: which task comes next is decided when fetched


class CurriculumDataset(Dataset[dict[str, Any]]):
    """The tasks that the curriculum draws, in the order in which verl asks."""

    def __init__(self, data_files: object, tokenizer: object, config: object, **_: object) -> None:
        self._run: HostedRun | None = None
        self._folder = Path()
        self._version: Callable[[], int] = int
        self.out: dict[str, Drawn] = {}
        """Draws that were given out and not judged, by ticket, in the order of the draws."""

    def bind(self, run: HostedRun, folder: Path, version: Callable[[], int]) -> None:
        """Draw from this run, which is opened with the first row, or from verl's checkpoint.

        `folder` is that of the live files, `version` of the policy that rolls out this draw.
        """
        self._run, self._folder, self._version = run, folder, version

    @property
    def run(self) -> HostedRun:
        """Source of tasks."""
        if self._run is None:
            raise TrainError("this data set has no run: only `rods verl` can train on it.")
        return self._run

    def __len__(self) -> int:
        return ENDLESS

    def __getitem__(self, index: int) -> dict[str, Any]:
        run = self.run
        if not run.opened:
            run.open(self._folder)
        drawn = None if run.over else run.draw(1, self._version())[0]
        if drawn is not None:
            self.out[ticket_of(drawn)] = drawn
        # verl wants a tensor in every batch.
        return {**row_of(drawn, int(index), run.config.rollout.k), "filled": torch.zeros(1)}

    def state_dict(self) -> dict[str, Any]:
        """Everything about the curriculum, for verl's checkpoint."""
        return self.run.state_dict()

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        """Go on from a checkpoint; what was in flight then is drawn again.

        Raises:
            StoreError: it belongs to other settings or tasks.
        """
        self.out.clear()
        self.run.open(self._folder, state)
