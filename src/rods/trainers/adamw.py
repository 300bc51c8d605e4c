"""The optimizer and its learning rate: AdamW, for large models with a small or remote state.

Owns the step, which clips gradients and refuses what is not finite, and the schedule, which is a
function of the step alone and needs no state. An update has no random number, so a resumed run
equals one that was not killed.

    optimizer = make_optimizer(parameters, settings)
    rate(settings, step=0, total=100)       # 1e-6
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, Literal, cast

import torch
from torch import Tensor, nn

from rods.config import TrainSettings
from rods.errors import TrainError
from rods.infra.host import give_back
from rods.infra.install import needed

BLOCK = 256
"""Numbers of 8 bits that share a scale; fixed in bitsandbytes."""
SMALL = 4096
"""Parameters with fewer numbers keep float32 moments, as in bitsandbytes' own optimizers."""
SLICE = 1 << 24
"""Numbers that are computed at once; bounds what a step holds beside its state."""


def make_optimizer(
    parameters: Sequence[nn.Parameter], settings: TrainSettings
) -> torch.optim.Optimizer:
    """AdamW (betas 0.9 and 0.999); weight decay on matrices only.

    torch's fused one where all is float32 and stays on the device, else `LeanAdamW`.
    """
    mode, decay = settings.local.optimizer_memory, settings.local.weight_decay
    groups: list[dict[str, Any]] = [
        {"params": [p for p in parameters if p.ndim > 1], "weight_decay": decay},
        {"params": [p for p in parameters if p.ndim <= 1], "weight_decay": 0.0},
    ]
    if mode == "full" and all(p.dtype is torch.float32 for p in parameters):
        return torch.optim.AdamW(groups, lr=settings.lr, fused=True)
    moments = "8bit" if mode == "8bit" else "float32"
    return LeanAdamW(groups, settings.lr, moments, offload=mode == "offload")


def clipped_step(
    optimizer: torch.optim.Optimizer,
    parameters: Sequence[nn.Parameter],
    limit: float,
    loss: float,
    where: str,
    advice: str,
) -> float:
    """Scale gradients to a norm of at most `limit`, make a step, free them; their norm before.

    Raises:
        TrainError: the loss that they are of, or the norm, is not finite. It states `where`.
    """
    held = optimizer.held if isinstance(optimizer, LeanAdamW) else parameters
    norm = float(nn.utils.clip_grad_norm_(held, limit))
    finite = math.isfinite(loss + norm)
    if finite:
        optimizer.step()
    optimizer.zero_grad(set_to_none=True)
    give_back()
    if not finite:
        raise TrainError(
            f"{where}: the loss is {loss}, the gradient norm {norm}. The weights are as before "
            f"this optimizer step. {advice}"
        )
    return norm


