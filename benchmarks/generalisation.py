"""What a schooled policy predicts on scenarios that its schooling knew and on others.

    python benchmarks/generalisation.py [--policy FOLDER] [--number 50] [--seed 77]

The oracle's conversations on fresh variants of the schooling's scenarios and of the tuning side's,
by writer: different tools that are called, the share of generations with calls that are predicted
whole, given the true history, and of those whose first function is right. Greedy play multiplies
the first share over a conversation. The bundled policy also shows what it leaves open, so ask a
ceiling (`python -m pretrain --ceiling`).
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import groupby

import torch
from shared import Options

from pretrain import conversations as schooling
from rods.config import ModelSettings, load_config
from rods.engines.threads import set_threads
from rods.envs.bfcl.tasks import load_tasks
from rods.envs.bfcl.world import BfclEnvironment
from rods.rollout.template import ChatTemplate
from rods.split import split
from rods.trainers.loading import load_model

KINDS = {
    "human-written messages": (1.0, 0.0),
    "template-written": (0.0, 0.0),
    "template-written, roaming": (0.0, 1.0),
}
"""Shares of resampled and of roaming conversations."""


def main() -> None:
    parser = Options(__doc__, {"number": 2})
    parser.add_argument("--policy", default="tiny")
    parser.add_argument("--number", type=int, default=50)
    parser.add_argument("--seed", type=int, default=77)
    parser.add_argument("--threads", type=int, default=1)
    options = parser.parse_args()
    set_threads(options.threads)
    config = load_config("rods", "small")
    model, tokenizer = load_model(ModelSettings(name=options.policy))
    template = ChatTemplate(tokenizer)
    sides = split(load_tasks(""), "tuning")
    for side, tasks in (("schooled", sides.train), ("tuning", sides.held_out)):
        for kind, shares in KINDS.items():
            schooling.RESAMPLED, schooling.ROAMING = shares
            maker = schooling.VariantGenerator(tasks, BfclEnvironment(), options.seed)
            numbers = range(options.number)
            rows = schooling.make_conversations(maker, template, config.rollout, numbers)
            found = [v for row in rows for v in verdicts(model, template, row)]
            whole, first = (sum(part) / len(found) for part in zip(*found, strict=True))
            turns = [turn for number in numbers for turn in maker.variant(number).turns]
            tools = {call.name for turn in turns for call in turn.ground_truth}
            counted = f"{side:9} {kind:19} {len(tools):3} tools, {len(found):4} generations"
            print(f"{counted}: {whole:.3f} whole, {first:.3f} function right", flush=True)


def verdicts(
    model: torch.nn.Module, template: ChatTemplate, row: schooling.Conversation
) -> list[tuple[bool, bool]]:
    """Of each generation with calls: whether all of it, and whether its function is predicted."""
    with torch.inference_mode():
        best = model(input_ids=torch.tensor([row.ids])).logits[0].argmax(-1).tolist()
    right = [False, *(best[i] == row.ids[i + 1] for i in range(len(row.ids) - 1))]
    found: list[tuple[bool, bool]] = []
    for spoken, places in groupby(range(len(row.ids)), lambda i: row.mask[i]):
        span: Sequence[int] = list(places)
        text = template.decode([row.ids[i] for i in span])
        if spoken and text.startswith("["):
            name = len(template.encode(text.partition("(")[0]))
            found.append((all(right[i] for i in span), all(right[i] for i in span[:name])))
    return found


if __name__ == "__main__":
    main()
