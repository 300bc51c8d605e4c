"""Inside TRL: its GRPOTrainer over our curriculum, rollouts and worlds (docs/guides/trl.md).

Owns nothing beside the parts in `trainer.py` and `args.py`. Nothing else in RODS imports TRL.

    from rods.integrations.trl import CurriculumGRPOTrainer, grpo_args
"""

from importlib import import_module
from typing import TYPE_CHECKING, Any

from rods.integrations.trl.args import grpo_args as grpo_args

if TYPE_CHECKING:
    from rods.integrations.trl.trainer import CurriculumGRPOTrainer as CurriculumGRPOTrainer


def __getattr__(name: str) -> Any:  # the trainer needs TRL, what it is given does not
    if name != "CurriculumGRPOTrainer":
        raise AttributeError(name)
    return import_module("rods.integrations.trl.trainer").CurriculumGRPOTrainer
