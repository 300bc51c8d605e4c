"""A recipe inside TRL: `python examples/trl/train.py`, or under `torchrun --nproc-per-node 2`."""

import rods
from rods.integrations.trl import CurriculumGRPOTrainer, grpo_args

with rods.hosted(rods.load_config("rods", "small")) as run:  # tasks, worlds, rewards, synthesis
    trainer = CurriculumGRPOTrainer(run, args=grpo_args(run.config, "runs/trl", logging_steps=5))
    trainer.train()
