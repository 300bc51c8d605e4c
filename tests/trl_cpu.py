"""TRL's asynchronous trainer on a CPU: its attention, which is FlashAttention 3, in plain torch.

As a program it is `rods` with this in place: `python tests/trl_cpu.py trl --rollout.schedule ...`.
"""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor


def attention(
    query: Tensor,
    key: Tensor,
    value: Tensor,
    starts_q: Tensor,
    starts_k: Tensor,
    longest_q: int,
    longest_k: int,
    softmax_scale: float,
    causal: bool,
    window_size: tuple[int, int],
) -> Tensor:
    """Each segment's queries look at its own keys, the last ones of which are theirs."""
    assert causal and window_size == (-1, -1)
    parts: list[Tensor] = []
    for number in range(len(starts_q) - 1):
        q = query[starts_q[number] : starts_q[number + 1]]
        k = key[starts_k[number] : starts_k[number + 1]]
        v = value[starts_k[number] : starts_k[number + 1]]
        seen = torch.ones(len(q), len(k), dtype=torch.bool).tril(len(k) - len(q))
        heads = [x.transpose(0, 1)[None] for x in (q, k, v)]
        made = F.scaled_dot_product_attention(
            *heads, attn_mask=seen, scale=softmax_scale, enable_gqa=True
        )
        parts.append(made[0].transpose(0, 1))
    return torch.cat(parts)


def install(patch: Any = None) -> None:
    """Put it in the place of the kernel that TRL fetches; `patch`: pytest's, which undoes it."""
    from trl.experimental.async_grpo import async_grpo_trainer, packing

    kernels = SimpleNamespace(flash_attn_varlen_func=attention)
    put = setattr if patch is None else patch.setattr
    put(packing, "_flash_attn", lambda: kernels)
    # For its log alone TRL asks a GPU what it is called.
    put(async_grpo_trainer, "get_peak_flops_per_device", lambda *_: None)


if __name__ == "__main__":
    install()
    from rods.cli.main import main

    main()
