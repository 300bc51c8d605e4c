"""Shares of a split: whole numbers of scenarios, whatever the rounding of floats."""

from __future__ import annotations

import pytest

from pool_cases import originals
from rods.split import SplitKind, split


@pytest.mark.parametrize(
    ("held_out", "trained"), [(0.5, 5), (0.8, 2), (0.9, 1), (0.25, 7), (0.05, 9), (1.0, 0)]
)
@pytest.mark.parametrize("kind", ["grouped", "paper"])
def test_a_share_of_ten_is_whole_where_it_can_be(
    kind: SplitKind, held_out: float, trained: int
) -> None:
    """(1 - 0.9) * 10 is 0.9999999999999998, and that is one scenario."""
    found = split(originals(10, ["base"]), kind, held_out_share=held_out)
    assert (len(found.train), len(found.held_out)) == (trained, 10 - trained)
