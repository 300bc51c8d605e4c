"""The memory estimate beside the peak that a training process holds on a CPU.

For two random Llama-like models of 12M and 60M parameters with 49,152 words, each in a process of
its own: two updates of the local trainer on groups that fill micro-batches, mostly with sampled
tokens (`long`) or with a third of them sampled (`turns`). Printed: estimate and peak resident
memory, both in GiB and with libraries, and their ratio.

    python benchmarks/memory_plan.py
    python benchmarks/memory_plan.py --quick            # the small model, one way
"""

from __future__ import annotations

import resource
import subprocess
import sys
from typing import NamedTuple

import numpy as np
from shared import Options
from tokenizers import Tokenizer
from tokenizers.models import WordLevel
from transformers import LlamaConfig, LlamaForCausalLM, PreTrainedTokenizerFast

from rods.config import load_config
from rods.reward import Score
from rods.task import Task, Turn
from rods.tokens import Span
from rods.trainers.local import LocalTrainer
from rods.trainers.memory import GIB, plan_of, shape_of
from rods.trajectory import Group, Trajectory
from rods.types import StopReason

CONTEXT, ROWS = 1024, 2
"""Tokens of a trajectory, and trajectories of a task."""
MODELS = {"12M": (192, 6), "60M": (512, 11)}
"""Width and layers."""
SAMPLED = {"long": 0.95, "turns": 0.33}
"""Shares of a trajectory's tokens that the policy wrote."""


class Way(NamedTuple):
    """What is measured."""

    model: str
    rows: str
    tokens: int
    """Of a micro-batch."""
    overrides: tuple[str, ...] = ()


ALL = "model.lora_rank=0"
WAYS = [
    Way("12M", "long", 2048, (ALL, "train.kl=0")),
    Way("12M", "long", 4096, ("model.lora_rank=8", "train.kl=0")),
    Way("60M", "long", 2048, (ALL, "train.kl=0")),
    Way("60M", "long", 2048, (ALL, "train.kl=0.01")),
    Way("60M", "long", 2048, (ALL, "train.kl=0", 'train.local.optimizer_memory="8bit"')),
    Way("60M", "long", 2048, (ALL, "train.kl=0", "train.local.gradient_checkpointing=true")),
    Way("60M", "turns", 2048, (ALL, "train.kl=0")),
]


def make_groups(share: float, count: int, context: int) -> list[Group]:
    """Random groups whose trajectories are all of full context."""
    rng = np.random.default_rng(0)
    sampled = int(context * share)
    made: list[Group] = []
    for index in range(count):
        task = Task("none", "base", (Turn(f"task {index}"),), {})
        members: list[Trajectory] = []
        for member in range(ROWS):
            ids = [tuple(int(i) for i in rng.integers(5, 49_000, n)) for n in (context, sampled)]
            spans = (Span(ids[0][sampled:], None), Span(ids[1], (-8.0,) * sampled))
            members.append(
                Trajectory(task.id, member, 0, member, (), (), (), 1, spans, StopReason.DONE)
            )
        made.append(Group(task, members, 0))
    return made


def measure(way: Way, shrink: int) -> None:
    """Train in this process, and print estimate, peak and their ratio."""
    context, tokens = CONTEXT // shrink, way.tokens // shrink
    width, layers = MODELS[way.model]
    model = LlamaForCausalLM(
        LlamaConfig(
            vocab_size=49_152, hidden_size=width, intermediate_size=width * 8 // 3,
            num_hidden_layers=layers, num_attention_heads=width // 64,
            num_key_value_heads=width // 64, tie_word_embeddings=True,
        )
    )  # fmt: skip
    config = load_config("rods", "small", [
        "engine.name=hf", "model.device=cpu", f"rollout.context_tokens={context}",
        f"train.local.microbatch_tokens={tokens}", *way.overrides,
    ])  # fmt: skip
    tokenizer = PreTrainedTokenizerFast(tokenizer_object=Tokenizer(WordLevel({"w": 0})))
    trainer = LocalTrainer(model, tokenizer, config.train, config.model, 100, 0)
    groups = make_groups(SAMPLED[way.rows], max(1, tokens // (context * ROWS)), context)
    scores = [[Score(float(i % 2)) for i in range(ROWS)] for _ in groups]
    for _ in range(2):
        assert trainer.update(groups, scores).trained
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024
    needed = plan_of(shape_of(model.config), config, on_gpu=False).needed
    size = sum(p.numel() for p in model.parameters()) / 1e6
    print(
        f"{size:5.1f}M  {way.rows:5}  {tokens:,} tokens  {' '.join(way.overrides):66}"
        f"  {needed / GIB:5.2f}  {peak / GIB:5.2f}  {needed / peak:.2f}",
        flush=True,
    )


def main() -> int:
    """Measure each way in a process of its own."""
    parser = Options(__doc__, {"shrink": 8})
    parser.add_argument("--way", type=int, help="measure this one in this process")
    parser.add_argument("--shrink", type=int, default=1, help="divides the tokens")
    options = parser.parse_args()
    if options.way is not None:
        measure(WAYS[options.way], options.shrink)
        return 0
    for number in range(1 if options.quick else len(WAYS)):
        words = ["--way", str(number), "--shrink", str(options.shrink)]
        subprocess.run([sys.executable, __file__, *words], check=True)
    return 0


if __name__ == "__main__":
    sys.exit(main())
