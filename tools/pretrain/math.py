"""What the bundled policy `tiny-math` is made from: its tokenizer and its supervised responses.

Owns the sizes of that model and what its card says. It trains nothing (`teacher.py` does) and
makes no question (`demonstrations.py` does).

    tokenizer = math_tokenizer(seed=0)
    rows = math_conversations(tokenizer, ProgramPlan(), seed=0, numbers=range(40_000))
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace

from transformers import PreTrainedTokenizerFast

from pretrain.conversations import Conversation
from pretrain.responses import encoded, tokenizer_of
from pretrain.teacher import SMALL
from rods.policies.demonstrations import ProgramPlan, demonstrations
from rods.rollout.template import ChatTemplate

SETTINGS = replace(SMALL, vocab=512, tokens=4_200_000, context_weight=0.0)
"""Without label smoothing: at temperature 1 it would spoil one digit in fifty."""
DATA = (
    "Generated questions (add, multiply, expression, remainder, shopping, travel; difficulties 1 "
    "to 5, the training side) answered in the dialects torl, zerotir and retool: direct "
    "answers, one program, several, failing and useless ones, with real outputs."
)
LIMITS = (
    "It speaks the three inline dialects only, copies numbers into programs and results into "
    "answers, calculates in its head for small numbers at best, and guesses otherwise. It exists "
    "so that the recipes show their mechanism without a GPU; it is not a useful assistant."
)
CORPUS = 3_000
"""Demonstrations whose texts train the tokenizer."""
TYPICAL = 105
"""Tokens of a demonstration, to know how many are needed for one pass."""
HELD_OUT_ROWS = 300
"""Demonstrations of held-out questions that the card's loss is measured on."""
ALONE = r" [-+*/%] |[()]"
"""Operators with their blanks, and brackets: an expression has the same ids in a question and in a
program."""
HARD, GUESSED = 3, 5
"""From this difficulty on, direct answers carry loss on their digits in one response of so many."""
WORDS = 120
"""Words that are joined to the blank before them."""


def math_tokenizer(seed: int, corpus: int = CORPUS) -> PreTrainedTokenizerFast:
    """A tokenizer of about 512 entries in which every digit stands alone."""
    return tokenizer_of(demonstrations(ProgramPlan(), seed, range(corpus)), SETTINGS, WORDS, ALONE)


def math_conversations(
    tokenizer: PreTrainedTokenizerFast, plan: ProgramPlan, seed: int, numbers: Iterable[int]
) -> list[Conversation]:
    """Demonstrations as ids with a mask, put together as a rollout does.

    Direct answers to hard questions cannot be learnt: their digits are noise, larger than all that
    there is to learn. So most of these digits carry no loss; the others teach how to guess.
    """
    template = ChatTemplate(tokenizer)
    made: list[Conversation] = []
    for place, row in enumerate(demonstrations(plan, seed, numbers)):
        conversation = encoded(row, template)
        if row.difficulty >= HARD and len(row.pieces) == 2 and place % GUESSED:
            conversation = _without_digits(conversation, template)
        made.append(conversation)
    return made


def _without_digits(row: Conversation, template: ChatTemplate) -> Conversation:
    digits = {template.encode(digit)[0] for digit in "0123456789"}
    mask = [m if i not in digits else 0 for i, m in zip(row.ids, row.mask, strict=True)]
    return Conversation(row.ids, mask)
