"""Architectures that the fast path does not know: batched where that is right, and exact."""

from __future__ import annotations

import logging
from typing import Any

import pytest

from engine_cases import play_many, text, worst_difference
from engine_counts import EngineCounts
from odd_models import odd
from rods.engines.fallback import BatchedCache, SingleCache, general_cache
from rods.engines.hf import HFPolicy

pytestmark = pytest.mark.usefixtures("one_thread")


FAMILIES = ["moe", "gpt_neox", "gemma3", "mistral-window"]


@pytest.mark.slow
@pytest.mark.parametrize("kind", FAMILIES)
def test_rows_of_any_family_are_batched_and_exact(kind: str) -> None:
    model = odd(kind)
    policy = HFPolicy(model, [5], rows=6, max_context=128, fast=False)
    counts = EngineCounts(policy)
    played = play_many(policy, 8)
    assert policy.engine_name == "transformers"
    assert worst_difference(model, played) < 1e-4
    assert counts.forked_tokens > 0


@pytest.mark.slow
def test_what_cannot_be_batched_goes_row_by_row_and_says_why(
    caplog: pytest.LogCaptureFixture,
) -> None:
    model = odd("bloom")
    with caplog.at_level(logging.WARNING, "rods.engines"):
        policy = HFPolicy(model, [5], rows=4, max_context=128)
    assert policy.engine_name == "transformers, row by row"
    assert "one row at a time, because" in caplog.text and "BloomForCausalLM" in caplog.text
    assert worst_difference(model, play_many(policy, 6)) < 1e-4


def test_layers_whose_masks_are_unknown_are_not_tried() -> None:
    model = odd("gemma3")
    model.config.layer_types = ["chunked_attention"] * 7
    assert isinstance(general_cache(model, 2, 64), SingleCache)
    assert "chunked_attention" in general_cache(model, 2, 64).cost


def test_a_batched_cache_that_is_wrong_is_noticed(monkeypatch: pytest.MonkeyPatch) -> None:
    right = BatchedCache._masks
    monkeypatch.setattr(BatchedCache, "_masks", lambda s, p, n: right(s, p - 1, n))
    found = general_cache(odd("gpt_neox"), 2, 64)
    assert isinstance(found, SingleCache) and "differ from single ones" in found.cost


@pytest.mark.slow
def test_a_budget_bounds_the_rows_of_any_family(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("rods.engines.storage.FIRST", 16)
    model = odd("gemma3")
    token = 2 * 7 * 2 * 16 * 4
    policy = HFPolicy(model, [5], rows=8, max_context=128, cache_bytes=3 * 129 * token)
    counts = EngineCounts(policy)
    played = play_many(policy, 8)
    assert policy._backend.limit() == 3 and counts.evictions > 0
    assert policy._backend._cache.kept.bytes <= 3 * 129 * token
    assert worst_difference(model, played) < 1e-4


def test_a_step_is_one_call_whatever_the_rows(monkeypatch: pytest.MonkeyPatch) -> None:
    model = odd("gpt_neox")
    cache = BatchedCache(model, 8, 128)
    calls = [0]
    whole = model.forward

    def count(*args: Any, **kwargs: Any) -> Any:
        calls[0] += 1
        return whole(*args, **kwargs)

    cache.prefill(range(8), [text(i, 9 + i) for i in range(8)])
    monkeypatch.setattr(model, "forward", count)
    cache.decode(range(8), [1] * 8)
    assert calls == [1]
