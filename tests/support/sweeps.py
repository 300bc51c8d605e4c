"""Values of a sweep that `pytest -m "not slow"` leaves out: its first ones guard the same property.

@pytest.mark.parametrize("kind", ["llama", *slow("qwen2", "mistral")])
"""

from __future__ import annotations

from typing import Any

import pytest


def slow(*values: Any) -> list[Any]:
    """These values, for CI and whole runs alone; a tuple is a row of several arguments."""
    rows = [value if isinstance(value, tuple) else (value,) for value in values]
    return [pytest.param(*row, marks=pytest.mark.slow) for row in rows]
