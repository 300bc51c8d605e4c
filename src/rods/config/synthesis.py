"""Settings of how variants are made.

SynthesisSettings(writer="graph")
"""

from __future__ import annotations

from typing import Literal

from pydantic import Field

from rods.config.base import Settings


class ResampleSettings(Settings):
    """The writer `resample` beside another one."""

    share: float = Field(default=0.0, ge=0, le=1)
    """Share of the proposals that it makes beside `synthesis.writer`."""


class LlmWriterSettings(Settings):
    """The writer `llm` and its chat server."""

    url: str = ""
    """Base URL of an OpenAI-compatible chat server."""
    model: str = ""
    """Model of that server; empty: the first one that it lists."""
    models: dict[str, str] = Field(default_factory=dict[str, str])
    """Other models for single stages: plan, execute, critic, rewrite, coherence, judge."""
    temperature: float = Field(default=1.0, ge=0, le=2)
    """Of the writer's model, 0 (greedy) to 2."""
    temperatures: dict[str, float] = Field(default_factory=dict[str, float])
    """Other temperatures for single stages."""
    top_p: float = Field(default=0.7, gt=0, le=1)
    """Share of probability that the writer's model samples from, above 0 and up to 1."""
    planner: Literal["model", "graph"] = "model"
    """`graph`: plan and execute by walking the API graph; the model writes messages alone."""
    narrative: bool = True
    """False: the ablation whose plans tell no story."""
    coherence: bool = True
    """False: the ablation that does not rewrite the whole conversation once."""
    feedback: bool = True
    """False: the ablation in which a failed attempt teaches the next one nothing."""
    concurrency: int = Field(default=8, ge=1)
    """Requests in flight at the chat server."""
    timeout: float = Field(default=120.0, gt=0)
    """Seconds that the chat server may be silent while it is asked."""
    max_tokens: int = Field(default=2048, ge=1)
    """Longest answer of the chat server, its thinking included."""
    price_in: float = Field(default=0.0, ge=0)
    """Cost of a million prompt tokens, in any currency; log and tables then show what was spent."""
    price_out: float = Field(default=0.0, ge=0)
    """Cost of a million tokens of answers."""


class PaceSettings(Settings):
    """How much an epoch asks of the worker."""

    cycles: int = Field(default=1, ge=1)
    """Synthesis cycles in an epoch, evenly spaced; each submits `boundary.seeds` seeds."""
    backlog: float = Field(default=2.0, gt=0)
    """Never more waiting variants than this many epochs can inject."""


class SynthesisSettings(Settings):
    """How variants are made."""

    writer: str = "resample"
    """`resample`, `graph`, `llm`, or `module:attribute` of a writer. For question tasks the first
    two mean `family`, another question of the same family and difficulty."""
    resample: ResampleSettings = ResampleSettings()
    llm: LlmWriterSettings = LlmWriterSettings()
    variants_per_seed: int = Field(default=2, ge=1)
    """Variants that a synthesis cycle asks of each seed, 1 or more."""
    attempts: int = Field(default=3, ge=1)
    """Whole attempts for one variant, K_max."""
    max_distance: float = Field(default=0.25, ge=0, le=1)
    """Largest distance between the complexity profiles of a variant and its seed."""
    pace: PaceSettings = PaceSettings()
    drain_seconds: float = Field(default=0.0, ge=0)
    """At an epoch's start, wait at most so long for requests of earlier epochs: a run can then be
    repeated exactly, as long as the writer is in time (the log says so where it is not). 0: nothing
    waits, the epoch takes what is there. Updates never wait."""
