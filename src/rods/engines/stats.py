"""Counts and seconds of an engine, for reports and benchmarks."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(slots=True)
class EngineStats:
    """What an engine did since it was made."""

    generated_tokens: int = 0
    prefill_tokens: int = 0
    forked_tokens: int = 0
    """Prompt tokens that were taken from another session of the group instead of computed."""
    prefill_passes: int = 0
    decode_steps: int = 0
    evictions: int = 0
    """Idle contexts that lost their row to a waiting session and are computed again when used."""
    moves: int = 0
    """Rows moved to keep the running batch dense."""
    prefill_seconds: float = 0.0
