"""The copying circuit that a bundled policy starts from, against plain random weights.

    PYTHONPATH=tools python benchmarks/copying_circuit.py [--tokens 300000] [--seeds 0 1]

Both arms see the same conversations in the same order with the same rates; only the start differs
(`tools/pretrain/start.py`). Prints loss and share of the oracle's tokens predicted, given the true
history, on variants of held-out scenarios.
"""

from __future__ import annotations

import argparse
import time
from dataclasses import replace

import torch
from transformers import PreTrainedTokenizerFast, Qwen3ForCausalLM

from pretrain.conversations import Conversation, VariantGenerator, make_conversations
from pretrain.teacher import PretrainSettings, build_model, measure, teach
from rods.config import load_config
from rods.engines.threads import set_threads
from rods.envs.bfcl.tasks import load_tasks
from rods.envs.bfcl.world import BfclEnvironment
from rods.rollout.template import ChatTemplate
from rods.split import split
from rods.trainers.loading import load_tokenizer

TYPICAL = 800
"""Tokens of one conversation, roughly."""


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--tokens", type=int, default=300_000)
    parser.add_argument("--seeds", type=int, nargs="+", default=[0, 1])
    parser.add_argument("--held-out", type=int, default=60)
    parser.add_argument("--threads", type=int, default=0)
    options = parser.parse_args()
    set_threads(options.threads)
    config = load_config("rods", "quick")
    tokenizer = load_tokenizer(config.model)
    template, sides = ChatTemplate(tokenizer), split(load_tasks())
    school = list(
        make_conversations(
            VariantGenerator(sides.train, BfclEnvironment(), 0),
            template,
            config.rollout,
            range(options.tokens // TYPICAL),
        )
    )
    held_out = list(
        make_conversations(
            VariantGenerator(sides.held_out, BfclEnvironment(), 1),
            template,
            config.rollout,
            range(options.held_out),
        )
    )
    settings = replace(PretrainSettings(), tokens=options.tokens)
    print(f"{len(school)} conversations, {options.tokens} tokens an arm")
    for seed in options.seeds:
        for circuit in (True, False):
            figures = arm(settings, tokenizer, school, held_out, seed, circuit)
            print(f"seed {seed}, {'circuit' if circuit else 'plain  '}: {figures}", flush=True)


def arm(
    settings: PretrainSettings,
    tokenizer: PreTrainedTokenizerFast,
    school: list[Conversation],
    held_out: list[Conversation],
    seed: int,
    circuit: bool,
) -> str:
    """Train one model; its figures as words."""
    model = build_model(settings, tokenizer, seed)
    if not circuit:
        torch.manual_seed(seed)
        model = Qwen3ForCausalLM(model.config)
    started = time.process_time()
    told = teach(model, school, settings, seed, lambda figures: None)
    found = measure(model, held_out, settings.batch_tokens)
    return (
        f"held out loss {found['loss']:.3f}, predicted {found['accuracy']:.1%}; training loss "
        f"{told['loss']:.3f}; {time.process_time() - started:.0f} CPU s"
    )


if __name__ == "__main__":
    main()
