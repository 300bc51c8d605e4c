"""All sections of settings together, before they are checked against each other.

Owns the small sections for synthesis and Ray.
"""

from __future__ import annotations

from typing import ClassVar, Literal

from pydantic import Field

from rods.config.base import Extended, Settings
from rods.config.curriculum import (
    BoundarySettings,
    EnvTuningSettings,
    ReplaySettings,
    StageSettings,
    StaticSettings,
)
from rods.config.engine import EngineSettings
from rods.config.env import EnvSettings
from rods.config.evaluation import EvaluationSettings
from rods.config.rollout import ModelSettings, RolloutSettings
from rods.config.train import TrainSettings


class SynthesisSettings(Extended):
    """Synthesis of variants."""

    place: ClassVar[str] = "synthesis"

    writer: str = "resample"
    """`resample`, `graph`, `llm`, or `module:attribute` of a writer. For generated questions,
    `family` replaces the first two: another question of the same family and difficulty."""
    variants_per_seed: int = Field(default=2, ge=1)
    """Variants that are requested for each seed task, 1 or more."""
    attempts: int = Field(default=3, ge=1)
    """Largest number of attempts for one variant, K_max."""
    drain_seconds: float = Field(default=0.0, ge=0)
    """Longest wait at an epoch's start for requests of earlier epochs. A run is then exactly
    repeatable, unless the writer is late (the log reports it). 0: no wait, the epoch takes the
    variants that are ready. Updates never wait."""


class RaySettings(Settings):
    """Worlds and synthesis on other machines; rollout and training stay here."""

    address: str = "auto"
    """Address of the Ray cluster. `auto`: the cluster of this machine (`ray start`). HOST:PORT:
    another one. `local`: a cluster of this machine for a trial, which ends with the run."""
    worlds: int = Field(default=0, ge=0)
    """Number of actors for worlds, one world in each; 0: all worlds in this process."""
    writers: int = Field(default=0, ge=0)
    """Number of actors that make variants; 0: the synthesis worker makes them itself."""
    cpus: float = Field(default=0.5, gt=0)
    """CPUs that Ray reserves for one actor; worlds mostly wait for the policy."""


class Sections(Extended):
    """All settings of a run."""

    place: ClassVar[str] = ""

    seed: int = Field(default=0, ge=0)
    """Seed of everything random: draws, samples, adapters, synthesis; 0 or more."""
    updates: int = Field(default=0, ge=0)
    """Stop after this many updates at the latest; stages that are complete earlier end the run.
    0: complete all stages."""
    trajectories: int = Field(default=0, ge=0)
    """Stop after the update that reaches this many sampled trajectories; 0: no limit."""
    curriculum: Literal["rods", "static", "envtuning"] = "rods"
    """`rods`: a pool that grows by synthesis. `static`: a fixed pool with the same budget.
    `envtuning`: Environment Tuning, a fixed pool with hints in some stages."""
    static: StaticSettings = StaticSettings()
    envtuning: EnvTuningSettings = EnvTuningSettings()
    model: ModelSettings = ModelSettings()
    engine: EngineSettings = EngineSettings()
    env: EnvSettings = Field(default_factory=EnvSettings)
    rollout: RolloutSettings = RolloutSettings()
    boundary: BoundarySettings = BoundarySettings()
    replay: ReplaySettings = ReplaySettings()
    synthesis: SynthesisSettings = Field(default_factory=SynthesisSettings)
    train: TrainSettings = TrainSettings()
    evaluation: EvaluationSettings = Field(default_factory=EvaluationSettings)
    rewards: dict[str, dict[str, float | str | bool]] = Field(
        default_factory=dict[str, dict[str, float | str | bool]]
    )
    """Constants of rewards, in one table per reward, such as `rewards.toolrl.grain`. The table has
    the first word of the reward's name. The reward defines the constants. `stages.N.reward`
    chooses the reward."""
    ray: RaySettings = RaySettings()
    stages: tuple[StageSettings, ...] = (StageSettings(name="all", expand=True),)
    """Stages of the training in order; at least one."""

    @property
    def grows(self) -> bool:
        """True if variants join the pool of tasks."""
        return self.curriculum == "rods" and any(stage.expand for stage in self.stages)
