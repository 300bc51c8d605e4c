"""Milliseconds of a decode step on one GPU, with cuDNN's attention and without, and its kernels.

A random model of SmolLM2-135M's shape with LoRA adapters. Each row holds a prompt; then every step
appends a token to all rows and draws the next one, so each step attends to one position more. Both
forms take turns in blocks. The kernels' own time over the step's says how far the host holds it up.

    python benchmarks/gpu/decode_step.py
    python benchmarks/gpu/decode_step.py --device cpu --tiny
"""

from __future__ import annotations

import sys
import time

import torch
from common import options, wait, where
from peft import LoraConfig, get_peft_model
from torch.profiler import ProfilerActivity, profile
from transformers import LlamaConfig, LlamaForCausalLM

from rods.engines.kv import RowCache
from rods.engines.sampling import draw

BLOCKS = 3


def make_model(layers: int, device: str):
    """SmolLM2-135M's shape, in bfloat16, with adapters on every matrix."""
    config = LlamaConfig(
        vocab_size=49_152, hidden_size=576, intermediate_size=1536, num_hidden_layers=layers,
        num_attention_heads=9, num_key_value_heads=3, tie_word_embeddings=True,
        max_position_embeddings=8192,
    )  # fmt: skip
    with torch.device(device):
        model = LlamaForCausalLM(config).eval()
    for parameter in model.parameters():  # the rotary frequencies stay float32
        parameter.data = parameter.data.bfloat16()
    return get_peft_model(model, LoraConfig(r=16, target_modules="all-linear"))


class Decoding:
    """All rows, one token further with every step."""

    def __init__(self, model, rows: int, prompt: int, longest: int, device: str) -> None:
        where = torch.device(device)
        self.cache = RowCache(model, rows, longest, where, torch.bfloat16, share=True)
        self.rows, self.ids = list(range(rows)), [7] * rows
        for begin in range(0, rows, 16):
            some = self.rows[begin : begin + 16]
            self.cache.prefill(some, [[5] * prompt] * len(some))

    def step(self) -> None:
        """One token for every row."""
        count = len(self.rows)
        logits = self.cache.decode(self.rows, self.ids)
        self.ids, _ = draw(logits, [1.0] * count, [0.3] * count)

    def milliseconds(self, steps: int, device: str) -> float:
        """Of one of so many steps."""
        wait(device)
        started = time.perf_counter()
        for _ in range(steps):
            self.step()
        wait(device)
        return (time.perf_counter() - started) / steps * 1e3


def kernels(decoding: Decoding) -> tuple[float, float]:
    """Kernels of a step, and the milliseconds that they take."""
    with profile(activities=[ProfilerActivity.CUDA]) as seen:
        decoding.step()
    found = [e for e in seen.key_averages() if str(e.device_type).endswith("CUDA")]
    return sum(e.count for e in found), sum(e.self_device_time_total for e in found) / 1e3


def main() -> None:
    """Measure and print."""
    settings = options(__doc__, layers=30, prompt=500, steps=16)
    if settings.tiny:
        settings.layers, settings.prompt, settings.steps = 2, 20, 1
    model, device = make_model(settings.layers, settings.device), settings.device
    print(f"{where(device)}, torch {torch.__version__}", flush=True)
    for rows in (2, 4) if settings.tiny else (64, 256):
        longest = settings.prompt + 8 * BLOCKS * settings.steps
        decoding = Decoding(model, rows, settings.prompt, longest, device)
        decoding.milliseconds(2, device)
        times: dict[bool, list[float]] = {False: [], True: []}
        for _ in range(BLOCKS):
            for cudnn, found in times.items():
                torch.backends.cuda.enable_cudnn_sdp(cudnn)
                found.append(decoding.milliseconds(settings.steps, device))
        torch.backends.cuda.enable_cudnn_sdp(False)
        count, busy = kernels(decoding) if device == "cuda" else (0, 0.0)
        without, with_ = (", ".join(f"{t:.1f}" for t in times[c]) for c in (False, True))
        print(
            f"{rows} rows: {without} ms a step without cuDNN, {with_} with it; {count} kernels "
            f"take {busy:.1f} ms of a step without", flush=True,
        )  # fmt: skip


if __name__ == "__main__":
    sys.exit(main())
