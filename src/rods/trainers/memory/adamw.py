"""AdamW for large models: bfloat16 weights with exact float32 masters, small or remote moments.

A float32 master is kept as the bfloat16 weight that the model computes with and the 16 bits that
this one lacks: four bytes together, not six. Gradients of bfloat16 weights are summed in float32
over micro-batches. Moments are float32, or 8 bits a number with a scale a block (as arXiv
2110.02861, with companded codes and stochastic rounding, so that a slow average neither sticks nor
drifts); they, and the 16 bits, may live in the host's memory and visit the device slice by slice.
Rounding noise is a function of parameter and step, so a resumed run equals one that was not killed.

    optimizer = LeanAdamW([{"params": matrices}], lr=1e-6, moments="8bit", offload=False)
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any, Literal, cast

import torch
from torch import Tensor

BLOCK = 256
"""Numbers that share a scale."""
SLICE = 1 << 24
"""Numbers that are computed at once; bounds what a step holds beside its state."""


class Held:
    """A gradient that is summed in float32 beside a bfloat16 parameter."""

    def __init__(self, parameter: Tensor) -> None:
        self.grad: Tensor | None = None
        parameter.register_post_accumulate_grad_hook(self._take)

    def _take(self, parameter: Tensor) -> None:
        new, parameter.grad = parameter.grad, None
        if new is None:
            return
        self.grad = new.float() if self.grad is None else self.grad.add_(new)


class LeanAdamW(torch.optim.Optimizer):
    """AdamW (betas 0.9 and 0.999) whose state is small, or elsewhere."""

    def __init__(
        self,
        params: Iterable[dict[str, Any]],
        lr: float,
        moments: Literal["float32", "8bit"] = "float32",
        offload: bool = False,
    ) -> None:
        """Make it; state is allocated at the first step.

        Args:
            params: groups of float32 or bfloat16 parameters with their `weight_decay`.
            lr: learning rate.
            moments: how they are kept.
            offload: keep all state in the host's memory. Results are the same bit for bit.
        """
        super().__init__(params, {"lr": lr, "betas": (0.9, 0.999), "eps": 1e-8})
        self._small, self._offload = moments == "8bit", offload
        self._all = [p for group in self.param_groups for p in group["params"]]
        self.held: list[Any] = [Held(p) if p.dtype is torch.bfloat16 else p for p in self._all]
        """What has each parameter's gradient as `grad`: itself, or its float32 sum."""

    def zero_grad(self, set_to_none: bool = True) -> None:
        """Forget all gradients."""
        super().zero_grad(set_to_none=True)
        for held in self.held:
            held.grad = None

    @torch.no_grad()
    def step(self, closure: Any = None) -> Any:
        """Make one update; `closure` is not supported and must be None."""
        number = 0
        for group in self.param_groups:
            for parameter in group["params"]:
                gradient = self.held[number].grad
                if gradient is not None:
                    self._update(parameter, gradient, group, number)
                number += 1

    def _update(
        self, parameter: Tensor, gradient: Tensor, group: Mapping[str, Any], number: int
    ) -> None:
        state = cast("dict[str, Any]", self.state[parameter])
        if not state:
            state |= self._fresh(parameter)
        state["step"] += 1
        flat, slope = parameter.detach().view(-1), gradient.reshape(-1)
        for begin in range(0, len(flat), SLICE):
            part = slice(begin, min(begin + SLICE, len(flat)))
            noise = torch.Generator(flat.device)
            noise.manual_seed((state["step"] << 24) + (number << 8) + begin // SLICE)
            self._update_slice(flat[part], slope[part].float(), state, part, group, noise)

    def _update_slice(
        self,
        weights: Tensor,
        gradient: Tensor,
        state: dict[str, Any],
        part: slice,
        group: Mapping[str, Any],
        noise: torch.Generator,
    ) -> None:
        fast, slow = group["betas"]
        exact = weights
        if "low" in state:
            exact = joined(weights, state["low"][part].to(weights.device))
        first = self._read(state, "first", part, weights.device)
        second = self._read(state, "second", part, weights.device)
        first.lerp_(gradient, 1 - fast)
        second.mul_(slow).addcmul_(gradient, gradient, value=1 - slow)
        step = state["step"]
        scale = (1 - slow**step) ** 0.5
        exact.mul_(1 - group["lr"] * group["weight_decay"])
        exact.addcdiv_(
            first,
            second.sqrt().div_(scale).add_(group["eps"]),
            value=-group["lr"] / (1 - fast**step),
        )
        self._write(state, "first", part, first, noise)
        self._write(state, "second", part, second, noise)
        if "low" in state:
            high, low = parted(exact)
            weights.copy_(high)
            state["low"][part].copy_(low)

    def _fresh(self, parameter: Tensor) -> dict[str, Any]:
        count, blocks = parameter.numel(), -(-parameter.numel() // BLOCK)
        state: dict[str, Any] = {"step": 0}
        if parameter.dtype is torch.bfloat16:
            state["low"] = self._zeros(count, torch.int16, parameter)
        for name, dtype in (("first", torch.int8), ("second", torch.uint8)):
            if self._small:
                state[name] = self._zeros(blocks * BLOCK, dtype, parameter)
                state[f"{name}_scale"] = self._zeros(blocks, torch.float32, parameter)
            else:
                state[name] = self._zeros(count, torch.float32, parameter)
        return state

    def _zeros(self, count: int, dtype: torch.dtype, parameter: Tensor) -> Tensor:
        if not self._offload:
            return torch.zeros(count, dtype=dtype, device=parameter.device)
        # Pages that the device can read directly, where there is one.
        return torch.zeros(count, dtype=dtype, pin_memory=parameter.is_cuda)

    def _read(
        self, state: Mapping[str, Any], name: str, part: slice, device: torch.device
    ) -> Tensor:
        if not self._small:
            kept = cast("Tensor", state[name])[part]
            return kept.to(device) if self._offload else kept
        blocks = slice(part.start // BLOCK, -(-part.stop // BLOCK))
        codes = cast("Tensor", state[name]).view(-1, BLOCK)[blocks].to(device)
        scales = cast("Tensor", state[f"{name}_scale"])[blocks].to(device)
        return decode(codes, scales).view(-1)[: part.stop - part.start]

    def _write(
        self,
        state: Mapping[str, Any],
        name: str,
        part: slice,
        values: Tensor,
        noise: torch.Generator,
    ) -> None:
        if not self._small:
            if self._offload:
                cast("Tensor", state[name])[part].copy_(values)
            return
        blocks = slice(part.start // BLOCK, -(-part.stop // BLOCK))
        missing = -len(values) % BLOCK
        rows = torch.nn.functional.pad(values, (0, missing)).view(-1, BLOCK)
        codes, scales = encode(rows, signed=name == "first", noise=noise)
        cast("Tensor", state[name]).view(-1, BLOCK)[blocks].copy_(codes)
        cast("Tensor", state[f"{name}_scale"])[blocks].copy_(scales)

    def load_state_dict(self, state_dict: Mapping[str, Any]) -> None:
        """Go on from a saved state; torch's own would turn every number into the parameter's type.

        Raises:
            ValueError: it is that of another optimiser.
        """
        groups = cast("list[dict[str, Any]]", state_dict["param_groups"])
        sizes = [len(group["params"]) for group in groups]
        if sizes != [len(group["params"]) for group in self.param_groups]:
            raise ValueError(f"the optimiser's groups have {sizes} parameters")
        for own, group in zip(self.param_groups, groups, strict=True):
            own |= {key: value for key, value in group.items() if key != "params"}
        for number, saved in cast("dict[int, dict[str, Any]]", state_dict["state"]).items():
            parameter = self._all[number]
            fresh = self._fresh(parameter)
            if {k: _like(v) for k, v in fresh.items()} != {k: _like(v) for k, v in saved.items()}:
                raise ValueError(
                    f"the optimiser's state of parameter {number} is of another kind: "
                    f"{sorted(saved)}, expected {sorted(fresh)} (train.local.optimizer_memory)"
                )
            for name, value in saved.items():
                if isinstance(value, Tensor):
                    fresh[name].copy_(value)
                else:
                    fresh[name] = value
            self.state[parameter] = fresh


def _like(value: object) -> object:
    return (value.dtype, value.shape) if isinstance(value, Tensor) else type(value)


# -- float32 as bfloat16 and the 16 bits below it --------------------------------------------------


def parted(exact: Tensor) -> tuple[Tensor, Tensor]:
    """float32 numbers as the nearest bfloat16 ones and what these lack, int16.

    Halves go away from zero, so that what lacks always fits; `joined` is the exact inverse.
    """
    bits = exact.view(torch.int32)
    high = (bits + 0x8000) >> 16
    low = (bits - (high << 16)).to(torch.int16)
    return high.to(torch.int16).view(torch.bfloat16), low


def joined(high: Tensor, low: Tensor) -> Tensor:
    """The float32 numbers that `parted` took apart."""
    bits = high.view(torch.int16).to(torch.int32) << 16
    return (bits + low).view(torch.float32)


# -- 8 bits a number -------------------------------------------------------------------------------


def encode(rows: Tensor, signed: bool, noise: torch.Generator) -> tuple[Tensor, Tensor]:
    """Blocks of numbers as 8-bit codes and one scale each; rounding is right in the mean.

    Args:
        rows: float32, shape (blocks, `BLOCK`).
        signed: square-root codes, int8; else numbers are at least 0, have fourth-root codes, uint8,
            and stay above 0 where their block is: the root of a second moment divides.
        noise: decides which of the two nearest codes is taken.
    """
    scales = rows.abs().amax(-1)
    shares = (
        (rows / scales.clamp_min(torch.finfo(torch.float32).tiny)[:, None]).abs_().clamp_(max=1)
    )
    power, most = (2, 127) if signed else (4, 255)
    below = (shares.pow(1 / power) * most).floor_().clamp_(max=most - 1)
    lower, upper = (below / most).pow_(power), ((below + 1) / most).pow_(power)
    chance = (shares - lower) / (upper - lower)
    uniform = torch.rand(rows.shape, generator=noise, device=rows.device)
    codes = below + (uniform < chance)
    if signed:
        return codes.copysign_(rows).to(torch.int8), scales
    return codes.clamp_(min=1).to(torch.uint8), scales


def decode(codes: Tensor, scales: Tensor) -> Tensor:
    """The numbers that codes stand for; float32, shaped like `codes`."""
    if codes.dtype is torch.int8:
        shares = codes.float() / 127
        return shares * shares.abs() * scales[:, None]
    return (codes.float() / 255).pow_(4) * scales[:, None]
