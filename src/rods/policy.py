"""Policies: token ids in, token ids out.

A `Policy` opens one `Session` for a trajectory. A session is fed the tokens that are new since its
last generation and returns what the policy sampled; it may keep a cache over turns. Sampling noise
is a function of the session's seed and the position alone, so it does not depend on what else runs.

    session = policy.open(seed=7)
    completion = await session.generate(prompt_ids, max_tokens=64, temperature=1.0)
    completion = await session.generate(tool_result_ids, max_tokens=64, temperature=1.0)
    session.close()
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Protocol

from rods.types import FinishReason


@dataclass(frozen=True, slots=True)
class Completion:
    """One generation."""

    ids: tuple[int, ...]
    """Sampled ids, the end-of-turn id included when `finish` is `STOP`."""
    logprobs: tuple[float, ...]
    """Natural log-probability of each id under the sampling distribution (after temperature)."""
    finish: FinishReason


class Session(Protocol):
    """The policy's side of one trajectory."""

    async def generate(
        self, new_ids: Sequence[int], max_tokens: int, temperature: float
    ) -> Completion:
        """Append `new_ids` to the context, then sample until the end-of-turn token or the limit.

        Args:
            new_ids: at least one token id that follows everything sampled so far.
            max_tokens: limit of this generation, at least 1.
            temperature: 0 is greedy; otherwise logits are divided by it.

        Raises:
            PolicyError: the context is full, or the engine failed.
        """
        ...

    def close(self) -> None:
        """Free the cache. May be called more than once."""
        ...


class Policy(Protocol):
    """A source of completions for one set of weights at a time."""

    version: int
    """Number of updates that the weights have seen; 0 at the start of training."""

    def open(self, seed: int, shared_prompt: Sequence[int] = ()) -> Session:
        """A session of its own.

        Args:
            seed: makes the sampling noise; equal seeds and contexts give equal samples.
            shared_prompt: first tokens that other sessions of the same group start with too; a hint
                that lets an engine prefill them once. They must still be passed to `generate`.
        """
        ...
