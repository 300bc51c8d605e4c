"""Nucleus sampling: who can be drawn, how often, and what is reported."""

from __future__ import annotations

import torch

from rods.engines.sampling import draw

LOGITS = torch.tensor([[0.1, 0.5, 0.05, 0.3, 0.05]]).log()


def drawn(top_p: float, many: int = 1000) -> list[int]:
    uniforms = [(i + 0.5) / many for i in range(many)]
    return draw(LOGITS.expand(many, -1), [1.0] * many, uniforms, [top_p] * many)[0]


def test_only_the_most_probable_are_drawn_in_their_proportions() -> None:
    found = drawn(0.75)
    assert set(found) == {1, 3}  # 0.5 alone has less than 0.75
    assert abs(found.count(1) / len(found) - 0.5 / 0.8) < 0.002
    assert set(drawn(0.49)) == {1} and set(drawn(0.01)) == {1}
    assert set(drawn(1.0)) == {0, 1, 2, 3, 4}


def test_log_probabilities_are_those_of_the_whole_distribution() -> None:
    ids, logprobs = draw(LOGITS, [1.0], [0.1], [0.5])
    assert ids == [1] and abs(logprobs[0] - torch.tensor(0.5).log().item()) < 1e-6


def test_rows_have_their_own() -> None:
    last = 1 - 1e-9
    ids, _ = draw(LOGITS.expand(3, -1), [1.0, 1.0, 0.0], [last] * 3, [1.0, 0.49, 0.49])
    assert ids == [4, 1, 1]
