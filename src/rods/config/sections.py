"""All sections of settings together, before they are checked against each other.

Owns the two small sections of what a run has beside it: trackers, and a Ray.

Sections().rollout.k        # 16
"""

from __future__ import annotations

from typing import Literal

from pydantic import Field

from rods.config.base import Settings, Texts
from rods.config.curriculum import (
    BoundarySettings,
    EnvTuningSettings,
    ReplaySettings,
    StageSettings,
    StaticSettings,
)
from rods.config.engine import EngineSettings
from rods.config.env import EnvSettings
from rods.config.rollout import EvaluationSettings, ModelSettings, RolloutSettings
from rods.config.synthesis import SynthesisSettings
from rods.config.train import TrainSettings


class TrackSettings(Settings):
    """Trackers, none by default; the run's own folder has all figures anyway."""

    names: Texts = ()
    """`tensorboard` (into the run's folder), `wandb`, `mlflow`, `trackio`: one or several. Each
    needs its extra of this name: `rods doctor` prints the line that installs it."""
    project: str = "rods"
    """Under which project or experiment they file the run."""


class RaySettings(Settings):
    """Worlds and synthesis on other machines (docs/scale.md); rollout and training stay here."""

    address: str = "auto"
    """Of the Ray: `auto`, the one that this machine belongs to (`ray start`), or HOST:PORT;
    `local`: one of this machine alone, for a trial, that ends with the run."""
    worlds: int = Field(default=0, ge=0)
    """Worlds that are played at once, each in an actor of its own; 0: in this process."""
    writers: int = Field(default=0, ge=0)
    """Actors that make variants; 0: the synthesis worker makes them itself."""
    cpus: float = Field(default=0.5, gt=0)
    """Processors that Ray sets aside for one actor; worlds mostly wait for the policy."""


class Sections(Settings):
    """Everything that decides what a run does."""

    seed: int = Field(default=0, ge=0)
    """Seed of everything random: draws, samples, adapters, synthesis; 0 or more."""
    updates: int = Field(default=0, ge=0)
    """Stop after this many updates, so that two curricula get the same budget; 0: play all
    stages."""
    trajectories: int = Field(default=0, ge=0)
    """Stop after the update by which so many trajectories were sampled; 0: no such limit."""
    curriculum: Literal["rods", "static", "envtuning"] = "rods"
    """`static`: the fixed pool, same budget, no synthesis. `envtuning`: Environment Tuning, the
    fixed pool with hints in some stages."""
    static: StaticSettings = StaticSettings()
    envtuning: EnvTuningSettings = EnvTuningSettings()
    model: ModelSettings = ModelSettings()
    engine: EngineSettings = EngineSettings()
    env: EnvSettings = EnvSettings()
    rollout: RolloutSettings = RolloutSettings()
    boundary: BoundarySettings = BoundarySettings()
    replay: ReplaySettings = ReplaySettings()
    synthesis: SynthesisSettings = SynthesisSettings()
    train: TrainSettings = TrainSettings()
    evaluation: EvaluationSettings = EvaluationSettings()
    rewards: dict[str, dict[str, float | str | bool]] = Field(
        default_factory=dict[str, dict[str, float | str | bool]]
    )
    """Constants of rewards: a table for each reward, by the word that its name begins with, such as
    `rewards.toolrl.grain`; the reward says which there are. A stage's `reward` says which one
    scores."""
    track: TrackSettings = TrackSettings()
    ray: RaySettings = RaySettings()
    stages: tuple[StageSettings, ...] = (StageSettings(name="all", expand=True),)
    """What is trained on, in order; at least one stage."""

    @property
    def grows(self) -> bool:
        """Whether variants join the pool of tasks."""
        return self.curriculum == "rods" and any(stage.expand for stage in self.stages)
