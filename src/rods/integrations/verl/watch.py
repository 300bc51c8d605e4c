"""Looks after verl's agent workers while verl waits for what they play.

Owns how the death of one is seen: verl hands rows out and then waits for what comes back, which is
for ever where a worker died with them. It starts no worker again; a training goes on from its
checkpoint.

    replay_buffer._wait_for_next_poll = watching(replay_buffer._wait_for_next_poll, workers)
"""

from __future__ import annotations

import importlib
from collections.abc import Callable, Sequence
from typing import Any

from rods.errors import TrainError

_ray: Any = importlib.import_module("ray")


def watching(poll: Callable[..., Any], workers: Sequence[Any]) -> Callable[..., Any]:
    """verl's wait between two looks at what came back, which finds a dead worker, too.

    Args:
        poll: verl's own.
        workers: handles of the actors that play.

    Raises:
        TrainError: when called, and one of them died.
    """
    # Asked once: Ray answers for an actor that dies.
    answers = [worker.__ray_ready__.remote() for worker in workers]

    def look(*arguments: Any, **named: Any) -> Any:
        done, _ = _ray.wait(answers, num_returns=len(answers), timeout=0)
        for answer in done:
            try:
                _ray.get(answer)
            except _ray.exceptions.RayActorError as error:
                raise TrainError(
                    "an agent worker of verl's (AgentLoopWorker) died, and what it played with it: "
                    f"{' '.join(str(error).split())} Start the same words again: the training "
                    "goes on from its last checkpoint."
                ) from error
            place = answers.index(answer)
            answers[place] = workers[place].__ray_ready__.remote()
        return poll(*arguments, **named)

    return look
