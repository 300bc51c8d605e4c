"""`rods pretrain`: make the bundled policy again, from nothing."""

from __future__ import annotations

import os
from collections.abc import Iterator, Sequence
from concurrent.futures import ProcessPoolExecutor
from multiprocessing import get_context
from pathlib import Path
from typing import Annotated, Any

import typer
from rich.console import Console
from rich.progress import Progress

from rods.cli.common import say
from rods.config import RolloutSettings, load_config
from rods.errors import StoreError

HELD_OUT = 120
"""Variants of held-out scenarios that the card's loss is measured on."""
CORPUS = 2_000
"""Variants whose texts train the tokenizer."""
DATA = (
    "Verified variants of the training scenarios of BFCL multi-turn (grouped split, 400 of 800 "
    "tasks), made by the graph and the resample writers; the oracle's calls, a fixed answer, a "
    "fixed abstention."
)
LIMITS = (
    "It speaks the `compact` dialect only, knows the tools of the benchmark's eight classes by "
    "name, reads no tool descriptions, cannot converse, and copies more than it understands. It "
    "exists so that the loop is real without a GPU; it is no useful assistant."
)
TYPICAL = 800
"""Tokens of a conversation, to know how many are needed for one pass."""


def add(app: typer.Typer) -> None:
    """Register the verb."""
    app.command("pretrain")(pretrain)


def pretrain(
    folder: Annotated[Path, typer.Option("--out", help="Where the policy goes.")],
    tokens: Annotated[int, typer.Option(help="Tokens to train on.")] = 4_800_000,
    seed: Annotated[int, typer.Option(help="Seed of variants, weights and order.")] = 0,
    wheel: Annotated[str, typer.Option(help="Path of the benchmark's wheel.")] = "",
    threads: Annotated[int, typer.Option(help="CPU threads; 0: all.")] = 0,
) -> None:
    """Train the bundled policy from scratch on verified variants of training scenarios."""
    from rods.policies.pretrain import PretrainSettings, build_model, measure, save_policy, teach
    from rods.policies.tokenizer import common_words, train_tokenizer
    from rods.template import ChatTemplate
    from rods.trainers.loading import set_threads

    if (folder / "model.safetensors").exists():
        raise StoreError(f"{folder}: a policy is here already. Choose another folder.")
    settings = PretrainSettings(tokens=tokens)
    rollout = load_config("rods", "quick").rollout
    number = tokens // TYPICAL
    folder.mkdir(parents=True, exist_ok=True)
    with ProcessPoolExecutor(2, get_context("spawn"), _start, (wheel, seed)) as crew:
        say(f"texts of {CORPUS} variants for the tokenizer")
        texts = [t for part in crew.map(_texts, _shares(CORPUS)) for t in part]
        tokenizer = train_tokenizer(texts + _tool_lines(wheel), common_words(texts), settings.vocab)
        tokenizer.save_pretrained(folder)
        say(f"conversations of {number} variants")
        shares = _shares(number)
        made = crew.map(_conversations, [(folder, rollout, "train", s) for s in shares])
        conversations = [c for part in made for c in part]
        made = crew.map(_conversations, [(folder, rollout, "held_out", range(HELD_OUT))])
        held_out = [c for part in made for c in part]
    set_threads(threads)
    model = build_model(settings, tokenizer, seed)
    with Progress(
        *Progress.get_default_columns(), "{task.fields[note]}", console=Console(stderr=True)
    ) as bar:
        line = bar.add_task("training", total=tokens, note="")

        def report(figures: dict[str, float]) -> None:
            rate = figures["tokens"] / figures["seconds"]
            note = f"loss {figures['loss']:.3f} right {figures['accuracy']:.2f} {rate:.0f} tok/s"
            bar.update(line, completed=figures["tokens"], note=note)
            if not bar.console.is_terminal and figures["step"] % 20 == 1:
                say(f"step {figures['step']:.0f} {figures['tokens'] / 1e6:.2f}M {note}")

        card: dict[str, Any] = teach(model, conversations, settings, seed, report)
    card["held_out"] = measure(model, held_out, settings.batch_tokens)
    card["chat_template"] = ChatTemplate(tokenizer).digest()
    card["seed"] = seed
    card["data"] = DATA
    card["limits"] = LIMITS
    card["command"] = f"rods pretrain --tokens {tokens} --seed {seed}"
    save_policy(folder, model, tokenizer, card, settings)
    say(f"held out: {card['held_out']}; saved in {folder}")


def _shares(total: int, size: int = 100) -> list[range]:
    return [range(a, min(a + size, total)) for a in range(0, total, size)]


_makers: dict[str, Any] = {}


def _start(wheel: str, seed: int) -> None:
    from rods.envs.bfcl.tasks import load_tasks, split
    from rods.policies.conversations import Maker

    os.environ["TOKENIZERS_PARALLELISM"] = "false"
    sides = split(load_tasks(wheel))
    _makers["train"] = Maker(sides.train, wheel, seed)
    _makers["held_out"] = Maker(sides.held_out, wheel, seed + 1)


def _texts(numbers: range) -> list[str]:
    return [text for number in numbers for text in _makers["train"].texts(number)]


def _conversations(job: tuple[Path, RolloutSettings, str, range]) -> list[Any]:
    from transformers import PreTrainedTokenizerFast

    from rods.policies.conversations import make_conversations
    from rods.template import ChatTemplate

    folder, rollout, side, numbers = job
    tokenizer = PreTrainedTokenizerFast.from_pretrained(folder)
    return list(make_conversations(_makers[side], ChatTemplate(tokenizer), rollout, numbers))


def _tool_lines(wheel: str) -> list[str]:
    """Every tool's line as prompts show it, often enough to become few tokens."""
    from rods.dialects import structured
    from rods.envs.bfcl.tasks import load_tasks, specs

    names = {str(n) for t in load_tasks(wheel) for n in _classes(t.world["classes"])}
    text = structured("compact").describe(list(specs(sorted(names), wheel).values()))
    return [text] * 200


def _classes(value: Any) -> Iterator[str]:
    found: Sequence[str] = value
    yield from found
