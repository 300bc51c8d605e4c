"""The command: make a bundled policy again, from random weights."""

from __future__ import annotations

import os
from collections.abc import Sequence
from concurrent.futures import ProcessPoolExecutor
from dataclasses import replace
from functools import partial
from multiprocessing import get_context
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, NamedTuple, cast

import typer

from pretrain.habits import ORACLE, Habits
from rods.cli.common import HELP, progress, say
from rods.config import ModelSettings, RolloutSettings, load_config
from rods.errors import ConfigError, RodsError, StoreError
from rods.infra.files import disk

if TYPE_CHECKING:
    from transformers import PreTrainedTokenizerFast

    from pretrain.conversations import Conversation
    from pretrain.teacher import PretrainSettings
    from rods.types import ToolSpec

TOOLS, MATH, SEARCH, REPO = KINDS = "tools", "math", "search", "repo"

ENVIRONMENT = "bfcl"
"""What the policy tiny is pretrained on; known by what every environment shows."""
HELD_OUT = 120
"""Variants of held-out scenarios that the card's loss is measured on."""
CORPUS = 2_000
"""Variants whose texts train the tokenizer."""
OPEN = Habits(stop=0.65)
"""Habits of the second part: a turn ends too early more often than not, so it does greedily."""
OTHER_TOOLS = {
    MATH: ["code_interpreter"],
    SEARCH: ["search"],
    REPO: ["bash", "str_replace_editor", "finish"],
}
"""What the other policies are pretrained with."""
DATA = (
    "Verified variants of 80 of the 100 training scenarios of BFCL multi-turn (split `tuning`, 320 "
    "of 800 tasks), made by the graph and the resample writers, half by walks that keep nothing of "
    "their seed; the oracle's calls, a fixed answer, a fixed abstention. At the end other "
    "variants, made by an agent whose habits the settings name: turns that end too early, before "
    "the only call or between two."
)
LIMITS = (
    "It speaks the `compact` dialect only, knows the tools of the benchmark's eight classes by "
    "name, reads no tool descriptions, cannot converse, and copies more than it understands. It "
    "exists so that the loop is real without a GPU; it is not a useful assistant."
)
TYPICAL = 800
"""Tokens of a conversation, to know how many are needed for one pass."""


class Pretraining(NamedTuple):
    """What a policy is taught with."""

    settings: PretrainSettings
    tokenizer: PreTrainedTokenizerFast
    conversations: Sequence[Conversation]
    habitual: Sequence[Conversation]
    """Those of the second part; empty: there is none."""
    held_out: Sequence[Conversation]
    """Of the held-out side, for the card's loss."""
    data: str
    limits: str


def pretrain(
    folder: Annotated[Path, typer.Option("--out", help="Where the policy goes.")],
    kind: Annotated[
        str,
        typer.Option(help="tools (the policy tiny); math, search, repo: tiny-math and so on."),
    ] = TOOLS,
    tokens: Annotated[int, typer.Option(min=0, help="Tokens to train on; 0: as bundled.")] = 0,
    seed: Annotated[int, typer.Option(help="Seed of variants, weights and order.")] = 0,
    wheel: Annotated[str, typer.Option(help="Path of the benchmark's wheel.")] = "",
    threads: Annotated[int, typer.Option(help="CPU threads; 0: as a measurement says.")] = 0,
    hidden: Annotated[
        int, typer.Option(help="Width, a multiple of 128: 768 by 10 layers is 70M; 0: as bundled.")
    ] = 0,
    layers: Annotated[int, typer.Option(help="Layers, at least 2; 0: as bundled.")] = 0,
    device: Annotated[str, typer.Option(help="auto, cpu or cuda.")] = "cpu",
    ceiling: Annotated[
        bool, typer.Option("--ceiling", help="The second part has the oracle's habits too.")
    ] = False,
) -> None:
    """Train a bundled policy from scratch, on questions or tasks of the training side only."""
    from pretrain.teacher import build_model, measure, save_policy
    from rods.engines.threads import set_threads
    from rods.rollout.template import ChatTemplate
    from rods.trainers.loading import pick_device

    if kind not in KINDS:
        raise ConfigError(f"--kind {kind!r}: expected one of {', '.join(KINDS)}.")
    if hidden % 128 or hidden < 0 or layers < 2 * bool(hidden) or bool(hidden) != bool(layers):
        raise ConfigError(
            f"--hidden {hidden} --layers {layers}: expected a multiple of 128 and at least 2 "
            "layers, or neither."
        )
    where = pick_device(ModelSettings.model_validate({"device": device}))
    if (folder / "model.safetensors").exists():
        raise StoreError(f"{folder}: a policy is here already. Choose another folder.")
    # Here, as processes that begin with a wheel that is missing or broken could not say so.
    specs = _tool_specs(wheel) if kind == TOOLS else []
    with disk(folder, "making"):
        folder.mkdir(parents=True, exist_ok=True)
    set_threads(threads)
    habits = ORACLE if ceiling else OPEN
    if kind == TOOLS:
        pretraining = _tools(folder, seed, tokens, wheel, specs, habits)
    else:
        made = {MATH: _math, SEARCH: _search, REPO: partial(_repo, ceiling)}
        pretraining = made[kind](seed, tokens)
    if hidden:
        sized = pretraining.settings.sized(hidden, layers)
        pretraining = pretraining._replace(settings=sized)
    model = build_model(pretraining.settings, pretraining.tokenizer, seed)
    cast("Any", model).to(where)
    card = _teach(model, pretraining.conversations, pretraining.settings, seed)
    if pretraining.habitual:
        second = pretraining.settings.second_part()
        card["second_part"] = _teach(model, pretraining.habitual, second, seed)
    card["held_out"] = measure(model, pretraining.held_out, pretraining.settings.batch_tokens)
    card["chat_template"] = ChatTemplate(pretraining.tokenizer).digest()
    card["seed"] = seed
    card["data"] = pretraining.data
    card["limits"] = pretraining.limits
    card["tools"] = [spec.name for spec in specs] or OTHER_TOOLS[kind]
    which = f" --kind {kind}" if kind != TOOLS else ""
    which += " --ceiling" if ceiling else ""
    which += f" --hidden {hidden} --layers {layers}" if hidden else ""
    card["command"] = (
        f"python -m pretrain{which} --tokens {pretraining.settings.tokens} --seed {seed}"
    )
    save_policy(folder, model, pretraining.tokenizer, card, pretraining.settings)
    say(f"held out: {card['held_out']}; saved in {folder}")


