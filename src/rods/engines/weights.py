"""Weights of Qwen3, Qwen2, Llama and Mistral decoders, fused for fast forward passes.

It copies what it needs (query, key and value in one matrix; gate and up in one), LoRA adapters
included. It never changes the model and holds no cache.

    reason = unsupported(model)          # None, or why the fast path cannot take this model
    weights = Weights(model, "cpu", torch.float32)
    weights.sync()                       # after an update
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor, nn
from transformers import PreTrainedModel

_FAMILIES = ("qwen3", "qwen2", "llama", "mistral")
_STATIC_ROPE = ("default", "linear", "llama3", "yarn")


def base_of(model: nn.Module) -> PreTrainedModel:
    """The transformers model inside a peft wrapper, or the model itself."""
    inner: Any = model
    if hasattr(inner, "get_base_model"):
        inner = inner.get_base_model()
    return inner


def unsupported(model: nn.Module) -> str | None:
    """Why the fast path cannot run this model; None if it can."""
    base: Any = base_of(model)
    config: Any = base.config
    if config.model_type not in _FAMILIES:
        return f"its architecture is {config.model_type!r}, the fast path knows {_FAMILIES}"
    if config.hidden_act != "silu":
        return f"its activation is {config.hidden_act!r}, the fast path knows 'silu'"
    kinds: set[str] = set(getattr(config, "layer_types", None) or ["full_attention"])
    if kinds != {"full_attention"} or (
        config.model_type == "mistral" and getattr(config, "sliding_window", None)
    ):
        return "it has layers with sliding-window attention"
    rope = getattr(base.model.rotary_emb, "rope_type", "default")
    if rope not in _STATIC_ROPE:
        return f"its rotary embedding changes with the length ({rope!r})"
    for name, module in base.named_modules():
        if hasattr(module, "base_layer") and _strange_adapter(module):
            return f"the adapter at {name} is not plain LoRA"
    return None


def _strange_adapter(module: Any) -> bool:
    plain = isinstance(module.base_layer, nn.Linear) and hasattr(module, "get_delta_weight")
    return not plain or any(getattr(module, "use_dora", {}).values())


def _adapters(module: Any) -> list[tuple[Tensor, Tensor]]:
    """Active LoRA adapters of a linear layer: down (rank, in) and scaled up (out, rank)."""
    if not hasattr(module, "base_layer") or module.merged or module.disable_adapters:
        return []
    return [
        (module.lora_A[name].weight, module.lora_B[name].weight * module.scaling[name])
        for name in module.active_adapters
        if name in module.lora_A
    ]


def merged(layer: Any) -> Tensor:
    """The matrix of a linear layer with its LoRA adapters added in, in the layer's own numbers."""
    weight: Tensor = layer.base_layer.weight
    total = weight.float()
    for down, up in _adapters(layer):
        total = total + up.float() @ down.float()
    return total.to(weight.dtype)


class Fused:
    """Several linear layers with the same input as one matrix.

    LoRA adapters are merged where the matrix is float32. Half precision would swallow them: its
    weights lie on a grid far coarser than what a few updates at a small rate add. There they stay
    apart, as further columns of the same product, whose sum is rounded once.
    """

    def __init__(self, parts: Sequence[nn.Module], device: torch.device, dtype: torch.dtype):
        self._parts: list[Any] = [getattr(part, "base_layer", part) for part in parts]
        self._sources = list(parts)
        self._options: dict[str, Any] = {"device": device, "dtype": dtype}
        biases = [self._bias(part) for part in self._parts]
        rows = [len(part.weight) for part in self._parts]
        self._slices = [slice(sum(rows[:i]), sum(rows[: i + 1])) for i in range(len(rows))]
        self._inputs = int(self._parts[0].weight.shape[1])
        self._joined = torch.empty(sum(rows), self._inputs, **self._options)
        self._down: Tensor | None = None
        """All adapters' first matrices, (ranks, in); None: there is none, or they are merged."""
        self.bias = (
            torch.zeros(sum(rows), **self._options) if any(b is not None for b in biases) else None
        )

    @staticmethod
    def _bias(part: Any) -> Tensor | None:
        return getattr(part, "bias", None)

    @property
    def weight(self) -> Tensor:
        """The matrix, (out, in), without adapters that are kept apart."""
        return self._joined[:, : self._inputs]

    def __call__(self, states: Tensor) -> Tensor:
        """The layers' outputs side by side."""
        if self._down is not None:
            states = torch.cat([states, F.linear(states, self._down)], -1)
        return F.linear(states, self._joined, self.bias)

    def sync(self) -> None:
        """Copy the current weights."""
        adapters = [_adapters(source) for source in self._sources]
        apart = self._joined.dtype is not torch.float32
        if apart:
            self._make_room(sum(len(down) for some in adapters for down, _ in some))
        at = 0
        for part, some, where in zip(self._parts, adapters, self._slices, strict=True):
            weight = part.weight
            for down, up in some:
                if self._down is None:
                    weight = weight.float() + up.float() @ down.float()
                    continue
                self._down[at : at + len(down)].copy_(down)
                columns = slice(self._inputs + at, self._inputs + at + len(down))
                self._joined[where, columns].copy_(up)
                at += len(down)
            self.weight[where].copy_(weight)
            bias = self._bias(part)
            if self.bias is not None and bias is not None:
                self.bias[where].copy_(bias)

    def _make_room(self, ranks: int) -> None:
        """Columns for adapters of so many ranks, all 0."""
        rows = len(self._joined)
        if self._joined.shape[1] != self._inputs + ranks:
            self._joined = torch.zeros(rows, self._inputs + ranks, **self._options)
        self._joined[:, self._inputs :] = 0
        self._down = torch.zeros(ranks, self._inputs, **self._options) if ranks else None


