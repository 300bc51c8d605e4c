"""A task that was drawn, as a row of verl's batches, and back.

Owns the names of the row's fields, and of ours in verl's registries. Imports neither verl nor
torch.

    row = row_of(dealt, index=0, k=16)
    dealt = dealt_of(row["rods"])
"""

from __future__ import annotations

import json
from typing import Any

from rods.task import Task
from rods.trainers.hosted import Dealt

AGENT = "rods"
"""Name of our agent loop in verl's registry."""
ESTIMATOR = "rods"
"""Name of the recipe's own advantages among verl's estimators."""
TICKET, TOLD = "ticket", "rods"
"""Fields of a row: what the draw is known by, and everything that its players need."""
TRAJECTORY = "trajectory"
"""Field of what verl calls extra fields: the trajectory as JSON text."""


def ticket_of(dealt: Dealt) -> str:
    """What a draw is known by: no epoch draws a task twice."""
    return f"{dealt.epoch}:{dealt.task.id}"


def row_of(dealt: Dealt | None, index: int, k: int) -> dict[str, Any]:
    """The row of a draw of `k` trajectories; None: it fills a batch up where no task is left."""
    told, text = "", ""
    if dealt is not None:
        text = dealt.task.turns[0].user
        parts = {"task": dealt.task.to_json(), "epoch": dealt.epoch, "visit": dealt.visit}
        told = json.dumps({**parts, "hinted": dealt.hinted})
    return {
        "raw_prompt": [{"role": "user", "content": text}],  # verl counts these; nobody reads them
        "index": index,
        "agent_name": AGENT,
        "data_source": AGENT,
        "__rollout_n__": k if dealt is not None else 1,
        TICKET: "" if dealt is None else ticket_of(dealt),
        TOLD: told,
    }


def dealt_of(told: str) -> Dealt:
    """The draw that a row tells of."""
    parts: dict[str, Any] = json.loads(told)
    task = Task.from_json(parts["task"], "a row of verl's batch")
    return Dealt(task, int(parts["epoch"]), int(parts["visit"]), bool(parts["hinted"]))
