"""Inside TRL: its GRPOTrainer over our curriculum, rollouts and worlds (docs/hosts.md).

Owns nothing beside the parts in `trainer.py` and `args.py`. Nothing else of ours imports TRL.

    from rods.trainers.trl import CurriculumGRPOTrainer, grpo_args
"""

from rods.trainers.trl.args import grpo_args
from rods.trainers.trl.trainer import CurriculumGRPOTrainer

__all__ = ["CurriculumGRPOTrainer", "grpo_args"]
