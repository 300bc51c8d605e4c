"""Policies: token ids in, token ids out.

A `Policy` opens one `Session` for a trajectory. A session is fed the tokens that are new since its
last generation and returns what the policy sampled; it may keep a cache over turns. Sampling noise
is a function of the session's seed and the position alone, so it does not depend on what else runs.

    session = policy.open(seed=7)
    completion = await session.generate(prompt_ids, max_tokens=64, temperature=1.0)
    completion = await session.generate(tool_result_ids, max_tokens=64, temperature=1.0)
    session.close()

An `Engine` is a policy that a trainer drives: it takes over weights between updates.

    await engine.start()
    await engine.sync(trainer.weights(), version=3)
    await engine.close()
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal, Protocol

from rods.errors import PolicyError
from rods.stops import Decode, Stops
from rods.types import FinishReason


def episode_seed(run_seed: int, task_id: str, member: int, policy_version: int) -> int:
    """Seed of one trajectory's sampling noise, from 0 to 2**63 - 1; equal on every machine."""
    text = f"{run_seed}/{task_id}/{member}/{policy_version}"
    digest = hashlib.blake2b(text.encode(), digest_size=8).digest()
    return int.from_bytes(digest, "big") >> 1


@dataclass(frozen=True, slots=True)
class Completion:
    """One generation."""

    ids: tuple[int, ...]
    """Sampled ids, the end-of-turn id included when `finish` is `STOP`."""
    logprobs: tuple[float, ...]
    """Natural log-probability of each id under the sampling distribution (after temperature)."""
    finish: FinishReason
    version: int
    """Policy version that sampled the first id; new weights may have sampled later ones."""


def joined(parts: Sequence[Completion]) -> Completion:
    """One generation of the parts in which it came, because it was broken off; at least one."""
    if len(parts) == 1:
        return parts[0]
    return Completion(
        tuple(i for part in parts for i in part.ids),
        tuple(p for part in parts for p in part.logprobs),
        parts[-1].finish,
        parts[0].version,
    )


class Session(Protocol):
    """The policy's side of one trajectory."""

    async def generate(
        self,
        new_ids: Sequence[int],
        max_tokens: int,
        temperature: float,
        stops: Sequence[str] = (),
        top_p: float = 1.0,
    ) -> Completion:
        """Append `new_ids` to the context, then sample until the end-of-turn token or the limit.

        Args:
            new_ids: token ids that follow everything sampled so far: at least one, except after
                `STOP_STRING` and `ABORT`, when none means to go on writing.
            max_tokens: limit of this generation, at least 1.
            temperature: 0 is greedy; otherwise logits are divided by it.
            stops: the generation also ends as soon as its own text holds one of these; the token
                that completes it is kept whole.
            top_p: sample among the most probable tokens that together have this probability; the
                log-probabilities stay those of the whole distribution.

        Raises:
            PolicyError: the context is full, or the engine failed.
        """
        ...

    def close(self) -> None:
        """Free the cache. May be called more than once."""


class Policy(Protocol):
    """A source of completions for one set of weights at a time."""

    @property
    def version(self) -> int:
        """Number of updates that the weights have seen; 0 at the start of training."""
        ...

    def open(self, seed: int, shared_prompt: Sequence[int] = ()) -> Session:
        """A session of its own.

        Args:
            seed: makes the sampling noise; equal seeds and contexts give equal samples.
            shared_prompt: first tokens that other sessions of the same group start with too; a hint
                that lets an engine prefill them once. They must still be passed to `generate`.
        """
        ...


@dataclass(frozen=True, slots=True)
class Capabilities:
    """Capabilities that an engine declares."""

    weights: Literal["shared", "handed", "fixed"]
    """`shared`: it computes with the trainer's own model. `handed`: `sync` brings it copies.
    `fixed`: they never change, so it serves evaluation alone."""
    beside_updates: bool = False
    """True if it may generate while the trainer changes its model: it has a copy of the weights."""
    top_p: bool = True
    """True if log-probabilities are those of the whole distribution under `top_p`."""


class Weights(Protocol):
    """A policy's weights as a trainer hands them over; to be read only while `sync` runs."""

    @property
    def adapters(self) -> bool:
        """True if LoRA adapters are trained; then `save` writes only them."""
        ...

    def tensors(self) -> Iterator[tuple[str, Any]]:
        """Name and tensor of each weight, as transformers names and shapes them.

        One at a time, on the trainer's device, with LoRA adapters added in.
        """
        ...

    def save(self, folder: Path) -> None:
        """Write them as `save_pretrained` does: the whole model, or its adapters alone."""


