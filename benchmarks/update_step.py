"""Tokens per second of one update of the local trainer, for the quick profile's shape.

A random Qwen3-shaped model (4 layers of width 256, 3,000 tokens of vocabulary) and groups whose
members share a prompt. Prints one line for each of the repeats and the median.

    python benchmarks/update_step.py --groups 4 --k 8 --repeats 3
"""

from __future__ import annotations

import argparse
import statistics
import sys

import numpy as np
import torch
from tokenizers import Tokenizer
from tokenizers.models import WordLevel
from transformers import PreTrainedTokenizerFast, Qwen3Config, Qwen3ForCausalLM

from rods.config import ModelSettings, TrainSettings
from rods.engines.threads import set_threads
from rods.reward import Score
from rods.settings.train import LocalSettings
from rods.task import Task, Turn
from rods.tokens import Span
from rods.trainers.local import LocalTrainer, UpdateReport
from rods.trajectory import Group, Trajectory
from rods.types import StopReason

VOCABULARY = 3000


def make_model(layers: int, width: int) -> Qwen3ForCausalLM:
    """A random model of the bundled policy's kind."""
    torch.manual_seed(0)
    heads = width // 64
    config = Qwen3Config(
        vocab_size=VOCABULARY, hidden_size=width, intermediate_size=width * 11 // 4,
        num_hidden_layers=layers, num_attention_heads=heads,
        num_key_value_heads=max(1, heads // 2), head_dim=64, max_position_embeddings=4096,
        tie_word_embeddings=True, attn_implementation="sdpa",
    )  # fmt: skip
    return Qwen3ForCausalLM(config)


def make_groups(groups: int, k: int, tokens: int, shared: float, seed: int) -> list[Group]:
    """Random groups: `shared` of the mean length is a common prompt, six turns, a third sampled."""
    rng = np.random.default_rng(seed)

    def ids(count: float) -> tuple[int, ...]:
        return tuple(int(i) for i in rng.integers(5, VOCABULARY, max(1, int(count))))

    made: list[Group] = []
    for index in range(groups):
        prompt = Span(ids(tokens * shared), None)
        task = Task("none", "base", (Turn(f"task {index}"),), {})
        members: list[Trajectory] = []
        for member in range(k):
            rest = tokens * (1 - shared) * rng.uniform(0.5, 1.5)
            spans = [prompt]
            for _ in range(6):
                sampled = ids(rest / 18)
                spans.append(Span(sampled, (-8.0,) * len(sampled)))
                spans.append(Span(ids(rest / 9), None))
            members.append(
                Trajectory(task.id, member, 0, member, (), (), (), 1, tuple(spans), StopReason.DONE)
            )
        made.append(Group(task, members, 0))
    return made


def run(options: argparse.Namespace) -> list[UpdateReport]:
    """The measured updates, after one to warm up."""
    set_threads(options.threads)
    groups = make_groups(options.groups, options.k, options.tokens, options.shared, 0)
    scores = [[Score(float(i % 2)) for i in range(options.k)] for _ in groups]
    settings = TrainSettings(
        kl=options.kl, local=LocalSettings(microbatch_tokens=options.microbatch_tokens)
    )
    trainer = LocalTrainer(
        make_model(options.layers, options.width).to(options.device),
        PreTrainedTokenizerFast(tokenizer_object=Tokenizer(WordLevel({"w": 0}))),
        settings, ModelSettings(), 100, 0,
    )  # fmt: skip
    return [trainer.update(groups, scores) for _ in range(options.repeats + 1)][1:]


def main() -> None:
    """Parse, run, print."""
    parser = argparse.ArgumentParser(description=__doc__)
    for name, value in {
        "groups": 4, "k": 8, "tokens": 700, "layers": 4, "width": 256, "repeats": 3,
        "threads": 0, "microbatch_tokens": 16_384,
    }.items():  # fmt: skip
        parser.add_argument(f"--{name.replace('_', '-')}", type=int, default=value)
    parser.add_argument("--shared", type=float, default=0.4)
    parser.add_argument("--kl", type=float, default=0.0)
    parser.add_argument("--device", default="cpu")
    options = parser.parse_args()
    reports = run(options)
    for r in reports:
        print(
            f"{r.tokens} tokens ({r.sampled_tokens} sampled) in {r.seconds:.2f} s: "
            f"{r.tokens / r.seconds:,.0f} tokens/s; {r.microbatches} micro-batches, "
            f"{r.positions} positions computed ({1 - r.positions / r.tokens:+.1%} saved)"
        )
    median = statistics.median(r.tokens / r.seconds for r in reports)
    print(f"median {median:,.0f} tokens/s on {torch.get_num_threads()} threads")


if __name__ == "__main__":
    sys.exit(main())
