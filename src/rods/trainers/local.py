"""The local trainer: one process, a CPU or one GPU, all weights or LoRA adapters.

Owns the update of the weights from scored groups, in place, so that an engine that holds the same
model sees them. It never samples, draws tasks or judges them, and keeps no random state.

    trainer = LocalTrainer(model, tokenizer, settings, model_settings, total_steps=100, seed=0)
    report = trainer.update(groups, scores)
    trainer.save(Path("checkpoint"))
"""

from __future__ import annotations

import copy
import math
import time
from collections.abc import Iterator, Sequence
from contextlib import nullcontext
from dataclasses import replace
from pathlib import Path
from typing import Any, cast

import numpy as np
import torch
from torch import nn
from transformers import PreTrainedModel, PreTrainedTokenizerBase

from rods.config import ModelSettings, TrainSettings
from rods.config.checks import NO_END, limits_perplexity
from rods.engines.threads import UPDATE, use_threads
from rods.errors import ConfigError
from rods.reward import Score
from rods.rewards.filters import filter_of
from rods.trainers.adamw import clipped_step, make_optimizer, rate
from rods.trainers.adapters import with_lora
from rods.trainers.batches.micro import Microbatch, by_sample, loss_weights, minibatches, pack
from rods.trainers.batches.tree_attention import supports_trees
from rods.trainers.checkpoint import ModelWeights, load_checkpoint, save_checkpoint
from rods.trainers.collect import collect, penalized, perplexity, training_signals
from rods.trainers.critic import Critic
from rods.trainers.forward import prepare_checkpointing, token_scores, training_mode
from rods.trainers.loading import uses_bfloat16
from rods.trainers.losses import LossInputs, Terms, objective
from rods.trainers.reports import LocalUpdateReport, UpdateSums, make_report
from rods.trainers.samples import Floats, Sample, to_sample
from rods.trajectory import Group

_Known = dict[tuple[bytes, bytes], tuple[Floats, Floats | None]]
"""Log-probabilities under the start of what was looked at in an update, by ids and mask; and those
of the trainer before it, where a KL in the reward needs them."""


def _key(sample: Sample) -> tuple[bytes, bytes]:
    return sample.ids.tobytes(), sample.mask.tobytes()


