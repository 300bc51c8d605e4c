"""Which rows of a cache a decode step looks at together.

A kernel takes neighbouring rows as a rectangle that is as wide as the longest of them; what the
others lack is read for nothing. Another call costs as much as some reading, so rows are split
where their lengths differ by more than that.

    runs = runs_of([0, 1, 5], [40, 44, 0, 0, 0, 700], width=128)    # two: 0 to 1, and 5
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

CALL = 2**16
"""Numbers that a kernel reads while another would be called."""


class Run(NamedTuple):
    """Rows `begin` .. `end` - 1, as far as `span` positions."""

    begin: int
    end: int
    span: int


def runs_of(rows: Sequence[int], lengths: Sequence[int], width: int) -> list[Run]:
    """Rows in runs, each as wide as its longest row and the token that is appended to it.

    Args:
        rows: those that are wanted; idle ones may lie within a run.
        lengths: positions that each row of the cache has filled.
        width: numbers that a position has, of its keys or of its values.
    """
    most = CALL // width
    runs: list[Run] = []
    for row in sorted(rows):
        span = lengths[row] + 1
        if runs:
            last = runs[-1]
            longest = max(last.span, span)
            apart = (last.end - last.begin) * last.span + span
            if (row + 1 - last.begin) * longest - apart <= most:
                runs[-1] = Run(last.begin, row + 1, longest)
                continue
        runs.append(Run(row, row + 1, span))
    return runs
