"""What ZeroTIR (arXiv 2505.07773) leaves out of an update: groups by accuracy, samples by fault.

Owns pure functions over scores and a `Group`, as its released code computes them. They say what to
leave out and why; the trainer does it. Nothing is dropped here.

    if group_fault(scores) is None:            # keep the group
        reasons = sample_faults(group, scores)  # None: trains; else why it gets no loss

Filter groups before advantages are computed: one that standardises over the batch must not see
them. Masked members stay in the baseline of their group.
"""

from __future__ import annotations

import re
import statistics
from collections.abc import Sequence
from typing import Literal

from rods.errors import RewardError
from rods.reward import Score
from rods.rewards.answers import accuracy_of
from rods.rewards.reading import Ending, ending, executed, sampled, written
from rods.rewards.repetition import ngram_repetition, repeatness
from rods.trajectory import Group, Trajectory

WINDOW = (0.05, 0.8)
"""Mean accuracies between which a group is kept; the second published script has (0.0, 0.8)."""
SLACK = 1e-6
MAX_FAILED = 0.4
"""A group is dropped if a larger share of its scores is invalid."""
MAX_PERPLEXITY = 5.0
MAX_REPEATNESS, MAX_REPETITION = 0.2, 0.6

GroupFault = Literal["failed", "too_hard", "too_easy"]
SampleFault = Literal[
    "truncated", "odd_finish", "shortcut", "unbalanced", "perplexity", "repetition"
]


# -- which groups train --------------------------------------------------------------------------


def group_fault(
    scores: Sequence[Score],
    window: tuple[float, float] = WINDOW,
    max_failed: float = MAX_FAILED,
) -> GroupFault | None:
    """Why a group is dropped before advantages are computed; None: it is kept.

    Args:
        scores: of all members, from one of the rewards of answers (they log `correct`).
        window: mean accuracy must lie strictly between, with 1e-6 to spare on each side.
        max_failed: share of invalid scores above which the group is dropped.
    """
    valid = [accuracy_of(s) for s in scores if s.valid]
    if not valid or (len(scores) - len(valid)) / len(scores) > max_failed:
        return "failed"
    mean = statistics.fmean(valid)
    if not window[0] + SLACK < mean:
        return "too_hard"
    return None if mean < window[1] - SLACK else "too_easy"


def has_variance(scores: Sequence[Score]) -> bool:
    """DAPO's condition (arXiv 2503.14476, equation 11): valid scores differ within the group."""
    return len({score.value for score in scores if score.valid}) > 1


# -- which samples carry loss --------------------------------------------------------------------


def sample_faults(
    group: Group,
    scores: Sequence[Score],
    perplexities: Sequence[float] | None = None,
    max_perplexity: float = MAX_PERPLEXITY,
) -> list[SampleFault | None]:
    """Why each member of a group gets no loss; None: it trains.

    Args:
        group: the trajectories.
        scores: one for each, from `zerotir` (the mask needs `correct` and `well_formed`).
        perplexities: of each response under the base model, where the trainer knows them.
        max_perplexity: above it a response gets no loss.

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
    return [
        sample_fault(t, s, p, max_perplexity) if s.valid else None
        for t, s, p in zip(members, scores, known, strict=True)
    ]


def sample_fault(
    trajectory: Trajectory,
    score: Score,
    perplexity: float = 0.0,
    max_perplexity: float = MAX_PERPLEXITY,
) -> SampleFault | None:
    """Why one response gets no loss, in this order:

    * `truncated`: cut by a limit of tokens, and wrong
    * `odd_finish`: neither finished nor truncated
    * `shortcut`: right, but programs and outputs do not match (an output was made up)
    * `unbalanced`: well formed, some program ran, and they do not match
    * `perplexity`: above `max_perplexity` under the base model
    * `repetition`: badly formed and repeating itself
    """
    right = accuracy_of(score) > 0
    formed = score.parts.get("well_formed", float(right)) > 0
    how: Ending = ending(trajectory)
    matched = blocks_match(trajectory)
    if how == "truncated" and not right:
        return "truncated"
    if how == "odd":
        return "odd_finish"
    if right and not matched:
        return "shortcut"
    if formed and not matched and any(not r.failed for r in executed(trajectory)):
        return "unbalanced"
    if perplexity > max_perplexity:
        return "perplexity"
    return "repetition" if not formed and _repeats(sampled(trajectory)) else None


def blocks_match(trajectory: Trajectory) -> bool:
    """Whether there are as many openings of programs as programs, and as many outputs.

    An output is a result that the environment gave, or an output fence that the policy wrote on
    its own. A program that was never run with a made-up output therefore matches, as it does in the
    released code. Where calls are messages and not fences, calls that could be read are programs.
    """
    text = sampled(trajectory)
    opened = len(_OPENED.findall(text))
    programs = len(_PROGRAM.findall(text))
    if not opened:
        opened = programs = written(trajectory)
    return opened == programs == len(executed(trajectory)) + text.count("```output")


_OPENED = re.compile(r"```python\b")
_PROGRAM = re.compile(r"```python\b(?:(?!```).)*```", re.DOTALL)


def _repeats(text: str) -> bool:
    return ngram_repetition(text) > MAX_REPETITION or repeatness(text) > MAX_REPEATNESS