class Engine(Policy, Protocol):
    """A policy that a trainer drives. Derive from it: all but the first four members have defaults.

    All its coroutines run on one event loop, that of the whole run.
    """

    capabilities: Capabilities

    async def sync(self, weights: Weights, version: int) -> None:
        """Sample from these weights from now on, and call them by this version.

        Generations in flight go on under the new weights, or end with `ABORT`; sessions stay open.

        Raises:
            PolicyError: the weights cannot be handed over.
        """

    async def start(self) -> None:
        """Become ready; called once before anything else.

        Raises:
            PolicyError: it cannot do what is asked of it; the message says what is missing.
        """
        return

    async def sleep(self) -> None:
        """Give back memory that only sampling needs; nothing is in flight."""
        return

    async def wake(self) -> None:
        """Take it again; `sync` or a generation follows."""
        return

    async def close(self) -> None:
        """End what it keeps running. May be called more than once."""
        return


class ScriptedPolicy(Engine):
    """Generates given token ids, for tests and dry runs; it never looks at the context itself.

    policy = ScriptedPolicy([[5, 6, 2], [7, 2]])      # the same script for every session
    policy = ScriptedPolicy(lambda seed, turn: scripts[seed][turn])
    """

    def __init__(
        self,
        script: Sequence[Sequence[int]] | Callable[[int, int], Sequence[int]],
        logprob: float = -1.0,
        decode: Decode | None = None,
    ) -> None:
        """Make the policy.

        Args:
            script: the ids of each generation in order, or a function of the session's seed and the
                0-based number of the generation.
            logprob: what it reports for every id, at most 0.
            decode: text of ids, needed where stop strings are asked for. What stands in the script
                after a stop string belongs to the next generation.
        """
        self.capabilities = Capabilities("shared", beside_updates=True)
        self._version = 0
        self.script, self.logprob = script, logprob
        self.stops = Stops(decode)

    @property
    def version(self) -> int:
        """Version of the last `sync`."""
        return self._version

    async def sync(self, weights: Weights, version: int) -> None:
        """Count the version; a script has no weights."""
        self._version = version

    def open(self, seed: int, shared_prompt: Sequence[int] = ()) -> Session:
        """A session that starts at the beginning of the script."""
        return _ScriptedSession(self, seed)


class _ScriptedSession:
    def __init__(self, policy: ScriptedPolicy, seed: int) -> None:
        self._policy, self._seed = policy, seed
        self._generated = 0
        self._rest: Sequence[int] = ()
        self._stopped = False
        self._closed = False

    async def generate(
        self,
        new_ids: Sequence[int],
        max_tokens: int,
        temperature: float,
        stops: Sequence[str] = (),
        top_p: float = 1.0,
    ) -> Completion:
        """The next part of the script, cut at a stop string or `max_tokens`, or whole (`STOP`)."""
        if self._closed or not (new_ids or self._stopped) or max_tokens < 1:
            raise PolicyError(
                f"generation {self._generated} of the scripted session with seed {self._seed}: got "
                f"closed={self._closed}, {len(new_ids)} new ids, max_tokens={max_tokens}; expected "
                "an open session, at least one new id (or a stop string before) and max_tokens "
                "of at least 1."
            )
        ids, self._rest = tuple(self._rest or self._next()), ()
        finish = FinishReason.STOP if len(ids) <= max_tokens else FinishReason.LENGTH
        end = self._stop_end(ids[:max_tokens], stops)
        if end:
            finish, self._rest = FinishReason.STOP_STRING, ids[end:]
        self._stopped = bool(end)
        ids = ids[: end or max_tokens]
        return Completion(ids, (self._policy.logprob,) * len(ids), finish, self._policy.version)

    def close(self) -> None:
        self._closed = True

    def _stop_end(self, ids: Sequence[int], stops: Sequence[str]) -> int:
        """Return the number of ids up to the first stop string; 0: there is none."""
        wanted = self._policy.stops.of(stops)
        if wanted is None:
            return 0
        ends = range(1, len(ids) + 1)
        return next((end for end in ends if wanted.completed_by(ids[:end])), 0)

    def _next(self) -> Sequence[int]:
        script, number = self._policy.script, self._generated
        self._generated += 1
        if callable(script):
            return script(self._seed, number)
        if number >= len(script):
            raise PolicyError(
                f"the script has {len(script)} generations and the session with seed "
                f"{self._seed} asked for one more; give it a longer script."
            )
        return script[number]
