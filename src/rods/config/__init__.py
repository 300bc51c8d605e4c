"""All settings, their checks, and the changes that a resume allows. Nothing here imports torch.

    config = load_config(recipe="rods", profile="small", overrides=["train.lr=1e-4"])
    config.digest()          # what `--resume` compares

A module for each section holds its settings. `checks.py` holds the combinations it refuses.
"""

from rods.config.curriculum import BoundarySettings, ReplaySettings, StageSettings
from rods.config.engine import EngineSettings
from rods.config.env import EnvSettings
from rods.config.load import (
    FULL,
    SMALL,
    Start,
    keys,
    load_config,
    parse_config,
    profile_name,
    with_overrides,
)
from rods.config.rollout import EvaluationSettings, ModelSettings, RolloutSettings
from rods.config.run import RunConfig
from rods.config.sections import SynthesisSettings
from rods.config.train import TrainSettings

__all__ = [
    "FULL",
    "SMALL",
    "BoundarySettings",
    "EngineSettings",
    "EnvSettings",
    "EvaluationSettings",
    "ModelSettings",
    "ReplaySettings",
    "RolloutSettings",
    "RunConfig",
    "StageSettings",
    "Start",
    "SynthesisSettings",
    "TrainSettings",
    "keys",
    "load_config",
    "parse_config",
    "profile_name",
    "with_overrides",
]
