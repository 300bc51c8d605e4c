"""Tasks that were drawn: as rows of verl's batches and back, and what verl has in flight of them.

Owns the names of a row's fields and of ours in verl's registries; which of verl's prompts stands
for which draw, so that a group that verl gave up is known by name; and how the death of an agent
worker is seen: verl hands rows out and then waits for what comes back, which is for ever where a
worker died with them. Imports neither verl nor torch; draws, judges and starts nothing.

    row = row_of(drawn, index=0, k=16)
    drawn = drawn_of(row["rods"])
    flight = Flight()
    flight.took_off(uids, tickets)
    flight.landed(batch.keys)                       # sampled: they are the trainer's now
    for ticket in flight.lost(uids_that_verl_has): ...
"""

from __future__ import annotations

import importlib
import json
from collections import Counter
from collections.abc import Callable, Collection, Iterable, Sequence
from typing import TYPE_CHECKING, Any

from rods.errors import TrainError
from rods.task import Task

if TYPE_CHECKING:
    from rods.trainers.hosted import Drawn

AGENT = "rods"  # Name of our agent loop in verl's registry
ESTIMATOR = "rods"  # Name of the recipe's own advantages among verl's estimators
TICKET, DRAW = "ticket", "rods"
"""Fields of a row: what the draw is known by, and everything that its rollout needs."""
TRAJECTORY = "trajectory"  # Field of what verl calls extra fields: the trajectory as JSON text
ATTEMPTS = 3  # A draw that was lost so often is not unlucky: something about it is broken


def ticket_of(drawn: Drawn) -> str:
    """Key of a draw: no epoch draws a task twice."""
    return f"{drawn.epoch}:{drawn.task.id}"


def row_of(drawn: Drawn | None, index: int, k: int) -> dict[str, Any]:
    """The row of a draw of `k` trajectories; None: it fills a batch up where no task is left."""
    draw, text = "", ""
    if drawn is not None:
        text = drawn.task.turns[0].user
        parts = {"task": drawn.task.to_json(), "epoch": drawn.epoch, "visit": drawn.visit}
        draw = json.dumps({**parts, "hinted": drawn.hinted})
    return {
        "raw_prompt": [{"role": "user", "content": text}],  # verl counts these; nobody reads them
        "index": index,
        "agent_name": AGENT,
        "data_source": AGENT,
        "__rollout_n__": k if drawn is not None else 1,
        TICKET: "" if drawn is None else ticket_of(drawn),
        DRAW: draw,
    }


def drawn_of(draw: str) -> Drawn:
    """Return the draw that a row carries."""
    from rods.trainers.hosted import Drawn

    parts: dict[str, Any] = json.loads(draw)
    task = Task.from_json(parts["task"], "a row of verl's batch")
    return Drawn(task, int(parts["epoch"]), int(parts["visit"]), bool(parts["hinted"]))


class Flight:
    """Prompts on their way, by verl's id of them."""

    def __init__(self) -> None:
        self._tickets: dict[str, str] = {}
        self._lost: Counter[str] = Counter()

    def took_off(self, uids: Sequence[str], tickets: Sequence[str]) -> None:
        """Note that prompts were handed to verl, each for a draw."""
        self._tickets.update(zip(uids, tickets, strict=True))

    def landed(self, keys: Iterable[str]) -> None:
        """Trajectories with these keys were sampled, so their prompts are no longer verl's."""
        for uid in {key.split("_")[0] for key in keys}:
            self._tickets.pop(uid, None)

    def lost(self, known: Collection[str]) -> list[str]:
        """Tickets of prompts that verl threw away; it still has the `known` ones. Asked for once.

        Raises:
            TrainError: one of the draws was lost for the `ATTEMPTS`th time.
        """
        gone = [uid for uid in self._tickets if uid not in known]
        tickets = [self._tickets.pop(uid) for uid in gone]
        self._lost.update(tickets)
        hopeless = [ticket for ticket in tickets if self._lost[ticket] >= ATTEMPTS]
        if hopeless:
            raise TrainError(
                f"these draws failed {ATTEMPTS} times in verl's agent workers: "
                f"{', '.join(hopeless)}. The workers' log has the reason. Fix it and resume from "
                "the last checkpoint."
            )
        return tickets


def watching(poll: Callable[..., object], workers: Sequence[Any]) -> Callable[..., object]:
    """verl's wait (`poll`) between two looks at what came back, which finds a dead worker, too.

    Raises:
        TrainError: when called, and one of them died.
    """
    ray: Any = importlib.import_module("ray")
    # Asked once: Ray answers for an actor that dies.
    answers = [worker.__ray_ready__.remote() for worker in workers]

    def look(*arguments: Any, **named: Any) -> Any:
        done, _ = ray.wait(answers, num_returns=len(answers), timeout=0)
        for answer in done:
            try:
                ray.get(answer)
            except ray.exceptions.RayActorError as error:
                raise TrainError(
                    "an agent worker of verl's (AgentLoopWorker) died with its rollouts: "
                    f"{' '.join(str(error).split())} Repeat the same command: the training "
                    "resumes from its last checkpoint."
                ) from error
            place = answers.index(answer)
            answers[place] = workers[place].__ray_ready__.remote()
        return poll(*arguments, **named)

    return look
