"""The memory plan beside what is allocated on a GPU, for every way to train.

For each of them a random Qwen3 is trained for two updates on groups that fill a micro-batch.
Printed: planned and measured GiB at rest, and at the peak of an update, without the reserve.

    python benchmarks/gpu/memory.py
    python benchmarks/gpu/memory.py --device cpu --tiny     # plans; a CPU counts no allocations
"""

from __future__ import annotations

import gc
import sys

import torch
from common import make_model, options, where
from tokenizers import Tokenizer
from tokenizers.models import WordLevel
from transformers import PreTrainedTokenizerFast
from update_step import make_groups

from rods.config import load_config
from rods.engines.hf import HFPolicy
from rods.reward import Score
from rods.trainers.local import LocalTrainer
from rods.trainers.memory import GIB, RESERVE, plan_of, shape_of

WAYS = [
    (mode, checkpointing, rank, kl)
    for mode in ("full", "8bit", "offload")
    for checkpointing in (False, True)
    for rank, kl in ((0, 0.0), (0, 0.01), (32, 0.01))
]


def one(settings, mode: str, checkpointing: bool, rank: int, kl: float) -> str:
    """A line for one way."""
    config = load_config("rods", "", [
        f"model.device={settings.device}", "model.dtype=bfloat16", f"model.lora_rank={rank}",
        f"train.kl={kl}", f"train.local.optimizer_memory={mode}",
        f"train.local.gradient_checkpointing={str(checkpointing).lower()}",
        f"train.local.microbatch_tokens={settings.microbatch}",
        f"rollout.context_tokens={settings.microbatch}",
    ])  # fmt: skip
    cuda = settings.device == "cuda"
    gc.collect()
    if cuda:
        torch.cuda.empty_cache()
        torch.cuda.reset_peak_memory_stats()
    model = make_model(settings.hidden, settings.layers, settings.vocabulary, settings.device)
    plan = plan_of(shape_of(model.config), config, on_gpu=True)
    trainer = LocalTrainer(
        model, PreTrainedTokenizerFast(tokenizer_object=Tokenizer(WordLevel({"w": 0}))),
        config.train, config.model, 100, 0,
    )  # fmt: skip
    policy = HFPolicy(model, (), 4, 512, settings.device, torch.bfloat16, share=True)
    groups = make_groups(settings.tasks, settings.k, settings.tokens, 0.4, 0)
    scores = [[Score(float(i % 2)) for i in range(settings.k)] for _ in groups]
    for _ in range(2):
        trainer.update(groups, scores)
    rest, peak = (
        (torch.cuda.memory_allocated() / GIB, torch.cuda.max_memory_allocated() / GIB)
        if cuda
        else (float("nan"), float("nan"))
    )
    always = (plan.total("always") - RESERVE[True]) / GIB
    most = always + plan.total("update") / GIB
    del policy
    ways = f"{mode}, {'checkpointing' if checkpointing else 'plain'}, "
    ways += f"{'LoRA' if rank else 'all weights'}, kl {kl}"
    return f"{ways:46}  {always:7.2f} {rest:7.2f}   {most:7.2f} {peak:7.2f}"


def main() -> None:
    """Measure and print."""
    settings = options(
        __doc__, hidden=1536, layers=16, vocabulary=65_536, tasks=2, k=8, tokens=2048,
        microbatch=16_384,
    )  # fmt: skip
    if settings.tiny:
        settings.hidden, settings.layers, settings.vocabulary = 128, 1, 3072
        settings.tokens, settings.microbatch, settings.k = 40, 128, 2
    print(f"{where(settings.device)}; GiB planned and measured, at rest and at the peak")
    for way in WAYS:
        print(one(settings, *way), flush=True)


if __name__ == "__main__":
    sys.exit(main())
