"""Supervised training: next-token loss on what the policy itself says in examples.

Examples that begin alike, with the same tools, stand together in a pass, which computes their
common prefix once and has no padding. A batch is several such parts, drawn at random.

Owns the loop over epochs and batches, its checkpoints and the finished folder. It reads no files of
examples (`examples.py`) and makes no rollouts. Batches are a function of seed and epoch, so a
resumed run makes the updates that an uninterrupted one would have made.

    trainer = SftTrainer(model, tokenizer, samples, SftSettings(lr=1e-4), ModelSettings(), seed=0)
    for figures in trainer.updates():
        figures.loss, figures.tokens
    trainer.finish(Path("policy"), card={})
"""

from __future__ import annotations

import itertools
import json
import math
import os
import shutil
import time
from bisect import bisect_right
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal, NamedTuple

import numpy as np
import torch
from safetensors import SafetensorError
from torch import nn
from transformers import PreTrainedModel, PreTrainedTokenizerBase

from rods.config import ModelSettings, TrainSettings
from rods.engines.threads import UPDATE, use_threads
from rods.errors import StoreError, TrainError
from rods.split import EDGE
from rods.trainers.adamw import clipped_step, make_optimizer, rate
from rods.trainers.adapters import with_lora
from rods.trainers.batches.micro import fill, loss_weights, pack
from rods.trainers.batches.tree_attention import supports_trees
from rods.trainers.checkpoint import ModelWeights, load_checkpoint, save_checkpoint
from rods.trainers.forward import token_scores
from rods.trainers.loading import quiet, uses_bfloat16
from rods.trainers.samples import Sample

CARD = "card.json"
GRAD_CLIP = 1.0
PART = 4_096
"""Tokens of the parts of a batch whose examples begin alike, at most."""


@dataclass(frozen=True)
class SftSettings:
    """Amount and rate of learning."""

    epochs: int = 2
    """Passes over the examples."""
    updates: int = 0
    """Updates at most, over which the learning rate is spread; 0: all of the passes."""
    batch_tokens: int = 16_384
    """Tokens of one update."""
    microbatch_tokens: int = 4_096
    """Tokens of one forward pass, common prefixes counted once; where the model cannot share them,
    padding included. It changes memory, not results."""
    lr: float = 1e-5
    schedule: Literal["constant", "cosine"] = "cosine"
    warmup_share: float = 0.03
    """Share of the updates with a linear warm-up."""


class SftFigures(NamedTuple):
    """Metrics of one update."""

    step: int
    """Updates done, this one included."""
    total: int
    """Updates of the whole training."""
    epoch: float
    """Passes done."""
    loss: float
    """Mean over the trained tokens of the batch, in nats, before the update."""
    lr: float
    grad_norm: float
    """Before clipping."""
    trained_tokens: int
    tokens: int
    """Tokens of the batch, context included."""
    seconds: float


