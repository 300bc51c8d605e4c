"""The guide to dialects shows what the dialects write."""

from __future__ import annotations

import re

import pytest

from places import ROOT
from rods.dialects import DIALECTS, structured
from rods.types import ToolCall

PAGE = (ROOT / "docs" / "guides" / "models.md").read_text()
ROWS = dict(re.findall(r"^\| `(\w+)` \| .* \| (`.*`) \|$", PAGE, re.MULTILINE))
CALL = ToolCall("book_room", {"room_id": "R-3", "hours": 2})


@pytest.mark.parametrize("name", ROWS)
def test_a_sample_is_what_the_dialect_writes(name: str) -> None:
    sample = "\n".join(line.strip("`") for line in ROWS[name].split("⏎"))
    assert sample == structured(name).write([CALL])


def test_every_dialect_is_named() -> None:
    assert len(ROWS) == 6
    assert [name for name in DIALECTS if f"`{name}`" not in PAGE] == []
