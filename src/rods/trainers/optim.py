"""The optimiser and its learning rate.

Owns AdamW's construction and the schedule, which is a function of the step alone and therefore
needs no state. It never touches gradients.

    rate(settings, step=0, total=100)       # 1e-6
"""

from __future__ import annotations

import math
from collections.abc import Sequence

import torch

from rods.config import TrainSettings


def make_optimizer(
    parameters: Sequence[torch.nn.Parameter], settings: TrainSettings
) -> torch.optim.AdamW:
    """AdamW (betas 0.9 and 0.999) with the fused kernel; weight decay on matrices only."""
    matrices = [p for p in parameters if p.ndim > 1]
    others = [p for p in parameters if p.ndim <= 1]
    return torch.optim.AdamW(
        [
            {"params": matrices, "weight_decay": settings.local.weight_decay},
            {"params": others, "weight_decay": 0.0},
        ],
        lr=settings.lr,
        fused=True,
    )


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
