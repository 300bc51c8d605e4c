"""Filters of an update (`train.filter`): which groups and samples it leaves out, by name.

Owns the protocol and the registry; the filters themselves are in their recipes' folders, under
`[provides.filters]`, but for `dapo`: groups of equal scores do not train, whatever the advantage.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol

from rods.config import TrainSettings
from rods.registry import Registry, require
from rods.reward import EQUAL, Score
from rods.trajectory import Group

_HERE = "rods.rewards.filters:"
_OWN = {"none": f"{_HERE}nothing", "dapo": f"{_HERE}DapoFilter"}
FILTERS = Registry("train.filter", "filter", _OWN, "filters")


class TrainFilter(Protocol):
    """What is left out of an update although it is valid.

    It is made with `train.filtering.window` and `train.filtering.max_perplexity`.
    """

    @property
    def group_reasons(self) -> Sequence[str]:
        """All that `group_fault` may answer."""
        ...

    @property
    def sample_reasons(self) -> Sequence[str]:
        """All that `sample_faults` may answer."""
        ...

    def group_fault(self, scores: Sequence[Score]) -> str | None:
        """Why a group is dropped before advantages are computed; None: it is kept."""
        ...

    def sample_faults(
        self, group: Group, scores: Sequence[Score], perplexities: Sequence[float] | None = None
    ) -> Sequence[str | None]:
        """Why each member of a group carries no loss; None: it trains.

        Args:
            group: the trajectories; masked ones stay in the baseline.
            scores: one for each.
            perplexities: of each response under the base model, where the trainer knows them.
        """
        ...


def filter_of(train: TrainSettings) -> TrainFilter | None:
    """The filter of an update; None: nothing is left out.

    Raises:
        ConfigError: there is none of this name, or it is not a filter.
    """
    settings = train.filtering
    made = FILTERS.find(train.filter)(settings.window, settings.max_perplexity)
    if made is not None:
        require("train.filter", train.filter, made, TrainFilter)
    return made


def nothing(window: tuple[float, float], max_perplexity: float) -> None:
    """Leave nothing out, whatever the settings of filters."""


class DapoFilter:
    """Dynamic sampling: a group without variance does not train."""

    group_reasons = ("equal",)
    sample_reasons = ()

    def __init__(self, window: tuple[float, float], max_perplexity: float) -> None:
        """Read none of the settings, which are of other filters."""

    def group_fault(self, scores: Sequence[Score]) -> str | None:
        """`equal` where all valid scores are, or none is valid; None: the group is kept."""
        return None if has_variance(scores) else "equal"

    def sample_faults(
        self, group: Group, scores: Sequence[Score], perplexities: Sequence[float] | None = None
    ) -> Sequence[None]:
        """Mask no member."""
        return [None] * len(scores)


def has_variance(scores: Sequence[Score]) -> bool:
    """DAPO's condition (arXiv 2503.14476, equation 11): valid scores differ within the group."""
    values = [score.value for score in scores if score.valid]
    return bool(values) and max(values) - min(values) > EQUAL
