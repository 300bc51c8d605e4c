"""TRL's SFTTrainer on the conversations that `sft_speed.py --trl` wrote: padded, its own loop.

Runs in TRL's interpreter and imports nothing of RODS. It makes one update for each line that it
reads, and answers with what that took, as JSON.

    TRL_PYTHON benchmarks/sft_trl.py FOLDER ROWS UPDATES
"""

from __future__ import annotations

import json
import sys
import time
from pathlib import Path
from typing import Any

import torch
from datasets import Dataset
from peft import LoraConfig
from transformers import AutoModelForCausalLM, AutoTokenizer, TrainerCallback
from trl import SFTConfig, SFTTrainer


class Timed(TrainerCallback):
    """Waits for a line before each update, and says afterwards what it took."""

    def __init__(self) -> None:
        self._wall = self._cpu = 0.0
        self._seen = 0

    def on_step_begin(self, *args: Any, **kwargs: Any) -> None:
        sys.stdin.readline()
        self._wall, self._cpu = time.perf_counter(), time.process_time()

    def on_step_end(self, *args: Any, **kwargs: Any) -> None:
        self._wall = time.perf_counter() - self._wall
        self._cpu = time.process_time() - self._cpu

    def on_log(self, args: Any, state: Any, control: Any, logs: Any, **kwargs: Any) -> None:
        if "loss" in logs:
            seen, self._seen = self._seen, int(logs["num_tokens"])
            took = {"wall": self._wall, "cpu": self._cpu, "tokens": self._seen - seen}
            took["loss"] = logs["loss"]
            sys.__stdout__.write(f"{json.dumps(took)}\n")  # type: ignore[union-attr]
            sys.__stdout__.flush()  # type: ignore[union-attr]


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
        processing_class=AutoTokenizer.from_pretrained(given["model"]), callbacks=[Timed()],
    ).train()  # fmt: skip


if __name__ == "__main__":
    main()
