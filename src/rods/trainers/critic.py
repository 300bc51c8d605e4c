"""The critic of PPO: what a trajectory will earn, judged before each sampled token.

Owns a model of its own (the policy's decoder as it was at the start, and a linear head that begins
at zero), its optimizer, the value loss and its figures. It never touches the policy. Under LoRA the
decoder's weights are the policy's frozen ones, and only adapters and head are the critic's.

Owns generalized advantage estimation (arXiv 1506.02438) too, in float64. Only sampled tokens are
time steps: what the environment inserted is skipped, so the value after an insertion follows the
one before it. The reward comes at the last sampled token.

    critic = Critic(model, settings, model_settings, seed=0)        # before LoRA enters the policy
    samples = critic.judge(samples)                                 # now with estimates
    with critic.training(lr=1e-5):
        critic.optimize(pack(samples, 16_384))
    critic.report(samples)
    token_advantages([0.5, 0.2], reward=1.0, gamma=1.0, lam=1.0)        # [0.5, 0.8]
"""

from __future__ import annotations

import copy
from collections.abc import Generator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import replace
from itertools import accumulate
from typing import Any, cast

import numpy as np
import torch
from torch import Tensor, nn
from transformers import PreTrainedModel

from rods.config import ModelSettings, TrainSettings
from rods.errors import TrainError
from rods.trainers.adamw import clipped_step, make_optimizer
from rods.trainers.adapters import with_lora
from rods.trainers.advantages import Array, is_flat, whiten
from rods.trainers.batches.micro import Microbatch, by_sample
from rods.trainers.batches.tree_attention import supports_trees
from rods.trainers.forward import prepare_checkpointing, token_outputs, training_mode
from rods.trainers.loading import uses_bfloat16
from rods.trainers.reports import UpdateSums
from rods.trainers.samples import Estimates, Floats, Sample


