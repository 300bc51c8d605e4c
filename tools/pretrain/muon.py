"""Muon for pre-training the bundled policy on a CPU, in the arithmetic that this CPU is fast at.

torch has a Muon since 2.9, but it orthogonalizes in bfloat16, which a CPU without such arithmetic
emulates slowly, and one matrix after the other. The method is Jordan's (2024): momentum, then the
nearest orthogonal matrix by five Newton-Schulz iterations; matrices of one shape go together.

    optimizer = Muon(matrices, lr=0.02)
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any, cast

import torch
from torch import Tensor

A, B, C = 3.4445, -4.7750, 2.0315
"""Coefficients of the quintic iteration."""


def orthogonalize(matrix: Tensor, iterations: int = 5) -> Tensor:
    """Roughly U V^T of each matrix (..., m, n) with singular value decomposition U S V^T."""
    tall = matrix.shape[-2] > matrix.shape[-1]
    x = matrix.mT if tall else matrix
    x = x / (x.norm(dim=(-2, -1), keepdim=True) + 1e-7)
    for _ in range(iterations):
        gram = x @ x.mT
        x = A * x + (B * gram + C * gram @ gram) @ x
    return x.mT if tall else x


class Muon(torch.optim.Optimizer):
    """Momentum with Nesterov's look-ahead, orthogonalized; for 2-d weights of hidden layers."""

    def __init__(
        self,
        params: Iterable[Tensor],
        lr: float,
        momentum: float = 0.95,
        dtype: torch.dtype = torch.float32,
    ) -> None:
        super().__init__(params, {"lr": lr, "momentum": momentum})
        self._dtype = dtype

    @torch.no_grad()
    def step(self, closure: Any = None) -> Any:
        """Make one update; `closure` is not supported and must be None."""
        for group in self.param_groups:
            alike: dict[torch.Size, list[Tensor]] = {}
            for weight in group["params"]:
                if weight.grad is not None:
                    alike.setdefault(weight.shape, []).append(weight)
            for shape, weights in alike.items():
                updates = orthogonalize(self._look_ahead(weights, group["momentum"]))
                scale = max(1.0, shape[0] / shape[1]) ** 0.5
                for weight, update in zip(weights, updates.float(), strict=True):
                    weight.add_(update, alpha=-group["lr"] * scale)

    def _look_ahead(self, weights: Sequence[Tensor], momentum: float) -> Tensor:
        """Nesterov's directions of matrices of one shape, stacked (k, m, n)."""
        found: list[Tensor] = []
        for weight in weights:
            gradient = cast(Tensor, weight.grad)
            state = self.state[weight]
            if "momentum" not in state:
                state["momentum"] = torch.zeros_like(weight)
            velocity: Tensor = state["momentum"]
            velocity.lerp_(gradient, 1 - momentum)
            found.append(gradient.lerp(velocity, momentum))
        return torch.stack(found).to(self._dtype)
