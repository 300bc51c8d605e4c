"""Settings of how variants are made.

SynthesisSettings(writer="graph")
"""

from __future__ import annotations

from typing import Annotated, Literal

from pydantic import BeforeValidator, Field

from rods.config.base import Settings, one_or_many

Price = Annotated[float, Field(ge=0)]


def _of_all_stages(value: object) -> object:
    """Read a model's name as that of all stages."""
    return {"all": value} if isinstance(value, str) and value else value or {}


class ResampleSettings(Settings):
    """The writer `resample` beside another one."""

    share: float = Field(default=0.0, ge=0, le=1)
    """Share of the proposals that it makes beside `synthesis.writer`."""


class LlmWriterSettings(Settings):
    """The writer `llm` and its chat server."""

    url: str = ""
    """Base URL of an OpenAI-compatible chat server."""
    model: Annotated[dict[str, str], BeforeValidator(_of_all_stages)] = Field(
        default_factory=dict[str, str]
    )
    """Model of that server, or a table of models by stage: plan, execute, critic, rewrite,
    coherence, judge, and `all` for those that are left; empty: the first one that it lists."""
    planner: Literal["model", "graph"] = "model"
    """`graph`: plan and execute by walking the API graph; the model writes messages alone."""
    without: Annotated[
        tuple[Literal["narrative", "coherence", "feedback"], ...], BeforeValidator(one_or_many)
    ] = ()
    """Ablations. `narrative`: plans tell no story. `coherence`: the whole conversation is not
    rewritten once. `feedback`: a failed attempt teaches the next one nothing."""
    concurrency: int = Field(default=8, ge=1)
    """Requests in flight at the chat server."""
    timeout: float = Field(default=120.0, gt=0)
    """Seconds that the chat server may be silent while it is asked."""
    max_tokens: int = Field(default=2048, ge=1)
    """Longest answer of the chat server, its thinking included."""
    price: tuple[Price, Price] = (0.0, 0.0)
    """Cost of a million prompt tokens and of a million tokens of answers, in any currency; log and
    tables then show what was spent."""


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
    drain_seconds: float = Field(default=0.0, ge=0)
    """At an epoch's start, wait at most so long for requests of earlier epochs: a run can then be
    repeated exactly, as long as the writer is in time (the log says so where it is not). 0: nothing
    waits, the epoch takes what is there. Updates never wait."""
