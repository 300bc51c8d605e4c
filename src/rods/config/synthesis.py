"""Settings of synthesis; each writer declares its own section.

SynthesisSettings(writer="graph")
"""

from __future__ import annotations

from typing import ClassVar

from pydantic import Field

from rods.config.base import Extended


class SynthesisSettings(Extended):
    """Synthesis of variants."""

    place: ClassVar[str] = "synthesis"

    writer: str = "resample"
    """`resample`, `graph`, `llm`, or `module:attribute` of a writer. For question tasks the first
    two mean `family`, another question of the same family and difficulty."""
    variants_per_seed: int = Field(default=2, ge=1)
    """Variants that a synthesis cycle requests for each seed task, 1 or more."""
    attempts: int = Field(default=3, ge=1)
    """Largest number of attempts for one variant, K_max."""
    drain_seconds: float = Field(default=0.0, ge=0)
    """Longest wait at an epoch's start for requests of earlier epochs. A run is then exactly
    repeatable, unless the writer is late (the log reports it). 0: no wait, the epoch takes the
    variants that are ready. Updates never wait."""