def _teach(
    model: Any, conversations: Sequence[Conversation], settings: PretrainSettings, seed: int
) -> dict[str, Any]:
    """Train behind a progress bar; figures for the card."""
    from pretrain.teacher import teach

    with progress("tokens", settings.tokens) as show:

        def report(figures: dict[str, float]) -> None:
            rate = figures["tokens"] / figures["seconds"]
            note = f"loss {figures['loss']:.3f} right {figures['accuracy']:.2f} {rate:.0f} tok/s"
            show(figures["tokens"], note)

        return teach(model, conversations, settings, seed, report)


def _math(seed: int, tokens: int) -> Pretraining:
    from pretrain import math

    settings = replace(math.SETTINGS, tokens=tokens) if tokens else math.SETTINGS
    number = settings.tokens // math.TYPICAL
    say(f"{number} demonstrations")
    tokenizer = math.math_tokenizer(seed)
    conversations = math.math_conversations(tokenizer, math.ProgramPlan(), seed, range(number))
    asked = math.ProgramPlan(held_out=True)
    held_out = math.math_conversations(tokenizer, asked, seed, range(math.HELD_OUT_ROWS))
    return Pretraining(settings, tokenizer, conversations, (), held_out, math.DATA, math.LIMITS)


def _search(seed: int, tokens: int) -> Pretraining:
    from pretrain import search
    from rods.policies.searches import SearchQuestions

    settings = replace(search.SETTINGS, tokens=tokens) if tokens else search.SETTINGS
    number = settings.tokens // search.TYPICAL
    say(f"{number} demonstrations")
    world = search.search_world()
    tokenizer = search.search_tokenizer(world, seed)
    made = search.search_conversations(tokenizer, world, search.PLAN, seed, range(number))
    asked = SearchQuestions(search.RESULTS, held_out=True)
    rows = range(search.HELD_OUT_ROWS)
    held_out = search.search_conversations(tokenizer, asked, search.PLAN, seed, rows)
    limits = f"{search.LIMITS} Left open: {search.OPEN}"
    return Pretraining(settings, tokenizer, made, (), held_out, search.DATA, limits)