class SftTrainer:
    """A model that learns from examples in place."""

    def __init__(
        self,
        model: PreTrainedModel,
        tokenizer: PreTrainedTokenizerBase,
        samples: Sequence[Sample],
        settings: SftSettings,
        model_settings: ModelSettings,
        seed: int,
    ) -> None:
        """Adopt a model on its device; it is trained in place.

        Args:
            samples: at least one; their advantages and log-probabilities do not matter.
            seed: decides the order of batches and the start of LoRA adapters.

        Raises:
            TrainError: there is no sample.
            PrerequisiteError: LoRA was asked for and peft is not installed.
        """
        if not samples:
            raise TrainError("there is no example to learn from.")
        self.model, self.tokenizer, self.settings = model, tokenizer, settings
        self.samples, self.seed = list(samples), seed
        self.step = 0
        """Updates done."""
        base = Path(model_settings.name).expanduser()
        self._base = str(base.resolve()) if base.exists() else model_settings.name
        self._autocast = uses_bfloat16(model_settings, model.device)
        self._trees = supports_trees(model)
        self._saved: nn.Module = model
        if model_settings.lora_rank:
            self._saved = with_lora(model, model_settings.lora_rank, seed)
        self._parameters = [p for p in model.parameters() if p.requires_grad]
        # Half of a typical prompt: the tools, hardly ever a whole request.
        prompts = [int(sample.mask.argmax()) for sample in self.samples]
        self._opening = int(np.median(prompts)) // 2
        sizes = [len(self._batches(epoch)) for epoch in range(settings.epochs)]
        self._ends = list(itertools.accumulate(sizes))
        self._schedule = TrainSettings(
            lr=settings.lr,
            schedule=settings.schedule,
            warmup=math.ceil(settings.warmup_share * self.total - EDGE),
        )
        self._optimizer = make_optimizer(self._parameters, self._schedule)
        # Dropout stays off, as in reinforcement learning: nothing here is random but the order.
        model.eval()

    @property
    def total(self) -> int:
        """Updates of the whole training."""
        return min(self._ends[-1], self.settings.updates or self._ends[-1])

    def _batches(self, epoch: int) -> list[list[Sample]]:
        """All samples once, in an order that is a function of seed and epoch."""
        rng = np.random.default_rng((self.seed, epoch))
        shuffled = [self.samples[i] for i in rng.permutation(len(self.samples))]
        most = self.settings.batch_tokens
        if not self._trees:
            batches = [list(b.samples) for b in pack(shuffled, most)]
            return [batches[i] for i in rng.permutation(len(batches))]
        shuffled.sort(key=lambda s: s.ids[: self._opening].tobytes())  # stable: the rest is chance
        parts = fill([s.context for s in shuffled], max(1, min(PART, most // 2)))
        mixed = [parts[i] for i in rng.permutation(len(parts))]
        return [[shuffled[i] for i in some] for some in _level(mixed, shuffled, most)]

    def updates(self) -> Iterator[SftFigures]:
        """Make the updates that are left, one at a time.

        Raises:
            TrainError: a loss or gradient is not finite; the weights are as before that update.
        """
        while self.step < self.total:
            epoch = bisect_right(self._ends, self.step)
            left = self._batches(epoch)[self.step - self._ends[epoch] :]
            for batch in left[: self.total - self.step]:
                yield self._update(batch)

    def _update(self, samples: list[Sample]) -> SftFigures:
        started = time.perf_counter()
        lr = rate(self._schedule, self.step, self.total)
        for group in self._optimizer.param_groups:
            group["lr"] = lr
        loss = 0.0
        weights = loss_weights(samples, "token")
        for micro in pack(samples, self.settings.microbatch_tokens, weights, self._trees):
            use_threads(UPDATE)
            with torch.autocast(self.model.device.type, torch.bfloat16, enabled=self._autocast):
                logprobs = token_scores(self.model, micro, False)[0]
            weight = torch.from_numpy(micro.token_weights).to(logprobs.device)
            part = -(logprobs * weight).sum()
            part.backward()
            loss += float(part.detach())
        where, advice = f"update {self.step + 1}", "Lower --train.lr."
        norm = clipped_step(self._optimizer, self._parameters, GRAD_CLIP, loss, where, advice)
        self.step += 1
        epoch = self.settings.epochs * self.step / self._ends[-1]
        trained, tokens = sum(s.sampled for s in samples), sum(map(len, samples))
        seconds = time.perf_counter() - started
        return SftFigures(self.step, self.total, epoch, loss, lr, norm, trained, tokens, seconds)

    def save(self, folder: Path) -> None:
        """Write a checkpoint that `load` goes on from into a new folder; see `save_checkpoint`."""
        state = {"step": self.step}
        save_checkpoint(folder, self._saved, self.tokenizer, self._optimizer, state)

    def load(self, folder: Path) -> None:
        """Go on from a checkpoint; see `load_checkpoint`."""
        self.step = load_checkpoint(folder, self._saved, self._optimizer)["step"]

    def finish(self, folder: Path, card: Mapping[str, object], adapter: bool = False) -> None:
        """Put the trained model and its card into an existing folder, which ends the training.

        The card comes last: a folder with a card is complete. `adapter` writes the adapters alone,
        which name their base as it was named; else they are merged. Raises `StoreError` where it
        could not be written.
        """
        merged: Any = self._saved
        if adapter:
            if self._autocast:  # as exact as the weights that they will be added to
                merged.to(torch.bfloat16)
            merged.active_peft_config.base_model_name_or_path = self._base
        elif self._saved is not self.model:
            merged = merged.merge_and_unload()
        part = folder / ".part"
        try:
            shutil.rmtree(part, ignore_errors=True)
            with quiet():
                ModelWeights(merged).save(part)
                self.tokenizer.save_pretrained(str(part))
            text = json.dumps({**card, "parameters": merged.num_parameters()}, indent=2)
            (part / CARD).write_text(text + "\n", encoding="utf-8")
            for file in sorted(part.iterdir(), key=lambda f: f.name == CARD):
                os.replace(file, folder / file.name)
            part.rmdir()
        except (OSError, RuntimeError, SafetensorError) as error:
            raise StoreError(
                f"{folder}: the model could not be written: {error}. Free space, then continue "
                "with --resume."
            ) from error


def _level(parts: Sequence[Sequence[int]], samples: Sequence[Sample], most: int) -> list[list[int]]:
    """Batches of about `most` tokens, as equal as the parts allow."""
    sizes = [sum(len(samples[i]) for i in part) for part in parts]
    count = min(len(parts), max(1, round(sum(sizes) / most)))
    batches: list[list[int]] = [[] for _ in range(count)]
    held = [0] * count
    for part, size in zip(parts, sizes, strict=True):
        place = held.index(min(held))
        batches[place].extend(part)
        held[place] += size
    return batches