class LocalTrainer:
    """Updates a model in place from groups of trajectories and their scores."""

    def __init__(
        self,
        model: PreTrainedModel,
        tokenizer: PreTrainedTokenizerBase,
        settings: TrainSettings,
        model_settings: ModelSettings,
        total_steps: int,
        seed: int,
        longest: int = 0,
    ) -> None:
        """Adopt a model on its device. Under `gae` a critic begins as a copy of it.

        Args:
            model: trained in place; its weights now are the reference of the KL loss. To resume,
                pass the start model again and call `load`.
            total_steps: updates of the whole run, for the cosine schedule.
            seed: decides the order of mini-batches and the start of LoRA adapters.
            longest: tokens that a trajectory may sample, for the aggregation `constant`.

        Raises:
            ConfigError: the cosine schedule has no length, the aggregation `constant` no
                constant, or there is no such filter.
            PrerequisiteError: LoRA was asked for and peft is not installed.
        """
        if settings.schedule == "cosine" and total_steps < 1:
            raise ConfigError(NO_END.format('train.schedule = "cosine"'))
        if settings.aggregation == "constant" and longest < 1:
            raise ConfigError(
                'train.aggregation: "constant" divides by the longest trajectory; expected at '
                f"least 1 token, got {longest} (rollout.generated_tokens)."
            )
        self.model, self.tokenizer, self.settings = model, tokenizer, settings
        self.filter = filter_of(settings)
        self.total_steps, self.seed, self.longest = total_steps, seed, longest
        self.step = 0
        """Updates asked for so far, skipped ones included."""
        self.version = 0
        """Updates that changed the weights."""
        self._autocast = uses_bfloat16(model_settings, model.device)
        self._trees = supports_trees(model)
        self._reference: PreTrainedModel | None = None
        self._saved: nn.Module = model
        self.critic: Critic | None = None
        """Critic of PPO, under `gae`."""
        if settings.advantage == "gae":
            self.critic = Critic(model, settings, model_settings, seed)
        if model_settings.lora_rank:
            self._saved = with_lora(model, model_settings.lora_rank, seed)
        elif settings.kl or limits_perplexity(settings):
            self._reference = copy.deepcopy(model).requires_grad_(False).eval()
        if settings.local.gradient_checkpointing:
            prepare_checkpointing(model)
        self._parameters = [p for p in model.parameters() if p.requires_grad]
        self._optimizer = make_optimizer(self._parameters, settings)
        model.eval()

    def update(
        self, groups: Sequence[Group], scores: Sequence[Sequence[Score]]
    ) -> LocalUpdateReport:
        """One step: advantages, then passes over the informative samples.

        With `minibatch = 0` and `epochs = 1` this is one pass and one optimizer step, exactly
        on-policy. The old log-probabilities are those of sampling, unless `correction` asks for the
        trainer's own; only with several optimizer steps do these cost a further pass.

        Raises:
            TrainError: shapes differ, or a loss or gradient is not finite. The optimizer step that
                failed changes nothing.
            TokenError: a trajectory breaks the ledger's rules.
        """
        started = time.perf_counter()
        settings = self.settings
        known = _Known()
        compared, perplexities = self._compared(groups, scores, known)
        batch = collect(
            groups, compared, settings.advantage, settings.mask_env_tokens, self.filter,
            settings.credit, perplexities, scores,
        )  # fmt: skip
        lr = self._rate()
        sums = UpdateSums()
        critic, warming = None, self._warming()
        samples = batch.samples
        if samples:
            for part in self._optimizer.param_groups:
                part["lr"] = lr
            if settings.kl and (not warming or settings.kl_in == "reward"):
                samples = self._with_references(samples, known)
            # Several optimizer steps move the weights within the update.
            several = settings.epochs > 1 or 0 < settings.minibatch < len(samples)
            if settings.correction.method != "none" and several and not self._pays_own:
                parts = self._logprobs(self.model, samples)
                samples = [
                    replace(s, old_logprobs=part) for s, part in zip(samples, parts, strict=True)
                ]
            if self.critic is None:
                self._pass(samples, sums, None)
            else:
                samples = self.critic.judge(samples)
                its = {"lr": settings.gae.critic_lr, "warmup": 0}
                pace = rate(settings.model_copy(update=its), self.step, self.total_steps)
                with self.critic.training(pace):
                    self._pass(samples, sums, warming)
                critic = self.critic.report(samples)
            self.version += not warming
        self.step += 1
        return make_report(
            batch, sums, warming, step=self.step - 1, version=self.version, lr=lr, critic=critic,
            signals=training_signals(groups, compared, samples),
            seconds=time.perf_counter() - started,
        )  # fmt: skip

    def _rate(self) -> float:
        """The policy's rate: its schedule waits while the critic warms up."""
        whole = self.settings.gae.critic_warmup if self.critic else 0
        waited = min(self.critic.updates, whole) if self.critic else 0
        return rate(self.settings, self.step - waited, self.total_steps - whole)

    def _warming(self) -> str | None:
        """Why the policy waits for its critic; None: it does not."""
        if self.critic is None or not self.critic.warming:
            return None
        whole = self.settings.gae.critic_warmup
        return f"the critic warms up, update {self.critic.updates + 1} of {whole}; the policy waits"

    def _pass(self, samples: list[Sample], sums: UpdateSums, warming: str | None) -> None:
        """All mini-batches of all epochs."""
        with training_mode(self.model, self.settings.local.gradient_checkpointing, self._trees):
            for some in self._minibatches(samples):
                weights = loss_weights(some, self.settings.aggregation, self.longest)
                micros = pack(some, self.settings.local.microbatch_tokens, weights, self._trees)
                for micro in micros:
                    sums.see(micro)
                if self.critic is not None:
                    self.critic.optimize(micros)
                if not warming:
                    self._optimize(micros, sums)

    def weights(self) -> ModelWeights:
        """The current weights, for an engine."""
        return ModelWeights(self._saved, adapters=self._saved is not self.model)

    def save(self, folder: Path) -> None:
        """Write a checkpoint that transformers loads and `load` resumes from, in a new folder.

        Raises `StoreError` where it could not be written.
        """
        state = {"step": self.step, "version": self.version}
        save_checkpoint(folder, self._saved, self.tokenizer, self._optimizer, state, self.critic)

    def load(self, folder: Path) -> None:
        """Go on from a checkpoint; the reference stays the model that the trainer was made with.

        Raises `StoreError` where it is missing, damaged or of another model.
        """
        state = load_checkpoint(folder, self._saved, self._optimizer, self.critic)
        self.step, self.version = state["step"], state["version"]

    def _minibatches(self, samples: list[Sample]) -> Iterator[list[Sample]]:
        for epoch in range(self.settings.epochs):
            rng = np.random.default_rng((self.seed, self.step, epoch))
            size = self.settings.minibatch
            yield from minibatches(samples, size, rng) if size else [samples]

    def _optimize(self, micros: Sequence[Microbatch], sums: UpdateSums) -> None:
        """One optimizer step over one mini-batch."""
        self._optimizer.zero_grad(set_to_none=True)
        samples, loss = [s for micro in micros for s in micro.samples], 0.0
        for micro in micros:
            use_threads(UPDATE)
            terms = self._terms(micro, first_step=not sums.counts["optimizer_steps"])
            loss += float(terms.loss.detach())
            if not math.isfinite(loss):
                samples = micro.samples
                break
            terms.loss.backward()
            for name, value in {"loss": terms.loss.detach(), **terms.sums}.items():
                sums.sums[name] += float(value)
            sums.ratio_max = max(sums.ratio_max, float(terms.ratio_max))
            sums.compare(terms.mismatch)
        sums.sums["grad_norm"] += clipped_step(
            self._optimizer,
            self._parameters,
            self.settings.local.grad_clip,
            loss,
            f"step {self.step}: tasks {', '.join(sorted({s.task_id for s in samples}))}",
            "Lower train.lr or train.local.grad_clip, or go back to an older checkpoint.",
        )
        sums.counts["optimizer_steps"] += 1

    def _terms(self, micro: Microbatch, first_step: bool) -> Terms:
        with self._precision():
            logprobs, entropy = token_scores(self.model, micro, self.settings.entropy > 0)
        tensors: list[Any] = [
            None if array is None else torch.from_numpy(array).to(self.model.device)
            for array in (
                micro.rollout_logprobs, micro.advantages, micro.token_weights, micro.rows,
                micro.reference, micro.old_logprobs,
            )
        ]  # fmt: skip
        inputs = LossInputs(*tensors, first_step=first_step)
        return objective(logprobs, entropy, inputs, self.settings)

    def _compared(
        self, groups: Sequence[Group], scores: Sequence[Sequence[Score]], known: _Known
    ) -> tuple[Sequence[Sequence[Score]], list[list[float]] | None]:
        """Scores less what KL costs, and perplexities, where the settings ask for them."""
        paid = bool(self.settings.kl) and self.settings.kl_in == "reward" and self.critic is None
        if not (paid or limits_perplexity(self.settings)):
            return scores, None
        rows = [
            [to_sample(t, 0.0) if t.valid and t.ledger.generated else None for t in g.trajectories]
            for g in groups
        ]
        found = iter(self._with_references([s for row in rows for s in row if s], known))
        members = [[None if s is None else next(found) for s in row] for row in rows]
        if paid:
            scores = penalized(scores, members, self.settings.kl)
        unlikely = [[perplexity(s) for s in row] for row in members]
        return scores, unlikely if limits_perplexity(self.settings) else None

    def _with_references(self, samples: list[Sample], known: _Known) -> list[Sample]:
        """The samples with what `_Known` holds of them; each is computed once an update."""
        new = [s for s in samples if _key(s) not in known]
        adapted = self._reference is None
        with cast("Any", self._saved).disable_adapter() if adapted and new else nullcontext():
            found = self._logprobs(self._reference or self.model, new) if new else []
        own = self._logprobs(self.model, new) if self._pays_own and new else [None] * len(new)
        known |= {_key(s): (ref, old) for s, ref, old in zip(new, found, own, strict=True)}
        pairs = [(s, *known[_key(s)]) for s in samples]
        return [replace(s, reference=ref, old_logprobs=old) for s, ref, old in pairs]

    @property
    def _pays_own(self) -> bool:
        """True if rewards are less a KL of pi_old: the trainer's, without the engine's errors."""
        return bool(self.settings.kl) and self.settings.kl_in == "reward"

    def _logprobs(self, model: PreTrainedModel, samples: list[Sample]) -> list[Floats]:
        """Log-probabilities of the sampled tokens of each sample under a model."""
        most = self.settings.local.microbatch_tokens
        with torch.no_grad(), self._precision():
            return by_sample(
                samples, most, self._trees, lambda micro: token_scores(model, micro, False)[0]
            )

    def _precision(self) -> torch.autocast:
        kind = self.model.device.type
        return torch.autocast(kind, dtype=torch.bfloat16, enabled=self._autocast)
