"""The teacher: make the bundled policy from nothing, on variants of training scenarios only.

A Qwen3-architecture model with random weights learns to speak like the oracle: next-token loss on
the oracle's tokens, and with a small weight on the rest of the conversation. In a second, short
part it learns from an agent of worse habits, so that decisions stay open for reinforcement.

    card = teach(model, conversations, PretrainSettings(tokens=9_000_000), seed=0, report)
"""

from __future__ import annotations

import json
import math
import random
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import asdict, dataclass, replace
from functools import cache
from pathlib import Path
from typing import Any

import torch
from torch.nn.functional import cross_entropy, log_softmax
from transformers import PreTrainedTokenizerFast, Qwen3Config, Qwen3ForCausalLM

from pretrain.conversations import Conversation
from pretrain.habits import ORACLE, Habits
from pretrain.muon import Muon
from pretrain.start import plant_induction
from pretrain.tokenizer import END, PAD

Report = Callable[[dict[str, float]], None]


@dataclass(frozen=True)
class PretrainSettings:
    """Size of the model and of its pretraining."""

    hidden: int = 256
    layers: int = 4
    heads: int = 4
    kv_heads: int = 2
    ffn: int = 704
    vocab: int = 3072
    context: int = 4096
    rope_theta: float = 1e6
    """So large that the slower half of the frequencies can match contents at any distance."""
    tokens: int = 8_400_000
    """Tokens to train on, context included, before the second part."""
    batch_tokens: int = 4_096
    """Tokens of one update, padding included."""
    window: int = 0
    """Conversations that are sorted by length together, so that a batch has less padding but is
    still mixed; 0: all of them."""
    lr: float = 2e-3
    """Peak rate of AdamW (embeddings, norms)."""
    matrix_lr: float = 0.008
    """Peak rate of Muon (hidden matrices)."""
    context_weight: float = 0.1
    """Weight of the loss on tokens that the oracle did not say."""
    smoothing: float = 0.02
    """Label smoothing on the oracle's tokens."""
    habit_tokens: int = 360_000
    """Tokens of the second part, whose agent has the habits below; 0: there is none."""
    habit_rate: float = 0.5
    """Share of both peak rates in the second part. It has no label smoothing: what stays uncertain
    is what is shown both ways."""
    habits: Habits = ORACLE
    """The oracle's make the ceiling: the policy that the second part left nothing open to."""

    def sized(self, hidden: int, layers: int) -> PretrainSettings:
        """The same pretraining for a larger model, in the proportions of Qwen3's small ones.

        Args:
            hidden: a multiple of 128; heads are 64 wide, two of them share keys.
            layers: at least 2.
        """
        heads = hidden // 64
        wide = hidden * 11 // 4
        return replace(
            self, hidden=hidden, layers=layers, heads=heads, kv_heads=heads // 2, ffn=wide
        )

    def second_part(self) -> PretrainSettings:
        """The same settings for the second part."""
        share = self.habit_rate
        return replace(
            self,
            tokens=self.habit_tokens,
            lr=share * self.lr,
            matrix_lr=share * self.matrix_lr,
            smoothing=0.0,
        )


SMALL = PretrainSettings(
    hidden=128,
    ffn=256,
    vocab=1024,
    context=2048,
    batch_tokens=2_048,
    window=256,
    lr=3e-3,
    matrix_lr=0.015,
    smoothing=0.0,
    habit_tokens=0,
)
"""Of the policies of 0.7 million parameters."""


def build_model(
    settings: PretrainSettings, tokenizer: PreTrainedTokenizerFast, seed: int
) -> Qwen3ForCausalLM:
    """A model of random weights with a copying circuit (`start.py`)."""
    torch.manual_seed(seed)
    config = Qwen3Config(
        vocab_size=math.ceil(len(tokenizer) / 64) * 64,
        hidden_size=settings.hidden,
        intermediate_size=settings.ffn,
        num_hidden_layers=settings.layers,
        num_attention_heads=settings.heads,
        num_key_value_heads=settings.kv_heads,
        head_dim=settings.hidden // settings.heads,
        max_position_embeddings=settings.context,
        rope_parameters={"rope_type": "default", "rope_theta": settings.rope_theta},
        tie_word_embeddings=True,
        bos_token_id=None,
        eos_token_id=_id(tokenizer, END),
        pad_token_id=_id(tokenizer, PAD),
    )
    model = Qwen3ForCausalLM(config)
    plant_induction(model, torch.Generator().manual_seed(seed))
    return model