class Critic:
    """A value for each sampled token, and the updates that teach it."""

    def __init__(
        self,
        policy: PreTrainedModel,
        settings: TrainSettings,
        model_settings: ModelSettings,
        seed: int,
    ) -> None:
        """Begin as a copy of the policy, the start model without adapters; it expects 0 everywhere.

        Raises:
            PrerequisiteError: LoRA was asked for and peft is not installed.
        """
        self.settings = settings
        self.updates = 0
        """Updates made so far."""
        self._autocast = uses_bfloat16(model_settings, policy.device)
        self._trees = supports_trees(policy)
        self._trunk = _trunk(policy, model_settings.lora_rank, seed)
        if settings.local.gradient_checkpointing:
            prepare_checkpointing(self._trunk)
        width = int(self._trunk.config.hidden_size)
        self._head = nn.Linear(width, 1, device=policy.device, dtype=torch.float32)
        nn.init.zeros_(self._head.weight)
        nn.init.zeros_(self._head.bias)
        self._optimizer = make_optimizer(list(self._trained().values()), settings)
        self._lr, self._sums = 0.0, UpdateSums()
        self._trunk.eval()

    @property
    def warming(self) -> bool:
        """True if the next update is for the critic alone."""
        return self.updates < self.settings.gae.critic_warmup

    def judge(self, samples: Sequence[Sample]) -> list[Sample]:
        """The samples with advantages, returns and values by token.

        Raises:
            TrainError: a value is not finite.
        """
        most, gae = self.settings.local.microbatch_tokens, self.settings.gae
        with torch.no_grad():
            values = by_sample(samples, most, self._trees, self._values)
        paid = self.settings.kl if self.settings.kl_in == "reward" else 0.0
        return with_estimates(samples, values, gae.gamma, gae.lam, paid)

    @contextmanager
    def training(self, lr: float) -> Generator[None]:
        """One update: set the rate, forget the last update's figures."""
        for part in self._optimizer.param_groups:
            part["lr"] = lr
        self._lr, self._sums = lr, UpdateSums()
        with training_mode(self._trunk, self.settings.local.gradient_checkpointing, self._trees):
            yield
        self.updates += 1

    def optimize(self, micros: Sequence[Microbatch]) -> None:
        """One optimizer step over the micro-batches of one mini-batch, which `judge` has seen.

        Raises:
            TrainError: the loss or its gradient is not finite; the critic is as before.
        """
        self._optimizer.zero_grad(set_to_none=True)
        for micro in micros:
            estimates = cast("Estimates", micro.estimates)
            old, returns, weights = (
                torch.from_numpy(array).to(self._trunk.device)
                for array in (estimates.values, estimates.returns, micro.token_weights)
            )
            new, clip = self._values(micro), self.settings.gae.value_clip
            loss, held = value_loss(new, old, returns, clip)
            total = (loss * weights).sum()
            total.backward()
            self._sums.see(micro)
            self._sums.sums["loss"] += float(total.detach())
            self._sums.sums["weight"] += float(weights.sum())
            self._sums.sums["clipped"] += float(held.sum())
        self._sums.sums["grad_norm"] += clipped_step(
            self._optimizer,
            list(self._trained().values()),
            self.settings.local.grad_clip,
            self._sums.sums["loss"],
            f"the critic's update {self.updates}",
            "Lower train.gae.critic_lr or train.local.grad_clip, or take an older checkpoint.",
        )
        self._sums.counts["optimizer_steps"] += 1

    def report(self, samples: Sequence[Sample]) -> dict[str, float | None]:
        """Metrics of the last update, made with these samples.

        `value_loss` is the mean of half the squared error, `value_clipped` the share (0-1) of
        tokens whose gradient `train.gae.value_clip` stopped; the norm is that before clipping.
        """
        known = (s.estimates for s in samples if s.estimates is not None)
        parts = zip(*known, strict=True)
        _, returns, values = (np.concatenate(p).astype(np.float64) for p in parts)
        return {
            # The weights of `constant` do not sum to 1.
            "value_loss": self._sums.sums["loss"] / (self._sums.sums["weight"] or 1.0),
            "explained_variance": explained_variance(returns, values),
            "value_mean": float(values.mean()),
            "return_mean": float(returns.mean()),
            "value_clipped": self._sums.mean("clipped", "sampled_tokens"),
            "critic_grad_norm": self._sums.mean("grad_norm"),
            "critic_lr": self._lr,
            "critic_optimizer_steps": self._sums.counts["optimizer_steps"],
        }

    def state_dict(self) -> dict[str, Any]:
        """Trained weights, optimizer and the number of updates."""
        return {
            "weights": {name: p.detach() for name, p in self._trained().items()},
            "optimizer": self._optimizer.state_dict(),
            "updates": self.updates,
        }

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        """Go on from a saved state, in place; raises `ValueError` for that of another critic."""
        weights: dict[str, Tensor] = state["weights"]
        own = self._trained()
        names = {name for name in own.keys() & weights.keys()
                 if own[name].shape == weights[name].shape}  # fmt: skip
        if other := sorted((own.keys() | weights.keys()) - names):
            raise ValueError(f"the critic's weights differ: {other[:3]}")
        with torch.no_grad():
            for name, parameter in own.items():
                parameter.copy_(weights[name])
        self._optimizer.load_state_dict(state["optimizer"])
        self.updates = int(state["updates"])

    def _values(self, micro: Microbatch) -> Tensor:
        kind = self._trunk.device.type
        with torch.autocast(kind, dtype=torch.bfloat16, enabled=self._autocast):
            states = token_outputs(self._trunk, micro, "last_hidden_state")
        return self._head(states.float())[:, 0]

    def _trained(self) -> dict[str, nn.Parameter]:
        both = nn.ModuleDict({"trunk": self._trunk, "head": self._head})
        return {name: p for name, p in both.named_parameters() if p.requires_grad}


