"""What the commands of this folder share: options, a random model of any size, the matrix rate."""

from __future__ import annotations

import argparse
import sys
import time
from pathlib import Path

import torch
from transformers import Qwen3Config, Qwen3ForCausalLM

sys.path.insert(0, str(Path(__file__).parents[1]))  # benchmarks/, whose loads are used again


def options(about: str | None, **numbers: int) -> argparse.Namespace:
    """`--device`, `--tiny`, and some whole numbers with their defaults.

    `--tiny` shows in seconds on a CPU that the command works; its figures mean nothing.
    """
    parser = argparse.ArgumentParser(description=(about or "").partition("\n")[0])
    parser.add_argument("--device", default="cuda", choices=["cuda", "cpu"])
    parser.add_argument(
        "--tiny", action="store_true", help="seconds on a CPU; figures mean nothing"
    )
    for name, value in numbers.items():
        parser.add_argument(f"--{name.replace('_', '-')}", type=int, default=value)
    found = parser.parse_args()
    if found.device == "cuda" and not torch.cuda.is_available():
        parser.error("there is no CUDA device; --device cpu --tiny shows that the command works")
    return found


def make_model(hidden: int, layers: int, vocabulary: int, device: str) -> Qwen3ForCausalLM:
    """A random Qwen3 in bfloat16, in the proportions of the small ones."""
    torch.manual_seed(0)
    heads = max(2, hidden // 128)
    config = Qwen3Config(
        vocab_size=vocabulary, hidden_size=hidden, intermediate_size=hidden * 3,
        num_hidden_layers=layers, num_attention_heads=heads, num_key_value_heads=heads // 2,
        head_dim=hidden // heads, max_position_embeddings=32_768, tie_word_embeddings=True,
        bos_token_id=None, eos_token_id=None, pad_token_id=0,
    )  # fmt: skip
    # Weights alone: `to` would turn the rotary frequencies, which hub models keep in float32.
    with torch.device(device):
        model = Qwen3ForCausalLM(config)
    for parameter in model.parameters():
        parameter.data = parameter.data.bfloat16()
    return model.eval()


def matrix_rate(device: str, size: int) -> float:
    """Floating-point operations per second of square bfloat16 products."""
    a, b = (torch.randn(size, size, device=device, dtype=torch.bfloat16) for _ in range(2))
    best = float("inf")
    for _ in range(5):
        wait(device)
        started = time.perf_counter()
        for _ in range(10):
            torch.mm(a, b)
        wait(device)
        best = min(best, (time.perf_counter() - started) / 10)
    return 2 * size**3 / best


def wait(device: str) -> None:
    """Until the device has done what it was given."""
    if device == "cuda":
        torch.cuda.synchronize()


def where(device: str) -> str:
    """The device in words."""
    return torch.cuda.get_device_name() if device == "cuda" else "CPU"
