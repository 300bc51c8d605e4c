"""Attention of consecutive tokens to what stands before them and to each other, without a mask.

The context before is seen whole, the tokens themselves causally: two passes of torch's flash
kernels, merged by the log-sum-exps of their scores. So no mask of queries times keys is built. The
backward pass gives each kernel the merged output and log-sum-exp, with which it finds its own part
of the gradient, as ring attention does (arXiv 2310.01889).

    if flashes(query): out = after(query, past_keys, past_values, keys, values, scale)
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

import torch
from torch import Tensor
from torch.autograd import Function

_ATEN: Any = torch.ops.aten
_WIDEST = 256
"""Numbers of a head that the kernels take at most."""


class AttentionPass(NamedTuple):
    """One pass of a kernel."""

    out: Tensor
    weight: Tensor
    """Log-sum-exp of the scores, float32, shape (batch, heads, queries)."""
    rest: tuple[Any, ...]
    """Further outputs of the kernel for its backward pass."""


def flashes(query: Tensor) -> bool:
    """True if torch has a flash kernel for such queries, as autocast would have them."""
    if query.shape[-1] > _WIDEST:
        return False
    return query.device.type == "cpu" or (query.is_cuda and numbers_of(query) is not torch.float32)


def without_cudnn(device: torch.device) -> None:
    """Keep cuDNN out of torch's attention on a GPU, for the whole process.

    It builds a plan for each new shape, and nearly every decode step and packed batch has one
    (`benchmarks/gpu/decode_step.py`).
    """
    if device.type == "cuda":
        torch.backends.cuda.enable_cudnn_sdp(False)


def numbers_of(query: Tensor) -> torch.dtype:
    """The type in which attention of these queries is computed, by autocast or their own."""
    kind = query.device.type
    return torch.get_autocast_dtype(kind) if torch.is_autocast_enabled(kind) else query.dtype


def after(
    query: Tensor,
    past_keys: Tensor,
    past_values: Tensor,
    keys: Tensor,
    values: Tensor,
    scale: float,
) -> Tensor:
    """Attention of tokens to all that stands before them and to each other up to themselves.

    Args:
        query: (batch, heads, tokens, head dim); `keys` and `values` of these tokens likewise.
        past_keys, past_values: of the tokens before, at least one: (batch, heads, past, head dim).
        scale: what scores are multiplied with.

    Returns:
        what `scaled_dot_product_attention` gives with the mask that says the same; differentiable.
    """
    tensors = (query, past_keys, past_values, keys, values)
    return _After.apply(*(t.to(numbers_of(query)) for t in tensors), scale)


class _After(Function):
    @staticmethod
    def forward(ctx: Any, query: Tensor, *given: Any) -> Tensor:
        past_keys, past_values, keys, values, scale = given
        past = flash(query, past_keys, past_values, False, scale)
        own = flash(query, keys, values, True, scale)
        weight = torch.logaddexp(past.weight, own.weight)
        shares = [(part.weight - weight).exp()[..., None] for part in (past, own)]
        out = (past.out * shares[0] + own.out * shares[1]).to(query.dtype)
        ctx.save_for_backward(query, *given[:-1], out, weight)
        ctx.scale, ctx.rests = scale, (past.rest, own.rest)
        return out

    @staticmethod
    def backward(ctx: Any, *gradients: Tensor) -> Any:
        query, past_keys, past_values, keys, values, *merged = ctx.saved_tensors

        def slopes(keys: Tensor, values: Tensor, rest: Sequence[object], causal: bool) -> Any:
            given = (gradients[0], query, keys, values, *merged)
            if not query.is_cuda:
                return _ATEN._scaled_dot_product_flash_attention_for_cpu_backward(
                    *given, 0.0, causal, attn_mask=None, scale=ctx.scale
                )
            *sizes, seed, offset = rest
            return _ATEN._scaled_dot_product_flash_attention_backward(
                *given, *sizes, 0.0, causal, seed, offset, scale=ctx.scale
            )

        past = slopes(past_keys, past_values, ctx.rests[0], False)
        own = slopes(keys, values, ctx.rests[1], True)
        return past[0] + own[0], *past[1:], *own[1:], None


def flash(
    query: Tensor,
    keys: Tensor,
    values: Tensor,
    causal: bool = False,
    scale: float = 1.0,
    bias: Tensor | None = None,
) -> AttentionPass:
    """One pass of a flash kernel over tensors of shape (batch, heads, positions, head dim).

    Args:
        causal: query i sees the first i + 1 positions.
        scale: what scores are multiplied with.
        bias: what is added to them, (batch or 1, heads or 1, queries, positions); on a CPU only.
    """
    if query.is_cuda:
        assert bias is None, "flash kernels of a GPU take no bias"
        out, weight, *rest = _ATEN._scaled_dot_product_flash_attention(
            query, keys, values, 0.0, causal, False, scale=scale
        )
        return AttentionPass(out, weight, tuple(rest[:6]))
    out, weight = _ATEN._scaled_dot_product_flash_attention_for_cpu(
        query, keys, values, 0.0, causal, attn_mask=bias, scale=scale
    )
    return AttentionPass(out, weight, ())