def rate(settings: TrainSettings, step: int, total: int) -> float:
    """Learning rate of `step` (from 0): linear warm-up, then constant, or cosine down to 0.

    Args:
        step: updates that went before, skipped ones included.
        total: updates of the whole run; beyond it the cosine stays at its last value.
    """
    if step < settings.warmup:
        return settings.lr * (step + 1) / settings.warmup
    if settings.schedule == "constant":
        return settings.lr
    length = max(1, total - settings.warmup)
    done = min(step - settings.warmup, length - 1) / length
    return settings.lr * 0.5 * (1 + math.cos(math.pi * done))


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
    """AdamW (betas 0.9 and 0.999) whose state is small, or elsewhere.

    A float32 master is kept as the bfloat16 weight that the model computes with and the 16 bits
    that this one lacks: four bytes together, not six. Gradients of bfloat16 weights are summed in
    float32 over micro-batches. Moments are float32, or 8 bits a number, which bitsandbytes keeps
    (arXiv 2110.02861). Float32 moments and the 16 bits may lie in the host's memory and visit the
    device slice by slice.
    """

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
            offload: keep all state in the host's memory. Results are the same bit for bit.

        Raises:
            PrerequisiteError: 8 bits are asked for and bitsandbytes is not installed.
        """
        super().__init__(params, {"lr": lr, "betas": (0.9, 0.999), "eps": 1e-8})
        self._library = _bitsandbytes() if moments == "8bit" else None
        """Has AdamW of 8-bit moments, on any device that it knows, CPUs among them."""
        if self._library:
            self._codes = [self._library.create_dynamic_map(signed=s) for s in (True, False)]
        self._offload = offload
        self._all = [p for group in self.param_groups for p in group["params"]]
        self.held: list[Any] = [Held(p) if p.dtype is torch.bfloat16 else p for p in self._all]
        """Holders of each parameter's gradient as `grad`: itself, or its float32 sum."""

    def zero_grad(self, set_to_none: bool = True) -> None:
        """Forget all gradients."""
        super().zero_grad(set_to_none=True)
        for held in self.held:
            held.grad = None

    @torch.no_grad()
    def step(self, closure: object = None) -> Any:
        """Make one update; `closure` is not supported and must be None."""
        groups = [group for group in self.param_groups for _ in group["params"]]
        for parameter, held, group in zip(self._all, self.held, groups, strict=True):
            if held.grad is not None:
                self._update(parameter, held.grad, group)

    def _update(self, parameter: Tensor, gradient: Tensor, group: Mapping[str, object]) -> None:
        state: dict[str, Any] = self.state[parameter]
        if not state:
            state |= self._fresh(parameter)
        state["step"] += 1
        flat, slope = parameter.detach().view(-1), gradient.reshape(-1)
        for begin in range(0, len(flat), SLICE):
            part = slice(begin, min(begin + SLICE, len(flat)))
            exact = flat[part]
            if "low" in state:
                exact = joined(exact, state["low"][part].to(exact.device))
            update = self._in_8_bits if "first_scale" in state else self._in_float32
            update(exact, slope[part].float(), state, part, group)
            if "low" in state:
                high, low = split(exact)
                flat[part].copy_(high)
                state["low"][part].copy_(low)

    def _in_float32(self, exact: Tensor, gradient: Tensor, *at: Any) -> None:
        state, part, group = at
        fast, slow = group["betas"]
        first, second = (state[name][part].to(exact.device) for name in ("first", "second"))
        first.lerp_(gradient, 1 - fast)
        second.mul_(slow).addcmul_(gradient, gradient, value=1 - slow)
        step = state["step"]
        scale = (1 - slow**step) ** 0.5
        exact.mul_(1 - group["lr"] * group["weight_decay"])
        below = second.sqrt().div_(scale).add_(group["eps"])
        exact.addcdiv_(first, below, value=-group["lr"] / (1 - fast**step))
        if self._offload:
            state["first"][part].copy_(first)
            state["second"][part].copy_(second)

    def _in_8_bits(self, exact: Tensor, gradient: Tensor, *at: Any) -> None:
        state, part, group = at
        blocks = slice(part.start // BLOCK, -(-part.stop // BLOCK))
        self._codes = [codes.to(exact.device) for codes in self._codes]
        first, second = state["first"][part], state["second"][part]
        scales = (state["first_scale"][blocks], state["second_scale"][blocks])
        cast("Any", self._library).optimizer_update_8bit_blockwise(
            "adam", gradient, exact, first, second, *group["betas"], 0.0, 0.0, group["eps"],
            state["step"], group["lr"], *self._codes, *scales, group["weight_decay"],
        )  # fmt: skip

    def _fresh(self, parameter: Tensor) -> dict[str, Any]:
        count, state = parameter.numel(), cast("dict[str, Any]", {"step": 0})
        if parameter.dtype is torch.bfloat16:
            state["low"] = self._zeros(count, torch.int16, parameter)
        small = self._library is not None and count >= SMALL
        for name in ("first", "second"):
            state[name] = self._zeros(count, torch.uint8 if small else torch.float32, parameter)
            if small:
                state[f"{name}_scale"] = self._zeros(-(-count // BLOCK), torch.float32, parameter)
        return state

    def _zeros(self, count: int, dtype: torch.dtype, parameter: Tensor) -> Tensor:
        device = "cpu" if self._offload else parameter.device
        pinned = self._offload and parameter.is_cuda  # pages that the device can read directly
        return torch.zeros(count, dtype=dtype, device=device, pin_memory=pinned)

    def load_state_dict(self, state_dict: Mapping[str, Any]) -> None:
        """Go on from a saved state; torch's own would turn every number into the parameter's type.

        Raises:
            ValueError: it is that of another optimizer.
        """
        groups: list[dict[str, Any]] = state_dict["param_groups"]
        sizes = [len(group["params"]) for group in groups]
        if sizes != [len(group["params"]) for group in self.param_groups]:
            raise ValueError(f"the optimizer's groups have {sizes} parameters")
        for own, group in zip(self.param_groups, groups, strict=True):
            own |= {key: value for key, value in group.items() if key != "params"}
        for number, saved in state_dict["state"].items():
            parameter = self._all[number]
            fresh = self._fresh(parameter)
            if {k: _like(v) for k, v in fresh.items()} != {k: _like(v) for k, v in saved.items()}:
                raise ValueError(
                    f"the optimizer's state of parameter {number} is of another kind: "
                    f"{sorted(saved)}, expected {sorted(fresh)} (train.local.optimizer_memory)"
                )
            for name, value in saved.items():
                # Copied, because the state may lie in pages that a device reads directly.
                fresh[name] = fresh[name].copy_(value) if isinstance(value, Tensor) else value
            self.state[parameter] = fresh


def _bitsandbytes() -> Any:
    """Functions of bitsandbytes; raises `PrerequisiteError` where it is not installed."""
    with needed('train.local.optimizer_memory = "8bit" needs bitsandbytes', "8bit"):
        from bitsandbytes import functional  # pyright: ignore[reportMissingTypeStubs]
    return functional


def _like(value: object) -> object:
    return (value.dtype, value.shape) if isinstance(value, Tensor) else type(value)


def split(exact: Tensor) -> tuple[Tensor, Tensor]:
    """float32 numbers as the nearest bfloat16 ones and what these lack, int16.

    Halves go away from zero, so that what lacks always fits; `joined` is the exact inverse.
    """
    bits = exact.view(torch.int32)
    high = (bits + 0x8000) >> 16
    low = (bits - (high << 16)).to(torch.int16)
    return high.to(torch.int16).view(torch.bfloat16), low


def joined(high: Tensor, low: Tensor) -> Tensor:
    """The float32 numbers that `split` took apart."""
    bits = high.view(torch.int16).to(torch.int32) << 16
    return (bits + low).view(torch.float32)
