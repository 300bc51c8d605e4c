"""Settings of what is played when: stages, boundary, replay buffer.

BoundarySettings().seeds
"""

from __future__ import annotations

from typing import Literal

from pydantic import Field

from rods.config.base import Settings, Share, Texts


class BoundarySettings(Settings):
    """Where the boundary of the policy's capability lies (arXiv 2606.19047)."""

    low: float = Field(default=0.20, ge=0, le=1)
    """A mean reward below it: hard."""
    high: float = Field(default=0.85, ge=0, le=1)
    """A mean reward above it: mastered."""
    priority: Literal["phi", "variance", "thompson", "random"] = "phi"
    """Which boundary tasks become seeds first. `random`: the ablation that takes any judged task,
    whatever its region."""
    seeds: int = Field(default=16, ge=1)
    """Seeds of one synthesis cycle, M."""
    cooldown_epochs: float = Field(default=1.0, ge=0)
    """A seed is not chosen again for this many epochs."""
    signal: Literal["progress", "binary"] = "progress"
    """`binary`: the ablation that reads the boundary from solved or not."""


class ReplaySettings(Settings):
    """The dynamic replay buffer (arXiv 2606.19047)."""

    cap: int = Field(default=400, ge=0)
    """Generated tasks alive at most, P_max."""
    inject: float = Field(default=0.20, ge=0, le=1)
    """Share of the active pool that may enter at an epoch's start, beta."""
    retire: tuple[Share, Share] | tuple[()] = (0.20, 0.95)
    """A variant is retired when its mean reward is below the first (too hard) or above the second
    (mastered). A new variant whose first judged mean reward is below the first is evicted likewise
    (burn-in). Empty: the ablation without either."""
    retest: float = Field(default=0.0, ge=0, le=1)
    """Share of an epoch's draws that re-test retired tasks."""


class StaticSettings(Settings):
    """`curriculum = "static"`."""

    variants: Texts = ()
    """Files of variants made once (`rods synth`) that the pool holds beside the original tasks."""


class EnvTuningSettings(Settings):
    """`curriculum = "envtuning"`: a fixed pool, and failed calls that are answered with hints."""

    hints: Texts = ()
    """Names of the stages with hints. Empty: all but the first, and of the last one the first half.
    Evaluation has none."""


class StageSettings(Settings):
    """One stage of the curriculum."""

    name: str
    """Of the stage, in logs and tables; each stage has another."""
    reward: str = "progress"
    """Short name or `module:attribute`."""
    categories: Texts = ()
    """Categories of tasks; empty: all."""
    epochs: int = Field(default=5, ge=1)
    """Passes over the stage's pool of tasks, 1 or more."""
    tasks: int = Field(default=0, ge=0)
    """Original tasks of this stage at most, stratified; 0: all."""
    slice: int = Field(default=0, ge=0)
    """Original tasks that one epoch draws, the next ones of the stage in turn, so that short epochs
    bring all of them into play; 0: all in every epoch."""
    expand: bool = False
    """Whether boundary, synthesis and buffer are at work in this stage."""
