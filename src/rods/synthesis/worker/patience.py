"""When a writer that fails is suspended, and for how long.

Owns the counting of failures in a row and the pauses that grow from one suspension to the next. It
never sleeps, asks nobody, and knows no server: a failure is a rejection of the stage `writer`, or
a `WriterError`.

    patience = Patience()
    reason = patience.take(outcome)          # "": go on
    if reason:
        pause = patience.suspend(reason).seconds
"""

from __future__ import annotations

from typing import NamedTuple

from rods.synthesis.pipeline import RequestOutcome

FAILURES = 8
"""Attempts in a row that fail for the writer's own reasons before it is suspended."""
PAUSE, LONGEST = 2.0, 60.0
"""Seconds of the first pause of a suspended writer, doubled each time, and of the longest."""


class Suspension(NamedTuple):
    """Why nothing is made now."""

    reason: str
    pauses: int = 0
    """How often in a row, this time included; 0: the worker is gone, it is not tried again."""
    seconds: float = 0.0
    """Length of this pause."""
    fatal: bool = False
    """The address, key or model is wrong, and no answer ever came."""


class Patience:
    """Counts what one writer does."""

    def __init__(self) -> None:
        self.failures = 0
        """Attempts that failed since the last one that did not."""
        self.suspensions = 0
        """How often it was suspended since then."""

    def take(self, outcome: RequestOutcome) -> str:
        """Count one outcome; the reason why the writer has to be suspended, or nothing."""
        for rejection in outcome.rejections:
            if rejection.stage == "writer":
                self.failures += 1
            else:
                self.failures = self.suspensions = 0
        if outcome.variant is not None:
            self.failures = self.suspensions = 0
        if self.failures < FAILURES:
            return ""
        return f"{self.failures} failures in a row, the last: {outcome.rejections[-1].detail}"

    def suspend(self, reason: str, fatal: bool = False) -> Suspension:
        """The next pause."""
        self.suspensions += 1
        seconds = min(LONGEST, PAUSE * 2.0 ** (self.suspensions - 1))
        return Suspension(reason, self.suspensions, seconds, fatal)
