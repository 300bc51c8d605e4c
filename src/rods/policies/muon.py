"""Muon in float32, for pre-training the bundled policy on a CPU.

torch has a Muon since 2.9, but it orthogonalises in bfloat16, which a CPU without such arithmetic
emulates slowly. The method is Jordan's (2024): momentum, then the
nearest orthogonal matrix by five Newton-Schulz iterations.

    optimiser = Muon(matrices, lr=0.02)
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import torch
from torch import Tensor

A, B, C = 3.4445, -4.7750, 2.0315
"""Coefficients of the quintic iteration."""


def orthogonalise(matrix: Tensor, iterations: int = 5) -> Tensor:
    """Roughly U V^T of a matrix (m, n) with singular value decomposition U S V^T."""
    x = matrix.T if matrix.shape[0] > matrix.shape[1] else matrix
    x = x / (x.norm() + 1e-7)
    for _ in range(iterations):
        gram = x @ x.T
        x = A * x + (B * gram + C * gram @ gram) @ x
    return x.T if matrix.shape[0] > matrix.shape[1] else x


class Muon(torch.optim.Optimizer):
    """Momentum with Nesterov's look-ahead, orthogonalised; for 2-d weights of hidden layers."""

    def __init__(self, params: Iterable[Tensor], lr: float, momentum: float = 0.95) -> None:
        super().__init__(params, {"lr": lr, "momentum": momentum})

    @torch.no_grad()
    def step(self, closure: Any = None) -> Any:
        """Make one update; `closure` is not supported and must be None."""
        for group in self.param_groups:
            for weight in group["params"]:
                if weight.grad is None:
                    continue
                state = self.state[weight]
                if "momentum" not in state:
                    state["momentum"] = torch.zeros_like(weight)
                velocity: Tensor = state["momentum"]
                velocity.lerp_(weight.grad, 1 - group["momentum"])
                update = orthogonalise(weight.grad.lerp(velocity, group["momentum"]))
                scale = max(1.0, weight.shape[0] / weight.shape[1]) ** 0.5
                weight.add_(update, alpha=-group["lr"] * scale)
