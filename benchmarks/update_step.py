"""Tokens per second of one update of the local trainer, for the small profile's shape.

A random Qwen3-shaped model (4 layers of width 256, 3,000 tokens of vocabulary) and groups whose
members share a prompt: with common prefixes computed once, padded, and by TRL's GRPOTrainer on the
same weights and ids (loss, backward and step, `update_trl.py`), one after the other in each round.
Prints every update and medians; gradients' norms before the first step show that the work is the
same.

    python benchmarks/update_step.py --groups 4 --k 8 --repeats 3
    python benchmarks/update_step.py --threads 1 --trl /opt/trl/bin/python     # with trl 1.16

`--trl-rows N`: rows of one of TRL's passes (all; fewer accumulate gradients).
"""

from __future__ import annotations

import argparse
import copy
import statistics
import sys
import tempfile
import time
from pathlib import Path
from typing import NamedTuple

import numpy as np
import torch
from shared import Options
from tokenizers import Tokenizer
from tokenizers.models import WordLevel
from transformers import PreTrainedTokenizerFast, Qwen3Config, Qwen3ForCausalLM
from trl_process import TrlProcess

from rods.config import ModelSettings, TrainSettings
from rods.config.train import LocalSettings
from rods.engines.threads import set_threads
from rods.reward import Score
from rods.task import Task, Turn
from rods.tokens import Span
from rods.trainers.collect import collect
from rods.trainers.local import LocalTrainer
from rods.trainers.reports import LocalUpdateReport
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


class Took(NamedTuple):
    """One update."""

    wall: float
    cpu: float
    """Processor seconds: say more than the clock on a machine that is shared."""
    grad_norm: float


class Ours:
    """The local trainer on the batch, with its common prefixes computed once, or padded."""

    def __init__(self, options: argparse.Namespace, model: Qwen3ForCausalLM, trees: bool) -> None:
        self._groups = make_groups(options.groups, options.k, options.tokens, options.shared, 0)
        self._scores = scores_of(options)
        settings = TrainSettings(
            kl=options.kl, local=LocalSettings(microbatch_tokens=options.microbatch_tokens)
        )
        tokenizer = PreTrainedTokenizerFast(tokenizer_object=Tokenizer(WordLevel({"w": 0})))
        self._trainer = LocalTrainer(
            copy.deepcopy(model).to(options.device), tokenizer, settings, ModelSettings(), 100, 0
        )
        self._trainer._trees = self._trainer._trees and trees  # pyright: ignore[reportPrivateUsage]
        self.report: LocalUpdateReport | None = None

    def update(self) -> Took:
        """Make one."""
        wall, cpu = time.perf_counter(), time.process_time()
        self.report = r = self._trainer.update(self._groups, self._scores)
        return Took(time.perf_counter() - wall, time.process_time() - cpu, r.grad_norm)


class Theirs:
    """TRL's GRPOTrainer in its own interpreter, on the same weights and the same ids."""

    def __init__(self, options: argparse.Namespace, model: Qwen3ForCausalLM, folder: Path) -> None:
        model.save_pretrained(folder / "model")
        groups = make_groups(options.groups, options.k, options.tokens, options.shared, 0)
        samples = collect(groups, scores_of(options), "grpo").samples
        begins = [int(np.flatnonzero(s.mask)[0]) for s in samples]
        cut = list(zip(samples, begins, strict=True))
        batch = {
            "threads": torch.get_num_threads(),
            "k": options.k,
            "prompts": [s.ids[:at].tolist() for s, at in cut],
            "completions": [s.ids[at:].tolist() for s, at in cut],
            "masks": [s.mask[at:].astype(int).tolist() for s, at in cut],
            "logprobs": [s.rollout_logprobs[at:].tolist() for s, at in cut],
            "advantages": [s.advantage for s in samples],
        }
        rows, updates = options.trl_rows or len(samples), options.repeats + 1
        self._trl = TrlProcess("update_trl.py", options.trl, folder, batch, rows, updates)
        self.end = self._trl.end

    def update(self) -> Took:
        """Ask for one."""
        return Took(**self._trl.update())


def scores_of(options: argparse.Namespace) -> list[list[Score]]:
    """Every second trajectory is right."""
    return [[Score(float(i % 2)) for i in range(options.k)] for _ in range(options.groups)]


def compare(options: argparse.Namespace, folder: Path) -> None:
    """All of them in turn, once to warm up, then so often; print medians."""
    set_threads(options.threads)
    model = make_model(options.layers, options.width)
    ours, plain = Ours(options, model, True), Ours(options, model, False)
    sides: dict[str, Ours | Theirs] = {"common prefixes once": ours, "padded": plain}
    if options.trl:
        sides["TRL"] = Theirs(options, model, folder)
    took: dict[str, list[Took]] = {name: [] for name in sides}
    for number in range(options.repeats + 1):
        for name, side in sides.items():
            took[name].append(side.update())
            print(f"{number} {name}: {took[name][-1]}", flush=True)
    for side in sides.values():
        if isinstance(side, Theirs):
            side.end()
    r = ours.report
    assert r is not None
    print(
        f"{r.tokens} tokens ({r.sampled_tokens} sampled), {torch.get_num_threads()} threads; "
        f"{r.microbatches} micro-batches, {r.positions} positions computed "
        f"({1 - r.positions / r.tokens:+.1%} saved)"
    )
    rates: dict[str, tuple[float, float]] = {}
    for name, all_of_them in took.items():
        wall, cpu = (statistics.median(t[i] for t in all_of_them[1:]) for i in (0, 1))
        rates[name] = r.tokens / wall, r.tokens / cpu
        print(f"{name:>22}: {rates[name][0]:,.0f} tokens/s, {rates[name][1]:,.0f} a cpu second")
    if options.trl:
        for name in ("common prefixes once", "padded"):
            wall, cpu = (rates[name][i] / rates["TRL"][i] for i in (0, 1))
            print(f"{name} against TRL: {wall:.2f} times on the clock, {cpu:.2f} in cpu seconds")


def main() -> None:
    """Parse, run, print."""
    parser = Options(
        __doc__, {"groups": 1, "k": 2, "tokens": 64, "layers": 1, "width": 64, "repeats": 1}
    )
    for name, value in {
        "groups": 4, "k": 8, "tokens": 700, "layers": 4, "width": 256, "repeats": 3,
        "threads": 0, "microbatch_tokens": 16_384, "trl_rows": 0,
    }.items():  # fmt: skip
        parser.add_argument(f"--{name.replace('_', '-')}", type=int, default=value)
    parser.add_argument("--shared", type=float, default=0.4)
    parser.add_argument("--kl", type=float, default=0.0)
    parser.add_argument("--device", default="cpu")
    parser.add_argument("--trl", default="", help="python with trl (pip install trl==1.16.0)")
    with tempfile.TemporaryDirectory() as folder:
        compare(parser.parse_args(), Path(folder))


if __name__ == "__main__":
    sys.exit(main())
