"""All settings, their checks, and the changes that a resume allows. Nothing here imports torch.

    config = load_config(recipe="rods", profile="small", overrides=["train.lr=1e-4"])
    config.digest()          # what `--resume` compares

A module for each section holds its settings. `checks.py` holds the combinations it refuses.
"""

from rods.config.curriculum import BoundarySettings as BoundarySettings
from rods.config.curriculum import ReplaySettings as ReplaySettings
from rods.config.curriculum import StageSettings as StageSettings
from rods.config.engine import EngineSettings as EngineSettings
from rods.config.env import EnvSettings as EnvSettings
from rods.config.evaluation import EvaluationSettings as EvaluationSettings
from rods.config.load import FULL as FULL
from rods.config.load import SMALL as SMALL
from rods.config.load import Start as Start
from rods.config.load import keys as keys
from rods.config.load import load_config as load_config
from rods.config.load import parse_config as parse_config
from rods.config.load import profile_name as profile_name
from rods.config.load import require_config as require_config
from rods.config.load import with_overrides as with_overrides
from rods.config.rollout import ModelSettings as ModelSettings
from rods.config.rollout import RolloutSettings as RolloutSettings
from rods.config.run import RunConfig as RunConfig
from rods.config.sections import SynthesisSettings as SynthesisSettings
from rods.config.train import TrainSettings as TrainSettings
