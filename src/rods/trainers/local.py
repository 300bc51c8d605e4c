"""The local trainer: one process, a CPU or one GPU, all weights or LoRA adapters.

Owns the update of the weights from scored groups, in place, so that an engine that holds the same
model sees them. It never samples, draws tasks or judges them, and keeps no random state.

    trainer = LocalTrainer(model, tokenizer, settings, model_settings, total_steps=100, seed=0)
    report = trainer.update(groups, scores)
    trainer.save(Path("checkpoint"))
"""

from __future__ import annotations

import copy
import time
import warnings
from collections.abc import Generator, Iterator, Sequence
from contextlib import contextmanager, nullcontext
from dataclasses import asdict, dataclass, field, replace
from pathlib import Path
from typing import Any, cast

import numpy as np
import torch
from torch import Tensor, nn
from transformers import PreTrainedModel, PreTrainedTokenizerBase

from rods.config import ModelSettings, TrainSettings
from rods.errors import ConfigError, PrerequisiteError, TrainError
from rods.reward import Score
from rods.trainers.checkpoint import load_checkpoint, save_checkpoint
from rods.trainers.forward import token_scores
from rods.trainers.loading import uses_bfloat16
from rods.trainers.losses import LossInputs, Terms, objective
from rods.trainers.optim import make_optimizer, rate
from rods.trainers.samples import Batch, Microbatch, Sample, collect, loss_weights, pack
from rods.trainers.tree_attention import supports_trees, tree_attention
from rods.trajectory import Group


@dataclass(frozen=True, slots=True)
class UpdateReport:
    """What one update did. Means are over sampled tokens unless a field says otherwise."""

    step: int
    """Updates asked for before this one, skipped ones included."""
    version: int
    """Version of the weights after it."""
    groups: int
    informative: int
    """Groups that taught something."""
    zero_variance: float
    """Share of groups whose valid rewards are all equal, 0-1."""
    trajectories: int
    """Trajectories that came in."""
    trained: int
    """Trajectories with a loss."""
    invalid: int
    empty: int
    """Valid members of informative groups that sampled nothing."""
    lr: float
    seconds: float
    skipped: str | None = None
    """Why the weights did not change; None: they did."""
    loss: float = 0.0
    policy_loss: float = 0.0
    kl: float = 0.0
    """k3 against the reference; 0 without one."""
    entropy: float = 0.0
    """In nats, at the sampling temperature."""
    approx_kl: float = 0.0
    """k3 estimate of KL(sampling policy || weights during the update)."""
    clip_high: float = 0.0
    clip_low: float = 0.0
    clip_dual: float = 0.0
    """Shares of tokens, 0-1."""
    ratio_max: float = 0.0
    grad_norm: float = 0.0
    """Before clipping; mean over optimiser steps."""
    optimizer_steps: int = 0
    microbatches: int = 0
    tokens: int = 0
    """Tokens of the trained trajectories, context included, times epochs."""
    sampled_tokens: int = 0
    """Those of them that carry loss."""
    positions: int = 0
    """Positions computed for them: fewer where prefixes are shared, more where rows are padded."""

    def metrics(self) -> dict[str, float | int | str | None]:
        """All fields, for the log."""
        return asdict(self)


