"""Settings of synthesis: the writers of variants.

SynthesisSettings(writer="graph")
"""

from __future__ import annotations

from typing import Annotated, Literal

from pydantic import BeforeValidator, Field

from rods.config.base import Settings, one_or_many

Price = Annotated[float, Field(ge=0)]


def _of_all_stages(value: object) -> object:
    """Read a single name as the model of all stages."""
    return {"all": value} if isinstance(value, str) and value else value or {}


class ResampleSettings(Settings):
    """The writer `resample` as a second writer."""

    share: float = Field(default=0.0, ge=0, le=1)
    """Share of the candidates that `resample` makes, in addition to `synthesis.writer`."""


class LlmWriterSettings(Settings):
    """The writer `llm` and its chat server."""

    url: str = ""
    """Base URL of an OpenAI-compatible chat server."""
    model: Annotated[dict[str, str], BeforeValidator(_of_all_stages)] = Field(
        default_factory=dict[str, str]
    )
    """Model of that server, or a table of models by stage: plan, execute, critic, rewrite,
    coherence, judge, and `all` for the others. Empty: the first one that the server lists."""
    planner: Literal["model", "graph"] = "model"
    """`model`: the model plans and executes. `graph`: a walk through the API graph does, and the
    model only writes messages."""
    without: Annotated[
        tuple[Literal["narrative", "coherence", "feedback"], ...], BeforeValidator(one_or_many)
    ] = ()
    """Ablations. `narrative`: plans contain no story. `coherence`: no rewriting of the whole
    conversation. `feedback`: an attempt learns nothing from the failed one before it."""
    concurrency: int = Field(default=8, ge=1)
    """Largest number of requests in flight at the chat server."""
    timeout: float = Field(default=120.0, gt=0)
    """Seconds that the chat server may take without sending anything."""
    max_tokens: int = Field(default=2048, ge=1)
    """Largest number of tokens in an answer of the chat server, its thinking included."""
    price: tuple[Price, Price] = (0.0, 0.0)
    """Price of a million prompt tokens and of a million answer tokens, in any currency. Log and
    tables then show the cost."""


class SynthesisSettings(Settings):
    """Synthesis of variants."""

    writer: str = "resample"
    """`resample`, `graph`, `llm`, or `module:attribute` of a writer. For question tasks the first
    two mean `family`, another question of the same family and difficulty."""
    resample: ResampleSettings = ResampleSettings()
    llm: LlmWriterSettings = LlmWriterSettings()
    variants_per_seed: int = Field(default=2, ge=1)
    """Variants that a synthesis cycle requests for each seed task, 1 or more."""
    attempts: int = Field(default=3, ge=1)
    """Largest number of attempts for one variant, K_max."""
    drain_seconds: float = Field(default=0.0, ge=0)
    """Longest wait at an epoch's start for requests of earlier epochs. A run is then exactly
    repeatable, unless the writer is late (the log reports it). 0: no wait, the epoch takes the
    variants that are ready. Updates never wait."""
