"""New words, names and codes for variants, of the training split's own texts and of lists."""

from __future__ import annotations

import functools
import random
import re
import string
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence, Set

from rods.synthesis.structure.words import alike_words, word_lists
from rods.task import Task

_ONSETS = ("b", "br", "c", "ch", "d", "dr", "f", "g", "gr", "h", "j", "k", "l", "m", "n", "p", "pl")
_MORE = ("qu", "r", "s", "sh", "st", "t", "tr", "v", "w", "z", "th", "fl", "cl", "sp", "")
_VOWELS = ("a", "e", "i", "o", "u", "ea", "ai", "oo", "ou", "io", "y")
_WORD = re.compile(r"(?<![\w'#@/])[A-Za-z]{4,}(?![\w'])")
_NOUN = re.compile(
    r"\b(?:the|a|an|my|our|this|your) ([a-z]{4,10})"
    r"(?=[.,;!?]| (?:of|in|on|for|with|to|from|and|is|at)\b)"
)
_CODAS = ("", "", "n", "r", "l", "s", "t", "m", "nd", "rk", "st", "x", "sh", "ck")


class Vocabulary:
    """Draws words; equal construction and equal random state give equal words."""

    def __init__(self, corpus: Sequence[str] = (), *, coins: bool = True) -> None:
        """`corpus`: nouns of the training split's texts, lower case; `coins`: also new words."""
        self._coins = coins
        self._lists = word_lists()
        self._corpus = tuple(corpus) or self._lists.nouns

    @classmethod
    def from_tasks(
        cls, tasks: Iterable[Task], keep: Set[str] = frozenset(), *, coins: bool = True
    ) -> Vocabulary:
        """The nouns, but those to `keep`, that stand as nouns in two of these texts at least."""
        texts = {turn.user for task in tasks for turn in task.turns}
        found = Counter(word for text in texts for word in set(_NOUN.findall(text)))
        nouns = sorted(word for word, count in found.items() if count > 1 and word not in keep)
        return cls(nouns, coins=coins)

    def word(self, rng: random.Random) -> str:
        """One word in lower case."""
        kind = rng.random()
        if kind < 0.35:
            return rng.choice(self._corpus)
        if kind < 0.65:
            return rng.choice(self._lists.nouns)
        return self.coined(rng) if self._coins else self.noun(rng)

    def plain(self, rng: random.Random) -> str:
        """One word that stands in a list, in lower case: what people may say in a sentence."""
        return rng.choice(self._corpus if rng.random() < 0.5 else self._lists.nouns)

    def noun(self, rng: random.Random) -> str:
        """One plain noun in lower case."""
        return rng.choice(self._lists.nouns)

    def coined(self, rng: random.Random) -> str:
        """A pronounceable word that stands in no list, of 3 to about 11 letters."""
        onsets = _ONSETS + _MORE
        count = rng.choice((1, 2, 2, 2, 3, 3))
        text = "".join(rng.choice(onsets) + rng.choice(_VOWELS) for _ in range(count))
        text += rng.choice(_CODAS)
        return text if len(text) >= 3 else text + rng.choice(("nt", "lo", "ra"))

    def first_name(self, rng: random.Random) -> str:
        """A capitalized first name, one in four of them coined."""
        if self._coins and rng.random() < 0.25:
            return self.coined(rng).capitalize()
        return rng.choice(self._lists.first_names)

    def surname(self, rng: random.Random) -> str:
        """A capitalized family name, one in four of them coined."""
        if self._coins and rng.random() < 0.25:
            return self.coined(rng).capitalize() + rng.choice(("", "son", "man", "ez", "ov"))
        return rng.choice(self._lists.surnames)

    def extension(self, rng: random.Random) -> str:
        """A file name extension without the dot."""
        return rng.choice(self._lists.extensions)

    def courteous(self, text: str, rng: random.Random, share: float, *, first: bool) -> str:
        """Open and close a text politely, each with chance `share`; a blank one stays blank."""
        if not text.strip():
            return text
        text = re.sub(r"\b(please|kindly) (?:please|kindly)\b", r"\1", text)
        if rng.random() < share:
            opening = self._lists.greetings if first else self._lists.connectors
            text = f"{rng.choice(opening)} {text}"
        if rng.random() < share:
            text = f"{text.rstrip()} {rng.choice(self._lists.closings)}"
        return text

    def like(self, text: str, rng: random.Random) -> str:
        """A code of the same shape: letters for letters (same case), digits for digits."""
        sets = (string.digits, string.ascii_uppercase, string.ascii_lowercase)
        return "".join(next((rng.choice(s) for s in sets if char in s), char) for char in text)

    def reworded(self, text: str, rng: random.Random, share: float) -> str:
        """Exchange a share of the words that others are like, at least one of them."""
        words = sorted({w for w in map(str.lower, _WORD.findall(text)) if alike_words().get(w)})
        chosen = {word for word in words if rng.random() < share}
        chosen |= {rng.choice(words)} if words and not chosen else set()
        new = {word: rng.choice(alike_words()[word]) for word in sorted(chosen)}

        def swap(match: re.Match[str]) -> str:
            word = match.group()
            return in_case(new.get(word.lower(), word), word)

        return _WORD.sub(swap, text)


def in_case(word: str, model: str) -> str:
    """Give `word` the letter case of `model` (upper, capitalized, or as it is)."""
    if len(model) > 1 and model.isupper():
        return word.upper()
    return word[:1].upper() + word[1:] if model[:1].isupper() else word


@functools.cache
def phrases() -> Mapping[str, tuple[str, ...]]:
    """Each phrase that may be replaced, in lower case, to the phrases that can stand for it."""
    found: dict[str, tuple[str, ...]] = {}
    for group in word_lists().openers:
        plain = tuple(phrase.lstrip("=") for phrase in group)
        found.update({p.lower(): plain for p in group if not p.startswith("=")})
    return found
