"""Intervals against known values (float64)."""

import math
import random
import re

import pytest

from places import ROOT
from rods.evaluation.stats import mean_ci, paired_difference, t_quantile


@pytest.mark.parametrize(
    ("df", "expected"),
    [  # two-sided 95 %, from published tables of Student's t
        (1, 12.706204736),
        (2, 4.302652730),
        (3, 3.182446305),
        (4, 2.776445105),
        (5, 2.570581836),
        (9, 2.262157163),
        (10, 2.228138852),
        (29, 2.045229642),
        (30, 2.042272456),
        (100, 1.983971519),
        (399, 1.965927296),
    ],
)
def test_t_quantile_matches_the_published_table(df: int, expected: float) -> None:
    assert t_quantile(0.975, df) == pytest.approx(expected, abs=2e-8)
    assert t_quantile(0.025, df) == pytest.approx(-expected, abs=2e-8)


@pytest.mark.parametrize(("df", "expected"), [(1, 6.313751515), (7, 1.894578605)])
def test_t_quantile_at_another_level(df: int, expected: float) -> None:
    assert t_quantile(0.95, df) == pytest.approx(expected, abs=2e-8)


def test_mean_ci_is_the_ordinary_t_interval_without_clusters() -> None:
    interval = mean_ci([1.0, 2.0, 3.0, 4.0, 5.0])
    assert interval is not None
    reach = 2.776445105 * math.sqrt(2.5 / 5)  # s^2 = 2.5, df = 4
    assert interval.mean == 3.0
    assert interval.low == pytest.approx(3 - reach, abs=1e-8)
    assert interval.high == pytest.approx(3 + reach, abs=1e-8)
    assert (interval.n, interval.clusters) == (5, 5)


def test_clusters_follow_the_jackknife() -> None:
    values, labels = [1.0, 2.0, 4.0, 7.0, 6.0], ["a", "a", "b", "b", "c"]
    # mean 4; without a, b, c 17/3, 3, 7/2; variance 2/3 * (25/9 + 1 + 1/4) = 145/54; df = 2
    interval = mean_ci(values, labels)
    assert interval is not None
    assert interval.half_width == pytest.approx(4.302652730 * math.sqrt(145 / 54), abs=1e-7)
    assert (interval.n, interval.clusters) == (5, 3)


def test_one_scenario_with_most_of_the_tasks_is_little_evidence() -> None:
    """By the sandwich, half of these intervals miss the truth."""
    rng, covered = random.Random(7), 0
    labels = [label for label, size in enumerate((30, 2, 2, 2)) for _ in range(size)]
    for _ in range(400):
        scenarios = [rng.gauss(0.3, 1.0) for _ in range(4)]
        interval = mean_ci([rng.gauss(scenarios[label], 0.5) for label in labels], labels)
        assert interval is not None
        covered += interval.low <= 0.3 <= interval.high
    assert covered / 400 >= 0.85


def test_doubling_every_task_within_its_scenario_adds_no_evidence() -> None:
    once = mean_ci([0.1, 0.5, 0.6, 0.9])
    twice = mean_ci([0.1, 0.1, 0.5, 0.5, 0.6, 0.6, 0.9, 0.9], list("aabbccdd"))
    assert once is not None and twice is not None
    assert twice.low == pytest.approx(once.low) and twice.high == pytest.approx(once.high)


def test_pairing_removes_what_the_tasks_have_in_common() -> None:
    before, after = [0.0, 0.5, 1.0], [0.1, 0.6, 1.1]
    paired = paired_difference(before, after)
    assert paired is not None
    assert paired.mean == pytest.approx(0.1) and paired.half_width < 1e-9
    assert paired.is_flat and not paired.excludes_zero, "its width is of rounding alone"
    doc = paired_difference([0.2, 0.4, 0.1], [0.5, 0.4, 0.3])
    assert doc is not None
    assert (doc.low, doc.high) == (
        pytest.approx(-0.2128, abs=1e-4),
        pytest.approx(0.5461, abs=1e-4),
    )
    assert not doc.excludes_zero


@pytest.mark.parametrize(("values", "clusters"), [([], None), ([1.0], None), ([1.0, 2.0], "aa")])
def test_no_interval_without_two_independent_units(
    values: list[float], clusters: str | None
) -> None:
    assert mean_ci(values, clusters) is None
    assert paired_difference(values, values, clusters) is None


def test_bad_input_is_refused() -> None:
    with pytest.raises(ValueError, match="longer than argument 1"):
        paired_difference([1.0], [1.0, 2.0])
    with pytest.raises(ValueError, match="not finite"):
        mean_ci([1.0, float("nan")])
    with pytest.raises(ValueError, match="cluster labels"):
        mean_ci([1.0, 2.0], ["a"])
    with pytest.raises(ValueError, match="t_quantile"):
        t_quantile(0.975, 0)


def test_the_interval_covers_the_truth_about_95_times_in_100() -> None:
    rng, covered = random.Random(7), 0
    for _ in range(600):
        interval = mean_ci([rng.gauss(0.3, 1.0) for _ in range(6)])
        assert interval is not None
        covered += interval.low <= 0.3 <= interval.high
    assert 0.925 <= covered / 600 <= 0.975


def test_the_guide_says_how_wide_an_interval_over_few_scenarios_is() -> None:
    page = (ROOT / "docs" / "guides" / "evaluate.md").read_text(encoding="utf-8")
    [paragraph] = re.findall(r"\*\*Hold out enough scenarios\.\*\*.*?\n\n", page, re.DOTALL)
    stated = [float(number) for number in re.findall(r"\b\d+\.\d\b", paragraph)]
    expected = [round(t_quantile(0.975, scenarios - 1), 1) for scenarios in (2, 4, 8)]
    assert stated == [*expected, 0.5], "and the option"
