"""Where the bundled policy's weights start: at random, but for one circuit that copies.

Most of what a tool agent says is copied from what it read. Transformers learn this by an induction
circuit (Olsson et al. 2022): a head of one layer looks at the previous token; a head of a later one
looks for a place where the token before was the current one, and copies what stands there. From
random weights it takes long to appear (docs/research/policy.md has one trial). Written down as a
start it is there at once, and training shapes it like any other weight.

    plant_induction(model, torch.Generator().manual_seed(0))
"""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor
from transformers import Qwen3ForCausalLM

CONSTANT = 0
"""Coordinate of the residual stream that is equal for all tokens."""
SHARE = 0.6
"""Its size; the rest of an embedding has norm 1."""
SHARP = 2.0
"""Scale of queries and keys of the planted layers."""
TOLD, COPIED = 0.14, 0.35
"""Gains of the two outputs: about one and two norms of an embedding."""


@torch.no_grad()
def plant_induction(model: Qwen3ForCausalLM, noise: torch.Generator) -> None:
    """Write the circuit into the first heads of the first two layers.

    Needs tied embeddings, at least two layers, and a rotary base so large that the slower half of
    the frequencies barely turns within the context.
    """
    inner: Any = model.model
    embeddings: Tensor = inner.embed_tokens.weight
    width = embeddings.shape[1]
    embeddings.copy_(torch.randn(embeddings.shape, generator=noise) / width**0.5)
    embeddings[:, CONSTANT] = SHARE
    first, second = inner.layers[0].self_attn, inner.layers[1].self_attn
    size: int = first.head_dim
    reads = _rows(size, width, noise)
    writes = _rows(size, width, noise).T
    _look_back(first, size)
    first.v_proj.weight[:size] = reads
    first.o_proj.weight[:, :size] = TOLD * writes
    slow = _slow(size)
    second.q_proj.weight[:size] = reads * slow[:, None]
    second.k_proj.weight[:size] = writes.T * slow[:, None]
    copies = _rows(size, width, noise)
    second.v_proj.weight[:size] = copies
    second.o_proj.weight[:, :size] = COPIED * copies.T
    for layer in (first, second):
        layer.q_norm.weight.fill_(SHARP)
        layer.k_norm.weight.fill_(SHARP)


def _look_back(layer: Any, size: int) -> None:
    """Make head 0 attend to the token before, whatever it is: q rotated by one place equals k."""
    half = size // 2
    fast = torch.arange(4)
    angle = _frequencies(layer, half)[fast]
    query, key = torch.zeros(size), torch.zeros(size)
    query[fast] = 1.0
    key[fast], key[half + fast] = torch.cos(angle), torch.sin(angle)
    layer.q_proj.weight[:size] = 0.0
    layer.k_proj.weight[:size] = 0.0
    layer.q_proj.weight[:size, CONSTANT] = query
    layer.k_proj.weight[:size, CONSTANT] = key


def _frequencies(layer: Any, half: int) -> Tensor:
    base = float(layer.config.rope_parameters["rope_theta"])
    return base ** (-torch.arange(half) / half)


def _slow(size: int) -> Tensor:
    """1 at the coordinates of the slower half of the rotary frequencies."""
    half = size // 2
    mask = (torch.arange(half) >= half // 2).float()
    return torch.cat([mask, mask])


def _rows(count: int, width: int, noise: torch.Generator) -> Tensor:
    """Orthonormal rows (count, width) that do not read the constant coordinate."""
    matrix = torch.randn((width - 1, count), generator=noise)
    rows = torch.linalg.qr(matrix)[0].T
    return torch.cat([torch.zeros((count, 1)), rows], dim=1)
