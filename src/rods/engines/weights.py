"""Weights of Qwen3, Qwen2, Llama and Mistral decoders, fused for fast forward passes.

It copies what it needs (query, key and value in one matrix; gate and up in one), LoRA adapters
included, or shares it: then the model's weights become views, with the values that they had. It
holds no cache.

    reason = unsupported(model)          # None, or why the fast path cannot take this model
    weights = DecoderWeights(model, "cpu", torch.float32)
    weights.sync()                       # after an update
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor, nn
from transformers import PreTrainedModel

_MKLDNN: Any = torch.ops.mkldnn
PACKED = 2**30
"""Most bytes of the matrices of a model that are packed for a CPU's kernels, which takes a copy."""
FAMILIES = ("qwen3", "qwen2", "llama", "mistral")
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
    if config.model_type not in FAMILIES:
        return f"its architecture is {config.model_type!r}, the fast path knows {FAMILIES}"
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
        inner = getattr(module, "base_layer", None)
        plain = isinstance(inner, nn.Linear) and hasattr(module, "get_delta_weight")
        if inner is not None and (not plain or any(getattr(module, "use_dora", {}).values())):
            return f"the adapter at {name} is not plain LoRA"
    return None


def packs(model: nn.Module, device: torch.device, dtype: torch.dtype) -> bool:
    """True if matrices are packed: one layout of oneDNN for all numbers of rows.

    Torch's product packs a matrix again in every call, which for few rows is much of what it does
    (`benchmarks/decode_step.py`). A large model would pay for it with memory.
    """
    fits = dtype.itemsize * sum(p.numel() for p in model.parameters()) <= PACKED
    able = torch.backends.mkldnn.is_available() and hasattr(_MKLDNN, "_linear_pointwise")
    if dtype is torch.bfloat16:
        able = able and _MKLDNN._is_mkldnn_bf16_supported()
    return fits and able and device.type == "cpu" and dtype in (torch.float32, torch.bfloat16)


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

    The matrix may be the layers' own: then their weights become its rows and nothing is copied, but
    where it is packed. LoRA adapters are merged where the matrix is float32, which takes a copy.
    Half precision would swallow them: its weights lie on a grid far coarser than what a few updates
    at a small rate add. There they stay apart, and their part enters the product's own sum, which
    is rounded once.
    """

    def __init__(
        self,
        parts: Sequence[nn.Module],
        device: torch.device,
        dtype: torch.dtype,
        share: bool,
        pack: bool = False,
    ) -> None:
        self._parts: list[Any] = [getattr(part, "base_layer", part) for part in parts]
        self._sources = list(parts)
        self._options: dict[str, Any] = {"device": device, "dtype": dtype}
        self._merges = dtype is torch.float32
        merged = self._merges and any(hasattr(part, "base_layer") for part in parts)
        alike = all(p.weight.device == device and p.weight.dtype is dtype for p in self._parts)
        self.shared = share and alike and not merged
        """True if the layers' weights are rows of the matrix."""
        rows = [len(part.weight) for part in self._parts]
        self._slices = [slice(sum(rows[:i]), sum(rows[: i + 1])) for i in range(len(rows))]
        single = self.shared and len(self._parts) == 1
        self.weight: Tensor = (
            self._parts[0].weight.detach()
            if single
            else torch.empty(sum(rows), int(self._parts[0].weight.shape[1]), **self._options)
        )
        """The matrix, (out, in), without adapters that are kept apart."""
        self._pack = pack
        self._packed: Tensor | None = None
        """The matrix as oneDNN's kernels want it; None: it is not packed."""
        self._down: Tensor | None = None
        """All adapters' first matrices, (ranks, in); None: there is none, or they are merged."""
        self._up: Tensor | None = None
        """Second matrices of the adapters, (out, ranks), 0 where an adapter is of another layer."""
        biased = any(getattr(part, "bias", None) is not None for part in self._parts)
        self.bias = torch.zeros(sum(rows), **self._options) if biased else None

    def __call__(self, states: Tensor) -> Tensor:
        """The layers' outputs side by side; `states` is (tokens, in)."""
        packed = self._packed
        if self._down is None or self._up is None:
            if packed is None:
                return F.linear(states, self.weight, self.bias)
            return _MKLDNN._linear_pointwise(states, packed, self.bias, "none", [], "")
        added = F.linear(F.linear(states, self._down), self._up)
        if packed is not None:  # one sum, which is rounded once
            return _MKLDNN._linear_pointwise(states, added, packed, self.bias, "add")
        found = torch.addmm(added, states, self.weight.T)
        # A bias is added last: beside a large one an adapter's part would be lost before the sum.
        return found if self.bias is None else found + self.bias

    def sync(self) -> None:
        """Read the current weights."""
        adapters = [_adapters(source) for source in self._sources]
        if not self._merges:
            self._make_room(sum(len(down) for some in adapters for down, _ in some))
        at = 0
        for part, some, where in zip(self._parts, adapters, self._slices, strict=True):
            weight = part.weight
            for down, up in some:
                if self._down is None or self._up is None:
                    weight = weight.float() + up.float() @ down.float()
                    continue
                self._down[at : at + len(down)].copy_(down)
                self._up[where, at : at + len(down)].copy_(up)
                at += len(down)
            self._take(part, weight, where)
            bias: Tensor | None = getattr(part, "bias", None)
            if self.bias is not None and bias is not None:
                self.bias[where].copy_(bias)
        if self._pack:
            self._packed = _MKLDNN._reorder_linear_weight(self.weight, None)

    def _take(self, part: Any, weight: Tensor, where: slice) -> None:
        own = self.weight[where]
        if self.shared and weight.data_ptr() == own.data_ptr():
            return
        own.copy_(weight)
        if self.shared:  # at first, or somebody put other tensors into the model
            part.weight.data = own

    def _make_room(self, ranks: int) -> None:
        """Room for adapters of so many ranks, all 0."""
        rows, inputs = self.weight.shape
        self._down = torch.zeros(ranks, inputs, **self._options) if ranks else None
        self._up = torch.zeros(rows, ranks, **self._options) if ranks else None