def value_loss(new: Tensor, old: Tensor, returns: Tensor, clip: float) -> tuple[Tensor, Tensor]:
    """Half the squared error by token, and where clipping holds it.

    With a clip above 0: the larger of the errors of V and of V held within `clip` of its old value,
    as in the PPO of OpenAI's baselines. A held token has no gradient.
    """
    free = (new - returns).square() / 2
    if not clip:
        return free, torch.zeros_like(free, dtype=torch.bool)
    bounded = (old + (new - old).clamp(-clip, clip) - returns).square() / 2
    return torch.maximum(free, bounded), (bounded > free).detach()


def _trunk(policy: PreTrainedModel, rank: int, seed: int) -> PreTrainedModel:
    """The decoder of a copy: of all weights, or under LoRA with frozen weights in common."""
    if not rank:
        own = cast("PreTrainedModel", copy.deepcopy(policy.base_model))
        return own.requires_grad_(True)
    common = {id(p): p for p in policy.parameters()}
    whole = copy.deepcopy(policy, common)
    with_lora(whole, rank, seed + 1)
    return cast("PreTrainedModel", whole.base_model)


def token_advantages(
    values: Sequence[float], reward: float, gamma: float, lam: float, costs: Sequence[float] = ()
) -> list[float]:
    """A_t = d_t + gamma lam A_{t+1} with d_t = r_t + gamma V_{t+1} - V_t; V is 0 after the end.

    Args:
        values: V_t, what was expected before each sampled token.
        reward: r of the last token; all others earn 0.
        costs: taken from the r of each token; empty: none.
        gamma: discount of one token.
        lam: 1: return minus value; 0: d_t alone.
    """
    # gamma V_{t+1} for all but the last token, whose V_{t+1} is 0 and which earns the reward.
    after = [gamma * v for v in values[1:]] + [reward]
    paid = costs or [0.0] * len(after)
    errors = [b - c - a for a, b, c in zip(values, after, paid, strict=True)]
    # Equation 16 of the paper as a recursion, from the last token to the first.
    return list(accumulate(reversed(errors), lambda later, d: d + gamma * lam * later))[::-1]


def explained_variance(returns: Array, values: Array) -> float | None:
    """1 - Var(returns - values) / Var(returns): 1 is perfect, 0 as good as a constant.

    None: the returns are all equal.
    """
    if is_flat(returns):
        return None
    return float(1 - np.var(returns - values) / np.var(returns))


def with_estimates(
    samples: Sequence[Sample], values: Sequence[Floats], gamma: float, lam: float, kl: float = 0.0
) -> list[Sample]:
    """The samples with advantages, whitened over all their tokens, returns and values.

    Args:
        samples: with what their trajectories earned, and where `kl` is not 0 their reference.
        values: of each sampled token.
        kl: what each token pays for its log-ratio to the reference (k1).

    Raises:
        TrainError: a value is not finite, or they are not one for each sampled token.
    """
    for sample, some in zip(samples, values, strict=True):
        if len(some) != sample.sampled or not np.isfinite(some).all():
            raise TrainError(
                f"task {sample.task_id}, member {sample.member}: {len(some)} values came for "
                f"{sample.sampled} sampled tokens; expected one finite value for each. Lower "
                "train.gae.critic_lr, or go back to an older checkpoint."
            )
    exact = [np.asarray(v, dtype=np.float64) for v in values]
    raw = [
        np.array(
            token_advantages(
                v.tolist(), s.reward, gamma, lam, (kl * s.log_ratio).tolist() if kl else ()
            )
        )
        for s, v in zip(samples, exact, strict=True)
    ]
    # The critic's target is A + V, the lambda-return, before whitening.
    return [
        replace(s, estimates=Estimates(*(part.astype(np.float32) for part in (white, a + v, v))))
        for s, white, a, v in zip(samples, whiten(raw), raw, exact, strict=True)
    ]
