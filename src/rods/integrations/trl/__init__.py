"""Inside TRL: its GRPOTrainer over our curriculum, rollouts and worlds (docs/guides/trl.md).

Owns nothing beside the parts in `trainer.py` and `args.py`. Nothing else of ours imports TRL.

    from rods.integrations.trl import CurriculumGRPOTrainer, grpo_args
"""

from rods.integrations.trl.args import grpo_args
from rods.integrations.trl.trainer import CurriculumGRPOTrainer

__all__ = ["CurriculumGRPOTrainer", "grpo_args"]