@dataclass(slots=True)
class Layer:
    """One decoder layer."""

    qkv: Fused
    out: Fused
    gate_up: Fused
    down: Fused
    norm_in: Tensor
    norm_mid: Tensor
    norm_qk: Tensor | None
    """Weights of query and key norms, shape (heads + kv heads, head dim); None: no such norms."""


class Weights:
    """All weights of a decoder on one device."""

    def __init__(self, model: nn.Module, device: torch.device, dtype: torch.dtype) -> None:
        base: Any = base_of(model)
        config: Any = base.config
        self._model, self._device, self._dtype = base, device, dtype
        self.heads = int(config.num_attention_heads)
        self.kv_heads = int(config.num_key_value_heads)
        self.head_dim = int(
            getattr(config, "head_dim", None) or config.hidden_size // config.num_attention_heads
        )
        self.eps = float(config.rms_norm_eps)
        self.layers = [self._layer(layer) for layer in base.model.layers]
        self.head = Fused([base.get_output_embeddings()], device, dtype)
        self.sync()

    def _layer(self, layer: Any) -> Layer:
        attention, mlp = layer.self_attn, layer.mlp
        empty = torch.empty(0)

        def fuse(*parts: nn.Module) -> Fused:
            return Fused(parts, self._device, self._dtype)

        return Layer(
            qkv=fuse(attention.q_proj, attention.k_proj, attention.v_proj),
            out=fuse(attention.o_proj),
            gate_up=fuse(mlp.gate_proj, mlp.up_proj),
            down=fuse(mlp.down_proj),
            norm_in=empty,
            norm_mid=empty,
            norm_qk=None,
        )

    @torch.no_grad()
    def sync(self) -> None:
        """Copy every weight from the model again."""
        base: Any = self._model
        for layer, source in zip(self.layers, base.model.layers, strict=True):
            for fused in (layer.qkv, layer.out, layer.gate_up, layer.down):
                fused.sync()
            layer.norm_in = self._copy(source.input_layernorm.weight)
            layer.norm_mid = self._copy(source.post_attention_layernorm.weight)
            if hasattr(source.self_attn, "q_norm"):
                query = source.self_attn.q_norm.weight.expand(self.heads, -1)
                key = source.self_attn.k_norm.weight.expand(self.kv_heads, -1)
                layer.norm_qk = self._copy(torch.cat([query, key]))
        self.head.sync()
        self.norm_out = self._copy(base.model.norm.weight)
        embedding: Tensor = base.get_input_embeddings().weight
        tied = base.get_output_embeddings().weight is embedding
        self.embedding = self.head.weight if tied else self._copy(embedding)

    def _copy(self, tensor: Tensor) -> Tensor:
        return tensor.detach().to(self._device, self._dtype, copy=True)

    def rotary(self, length: int) -> tuple[Tensor, Tensor]:
        """Cosines and signed sines of positions 0 .. length-1, each (length, 1, head dim).

        The first half of the sines is negated, so that a rotation is `x * cos + roll(x) * sin`.
        """
        rotary: Any = self._model.model.rotary_emb
        frequencies = rotary.inv_freq.detach().to(self._device, torch.float32)
        angles = torch.arange(length, device=self._device, dtype=torch.float32)[:, None]
        angles = angles * frequencies
        scale = float(rotary.attention_scaling)
        cos, sin = angles.cos() * scale, angles.sin() * scale
        pair = torch.cat([cos, cos], -1), torch.cat([-sin, sin], -1)
        return pair[0].to(self._dtype)[:, None], pair[1].to(self._dtype)[:, None]
