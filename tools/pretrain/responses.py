"""Supervised responses of the small policies: a tokenizer of their own, and ids with a mask.

tokenizer = tokenizer_of(demonstrations, settings, words=120, alone=r"[()]")
encoded(made, ChatTemplate(tokenizer)).mask
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING

from pretrain.conversations import Conversation
from pretrain.teacher import PretrainSettings
from pretrain.tokenizer import common_words, train_tokenizer
from rods.policies.demonstrations import Demonstration
from rods.rollout.template import ChatTemplate
from rods.trainers.examples import encode_row

if TYPE_CHECKING:
    from transformers import PreTrainedTokenizerFast


def tokenizer_of(
    made: Iterable[Demonstration], settings: PretrainSettings, words: int, alone: str
) -> PreTrainedTokenizerFast:
    """A tokenizer trained on demonstrations.

    Args:
        made: their texts decide the merges.
        settings: size of the vocabulary and of the context.
        words: so many common words are joined to the blank before them.
        alone: what is always a token of its own (a pattern).
    """
    texts = [row.text for row in made]
    tokenizer = train_tokenizer(texts, common_words(texts, words), settings.vocab, alone)
    tokenizer.model_max_length = settings.context
    return tokenizer


def encoded(made: Demonstration, template: ChatTemplate) -> Conversation:
    """A demonstration as ids with a mask, put together as a rollout does."""
    return Conversation(*encode_row({"pieces": made.pieces}, template))
