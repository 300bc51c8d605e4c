"""Tiny random models, hand-made groups and a bandit for tests of trainers."""

from dataclasses import replace

import numpy as np
import torch
from tokenizers import Tokenizer, models
from transformers import PreTrainedTokenizerFast, Qwen3Config, Qwen3ForCausalLM

from rods.config import ModelSettings, TrainSettings
from rods.reward import Score
from rods.task import Task, Turn
from rods.tokens import Span
from rods.trainers.local import LocalTrainer
from rods.trajectory import Group, Trajectory
from rods.types import StopReason

VOCABULARY = 32
CPU = ModelSettings(device="cpu", dtype="float32")


def make_model(seed=0, **changes):
    torch.manual_seed(seed)
    config = Qwen3Config(
        vocab_size=VOCABULARY, hidden_size=16, intermediate_size=32, num_hidden_layers=2,
        num_attention_heads=2, num_key_value_heads=1, head_dim=8, max_position_embeddings=256,
        tie_word_embeddings=True, initializer_range=0.3, **changes,
    )  # fmt: skip
    return Qwen3ForCausalLM(config).eval()


def make_tokenizer():
    words = {f"w{i}": i for i in range(VOCABULARY)}
    tokenizer = PreTrainedTokenizerFast(
        tokenizer_object=Tokenizer(models.WordLevel(words, unk_token="w0")), unk_token="w0"
    )
    tokenizer.chat_template = "{{ messages }}"
    return tokenizer


def make_groups(model, groups=2, k=4, seed=0, temperature=1.0, prompt=5):
    """Random trajectories whose log-probabilities are the model's own."""
    rng = np.random.default_rng(seed)
    made = []
    for index in range(groups):
        task = Task("none", "base", (Turn(f"task {seed} {index}"),), {})
        start = Span(tuple(rng.integers(1, VOCABULARY, prompt).tolist()), None)
        members = []
        for member in range(k):
            spans = [start]
            for _ in range(2):
                ids = tuple(rng.integers(1, VOCABULARY, int(rng.integers(1, 7))).tolist())
                spans += [Span(ids, (0.0,) * len(ids))]
                spans += [Span(tuple(rng.integers(1, VOCABULARY, 3).tolist()), None)]
            trajectory = Trajectory(
                task.id, member, 0, member, (), (), (), 1, tuple(spans), StopReason.DONE,
                temperature=temperature,
            )  # fmt: skip
            members.append(replace(trajectory, spans=with_logprobs(model, trajectory)))
        made.append(Group(task, members, 0))
    return made


def with_logprobs(model, trajectory):
    ids = torch.tensor([trajectory.ledger.ids])
    with torch.no_grad():
        logs = torch.log_softmax(model(input_ids=ids).logits[0] / trajectory.temperature, -1)
    spans, at = [], 0
    for span in trajectory.spans:
        if span.sampled:
            values = [logs[at + i - 1, t].item() for i, t in enumerate(span.ids)]
            span = Span(span.ids, tuple(values))
        spans.append(span)
        at += len(span.ids)
    return tuple(spans)


def make_scores(groups):
    return [[Score(float(i % 2)) for i in range(len(g.trajectories))] for g in groups]


def make_trainer(model, seed=0, model_settings=CPU, total_steps=10, longest=0, **changes):
    settings = train_settings(**{"lr": 1e-2, "kl": 0.0, "entropy": 0.0, **changes})
    return LocalTrainer(
        model, make_tokenizer(), settings, model_settings, total_steps, seed, longest
    )


def train_settings(**changes):
    """Settings of training by the last part of their keys, whichever section they stand in."""
    names = ("gae", "filtering", "local", "correction")
    sections = {s: getattr(TrainSettings(), s) for s in names}
    plain = {}
    for key, value in changes.items():
        homes = [s for s, section in sections.items() if key in type(section).model_fields]
        (plain.setdefault(homes[0], {}) if homes else plain)[key] = value
    return TrainSettings.model_validate(plain)


def weights(model):
    return {k: v.clone() for k, v in model.state_dict().items()}


def same(a, b):
    return a.keys() == b.keys() and all(torch.equal(a[k], b[k]) for k in a)


def play_bandit(trainer, updates, k=32, groups=1):
    """One sampled token after a prompt; token 7 pays 1, token 8 nothing. The mean rewards."""
    model, prompt = trainer.model, (1, 2, 3)
    generator = torch.Generator().manual_seed(0)
    task = Task("none", "base", (Turn("bandit"),), {})
    means, reports = [], []
    for _ in range(updates):
        with torch.no_grad():
            logs = torch.log_softmax(model(torch.tensor([prompt])).logits[0, -1], -1)
        arms = torch.log_softmax(logs[[7, 8]], -1)
        picks = torch.multinomial(arms.exp(), k * groups, True, generator=generator).tolist()
        members = [
            Trajectory(
                task.id, i, trainer.version, i, (), (), (), 1,
                (Span(prompt, None), Span((7 + p,), (logs[7 + p].item(),))), StopReason.DONE,
            )
            for i, p in enumerate(picks)
        ]  # fmt: skip
        values = [float(p == 0) for p in picks]
        means.append(sum(values) / len(values))
        parts = [slice(i * k, (i + 1) * k) for i in range(groups)]
        reports.append(
            trainer.update(
                [Group(task, members[part], trainer.version) for part in parts],
                [[Score(v) for v in values[part]] for part in parts],
            )
        )
    return means, reports
