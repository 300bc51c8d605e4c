"""What verl has in flight of what the curriculum drew, in its asynchronous modes.

Owns which of verl's prompts stands for which draw, so that a group that verl gave up is known by
name. It draws nothing and judges nothing; `trainer.py` does.

    flight = Flight()
    flight.took_off(uids, tickets)
    flight.landed(batch.keys)                       # sampled: they are the trainer's now
    for ticket in flight.lost(uids_that_verl_has): ...
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Iterable, Sequence

from rods.errors import TrainError

ATTEMPTS = 3
"""A draw that was lost so often is not unlucky: something about it is broken."""


class Flight:
    """Prompts on their way, by verl's id of them."""

    def __init__(self) -> None:
        """Nothing is in flight."""
        self._tickets: dict[str, str] = {}
        self._lost: Counter[str] = Counter()

    def took_off(self, uids: Sequence[str], tickets: Sequence[str]) -> None:
        """These prompts were handed to verl, each for a draw."""
        self._tickets.update(zip(uids, tickets, strict=True))

    def landed(self, keys: Iterable[str]) -> None:
        """Trajectories with these keys were sampled, so their prompts are no longer verl's."""
        for uid in {key.split("_")[0] for key in keys}:
            self._tickets.pop(uid, None)

    def lost(self, known: Collection[str]) -> list[str]:
        """Tickets of prompts that verl threw away; asked for once.

        Args:
            known: ids of the prompts that verl still has.

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
                f"{', '.join(hopeless)}. The workers' log says why; fix it and start again from "
                "the last checkpoint."
            )
        return tickets
