"""Byte-level BPE tokenizer of the bundled policy, trained from scratch on a corpus of texts.

Two choices serve copying, which is most of what a tool agent does. A blank is a token of its own
unless a very common word follows, so a name has the same ids in a sentence and between quotes. And
every digit stands alone. Roles are single special tokens, the chat template renders tools as
`name(parameter, ...)`.

    tokenizer = train_tokenizer(texts, vocab=3072)
    tokenizer.save_pretrained(folder)
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable

from tokenizers import Regex, Tokenizer, decoders, models, pre_tokenizers, trainers
from transformers import PreTrainedTokenizerFast

END = "<|end|>"
PAD = "<|pad|>"
ROLES = ("<|system|>", "<|user|>", "<|assistant|>", "<|tool|>")

CHAT_TEMPLATE = (
    "{%- for message in messages %}"
    "{{- '<|' + message.role + '|>' }}"
    "{%- if message.content %}{{- message.content }}{%- endif %}"
    "{%- if loop.first and tools %}"
    "{%- for tool in tools %}{%- set f = tool.function %}"
    "{{- '\\n' + f.name + '(' + (f.parameters.properties | list | join(',')) + ')' }}"
    "{%- endfor %}{%- endif %}"
    "{{- '<|end|>' }}"
    "{%- endfor %}"
    "{%- if add_generation_prompt %}{{- '<|assistant|>' }}{%- endif %}"
)


def common_words(texts: Iterable[str], most: int = 160) -> list[str]:
    """Lower-case words that most often follow a blank; they are joined to it.

    Args:
        texts: sentences of users (not calls, so that names do not count).
        most: how many words to return.
    """
    counts: Counter[str] = Counter()
    for text in texts:
        counts.update(re.findall(r"(?<= )[a-z]{1,10}(?=[ ,.?!])", text))
    return [word for word, _ in counts.most_common(most)]


def train_tokenizer(
    texts: Iterable[str], words: Iterable[str], vocab: int = 3072, alone: str = ""
) -> PreTrainedTokenizerFast:
    """Train on texts.

    Args:
        texts: the corpus, one text a piece (special tokens need not appear).
        words: those that are joined to the blank before them (`common_words`).
        vocab: size of the vocabulary, special tokens and 256 bytes included.
        alone: a regular expression of what is never joined to its neighbors.
    """
    joined = "|".join(sorted(map(re.escape, words), key=len, reverse=True))
    first = f"{alone}|" if alone else ""
    pattern = rf"{first} (?:{joined})(?![\p{{L}}_\d])|[\p{{L}}_]+|\d|\s|[^\s\p{{L}}_\d]+"
    model = Tokenizer(models.BPE())
    model.pre_tokenizer = pre_tokenizers.Sequence(
        [
            pre_tokenizers.Split(Regex(pattern), behavior="isolated"),
            pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=False),
        ]
    )
    model.decoder = decoders.ByteLevel()
    trainer = trainers.BpeTrainer(
        vocab_size=vocab,
        special_tokens=[PAD, END, *ROLES],
        initial_alphabet=pre_tokenizers.ByteLevel.alphabet(),
        show_progress=False,
    )
    model.train_from_iterator(texts, trainer)
    tokenizer = PreTrainedTokenizerFast(
        tokenizer_object=model, eos_token=END, pad_token=PAD, model_max_length=4096
    )
    tokenizer.chat_template = CHAT_TEMPLATE
    return tokenizer
