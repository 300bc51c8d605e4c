"""Whether an agent goes in circles, by the calls it made and what they gave.

Owns the rule, which is that of the agent whose loop SkyRL-v0 uses, for calls: the same call with
the same result four times in a row, the same call failing three times in a row, or two calls in
turns three times.

    stuck([("ls()", "a.py", False)] * 4)        # True
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

SAME, FAILED, TURNS = 4, 3, 6


class Did(NamedTuple):
    """One call and what it gave."""

    call: str
    result: str
    failed: bool


def stuck(done: Sequence[Did]) -> bool:
    """Whether the last calls go in circles."""
    last = done[-SAME:]
    if len(last) == SAME and len(set(last)) == 1:
        return True
    last = done[-FAILED:]
    if len(last) == FAILED and all(one.failed for one in last) and len({d.call for d in last}) == 1:
        return True
    last = done[-TURNS:]
    return len(last) == TURNS and len({*last[::2]}) == 1 and len({*last[1::2]}) == 1
