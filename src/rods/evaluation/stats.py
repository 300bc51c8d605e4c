"""Means and paired differences with 95 % intervals. Owns no data, draws nothing, reads no file.

Intervals are Student's t with a standard error that is robust to clusters (scenarios): tasks of one
scenario resemble each other, so the unit of evidence is the scenario, not the task. Without
clusters this is the ordinary t interval. It is deterministic; nothing is resampled. A mean or a
difference without an interval (fewer than two clusters) is `None`: we print no delta without one.

    paired_difference([0.2, 0.4, 0.1], [0.5, 0.4, 0.3])
    # Interval(mean=0.1667, low=-0.2128, high=0.5461, n=3, clusters=3)
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Hashable, Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import Any

from mpmath import betainc, findroot  # pyright: ignore


@dataclass(frozen=True, slots=True)
class Interval:
    """A mean and its interval. `low <= mean <= high`; not clipped to the range of the values."""

    mean: float
    low: float
    high: float
    n: int
    """Values behind the mean."""
    clusters: int
    """Independent units among them; equals `n` where no clusters were given."""

    @property
    def excludes_zero(self) -> bool:
        """True if the whole interval lies on one side of zero; never for one without width."""
        return not self.is_flat and (self.low > 0 or self.high < 0)

    @property
    def is_flat(self) -> bool:
        """True if all values are alike but for rounding, so that nothing shows their spread."""
        return self.half_width < 1e-9

    @property
    def half_width(self) -> float:
        """Half of the interval's width."""
        return (self.high - self.low) / 2


def mean_ci(
    values: Sequence[float],
    clusters: Sequence[Hashable] | None = None,
    strata: Sequence[Hashable] | None = None,
) -> Interval | None:
    """Mean of values with its 95 % t interval; `None` with a stratum of fewer than two clusters.

    The variance of the mean is the jackknife's: (G-1)/G * sum over clusters of (mean without the
    cluster - mean)^2, with G - 1 degrees of freedom (CV3J in MacKinnon, Nielsen and Webb 2023). The
    sandwich, equal where clusters are of one size, is too small where one has most values. If every
    value is the same the interval has no width: the data show no spread, not certainty.

    Args:
        values: finite numbers, one for each task.
        clusters: one label for each value; `None`: every value is a cluster of its own.
        strata: one label for each value. The mean is then that of the strata's means, each weighing
            the same; G and means are those of the stratum. A cluster may reach over strata, as a
            scenario over categories: what it changes in each adds up. Each stratum has G - 1
            degrees of freedom; the sum is at most the clusters'.

    Raises:
        ValueError: lengths differ, or a value is not finite.
    """
    n = len(values)
    labels: Sequence[Hashable] = range(n) if clusters is None else clusters
    places: Sequence[Hashable] = [0] * n if strata is None else strata
    if not len(labels) == len(places) == n:
        raise ValueError(f"{n} values but {len(labels)} cluster labels and {len(places)} strata.")
    if not all(math.isfinite(v) for v in values):
        raise ValueError("a value is not finite; leave invalid tasks out before averaging.")
    parts: dict[Hashable, list[float]] = {}
    units: dict[Hashable, Counter[Hashable]] = {}
    for stratum, label, value in zip(places, labels, values, strict=True):
        parts.setdefault(stratum, []).append(value)
        units.setdefault(stratum, Counter())[label] += 1
    among = {stratum: len(found) for stratum, found in units.items()}
    if min(among.values(), default=0) < 2:
        return None
    means = {stratum: math.fsum(found) / len(found) for stratum, found in parts.items()}
    mean = math.fsum(means.values()) / len(means)
    sums: dict[Hashable, float] = {}
    for stratum, label, value in zip(places, labels, values, strict=True):
        factor = math.sqrt(1 - 1 / among[stratum])
        others = len(parts[stratum]) - units[stratum][label]  # values without the cluster
        sums[label] = sums.get(label, 0.0) + factor * (value - means[stratum]) / others
    freedom = min(len(sums) - 1, sum(among.values()) - len(among))
    reach = t_quantile(0.975, freedom) * math.hypot(*sums.values()) / len(means)
    return Interval(mean, mean - reach, mean + reach, n, len(sums))


def paired_difference(
    before: Sequence[float], after: Sequence[float], clusters: Sequence[Hashable] | None = None
) -> Interval | None:
    """Mean of `after - before` with its 95 % t interval; `None` below two clusters.

    Both hold the same tasks in the same order; `clusters` labels each one's scenario.

    Raises:
        ValueError: the sequences have different lengths or hold values that are not finite.
    """
    return mean_ci([b - a for a, b in zip(before, after, strict=True)], clusters)


@lru_cache(maxsize=4096)
def t_quantile(probability: float, df: int) -> float:
    """Quantile of Student's t with `df` degrees of freedom, to about 1e-12 relative.

    P(|T| > t) is the regularized incomplete beta function at df / (df + t^2), which is inverted.

    Raises:
        ValueError: `df` is below 1 or `probability` is not within (0, 1).
    """
    if df < 1 or not 0 < probability < 1:
        raise ValueError(f"t_quantile({probability}, {df}): expected 0 < p < 1 and df >= 1.")
    if probability < 0.5:
        return -t_quantile(1 - probability, df)

    def above(x: object) -> Any:
        return betainc(df / 2, 0.5, 0, x, regularized=True) - 2 * (1 - probability)

    found = findroot(above, (0, 1), solver="illinois", tol=1e-24)
    return math.sqrt(df * (1 - found) / found)
