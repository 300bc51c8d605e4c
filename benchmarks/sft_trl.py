"""TRL's SFTTrainer on the conversations that `sft_speed.py --trl` wrote: padded, its own loop.

Runs in TRL's interpreter and imports nothing of RODS. It makes one update for each line that it
reads, and answers with what that took, as JSON.

    TRL_PYTHON benchmarks/sft_trl.py FOLDER ROWS UPDATES
"""

from __future__ import annotations

import json
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import torch
from datasets import Dataset
from peft import LoraConfig
from transformers import AutoModelForCausalLM, AutoTokenizer
from trl import SFTConfig, SFTTrainer
from trl_timed import Timed


class Figures:
    """Loss and tokens of an update, from a row of the log, which counts the tokens so far."""

    def __init__(self) -> None:
        self._seen = 0

    def __call__(self, logs: Mapping[str, Any]) -> dict[str, float]:
        """Nothing where the row is of no update."""
        if "loss" not in logs:
            return {}
        before, self._seen = self._seen, int(logs["num_tokens"])
        return {"tokens": self._seen - before, "loss": logs["loss"]}


def main() -> None:
    """Train as often as asked."""
    folder, rows, updates = Path(sys.argv[1]), int(sys.argv[2]), int(sys.argv[3])
    sys.stdout = sys.stderr  # what TRL prints is no answer
    given = json.loads((folder / "batch.json").read_text())
    torch.set_num_threads(given["threads"])
    half = given["bfloat16"]
    model = AutoModelForCausalLM.from_pretrained(
        given["model"], dtype=torch.bfloat16 if half else torch.float32
    )
    lora = LoraConfig(
        r=given["rank"], lora_alpha=2 * given["rank"], target_modules="all-linear",
        task_type="CAUSAL_LM",
    )  # fmt: skip
    config = SFTConfig(
        str(folder / "out"), per_device_train_batch_size=rows, max_steps=updates,
        max_length=None, packing=False,
        learning_rate=1e-3, lr_scheduler_type="constant", use_cpu=True, bf16=half,
        gradient_checkpointing=False, logging_steps=1, save_strategy="no", report_to="none",
        disable_tqdm=True,
    )  # fmt: skip
    SFTTrainer(
        model, config, train_dataset=Dataset.from_list(given["rows"]), peft_config=lora,
        processing_class=AutoTokenizer.from_pretrained(given["model"]),
        callbacks=[Timed(Figures())],
    ).train()  # fmt: skip


if __name__ == "__main__":
    main()
