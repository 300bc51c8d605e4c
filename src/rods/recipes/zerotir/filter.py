"""Filters of ZeroTIR (arXiv 2505.07773) before an update: groups by accuracy, samples by fault.

Owns `train.filter = "zerotir"`, as its released code computes it. It says what to leave out and
why; the trainer does it. A group's accuracy must lie strictly within the window
(`train.filtering.window`; the second published script has 0.0 to 0.8), and at most 40 % of its
scores may be invalid. Masked members stay in the baseline of their group. Two measures count how
much a text repeats itself.

    group_fault(scores)                     # None: the group trains
    sample_fault(trajectory, score)         # None: the response carries loss
"""

from __future__ import annotations

import re
import statistics
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from rods.errors import RewardError
from rods.reward import Score
from rods.rewards.answers import accuracy_of
from rods.rewards.reading import ending, executed, sampled, written
from rods.trajectory import Group, Trajectory


def ngram_repetition(text: str, size: int = 3) -> float:
    """1 - distinct / all n-grams of words (arXiv 2502.03373, appendix C.2); 0 for a short text."""
    words = text.lower().split()
    grams = list(zip(*(words[start:] for start in range(size)), strict=False))
    return 1.0 - len(set(grams)) / len(grams) if grams else 0.0


def repeatness(text: str) -> float:
    """2 / (n * (n + 1)) times the sum of the common prefixes of neighboring sorted suffixes.

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
    """Sum over neighbors in sorted order of what they have in common (Kasai's algorithm)."""
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


SLACK = 1e-6  # Distance that a mean accuracy must keep from each end of the window
MAX_FAILED = 0.4  # A group is dropped if a larger share of its scores is invalid
MAX_REPEATNESS, MAX_REPETITION = 0.2, 0.6


@dataclass(frozen=True)
class ZeroTirFilter:
    """The filter of one run."""

    window: tuple[float, float] = (0.05, 0.8)
    """Mean accuracies between which a group is kept."""
    max_perplexity: float = 0.0
    """Most perplexity of a sample under the base model; 0: not looked at."""

    @property
    def group_reasons(self) -> tuple[str, ...]:
        """Why a group may be dropped."""
        return ("failed", "too_hard", "too_easy")

    @property
    def sample_reasons(self) -> tuple[str, ...]:
        """Why a sample may be masked."""
        perplexity = ["perplexity"] if self.max_perplexity else []
        return ("truncated", "odd_finish", "shortcut", "unbalanced", *perplexity, "repetition")

    def group_fault(self, scores: Sequence[Score]) -> str | None:
        """Why a group is dropped before advantages are computed; None: it is kept.

        Raises:
            RewardError: a score has no part `correct`.
        """
        valid = [accuracy_of(s) for s in scores if s.valid]
        if not valid or (len(scores) - len(valid)) / len(scores) > MAX_FAILED:
            return "failed"
        mean = statistics.fmean(valid)
        if not self.window[0] + SLACK < mean:
            return "too_hard"
        return None if mean < self.window[1] - SLACK else "too_easy"

    def sample_faults(
        self, group: Group, scores: Sequence[Score], perplexities: Sequence[float] | None = None
    ) -> list[str | None]:
        """Why each member of a group gets no loss, by its parts `correct` and `well_formed`.

        Raises:
            RewardError: the lengths differ, or the scores lack a part.
        """
        members = group.trajectories
        known = [0.0] * len(members) if perplexities is None else list(perplexities)
        if not len(members) == len(scores) == len(known):
            raise RewardError(
                f"task {group.task.id}: {len(members)} trajectories came with {len(scores)} scores "
                f"and {len(known)} perplexities; expected one for each."
            )
        most = self.max_perplexity
        return [
            sample_fault(t, s, unlikely=bool(most) and p > most) if s.valid else None
            for t, s, p in zip(members, scores, known, strict=True)
        ]


def sample_fault(trajectory: Trajectory, score: Score, unlikely: bool = False) -> str | None:
    """Why one response gets no loss, in this order:

    * `truncated`: cut by a limit of tokens, and wrong
    * `odd_finish`: neither finished nor truncated
    * `shortcut`: right, but programs and outputs do not match (an output was made up)
    * `unbalanced`: well formed, some program ran, and they do not match
    * `perplexity`: too unlikely under the base model
    * `repetition`: badly formed and repeating itself
    """
    right = accuracy_of(score) > 0
    formed = score.parts.get("well_formed", float(right)) > 0
    how, matched = ending(trajectory), blocks_match(trajectory)
    if how == "truncated" and not right:
        return "truncated"
    if how == "odd":
        return "odd_finish"
    if right and not matched:
        return "shortcut"
    if formed and not matched and any(not r.failed for r in executed(trajectory)):
        return "unbalanced"
    if unlikely:
        return "perplexity"
    text = sampled(trajectory)
    repeats = ngram_repetition(text) > MAX_REPETITION or repeatness(text) > MAX_REPEATNESS
    return "repetition" if repeats and not formed else None


def blocks_match(trajectory: Trajectory) -> bool:
    """True if there are as many openings of programs as programs, and as many outputs.

    An output is a result that the environment gave, or an output block that the policy wrote on
    its own. A program that was never run with a made-up output therefore matches, as it does in the
    released code. Where calls are messages and not fences, calls that could be read are programs.
    """
    text = sampled(trajectory)
    outputs = len(executed(trajectory)) + len(_OUTPUT.findall(text))
    if "```python" not in text:
        return written(trajectory) == outputs
    return text.count("```python\n") == len(_PROGRAM.findall(text)) == outputs


# As in the released code, which runs a program in the line of its fence, but does not count it.
_PROGRAM = re.compile(r"```python\n.*?```", re.DOTALL)
_OUTPUT = re.compile(r"```output\n.*?```", re.DOTALL)