@dataclass(slots=True)
class Layer:
    """One decoder layer."""

    qkv: Fused
    out: Fused
    gate_up: Fused
    down: Fused
    norm_in: Tensor = field(init=False)
    norm_mid: Tensor = field(init=False)
    norm_qk: Tensor | None = None
    """Weights of query and key norms, shape (heads + kv heads, head dim); None: no such norms."""


class DecoderWeights:
    """All weights of a decoder on one device."""

    def __init__(
        self, model: nn.Module, device: torch.device, dtype: torch.dtype, share: bool = False
    ) -> None:
        """Read those of a model that `unsupported` has nothing against.

        `share` makes the model's own weights rows of the fused matrices where device and numbers
        are the same, so that there is one copy, and a packed one of a small model on a CPU
        (`packs`). What changes the model may then change what is computed with before `sync`.
        """
        base: Any = base_of(model)
        config: Any = base.config
        self._model, self._device, self._dtype, self._share = base, device, dtype, share
        self.heads = int(config.num_attention_heads)
        self.kv_heads = int(config.num_key_value_heads)
        self.head_dim = int(
            getattr(config, "head_dim", None) or config.hidden_size // config.num_attention_heads
        )
        self.eps = float(config.rms_norm_eps)
        pack = packs(base, device, dtype)

        def fuse(*parts: nn.Module) -> Fused:
            return Fused(parts, device, dtype, share, pack)

        self.layers = [
            Layer(
                qkv=fuse(one.self_attn.q_proj, one.self_attn.k_proj, one.self_attn.v_proj),
                out=fuse(one.self_attn.o_proj),
                gate_up=fuse(one.mlp.gate_proj, one.mlp.up_proj),
                down=fuse(one.mlp.down_proj),
            )
            for one in base.model.layers
        ]
        self.head = fuse(base.get_output_embeddings())
        self.sync()

    @torch.no_grad()
    def sync(self) -> None:
        """Read every weight of the model again."""
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
        self.embedding = self.head.weight if tied else self._copy(embedding, not self._share)

    def _copy(self, tensor: Tensor, always: bool = True) -> Tensor:
        """A tensor here, in our numbers; a copy even where it is so already, if `always`."""
        return tensor.detach().to(self._device, self._dtype, copy=always)

    def rotary(self, length: int) -> tuple[Tensor, Tensor]:
        """Cosines and signed sines of positions 0 .. length-1, each (length, 1, head dim).

        The first half of the sines is negated, so that a rotation is `x * cos + roll(x) * sin`.
        """
        rotary: Any = self._model.model.rotary_emb
        frequencies = rotary.inv_freq.detach().to(self._device, torch.float32)
        angles = torch.arange(length, device=self._device, dtype=torch.float32)[:, None]
        angles = angles * frequencies
        scale = float(rotary.attention_scaling)
        cos, sin = ((wave * scale).to(self._dtype) for wave in (angles.cos(), angles.sin()))
        return torch.cat([cos, cos], -1)[:, None], torch.cat([-sin, sin], -1)[:, None]
