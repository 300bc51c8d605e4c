"""Where things lie in this checkout, for tests in whatever folder."""

from __future__ import annotations

from pathlib import Path

ROOT = Path(__file__).parents[2]
SOURCE = ROOT / "src" / "rods"
TESTS = ROOT / "tests"
SUPPORT = TESTS / "support"
BENCHMARKS = ROOT / "benchmarks"
