"""How much a text repeats itself, by two measures that ZeroTIR's filters use.

Owns arithmetic over one text; decides nothing.

    ngram_repetition("so we go so we go so we go")      # 0.571...: 3 of 7 triples are different
    repeatness("abab")                                  # 0.3
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray


def ngram_repetition(text: str, size: int = 3) -> float:
    """1 - distinct / all n-grams of words (arXiv 2502.03373, appendix C.2); 0 for a short text."""
    words = text.lower().split()
    grams = list(zip(*(words[start:] for start in range(size)), strict=False))
    return 1.0 - len(set(grams)) / len(grams) if grams else 0.0


def repeatness(text: str) -> float:
    """2 / (n * (n + 1)) times the sum of the common prefixes of neighbouring sorted suffixes.

    The share of all substrings of the n characters that stand in the text before (as in the code of
    Open-Reasoner-Zero): near 0 for prose, near 1 for one character over and over.
    """
    n = len(text)
    if n < 2:
        return 0.0
    ranks = _suffix_ranks(np.array([ord(c) for c in text], dtype=np.int64))
    return 2.0 * _common_prefixes(text, ranks) / (n * (n + 1))


def _suffix_ranks(letters: NDArray[np.int64]) -> NDArray[np.int64]:
    """The place of each suffix among all, by doubling the length that is compared."""
    ranks = np.unique(letters, return_inverse=True)[1].astype(np.int64)
    step, n = 1, letters.size
    while step < n and int(ranks.max()) < n - 1:
        follow = np.full(n, -1, dtype=np.int64)
        follow[:-step] = ranks[step:]
        keys = ranks * (n + 1) + follow + 1
        ranks = np.unique(keys, return_inverse=True)[1].astype(np.int64)
        step *= 2
    return ranks


def _common_prefixes(text: str, ranks: NDArray[np.int64]) -> int:
    """Sum over neighbours in sorted order of what they have in common (Kasai's algorithm)."""
    n = len(text)
    order: list[int] = np.argsort(ranks, kind="stable").tolist()
    total = common = 0
    for start, rank in enumerate(ranks.tolist()):
        if rank == n - 1:
            common = 0
            continue
        other = order[rank + 1]
        while (
            start + common < n
            and other + common < n
            and text[start + common] == text[other + common]
        ):
            common += 1
        total += common
        common -= common > 0
    return total
