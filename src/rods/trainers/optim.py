"""The optimiser and its learning rate.

Owns AdamW's construction, the clipping of gradients, wherever they are summed, and the schedule,
which is a function of the step alone and therefore needs no state.

    rate(settings, step=0, total=100)       # 1e-6
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import torch
from torch import Tensor, nn

from rods.config import TrainSettings
from rods.trainers.adamw import LeanAdamW


def make_optimizer(
    parameters: Sequence[torch.nn.Parameter], settings: TrainSettings
) -> torch.optim.Optimizer:
    """AdamW (betas 0.9 and 0.999); weight decay on matrices only.

    torch's fused one where all is float32 and stays on the device, else `LeanAdamW`.
    """
    groups: list[dict[str, Any]] = [
        {
            "params": [p for p in parameters if p.ndim > 1],
            "weight_decay": settings.local.weight_decay,
        },
        {"params": [p for p in parameters if p.ndim <= 1], "weight_decay": 0.0},
    ]
    mode = settings.local.optimizer_memory
    if mode == "full" and all(p.dtype is torch.float32 for p in parameters):
        return torch.optim.AdamW(groups, lr=settings.lr, fused=True)
    moments = "8bit" if mode == "8bit" else "float32"
    return LeanAdamW(groups, settings.lr, moments, offload=mode == "offload")


def clip_gradients(
    optimizer: torch.optim.Optimizer, parameters: Sequence[torch.nn.Parameter], limit: float
) -> Tensor:
    """Scale gradients to a norm of at most `limit`; their norm before."""
    held = optimizer.held if isinstance(optimizer, LeanAdamW) else parameters
    return nn.utils.clip_grad_norm_(held, limit)


def rate(settings: TrainSettings, step: int, total: int) -> float:
    """Learning rate of `step` (from 0): linear warm-up, then constant, or cosine down to 0.

    Args:
        settings: `lr`, `schedule`, `warmup`.
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
