"""TRL's GRPOTrainer on a batch that `update_step.py --trl` wrote: its own loss, backward and step.

Runs in TRL's interpreter and imports nothing of RODS. Generation is replaced by the batch, all else
is TRL's training loop. It makes one update for each line that it reads, and answers with what that
took, as JSON.

    TRL_PYTHON benchmarks/update_trl.py FOLDER ROWS UPDATES
"""

from __future__ import annotations

import json
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import torch
from datasets import Dataset
from tokenizers import Tokenizer
from tokenizers.models import WordLevel
from transformers import AutoModelForCausalLM, PreTrainedTokenizerFast
from trl import GRPOConfig, GRPOTrainer
from trl_timed import Timed


def padded(rows: list[list[float]], left: bool, fill: float, kind: torch.dtype) -> torch.Tensor:
    """Rows of one length."""
    width = max(map(len, rows))
    found = torch.full((len(rows), width), fill, dtype=kind)
    for i, row in enumerate(rows):
        at = width - len(row) if left else 0
        found[i, at : at + len(row)] = torch.tensor(row, dtype=kind)
    return found


def tensors(batch: dict[str, Any]) -> dict[str, torch.Tensor]:
    """What GRPOTrainer makes of its own rollouts, of these."""
    prompts, completions = batch["prompts"], batch["completions"]
    mask = padded(batch["masks"], False, 0, torch.long)
    return {
        "prompt_ids": padded(prompts, True, 0, torch.long),
        "prompt_mask": padded([[1] * len(p) for p in prompts], True, 0, torch.long),
        "completion_ids": padded(completions, False, 0, torch.long),
        "completion_mask": padded([[1] * len(c) for c in completions], False, 0, torch.long),
        "tool_mask": mask,
        "advantages": torch.tensor(batch["advantages"]),
        "old_per_token_logps": padded(batch["logprobs"], False, 0.0, torch.float32),
        "num_items_in_batch": mask.sum(),
    }


class Given(GRPOTrainer):
    """Trains on one batch, again and again."""

    given: dict[str, torch.Tensor]

    def _generate_and_score_completions(self, inputs: Any) -> dict[str, torch.Tensor]:
        return dict(self.given)


def figures(logs: Mapping[str, Any]) -> dict[str, float]:
    """The gradient's norm, of a row that has one."""
    return {"grad_norm": logs["grad_norm"]} if "grad_norm" in logs else {}


def main() -> None:
    """Train as often as asked."""
    folder, rows, updates = Path(sys.argv[1]), int(sys.argv[2]), int(sys.argv[3])
    sys.stdout = sys.stderr  # what TRL prints is no answer
    batch = json.loads((folder / "batch.json").read_text())
    torch.set_num_threads(batch["threads"])
    model = AutoModelForCausalLM.from_pretrained(
        folder / "model", dtype=torch.float32, attn_implementation="sdpa"
    )
    tokenizer = PreTrainedTokenizerFast(
        tokenizer_object=Tokenizer(WordLevel({"w": 0})), pad_token="w", eos_token="w"
    )
    count = len(batch["prompts"])
    config = GRPOConfig(
        str(folder / "out"), per_device_train_batch_size=rows, num_generations=batch["k"],
        gradient_accumulation_steps=count // rows, max_steps=updates, learning_rate=1e-6,
        lr_scheduler_type="constant", use_cpu=True, bf16=False, gradient_checkpointing=False,
        loss_type="dapo", epsilon=0.2, epsilon_high=0.28, beta=0.0, entropy_coef=0.001,
        logging_steps=1, save_strategy="no", report_to="none", disable_tqdm=True,
    )  # fmt: skip
    trainer = Given(
        model, lambda completions, **_: [0.0] * len(completions), config,
        Dataset.from_list([{"prompt": "w"}] * count),
        processing_class=tokenizer, callbacks=[Timed(figures)],
    )  # fmt: skip
    trainer.given = tensors(batch)
    trainer.train()


if __name__ == "__main__":
    main()
