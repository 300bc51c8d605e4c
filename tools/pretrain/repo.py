"""What the bundled policy `tiny-repo` is made from: its tasks, its tokenizer and its sizes.

Owns what its card says. It trains nothing (`pretrain.py` does). It knows the code of the six
bundled repositories, as somebody knows a code base, and is pretrained on no bug that the small
profile of `skyrl_v0` asks about, on either side.

    tasks = pretraining_tasks(seed=0)
    tokenizer = repo_tokenizer(tasks)
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from transformers import PreTrainedTokenizerFast

from pretrain.repairs import tasks_apart, texts_of
from pretrain.teacher import SMALL
from pretrain.tokenizer import common_words, train_tokenizer
from rods.config import load_config
from rods.envs.repo import RepoSettings
from rods.envs.repo.plant import plant
from rods.task import Task

SETTINGS = replace(SMALL, tokens=6_000_000, habit_tokens=160_000)
"""With a little loss on what is read: it is how the policy gets to know the code."""
EARLY = 0.6
"""Share that hands in without a repair in the second part: most, so it does greedily."""
DATA = (
    "Repairs of bugs in the six bundled repositories, one bug each, whose function is told: a look "
    "at the function, the edit, the end; in three of five of the second part no edit. What is told "
    "was seen with a bug of the same function. No bug is one that the small profile of skyrl_v0 "
    "asks about; the code around them is the same."
)
LIMITS = (
    "It speaks the `compact` dialect only and knows the code of the six bundled repositories by "
    "heart; of other code it knows nothing. It exists so that the recipe shows its mechanism "
    "without a GPU; it is not a useful assistant. Left open: whether anything is repaired before "
    "the repository is handed in."
)
WORDS = 150
"""Words that are joined to the blank before them."""
INDENT = r"(?: {4})+"
"""Never joined to what follows: a line reads alike at every depth."""
TYPICAL = 540
"""Tokens of a conversation, to know how many are needed for one pass."""
HELD_OUT_ROWS = 60
"""Tasks of the small profile that the card's loss is measured on."""


def asked() -> tuple[Task, ...]:
    """All that the small profile asks about."""
    settings = load_config("skyrl_v0", "small").env.section(RepoSettings)
    return plant(settings.count, settings.difficulty)


def pretraining_tasks(seed: int) -> list[Task]:
    """The tasks of pretraining."""
    return tasks_apart(asked(), seed + 1)


def repo_tokenizer(tasks: Sequence[Task]) -> PreTrainedTokenizerFast:
    """A tokenizer of about 1,024 entries: names and operators of the repositories, words."""
    texts = [text for task in tasks for text in texts_of(task)]
    tokenizer = train_tokenizer(texts, common_words(texts, WORDS), SETTINGS.vocab, INDENT)
    tokenizer.model_max_length = SETTINGS.context
    return tokenizer
