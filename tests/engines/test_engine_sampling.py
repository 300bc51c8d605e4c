"""Noise by seed and position; draws that follow the distribution."""

from __future__ import annotations

import math

import pytest
import torch

from rods.engines.sampling import Noise, draw


def test_noise_is_a_function_of_seed_and_position() -> None:
    forward, backward = Noise(3), Noise(3)
    there = [forward.at(i) for i in range(1500)]
    assert [backward.at(i) for i in reversed(range(1500))] == there[::-1]
    assert [Noise(4).at(i) for i in range(1500)] != there
    assert len(set(there)) == 1500 and all(0 <= u < 1 for u in there)
    assert Noise(-1).at(0) == Noise(2**64 - 1).at(0)


def test_draws_follow_the_distribution() -> None:
    logits = torch.tensor([0.0, 1.0, -1.0, 2.0, -math.inf])
    count = 20_000
    noise = Noise(11)
    uniforms = [noise.at(i) for i in range(count)]
    ids, logprobs = draw(logits.expand(count, -1), [2.0] * count, uniforms)
    expected = (logits / 2).softmax(-1)
    observed = torch.bincount(torch.tensor(ids), minlength=5) / count
    assert torch.allclose(observed, expected, atol=0.015)
    assert observed[4] == 0
    assert logprobs[0] == pytest.approx(math.log(float(expected[ids[0]])), abs=1e-5)


def test_extreme_uniforms_stay_inside() -> None:
    logits = torch.tensor([[-math.inf, 0.0, 0.0, -math.inf]]).expand(2, -1)
    ids, _ = draw(logits, [1.0, 1.0], [0.0, 1 - 2**-53])
    assert ids == [1, 2]


def test_greedy_and_sampled_rows_mix() -> None:
    logits = torch.tensor([[0.0, 3.0], [0.0, 3.0]])
    ids, logprobs = draw(logits, [0.0, 1.0], [0.0, 0.0])
    assert ids == [1, 0]
    assert logprobs[0] == pytest.approx(-math.log1p(math.exp(-3)), abs=1e-6)
    assert draw(logits, [0.0, 0.0], [0.0, 0.0])[0] == [1, 1]
