"""Attention without masks: what torch's dense attention gives, forwards and backwards."""

from __future__ import annotations

from collections.abc import Callable

import pytest
import torch
from torch import Tensor
from torch.nn.functional import scaled_dot_product_attention

from engine_cases import text
from rods.engines.attention import after, flashes, without_cudnn
from rods.engines.kv import RowCache
from rods.trainers.batches.tree_attention import attend, cpu_bfloat16
from tiny_models import build

pytestmark = pytest.mark.usefixtures("one_thread")


def dense(q: Tensor, pk: Tensor, pv: Tensor, k: Tensor, v: Tensor, scale: float) -> Tensor:
    past = pk.shape[2]
    mask = torch.ones(q.shape[2], past + k.shape[2], dtype=torch.bool).tril(past)
    return scaled_dot_product_attention(
        q, torch.cat([pk, k], 2), torch.cat([pv, v], 2), mask, scale=scale, enable_gqa=True
    )


@pytest.mark.parametrize(
    ("tokens", "past", "groups"), [(1, 1, 1), (1, 200, 4), (5, 3, 4), (70, 1, 4), (70, 200, 1)]
)
def test_two_passes_are_one_with_a_mask(tokens: int, past: int, groups: int) -> None:
    generator = torch.Generator().manual_seed(tokens + past)

    def some(heads: int, count: int) -> Tensor:
        found = torch.randn(1, heads, count, 16, generator=generator, dtype=torch.float64) * 3
        return found.requires_grad_()

    inputs = some(4, tokens), some(4 // groups, past), some(4 // groups, past)
    inputs += some(4 // groups, tokens), some(4 // groups, tokens)
    ours, theirs = after(*inputs, 0.3), dense(*inputs, 0.3)
    assert torch.allclose(ours, theirs, atol=1e-9)
    slope = torch.randn(ours.shape, generator=generator, dtype=torch.float64)
    for mine, other in zip(
        torch.autograd.grad(ours, inputs, slope), torch.autograd.grad(theirs, inputs, slope),
        strict=True,
    ):  # fmt: skip
        assert torch.allclose(mine, other, atol=1e-9)


@pytest.mark.parametrize(
    ("past", "tokens", "groups"),
    [(200, 1, 3), (0, 70, 1), (3, 128, 3), (3, 300, 1), (200, 300, 3)],
)
def test_blocks_of_queries_are_one_with_a_mask(tokens: int, past: int, groups: int) -> None:
    """In bfloat16 ours is at most as far from the exact result as torch's dense attention."""
    generator = torch.Generator().manual_seed(tokens + past)
    shapes = [(1, 3, tokens, 16), *[(1, 3 // groups, past + tokens, 16)] * 2]
    numbers = [(2 * torch.randn(s, generator=generator)).bfloat16() for s in shapes]
    slope = torch.randn(shapes[0], generator=generator).bfloat16()

    def run(attention: Callable[..., Tensor], dtype: torch.dtype) -> list[Tensor]:
        inputs = [t.to(dtype).requires_grad_() for t in numbers]
        out = attention(*inputs, 0.3)
        assert out.dtype is dtype
        found = torch.autograd.grad(out, inputs, slope.to(dtype))
        return [t.detach().double() for t in (out, *found)]

    def whole(q: Tensor, k: Tensor, v: Tensor, scale: float) -> Tensor:
        return dense(q, k[:, :, :past], v[:, :, :past], k[:, :, past:], v[:, :, past:], scale)

    exact = run(whole, torch.float64)
    for ours, other, right in zip(
        run(attend, torch.bfloat16), run(whole, torch.bfloat16), exact, strict=True
    ):
        error, bound = (ours - right).norm(), (other - right).norm()
        assert error <= 2 * bound + 0.01 * right.norm()
    for ours, right in zip(run(attend, torch.float32), exact, strict=True):
        assert torch.allclose(ours, right, atol=1e-4)


def test_blocks_are_for_bfloat16_on_a_cpu() -> None:
    numbers = torch.zeros(1, 1, 1, 16)
    assert cpu_bfloat16(numbers.bfloat16()) and not cpu_bfloat16(numbers)
    with torch.autocast("cpu", torch.bfloat16):
        assert cpu_bfloat16(numbers)
        assert attend(numbers, numbers, numbers, 1.0).dtype is torch.bfloat16


def test_one_part_may_outweigh_the_other_by_far() -> None:
    """Scores of 1,000 would overflow without their log-sum-exps."""
    ones = torch.ones(1, 1, 2, 8)
    for near, far in ((100.0, -100.0), (-100.0, 100.0)):
        got = after(10 * ones, far * ones, 2 * ones, near * ones, 3 * ones, 1.0)
        assert torch.allclose(got, (3 if near > far else 2) * ones)


def test_autocast_holds_for_them_too() -> None:
    inputs = [torch.randn(1, 2, n, 16) for n in (5, 9, 9, 5, 5)]
    inputs[2] = inputs[2].bfloat16()
    with torch.autocast("cpu", torch.bfloat16):
        got = after(*inputs, 0.3)
    assert got.dtype is torch.bfloat16
    assert float((got.float() - dense(*(t.float() for t in inputs), 0.3)).abs().max()) < 0.05


def test_wide_heads_have_no_kernel() -> None:
    assert flashes(torch.zeros(1, 1, 1, 64)) and not flashes(torch.zeros(1, 1, 1, 288))


@pytest.mark.slow
@pytest.mark.parametrize(
    ("kind", "dtype", "most"),
    [
        ("qwen3", torch.float32, 5000),
        ("qwen2", torch.bfloat16, 5000),
        ("llama", torch.float32, 2**27),
    ],
)
def test_the_engine_prefills_rows_together(
    kind: str, dtype: torch.dtype, most: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As it does on a GPU: from nothing, after other tokens, and after a shared prompt."""
    monkeypatch.setattr("rods.engines.kv._MASK", most)
    model = build(kind)

    def logits(batched: bool) -> list[Tensor]:
        cache = RowCache(model, 6, 128, torch.device("cpu"), dtype)
        cache._batched = batched
        found = [cache.prefill([0, 4, 1], [text(0, 30), text(4, 16), text(1, 20)])]
        parts = cache._parts([0, 4, 1, 3], [8, 15, 9, 1])
        assert len(parts) == (4 if not batched else 3 if most == 5000 else 2)
        assert cache.fork(0, 2, 25)
        more = [text(2, 9), text(3, 14), text(5, 1), text(6, 11)]
        return [*found, cache.prefill([1, 2, 0, 4], more)]

    for ours, theirs in zip(logits(True), logits(False), strict=True):
        bound = 1e-4 if dtype is torch.float32 else 0.1
        assert float((ours - theirs).norm() / theirs.norm()) < bound


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16])
def test_rows_that_share_a_prompt_decode_as_if_each_had_its_own(dtype: torch.dtype) -> None:
    model = build("llama")
    prompt, rows = text(0, 40), [0, 1, 2]

    def decoded(share: bool) -> Tensor:
        cache = RowCache(model, 8, 128, torch.device("cpu"), dtype)
        cache.prefill([0], [prompt])
        for row in (1, 2):
            if share:
                assert cache.fork(0, row, len(prompt))
            else:
                cache.prefill([row], [prompt])
        assert (cache._slots[1] is not None) is share
        cache.prefill(rows, [text(row, 3 + 20 * row) for row in rows])
        return torch.stack([cache.decode(rows, [row + n for row in rows]) for n in range(4)])

    ours, theirs = decoded(True), decoded(False)
    bound = 1e-5 if dtype is torch.float32 else 0.02
    assert float((ours - theirs).norm() / theirs.norm()) < bound


def test_cudnn_is_kept_out_on_a_gpu_alone() -> None:
    before = torch.backends.cuda.cudnn_sdp_enabled()
    try:
        torch.backends.cuda.enable_cudnn_sdp(True)
        without_cudnn(torch.device("cpu"))
        assert torch.backends.cuda.cudnn_sdp_enabled()
        without_cudnn(torch.device("cuda", 0))
        assert not torch.backends.cuda.cudnn_sdp_enabled()
    finally:
        torch.backends.cuda.enable_cudnn_sdp(before)
