"""Settings of the curriculum: stages, boundary, replay buffer."""

from __future__ import annotations

from typing import Any, Literal

from pydantic import Field, field_validator

from rods.config.base import Settings, Share, Texts, span


class BoundarySettings(Settings):
    """Where the boundary of the policy's capability lies (arXiv 2606.19047)."""

    low: float = Field(default=0.20, ge=0, le=1)
    """A task with a mean progress below it is hard."""
    high: float = Field(default=0.85, ge=0, le=1)
    """A task with a mean progress above it is mastered; it gets no variants."""
    priority: Literal["phi", "variance", "thompson", "random"] = "phi"
    """Order in which boundary tasks become seed tasks. `phi`: nearest to a mean progress of 0.5
    first. `random` is an ablation: it takes judged tasks of any region."""
    seeds: int = Field(default=16, ge=1)
    """Seed tasks chosen each time that variants are requested (M in the paper)."""
    cooldown_epochs: float = Field(default=1.0, ge=0)
    """Epochs until the same seed task can be chosen again."""
    signal: Literal["progress", "binary"] = "progress"
    """Measure that places a task. `binary` is an ablation: it reads only solved or not."""


class ReplaySettings(Settings):
    """The dynamic replay buffer (arXiv 2606.19047)."""

    cap: int = Field(default=400, ge=0)
    """Largest number of active variants, P_max."""
    inject: float = Field(default=0.20, ge=0, le=1)
    """Largest share of the active pool that new variants add at an epoch's start, beta."""
    retire: tuple[Share, Share] | tuple[()] = (0.20, 0.95)
    """A variant retires when its mean progress is below the first number (too hard) or above the
    second (too easy). A new variant is evicted if its first judged mean is below the first
    number (burn-in). Empty: the ablation without both."""

    @field_validator("retire", mode="before")
    @classmethod
    def _some_stay(cls, value: Any) -> Any:
        expected = "such as [0.2, 0.95]: variants between them stay; or [] to retire none"
        return span(value, expected, inside=True) if value not in ([], ()) else value

    retest: float = Field(default=0.0, ge=0, le=1)
    """Share of an epoch's draws that re-test retired tasks."""


class StaticSettings(Settings):
    """`curriculum = "static"`."""

    variants: Texts = ()
    """Files of variants, made by `rods synth`, that the pool adds to the original tasks."""


class EnvTuningSettings(Settings):
    """`curriculum = "envtuning"`: a fixed pool, and hints after failed calls."""

    hints: Texts = ()
    """Names of the stages with hints. Empty: all but the first, and only the first half of the
    last. Evaluation gives no hints."""


class StageSettings(Settings):
    """One stage of the curriculum."""

    name: str
    """Unique name of the stage in logs and tables."""
    reward: str = "progress"
    """Reward by its short name or `module:attribute`."""
    categories: Texts = ()
    """Categories of tasks; empty: all."""
    epochs: int = Field(default=5, ge=1)
    """Passes over the stage's pool of tasks, 1 or more."""
    tasks: int = Field(default=0, ge=0)
    """Largest number of original tasks in this stage, stratified; 0: all."""
    slice: int = Field(default=0, ge=0)
    """Original tasks that one epoch draws; the next epoch draws the next ones. 0: all in every
    epoch."""
    expand: bool = False
    """True: boundary, synthesis and replay buffer are active in this stage."""
