"""Your class, reward, model and adapters inside TRL: `python examples/trl/own_model.py`."""

from pathlib import Path

from peft import LoraConfig
from transformers import AutoModelForCausalLM, AutoTokenizer

import rods
from rods.integrations.trl import CurriculumGRPOTrainer, grpo_args

MODEL = "Qwen/Qwen3-0.6B"
LIBRARY = Path(__file__).parents[1] / "library_loans"  # a class of tools, and tasks for it
REWARD = f"{Path(__file__).with_name('reward.py')}:brief"  # a function of a task and a trajectory
SETTINGS = [
    f"env.name={LIBRARY}/service.py:library", f"env.tasks=['{LIBRARY}/tasks.jsonl']",
    f"model.name={MODEL}", "synthesis.writer=graph", "train.lr=2e-5", "updates=200",
    "rollout.k=8", "rollout.tasks_per_step=8",
    f"stages=[{{name='all', reward='{REWARD}', epochs=1000, expand=true}}]",
]  # fmt: skip

if __name__ == "__main__":
    with rods.hosted(rods.load_config("rods", "full", SETTINGS)) as run:
        trainer = CurriculumGRPOTrainer(
            run,
            args=grpo_args(run.config, "runs/trl-own", logging_steps=5),
            model=AutoModelForCausalLM.from_pretrained(MODEL),
            processing_class=AutoTokenizer.from_pretrained(MODEL),
            peft_config=LoraConfig(r=32, lora_alpha=64, target_modules="all-linear"),
        )
        trainer.train()