@dataclass(slots=True)
class _Tally:
    """Running sums of one update."""

    sums: dict[str, float] = field(default_factory=dict[str, float])
    ratio_max: float = 0.0
    steps: int = 0
    microbatches: int = 0
    tokens: int = 0
    sampled: int = 0
    positions: int = 0

    def add(self, name: str, value: float) -> None:
        self.sums[name] = self.sums.get(name, 0.0) + value

    def by_step(self, name: str) -> float:
        return self.sums.get(name, 0.0) / max(1, self.steps)

    def by_token(self, name: str) -> float:
        return self.sums.get(name, 0.0) / max(1, self.sampled)


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
    ) -> None:
        """Adopt a model on its device.

        Args:
            model: trained in place; its weights now are the reference of the KL loss. To resume,
                pass the start model again and call `load`.
            tokenizer: saved with the checkpoints.
            settings: loss, optimiser and batches.
            model_settings: precision and LoRA rank.
            total_steps: updates of the whole run, for the cosine schedule.
            seed: decides the order of mini-batches and the start of LoRA adapters.

        Raises:
            ConfigError: `dual_clip` is between 0 and 1.
            PrerequisiteError: LoRA was asked for and peft is not installed.
        """
        if 0 < settings.dual_clip <= 1:
            raise ConfigError(
                f"train.dual_clip: {settings.dual_clip} would clip the unchanged policy; expected "
                "0 (off) or a number above 1."
            )
        self.model = model
        """The model whose weights are trained (LoRA layers stand inside it)."""
        self.tokenizer = tokenizer
        self.settings = settings
        self.total_steps = total_steps
        self.seed = seed
        self.step = 0
        """Updates asked for so far, skipped ones included."""
        self.version = 0
        """Updates that changed the weights."""
        self._autocast = uses_bfloat16(model_settings, model.device)
        self._trees = supports_trees(model)
        self._reference: PreTrainedModel | None = None
        self._saved: nn.Module = model
        if model_settings.lora_rank:
            self._saved = with_lora(model, model_settings.lora_rank, seed)
        elif settings.kl:
            self._reference = copy.deepcopy(model).requires_grad_(False).eval()
            if self._autocast:
                cast("nn.Module", self._reference).to(torch.bfloat16)
        if settings.gradient_checkpointing:
            _prepare_checkpointing(model)
        self._parameters = [p for p in model.parameters() if p.requires_grad]
        self._optimizer = make_optimizer(self._parameters, settings)
        model.eval()

    def update(self, groups: Sequence[Group], scores: Sequence[Sequence[Score]]) -> UpdateReport:
        """One step: advantages, then passes over the informative samples.

        With `minibatch = 0` and `epochs = 1` this is one pass and one optimiser step, exactly
        on-policy; the old log-probabilities are always those of sampling.

        Args:
            groups: trajectories of one step.
            scores: one row a group, one score a trajectory.

        Raises:
            TrainError: shapes differ, or a loss or gradient is not finite. The optimiser step that
                failed changes nothing.
            TokenError: a trajectory breaks the ledger's rules.
        """
        started = time.perf_counter()
        batch = collect(groups, scores, self.settings.advantage)
        lr = rate(self.settings, self.step, self.total_steps)
        tally = _Tally()
        if batch.samples:
            for part in self._optimizer.param_groups:
                part["lr"] = lr
            samples = self._with_references(batch.samples)
            with self._training():
                for minibatch in self._minibatches(samples):
                    self._optimise(minibatch, tally)
            self.version += 1
        self.step += 1
        return self._report(batch, tally, lr, time.perf_counter() - started)

    def save(self, folder: Path) -> None:
        """Write a checkpoint that transformers loads and `load` resumes from.

        Raises:
            StoreError: it could not be written; a former checkpoint is still there.
        """
        state = {"step": self.step, "version": self.version}
        save_checkpoint(folder, self._saved, self.tokenizer, self._optimizer, state)

    def load(self, folder: Path) -> None:
        """Go on from a checkpoint; the reference stays the model that the trainer was made with.

        Raises:
            StoreError: it is missing, damaged or of another model.
        """
        state = load_checkpoint(folder, self._saved, self._optimizer)
        self.step, self.version = state["step"], state["version"]

    def _minibatches(self, samples: list[Sample]) -> Iterator[list[Sample]]:
        size = self.settings.minibatch or len(samples)
        for epoch in range(self.settings.epochs):
            if size >= len(samples):
                yield samples
                continue
            order = np.random.default_rng((self.seed, self.step, epoch)).permutation(len(samples))
            for start in range(0, len(samples), size):
                yield [samples[i] for i in order[start : start + size]]

    def _optimise(self, samples: list[Sample], tally: _Tally) -> None:
        """One optimiser step over one mini-batch."""
        settings = self.settings
        self._optimizer.zero_grad(set_to_none=True)
        weights = loss_weights(samples, settings.aggregation)
        for micro in pack(samples, settings.microbatch_tokens, weights, self._trees):
            terms = self._terms(micro)
            self._check(terms.loss.detach(), "loss", micro.samples)
            cast("Any", terms.loss).backward()
            tally.add("loss", float(terms.loss.detach()))
            for name, value in terms.sums.items():
                tally.add(name, float(value))
            tally.ratio_max = max(tally.ratio_max, float(terms.ratio_max))
            tally.microbatches += 1
            tally.tokens += sum(len(s) for s in micro.samples)
            tally.sampled += len(micro.targets)
            tally.positions += micro.positions
        norm = nn.utils.clip_grad_norm_(self._parameters, settings.grad_clip)
        self._check(norm.detach(), "gradient norm", samples)
        self._optimizer.step()
        self._optimizer.zero_grad(set_to_none=True)
        tally.add("grad_norm", float(norm))
        tally.steps += 1

    def _terms(self, micro: Microbatch) -> Terms:
        with self._precision():
            new, entropy = token_scores(self.model, micro, self.settings.entropy > 0)
        reference = micro.reference
        inputs = LossInputs(
            old=self._tensor(micro.old),
            advantages=self._tensor(micro.advantages),
            weights=self._tensor(micro.token_weights),
            rows=self._tensor(micro.rows),
            reference=None if reference is None else self._tensor(reference),
        )
        return objective(new, entropy, inputs, self.settings)

    def _with_references(self, samples: list[Sample]) -> list[Sample]:
        """The samples with log-probabilities under the reference, if there is a KL loss."""
        if not self.settings.kl:
            return samples
        adapter = cast("Any", self._saved)
        off = nullcontext() if self._reference is not None else adapter.disable_adapter()
        model = self._reference if self._reference is not None else self.model
        found: dict[int, Sample] = {}
        with torch.no_grad(), off, self._precision():
            for micro in pack(samples, self.settings.microbatch_tokens, None, self._trees):
                scores = token_scores(model, micro, False)[0].cpu().numpy()
                parts = np.split(scores, np.cumsum([s.sampled for s in micro.samples])[:-1])
                for sample, part in zip(micro.samples, parts, strict=True):
                    found[id(sample)] = replace(sample, reference=part)
        return [found[id(s)] for s in samples]

    def _check(self, value: Tensor, what: str, samples: Sequence[Sample]) -> None:
        if bool(torch.isfinite(value)):
            return
        self._optimizer.zero_grad(set_to_none=True)
        tasks = sorted({s.task_id for s in samples})
        raise TrainError(
            f"step {self.step}: the {what} is {float(value)}; tasks {', '.join(tasks)}. The "
            "weights are as before this optimiser step. Lower train.lr or train.grad_clip, or go "
            "back to an older checkpoint."
        )

    def _precision(self) -> torch.autocast:
        kind = self.model.device.type
        return torch.autocast(kind, dtype=torch.bfloat16, enabled=self._autocast)

    @contextmanager
    def _training(self) -> Generator[None]:
        # Dropout stays off, so that an unchanged policy has the ratio 1; only gradient
        # checkpointing asks for training mode.
        self.model.train(self.settings.gradient_checkpointing)
        # Checkpointing runs forward passes again inside backward.
        trees = tree_attention(self.model) if self._trees else nullcontext()
        try:
            with trees:
                yield
        finally:
            self.model.eval()

    def _tensor(self, array: Any) -> Tensor:
        return torch.from_numpy(array).to(self.model.device)

    def _report(self, batch: Batch, tally: _Tally, lr: float, seconds: float) -> UpdateReport:
        return UpdateReport(
            step=self.step - 1,
            version=self.version,
            groups=batch.groups,
            informative=batch.informative,
            zero_variance=batch.zero_variance / max(1, batch.groups),
            trajectories=batch.trajectories,
            trained=len(batch.samples),
            invalid=batch.invalid,
            empty=batch.empty,
            lr=lr,
            seconds=seconds,
            skipped=None if batch.samples else _why_nothing(batch),
            loss=tally.by_step("loss"),
            policy_loss=tally.by_step("policy"),
            kl=tally.by_step("kl"),
            entropy=tally.by_step("entropy_mean"),
            approx_kl=tally.by_token("approx_kl"),
            clip_high=tally.by_token("clip_high"),
            clip_low=tally.by_token("clip_low"),
            clip_dual=tally.by_token("clip_dual"),
            ratio_max=tally.ratio_max,
            grad_norm=tally.by_step("grad_norm"),
            optimizer_steps=tally.steps,
            microbatches=tally.microbatches,
            tokens=tally.tokens,
            sampled_tokens=tally.sampled,
            positions=tally.positions,
        )


