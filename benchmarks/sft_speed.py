"""Tokens a second of `rods sft` with adapters, beside TRL's padded SFTTrainer.

All learn the same demonstrations of the recipe's tasks in batches of their own making: with common
prefixes computed once, padded by length, and TRL in its own interpreter with the same weights, ids
and masks. In each round each makes one update. Tokens count whole, padding does not.

    python benchmarks/sft_speed.py --threads 1 --trl /opt/trl/bin/python     # with trl 1.16

`--trl-rows N`: conversations of one of TRL's updates.
"""

from __future__ import annotations

import argparse
import json
import sys
import tempfile
import time
from pathlib import Path
from typing import NamedTuple

import torch
from shared import Options
from trl_process import TrlProcess

from rods.assemble.tasks import demonstrations_of
from rods.config import ModelSettings, load_config
from rods.trainers.examples import sample_of
from rods.trainers.loading import load_model, uses_bfloat16
from rods.trainers.samples import Sample
from rods.trainers.sft import SftSettings, SftTrainer

RATE = 1e-3


class Took(NamedTuple):
    """Seconds of one update on the clock and of CPU time, its tokens, and its loss."""

    wall: float
    cpu: float
    tokens: int
    loss: float


class Ours:
    """`rods sft`'s trainer, with common prefixes computed once, or padded."""

    def __init__(self, options: argparse.Namespace, samples: list[Sample], trees: bool) -> None:
        settings = settings_of(options)
        model, tokenizer = load_model(settings)
        chosen = SftSettings(
            lr=RATE,
            schedule="constant",
            batch_tokens=options.batch_tokens,
            microbatch_tokens=options.microbatch_tokens,
        )
        trainer = SftTrainer(model, tokenizer, samples, chosen, settings, 0)
        trainer._trees = trainer._trees and trees  # pyright: ignore[reportPrivateUsage]
        self._updates = trainer.updates()

    def update(self) -> Took:
        """Make one."""
        wall, cpu = time.perf_counter(), time.process_time()
        made = next(self._updates)
        spent = time.perf_counter() - wall, time.process_time() - cpu
        return Took(*spent, made.tokens, made.loss)


class Theirs:
    """TRL's SFTTrainer in its own interpreter."""

    def __init__(self, options: argparse.Namespace, samples: list[Sample], folder: Path) -> None:
        settings = settings_of(options)
        model, tokenizer = load_model(settings)
        model.save_pretrained(folder / "model")
        tokenizer.save_pretrained(folder / "model")
        masked = [(s.ids.tolist(), s.mask.astype(int).tolist()) for s in samples]
        given = {
            "threads": options.threads,
            "rank": options.rank,
            "bfloat16": uses_bfloat16(settings, model.device),
            "model": str(folder / "model"),
            "rows": [{"input_ids": ids, "completion_mask": mask} for ids, mask in masked],
        }
        rows, updates = options.trl_rows, options.repeats + 1
        self._trl = TrlProcess("sft_trl.py", options.trl, folder, given, rows, updates)
        self.end = self._trl.end

    def update(self) -> Took:
        """Ask for one."""
        return Took(**self._trl.update())


def settings_of(options: argparse.Namespace) -> ModelSettings:
    """The model's, alike for all."""
    return ModelSettings.model_validate(
        {"name": options.model, "dtype": options.dtype, "lora_rank": options.rank,
         "threads": options.threads, "device": "cpu"}
    )  # fmt: skip


def demonstrated(options: argparse.Namespace) -> list[Sample]:
    """Conversations of the recipe's tasks."""
    asked = [f"model.name={json.dumps(options.model)}", f"seed={options.seed}"]
    config = load_config("rods", options.profile, asked)
    made, _ = demonstrations_of(config, ["resample"], 0, originals=0.25, several=0.5)
    return [sample_of(trajectory) for trajectory in made.solved(options.n)]


def compare(options: argparse.Namespace, folder: Path) -> None:
    """All of them in turn, once to warm up, then so often; print rates."""
    torch.set_num_threads(options.threads)
    samples = demonstrated(options)
    sides: dict[str, Ours | Theirs] = {
        "common prefixes once": Ours(options, samples, True),
        "padded": Ours(options, samples, False),
    }
    if options.trl:
        sides["TRL"] = Theirs(options, samples, folder)
    took: dict[str, list[Took]] = {name: [] for name in sides}
    for number in range(options.repeats + 1):
        for name, side in sides.items():
            took[name].append(side.update())
            print(f"{number} {name}: {took[name][-1]}", flush=True)
    for side in sides.values():
        if isinstance(side, Theirs):
            side.end()
    rates: dict[str, tuple[float, float]] = {}
    for name, (_, *made) in took.items():  # without the first, in which caches are cold
        tokens = sum(t.tokens for t in made)
        rates[name] = tokens / sum(t.wall for t in made), tokens / sum(t.cpu for t in made)
        print(f"{name:>22}: {rates[name][0]:,.0f} tokens/s, {rates[name][1]:,.0f} a cpu second")
    for name in ("common prefixes once", "padded") if options.trl else ():
        wall, cpu = (rates[name][i] / rates["TRL"][i] for i in (0, 1))
        print(f"{name} against TRL: {wall:.2f} times on the clock, {cpu:.2f} in cpu seconds")


def main() -> None:
    """Parse, run, print."""
    parser = Options(
        __doc__,
        {
            "model": "tiny",
            "profile": "small",
            "dtype": "float32",
            "n": 8,
            "repeats": 1,
            "batch_tokens": 2048,
            "trl_rows": 2,
        },
    )
    for name, value in {
        "n": 400, "repeats": 3, "threads": 1, "rank": 32, "batch_tokens": 8_192,
        "microbatch_tokens": 4_096, "trl_rows": 8, "seed": 0,
    }.items():  # fmt: skip
        parser.add_argument(f"--{name.replace('_', '-')}", type=int, default=value)
    parser.add_argument("--model", default="smollm2")
    parser.add_argument("--profile", default="smollm2")
    parser.add_argument("--dtype", default="bfloat16")
    parser.add_argument("--trl", default="", help="python with trl (pip install trl==1.16.0)")
    with tempfile.TemporaryDirectory() as folder:
        compare(parser.parse_args(), Path(folder))


if __name__ == "__main__":
    sys.exit(main())
