"""The critic of PPO: what a trajectory will earn, judged before each sampled token.

Owns a model of its own (the policy's decoder as it was at the start, and a linear head that begins
at zero), its optimiser, the value loss and its figures. It never touches the policy. Under LoRA the
decoder's weights are the policy's frozen ones, and only adapters and head are the critic's.

    critic = Critic(model, settings, model_settings, seed=0)        # before LoRA enters the policy
    samples = critic.judge(samples)                                 # now with estimates
    with critic.training(lr=1e-5):
        critic.optimise(pack(samples, 16_384))
    critic.report(samples)
"""

from __future__ import annotations

import copy
from collections.abc import Generator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any, cast

import numpy as np
import torch
from torch import Tensor, nn
from transformers import PreTrainedModel

from rods.config import ModelSettings, TrainSettings
from rods.errors import TrainError
from rods.trainers.adamw import clip_gradients, make_optimizer
from rods.trainers.adapters import with_lora
from rods.trainers.batches.micro import Microbatch, pack
from rods.trainers.batches.tree_attention import supports_trees
from rods.trainers.forward import prepare_checkpointing, token_outputs, training_mode
from rods.trainers.gae import explained_variance, with_estimates
from rods.trainers.loading import uses_bfloat16
from rods.trainers.reports import CriticReport, UpdateSums
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
        """Whether the next update is for the critic alone."""
        return self.updates < self.settings.gae.critic_warmup

    def judge(self, samples: Sequence[Sample]) -> list[Sample]:
        """The samples with advantages, returns and values by token.

        Raises:
            TrainError: a value is not finite.
        """
        found: dict[int, Floats] = {}
        with torch.no_grad():
            for micro in pack(samples, self.settings.local.microbatch_tokens, None, self._trees):
                values = self._values(micro).cpu().numpy()
                parts = np.split(values, np.cumsum([s.sampled for s in micro.samples])[:-1])
                found |= {id(s): part for s, part in zip(micro.samples, parts, strict=True)}
        values = [found[id(s)] for s in samples]
        gae = self.settings.gae
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

    def optimise(self, micros: Sequence[Microbatch]) -> None:
        """One optimiser step over the micro-batches of one mini-batch, which `judge` has seen.

        Raises:
            TrainError: the loss or its gradient is not finite; the critic is as before.
        """
        self._optimizer.zero_grad(set_to_none=True)
        for micro in micros:
            estimates, weights = cast("Estimates", micro.estimates), self._put(micro.token_weights)
            loss, held = value_loss(
                self._values(micro),
                self._put(estimates.values),
                self._put(estimates.returns),
                self.settings.gae.value_clip,
            )
            total = (loss * weights).sum()
            cast("Any", total).backward()
            self._sums.see(micro)
            self._sums.sums["loss"] += float(total.detach())
            self._sums.sums["clipped"] += float(held.sum())
        parameters = list(self._trained().values())
        limit = self.settings.local.grad_clip
        norm = float(clip_gradients(self._optimizer, parameters, limit))
        summed = self._sums.sums["loss"]
        if not np.isfinite(norm + summed):
            self._optimizer.zero_grad(set_to_none=True)
            raise TrainError(
                f"the critic's update {self.updates}: its loss is {summed}, its "
                f"gradient norm {norm}. Its weights are as before this optimiser step. Lower "
                "train.gae.critic_lr or train.local.grad_clip, or go back to an older checkpoint."
            )
        self._optimizer.step()
        self._optimizer.zero_grad(set_to_none=True)
        self._sums.sums["grad_norm"] += norm
        self._sums.steps += 1

    def report(self, samples: Sequence[Sample]) -> CriticReport:
        """The figures of the last update, made with these samples."""
        known = [s.estimates for s in samples if s.estimates is not None]
        returns = np.concatenate([e.returns for e in known]).astype(np.float64)
        values = np.concatenate([e.values for e in known]).astype(np.float64)
        return CriticReport(
            value_loss=self._sums.by_step("loss"),
            explained_variance=explained_variance(returns, values),
            value_mean=float(values.mean()),
            return_mean=float(returns.mean()),
            value_clipped=self._sums.by_token("clipped"),
            grad_norm=self._sums.by_step("grad_norm"),
            lr=self._lr,
            optimizer_steps=self._sums.steps,
        )

    def state_dict(self) -> dict[str, Any]:
        """Trained weights, optimiser and the number of updates."""
        return {
            "weights": {name: p.detach() for name, p in self._trained().items()},
            "optimizer": self._optimizer.state_dict(),
            "updates": self.updates,
        }

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        """Go on from a saved state, in place.

        Raises:
            ValueError: it is that of another critic.
        """
        weights, own = cast("dict[str, Tensor]", state["weights"]), self._trained()
        names = {name for name in own.keys() & weights.keys()
                 if own[name].shape == weights[name].shape}  # fmt: skip
        if other := sorted((own.keys() | weights.keys()) - names):
            raise ValueError(f"the critic's weights differ: {other[:3]}")
        with torch.no_grad():
            for name, parameter in own.items():
                parameter.copy_(weights[name])
        self._optimizer.load_state_dict(cast("dict[str, Any]", state["optimizer"]))
        self.updates = int(state["updates"])

    def _values(self, micro: Microbatch) -> Tensor:
        kind = self._trunk.device.type
        with torch.autocast(kind, dtype=torch.bfloat16, enabled=self._autocast):
            states = token_outputs(self._trunk, micro, "last_hidden_state")
        return cast("Tensor", self._head(states.float()))[:, 0]

    def _trained(self) -> dict[str, nn.Parameter]:
        parts = {"trunk": self._trunk, "head": self._head}
        return {
            f"{part}.{name}": p
            for part, module in parts.items()
            for name, p in cast("nn.Module", module).named_parameters()
            if p.requires_grad
        }

    def _put(self, array: Floats) -> Tensor:
        return torch.from_numpy(array).to(self._trunk.device)


def value_loss(new: Tensor, old: Tensor, returns: Tensor, clip: float) -> tuple[Tensor, Tensor]:
    """Half the squared error by token, and where clipping holds it.

    With a clip: the larger of the errors of V and of V held within `clip` of its old value, as in
    the PPO of OpenAI's baselines. A held token has no gradient.

    Args:
        new: V under the current weights, with gradient.
        old: V before the update.
        returns: what it should be.
        clip: above 0, or 0 for none.
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
    common = {id(p): p for p in cast("nn.Module", policy).parameters()}
    whole = copy.deepcopy(policy, cast("Any", common))
    with_lora(whole, rank, seed + 1)
    return cast("PreTrainedModel", whole.base_model)