def _why_nothing(batch: Batch) -> str:
    if not batch.groups:
        return "there was no group"
    if batch.informative:
        return f"all {batch.informative} informative groups sampled no token"
    return f"the rewards of each of the {batch.groups} groups are equal"


def with_lora(model: PreTrainedModel, rank: int, seed: int) -> nn.Module:
    """The peft model around `model`: adapters on all linear layers, alpha twice the rank."""
    try:
        from peft import LoraConfig, get_peft_model
    except ImportError as error:
        raise PrerequisiteError(
            "model.lora_rank needs peft: pip install 'rods[train]', or set it to 0."
        ) from error
    config = LoraConfig(
        r=rank, lora_alpha=2 * rank, target_modules="all-linear", task_type="CAUSAL_LM"
    )
    with torch.random.fork_rng(), warnings.catch_warnings():
        # peft 0.21 asks transformers 5.23 by a name that it calls deprecated.
        warnings.simplefilter("ignore", FutureWarning)
        torch.manual_seed(seed)
        return cast("nn.Module", get_peft_model(model, config))


def _prepare_checkpointing(model: PreTrainedModel) -> None:
    # Renamed in transformers 5.23; the old name warns there, the new one is missing before.
    renamed: Any = getattr(model, "activation_checkpointing_enable", None)
    (renamed or model.gradient_checkpointing_enable)({"use_reentrant": False})
    for module in model.modules():
        if isinstance(module, nn.Dropout):
            module.p = 0.0
        if hasattr(module, "attention_dropout"):
            cast("Any", module).attention_dropout = 0.0