def _repo(ceiling: bool, seed: int, tokens: int) -> Pretraining:
    from pretrain import repo
    from pretrain.repairs import bug_of, repair_conversations
    from rods.rollout.template import ChatTemplate

    settings = replace(repo.SETTINGS, tokens=tokens) if tokens else repo.SETTINGS
    say("planting bugs")
    tasks, asked = repo.pretraining_tasks(seed), repo.asked()
    tokenizer = repo.repo_tokenizer(tasks)
    template = ChatTemplate(tokenizer)
    rollout = load_config("skyrl_v0", "small").rollout
    kept, early = {bug_of(task) for task in asked}, 0.0 if ceiling else repo.EARLY
    number, more = settings.tokens // repo.TYPICAL, settings.habit_tokens // repo.TYPICAL
    say(f"{number} repairs, and {more} of which {early:.0%} are left out")

    def made(early: float, numbers: range) -> list[Conversation]:
        rows = repair_conversations(tasks, template, rollout, early, seed, numbers, kept)
        return list(rows)

    held_out = repair_conversations(asked, template, rollout, 0.0, seed, range(repo.HELD_OUT_ROWS))
    return Pretraining(
        settings,
        tokenizer,
        made(0.0, range(number)),
        made(early, range(number, number + more)),
        list(held_out),
        repo.DATA,
        repo.LIMITS,
    )


def _tools(
    folder: Path, seed: int, tokens: int, wheel: str, specs: list[ToolSpec], habits: Habits
) -> Pretraining:
    from pretrain.teacher import PretrainSettings
    from pretrain.tokenizer import common_words, train_tokenizer
    from rods.dialects import structured

    settings = PretrainSettings(habits=habits)
    settings = replace(settings, tokens=tokens) if tokens else settings
    rollout = load_config("rods", "small").rollout
    number, more = settings.tokens // TYPICAL, settings.habit_tokens // TYPICAL
    with ProcessPoolExecutor(
        _processes(), get_context("spawn"), _start, (wheel, seed)
    ) as processes:
        say(f"texts of {CORPUS} variants for the tokenizer")
        texts = [t for part in processes.map(_texts, _shares(range(CORPUS))) for t in part]
        lines = [structured("compact").describe(specs)] * 200  # so that they become few tokens
        tokenizer = train_tokenizer(texts + lines, common_words(texts), settings.vocab)
        tokenizer.save_pretrained(folder)
        say(f"conversations of {number} and {more} variants")

        def play(side: str, numbers: range, habits: Habits = ORACLE) -> list[Conversation]:
            jobs = [(folder, rollout, side, share, habits) for share in _shares(numbers)]
            return [c for part in processes.map(_conversations, jobs) for c in part]

        return Pretraining(
            settings,
            tokenizer,
            play("train", range(number)),
            play("train", range(number, number + more), habits),
            play("held_out", range(HELD_OUT)),
            DATA,
            LIMITS,
        )


def _processes() -> int:
    """Two on a laptop, up to sixteen where there are more cores."""
    return max(2, min(16, len(os.sched_getaffinity(0))))


def _shares(numbers: range, size: int = 100) -> list[range]:
    return [numbers[a : a + size] for a in range(0, len(numbers), size)]


_generators: dict[str, Any] = {}


def _start(wheel: str, seed: int) -> None:
    from pretrain.conversations import VariantGenerator
    from rods.envs import make_environment

    os.environ["TOKENIZERS_PARALLELISM"] = "false"
    for side, split, rng_seed in (("train", "tuning", seed), ("held_out", "grouped", seed + 1)):
        environment = make_environment(ENVIRONMENT, {"wheel": wheel, "split": split})
        split = environment.part(environment.tasks(0.0), None)
        _generators[side] = VariantGenerator(getattr(split, side), environment, rng_seed)


def _texts(numbers: range) -> list[str]:
    return [text for number in numbers for text in _generators["train"].texts(number)]


def _conversations(job: tuple[Path, RolloutSettings, str, range, Habits]) -> list[Any]:
    from transformers import PreTrainedTokenizerFast

    from pretrain.conversations import make_conversations
    from rods.rollout.template import ChatTemplate

    folder, rollout, side, numbers, habits = job
    template = ChatTemplate(PreTrainedTokenizerFast.from_pretrained(folder))
    return list(make_conversations(_generators[side], template, rollout, numbers, habits))


def _tool_specs(wheel: str) -> list[ToolSpec]:
    """Every tool of the environment."""
    from rods.envs import make_environment
    from rods.synthesis.structure.trace import all_tools

    environment = make_environment(ENVIRONMENT, {"wheel": wheel})
    tasks = environment.tasks(0.0)
    names = sorted({str(n) for t in tasks for n in cast("list[str]", t.world["classes"])})
    whole = replace(tasks[0], world={"classes": names, "initial_config": {}})
    return list(all_tools(environment, whole).values())


def main() -> int:
    """Run the command; exit status 2 is a user's error, as in `rods`."""
    app = typer.Typer(
        add_completion=False,
        context_settings=HELP,
        pretty_exceptions_enable=False,
        rich_markup_mode=None,
    )
    app.command()(pretrain)
    try:
        app()
    except RodsError as error:
        say(f"pretrain: {error}")
        return 2
    return 0