def _id(tokenizer: PreTrainedTokenizerFast, token: str) -> int:
    found = tokenizer.convert_tokens_to_ids(token)
    assert isinstance(found, int)
    return found


def batches(
    conversations: Sequence[Conversation], batch_tokens: int, rng: random.Random, window: int = 0
) -> Iterator[list[Conversation]]:
    """Endless batches of similar length, in random order, each conversation once a pass."""
    while True:
        order = list(range(len(conversations)))
        if window:
            rng.shuffle(order)
        place = {index: rank // window if window else 0 for rank, index in enumerate(order)}
        order.sort(key=lambda i: (place[i], len(conversations[i].ids), i))
        passes: list[list[Conversation]] = []
        batch: list[Conversation] = []
        width = 0
        for index in order:
            row = conversations[index]
            width = max(width, len(row.ids))
            if batch and (len(batch) + 1) * width > batch_tokens:
                passes.append(batch)
                batch, width = [], len(row.ids)
            batch.append(row)
        passes.append(batch)
        rng.shuffle(passes)
        yield from passes


@cache
def fast_bfloat16() -> bool:
    """Whether this CPU multiplies matrices faster in bfloat16 than in float32, by measurement."""
    best: dict[torch.dtype, float] = {}
    for dtype in (torch.float32, torch.bfloat16) * 3:
        a, b = torch.ones(512, 256, dtype=dtype), torch.ones(256, 512, dtype=dtype)
        started = time.perf_counter()
        for _ in range(10):
            torch.mm(a, b)
        best[dtype] = min(best.get(dtype, math.inf), time.perf_counter() - started)
    return best[torch.bfloat16] < 0.7 * best[torch.float32]


def collate(batch: Sequence[Conversation], pad: int, weight: float) -> tuple[torch.Tensor, ...]:
    """Right-padded ids (B, T), weights of the next token's loss (B, T-1), oracle mask (B, T-1)."""
    width = max(len(row.ids) for row in batch)
    ids = torch.full((len(batch), width), pad)
    weights = torch.zeros(len(batch), width)
    for i, row in enumerate(batch):
        ids[i, : len(row.ids)] = torch.tensor(row.ids)
        mask = torch.tensor(row.mask, dtype=torch.float32)
        weights[i, : len(row.ids)] = mask + (1 - mask) * weight
    return ids, weights[:, 1:]


class Teacher:
    """Holds model, optimizers and schedule; `step` makes one update."""

    def __init__(self, model: Qwen3ForCausalLM, settings: PretrainSettings) -> None:
        self.model, self.settings = model, settings
        half = model.device.type == "cuda" or fast_bfloat16()
        self.dtype = torch.bfloat16 if half else torch.float32
        matrices = [p for p in model.model.layers.parameters() if p.ndim == 2]
        known = {id(p) for p in matrices}
        others = [p for p in model.parameters() if id(p) not in known]
        self.optimizers: list[torch.optim.Optimizer] = [
            Muon(matrices, lr=settings.matrix_lr, dtype=self.dtype),
            torch.optim.AdamW(others, lr=settings.lr, betas=(0.9, 0.95), weight_decay=0.0),
        ]
        self.peaks = [settings.matrix_lr, settings.lr]
        self.seen = 0

    def rate(self) -> float:
        """Share of the peak rate: linear warm-up over 2 %, flat, linear decay over 40 %."""
        done = self.seen / self.settings.tokens
        return min(1.0, 0.02 + done / 0.02, max(0.02, (1 - done) / 0.4))

    def step(self, batch: Sequence[Conversation]) -> dict[str, float]:
        """One update; returns loss on the oracle's tokens (nats) and share of them predicted."""
        pad = int(self.model.config.pad_token_id or 0)
        device = self.model.device
        ids, weights = (
            part.to(device) for part in collate(batch, pad, self.settings.context_weight)
        )
        keep = weights > 0
        with torch.autocast(device.type, self.dtype, enabled=self.dtype == torch.bfloat16):
            hidden = self.model.model(input_ids=ids).last_hidden_state[:, :-1]
            logits = self.model.lm_head(hidden[keep])
        targets, weight = ids[:, 1:][keep], weights[keep]
        oracle = weight == 1
        surprise = -log_softmax(logits.float(), dim=-1)
        plain = surprise.gather(1, targets[:, None])[:, 0]
        share = self.settings.smoothing
        smooth = (1 - share) * plain + share * surprise.mean(-1) if share else plain
        loss = (torch.where(oracle, smooth, plain) * weight).sum() / weight.sum()
        loss.backward()
        torch.nn.utils.clip_grad_norm_(self.model.parameters(), 1.0)
        for optimizer, peak in zip(self.optimizers, self.peaks, strict=True):
            for group in optimizer.param_groups:
                group["lr"] = peak * self.rate()
            optimizer.step()
            optimizer.zero_grad(set_to_none=True)
        self.seen += int((ids != pad).sum())
        hits = (logits.argmax(-1) == targets)[oracle].float().mean()
        return {
            "loss": float(plain.detach()[oracle].mean()),
            "accuracy": float(hits),
            "tokens": self.seen,
        }


def teach(
    model: Qwen3ForCausalLM,
    conversations: Sequence[Conversation],
    settings: PretrainSettings,
    seed: int,
    report: Report,
) -> dict[str, Any]:
    """Train until `settings.tokens` are seen; returns figures for the card."""
    torch.manual_seed(seed)
    teacher = Teacher(model, settings)
    started, steps, recent = time.monotonic(), 0, [0.0]
    model.train()
    rng = random.Random(seed)
    for batch in batches(conversations, settings.batch_tokens, rng, settings.window):
        figures = teacher.step(batch)
        steps += 1
        recent = [*recent[-49:], figures["loss"]] if steps > 1 else [figures["loss"]]
        report({**figures, "step": steps, "seconds": time.monotonic() - started})
        if teacher.seen >= settings.tokens:
            break
    return {
        "steps": steps,
        "tokens": teacher.seen,
        "conversations": len(conversations),
        "passes": round(teacher.seen / sum(len(c.ids) for c in conversations), 2),
        "loss": round(sum(recent) / len(recent), 4),
        "seconds": round(time.monotonic() - started),
    }


def save_policy(
    folder: Path,
    model: Qwen3ForCausalLM,
    tokenizer: PreTrainedTokenizerFast,
    card: dict[str, Any],
    settings: PretrainSettings,
) -> None:
    """Weights as fp16 safetensors, tokenizer, and `card.json`."""
    folder.mkdir(parents=True, exist_ok=True)
    model.half().save_pretrained(folder)
    model.float()
    tokenizer.save_pretrained(folder)
    card = {**card, "parameters": model.num_parameters(), "settings": asdict(settings)}
    (folder / "card.json").write_text(json.dumps(card, indent=2) + "\n", encoding="utf-8")


def measure(
    model: Qwen3ForCausalLM, conversations: Sequence[Conversation], batch_tokens: int
) -> dict[str, float]:
    """Loss (nats) and share of the oracle's tokens predicted, given the true history."""
    loss = hits = count = 0.0
    model.eval()
    ordered = sorted(conversations, key=lambda c: len(c.ids))
    size = max(1, batch_tokens // len(ordered[-1].ids))
    with torch.inference_mode():
        for start in range(0, len(ordered), size):
            batch = collate(ordered[start : start + size], 0, 0.0)
            ids, weights = (part.to(model.device) for part in batch)
            keep = weights > 0
            hidden = model.model(input_ids=ids).last_hidden_state[:, :-1][keep]
            logits, targets = model.lm_head(hidden), ids[:, 1:][keep]
            loss += float(cross_entropy(logits, targets, reduction="sum"))
            hits += float((logits.argmax(-1) == targets).sum())
            count += len(targets)
    return {"loss": round(loss / count, 4), "accuracy": round(hits / count, 4)}
