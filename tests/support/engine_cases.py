"""Sessions of several turns on an embedded engine, beside a forward pass of the model."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from typing import Any, NamedTuple

import torch

from rods.engines.hf import HFPolicy
from tiny_models import VOCABULARY


class Played(NamedTuple):
    ids: list[int]
    positions: list[int]
    logprobs: list[float]


def text(seed: int, length: int) -> list[int]:
    return [(seed * 13 + i * i * 7 + i) % VOCABULARY for i in range(length)]


async def play(
    policy: HFPolicy, seed: int, prompt: Sequence[int], temperature: float = 1.0, turns: int = 3
) -> Played:
    session = policy.open(seed, prompt)
    played = Played([], [], [])
    new = list(prompt)
    for turn in range(turns):
        played.ids.extend(new)
        done = await session.generate(new, 3 + (seed * 5 + turn * 7) % 11, temperature)
        played.positions.extend(range(len(played.ids), len(played.ids) + len(done.ids)))
        played.ids.extend(done.ids)
        played.logprobs.extend(done.logprobs)
        await asyncio.sleep(0)
        new = text(seed + turn, 1 + (seed + turn) % 6)
    session.close()
    return played


def play_many(policy: HFPolicy, count: int, group: int = 4, temperature: float = 1.0):
    async def go() -> list[Played]:
        prompts = [text(i // group, 30) for i in range(count)]
        return await asyncio.gather(
            *(play(policy, i, prompts[i], temperature) for i in range(count))
        )

    return asyncio.run(go())


def worst_difference(model: Any, played: Sequence[Played], temperature: float = 1.0) -> float:
    worst = 0.0
    for p in played:
        with torch.no_grad():
            logits = model(torch.tensor([p.ids])).logits[0].float() / temperature
        fresh = logits.log_softmax(-1)
        for position, logprob in zip(p.positions, p.logprobs, strict=True):
            worst = max(worst, abs(float(fresh[position - 1, p.ids[position]]) - logprob))
    return worst
