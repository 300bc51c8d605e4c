"""The program within this process: `rods WORDS`, and the status with which it would exit."""

from __future__ import annotations

import sys

import pytest

from rods.cli import main as program


def rods(*words: str, monkeypatch: pytest.MonkeyPatch) -> int:
    """Exit status of `rods WORDS`."""
    monkeypatch.setattr(sys, "argv", ["rods", *words])
    try:
        program.main()
    except SystemExit as stop:
        return int(stop.code or 0)
    return 0
