"""Engine and update on one GPU: tokens/s, and what share of the matrix rate that is.

A random Qwen3 (1.3B parameters by default). The engine plays groups that share a prompt, over
several turns with observations between; the update learns from groups of that kind, once for each
way to keep the optimizer. A token costs two operations a weight forwards, six with the backward
pass (eight where activations are computed again), attention not counted; the matrix rate is that of
square bfloat16 products, measured in the same run.

    python benchmarks/gpu/speed.py
    python benchmarks/gpu/speed.py --device cpu --tiny
"""

from __future__ import annotations

import asyncio
import random
import sys
import time

import torch
from common import make_model, matrix_rate, options, wait, where
from tokenizers import Tokenizer
from tokenizers.models import WordLevel
from transformers import PreTrainedTokenizerFast
from update_step import make_groups

from engine_counts import EngineCounts
from rods.config import ModelSettings, TrainSettings
from rods.config.train import LocalSettings
from rods.engines.hf import HFPolicy
from rods.reward import Score
from rods.trainers.local import LocalTrainer

TURNS, OBSERVATION = 4, 64


async def play(policy: HFPolicy, tasks: int, k: int, prompt: int, step: int, words: int) -> int:
    """All trajectories at once; sampled tokens."""
    rng = random.Random(0)
    prompts = [[rng.randrange(5, words) for _ in range(prompt)] for _ in range(tasks)]

    async def one(number: int) -> int:
        start = prompts[number // k]
        session, new, sampled = policy.open(number, start), start, 0
        for turn in range(TURNS):
            done = await session.generate(new, step, 1.0)
            sampled += len(done.ids)
            new = [(number + turn + i) % words for i in range(OBSERVATION)]
        session.close()
        return sampled

    return sum(await asyncio.gather(*(one(i) for i in range(tasks * k))))


def engine(settings, model, rate: float) -> None:
    """Tokens/s of the embedded engine."""
    context = settings.prompt + TURNS * (settings.step + OBSERVATION)
    rows = settings.tasks * settings.k
    words = int(model.config.vocab_size)
    policy = HFPolicy(model, (), rows, context, settings.device, torch.bfloat16, share=True)
    load = (settings.tasks, settings.k, settings.prompt, settings.step, words)
    asyncio.run(play(policy, *load))  # kernels are chosen
    counts = EngineCounts(policy)
    started = time.perf_counter()
    sampled = asyncio.run(play(policy, *load))
    wait(settings.device)
    seconds = time.perf_counter() - started
    share = 2 * model.num_parameters() * (sampled + counts.prefill_tokens) / seconds / rate
    print(
        f"engine ({policy.engine_name}): {rows} trajectories, {sampled} sampled tokens in "
        f"{seconds:.1f} s: {sampled / seconds:,.0f} tokens/s, {counts.prefill_tokens} prefilled; "
        f"{share:.1%} of the matrix rate"
    )


def update(settings, mode: str, checkpointing: bool, rank: int, rate: float) -> None:
    """Tokens/s of the update."""
    model = make_model(settings.hidden, settings.layers, settings.vocabulary, settings.device)
    groups = make_groups(settings.tasks, settings.k, settings.tokens, 0.4, 0)
    scores = [[Score(float(i % 2)) for i in range(settings.k)] for _ in groups]
    local = LocalSettings(
        optimizer_memory=mode, gradient_checkpointing=checkpointing,
        microbatch_tokens=settings.microbatch,
    )  # fmt: skip
    trainer = LocalTrainer(
        model, PreTrainedTokenizerFast(tokenizer_object=Tokenizer(WordLevel({"w": 0}))),
        TrainSettings(kl=0.0, local=local),
        ModelSettings(device=settings.device, dtype="bfloat16", lora_rank=rank), 100, 0,
    )  # fmt: skip
    trainer.update(groups, scores)
    if settings.device == "cuda":
        torch.cuda.reset_peak_memory_stats()
    wait(settings.device)
    started = time.perf_counter()
    report = trainer.update(groups, scores)
    wait(settings.device)
    seconds = time.perf_counter() - started
    work = (8 if checkpointing else 6) if not rank else (6 if checkpointing else 4)
    share = work * model.num_parameters() * report.positions / seconds / rate
    cuda = settings.device == "cuda"
    peak = torch.cuda.max_memory_allocated() / 2**30 if cuda else float("nan")
    print(
        f"update ({mode}, {'all weights' if not rank else f'LoRA {rank}'}, "
        f"{'checkpointing' if checkpointing else 'plain'}): {report.tokens} tokens, "
        f"{report.positions} computed, in {seconds:.2f} s: "
        f"{report.tokens / seconds:,.0f} tokens/s, {share:.1%} of the matrix rate; "
        f"at most {peak:.1f} GiB"
    )


def main() -> None:
    """Measure and print."""
    settings = options(
        __doc__, hidden=2048, layers=24, vocabulary=32_768, tasks=8, k=16, prompt=1024, step=128,
        tokens=2048, microbatch=16_384, matrix=8192,
    )  # fmt: skip
    if settings.tiny:
        settings.hidden, settings.layers, settings.vocabulary = 128, 1, 3072
        settings.tasks, settings.k, settings.prompt, settings.step = 2, 2, 20, 3
        settings.tokens, settings.microbatch, settings.matrix = 40, 256, 256
    rate = matrix_rate(settings.device, settings.matrix)
    model = make_model(settings.hidden, settings.layers, settings.vocabulary, settings.device)
    print(
        f"{where(settings.device)}, {model.num_parameters() / 1e6:,.0f}M parameters, "
        f"matrix rate {rate / 1e12:.2f} Tflop/s", flush=True,
    )  # fmt: skip
    engine(settings, model, rate)
    del model
    for mode, checkpointing, rank in (
        ("full", False, 0), ("full", True, 0), ("8bit", True, 0), ("offload", True, 0),
        ("full", True, 32),
    ):  # fmt: skip
        update(settings, mode, checkpointing, rank, rate)


if __name__ == "__main__":
    sys.exit(main())
