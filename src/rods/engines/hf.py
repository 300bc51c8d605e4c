"""The embedded engine: sessions of a transformers model in this process.

It batches whatever sessions are ready, keeps their caches over turns and computes the prompt of a
group once. It picks the fast path (`kv.py`) or transformers' own cache (`fallback.py`) and says
which. It computes with the trainer's own model and never changes it; `sync` reads it again.

    policy = HFPolicy(model, template.stop_ids, rows=64, max_context=1024)
    session = policy.open(seed=7, shared_prompt=prompt_ids)
    completion = await session.generate(prompt_ids, max_tokens=64, temperature=1.0)
    session.close()
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Iterable, Sequence
from typing import Any

import torch
from torch import nn

from rods.engines.attention import without_cudnn
from rods.engines.fallback import general_cache
from rods.engines.kv import RowCache
from rods.engines.options import EngineOptions
from rods.engines.sampling import Noise
from rods.engines.scheduler import Sampling, Scheduler
from rods.engines.storage import Backend
from rods.engines.weights import base_of, unsupported
from rods.errors import PolicyError
from rods.infra.host import give_back
from rods.policy import Capabilities, Completion, Engine, Weights
from rods.stops import Decode, Stops
from rods.types import FinishReason

_log = logging.getLogger(__name__)


class HFPolicy(Engine):
    """A causal language model of transformers as a `Policy`."""

    def __init__(
        self,
        model: nn.Module,
        stop: Iterable[int],
        rows: int,
        max_context: int,
        device: str | torch.device = "cpu",
        dtype: torch.dtype = torch.float32,
        threads: int | None = None,
        fast: bool = True,
        cache_bytes: int | None = None,
        share: bool = False,
        decode: Decode | None = None,
    ) -> None:
        """Copy the weights and make room for the caches.

        Args:
            model: any causal language model of transformers, with or without LoRA adapters.
            stop: ids that end a generation; empty: only the token limit does.
            rows: contexts that are cached at once; further sessions wait for a row.
            max_context: most tokens of one context, prompt and samples together.
            device, dtype: where the fast path computes, and its numbers.
            threads: torch's threads, set for the whole process; None leaves them.
            fast: False never takes the fast path.
            cache_bytes: what keys and values may take. The cache grows by need; where this does not
                suffice fewer rows are in use at once. None: rows x (max_context + 1) x layers x kv
                heads x head dim x 2 numbers.
            share: compute with the model's own weights where device and dtype are its own (a small
                model on a CPU keeps a packed copy all the same). Nothing may update them while
                something is generated.
            decode: text of ids, `ChatTemplate.raw_decode`; needed where stop strings are asked for.

        Raises:
            PolicyError: rows or max_context below 1, or the model cannot keep a cache.
        """
        if rows < 1 or max_context < 2:
            raise PolicyError(
                f"HFPolicy got rows={rows} and max_context={max_context}; expected at least 1 row "
                "and a context of at least 2 tokens."
            )
        if threads is not None:
            torch.set_num_threads(threads)
        self.max_context = max_context
        embedding: Any = base_of(model).get_input_embeddings()
        self.vocabulary = int(embedding.weight.shape[0])
        self._device = torch.device(device)
        without_cudnn(self._device)
        reason = unsupported(model) if fast else "the caller asked for it"
        self._backend: Backend
        if reason is None:
            options = (self._device, dtype, cache_bytes, share)
            self._backend = RowCache(model, rows, max_context, *options)
        else:
            self._backend = general = general_cache(model, rows, max_context, cache_bytes)
            if fast:
                kind, cost = type(base_of(model)).__name__, general.cost
                _log.warning("%s runs by transformers' own code (%s): %s.", kind, reason, cost)
        self.capabilities = Capabilities("shared", beside_updates=self._backend.copied)
        self.scheduler = Scheduler(self._backend, stop, join_at=max(8, rows // 16))
        self.stops = Stops(decode)

    @property
    def version(self) -> int:
        """Version of the last `sync`."""
        return self.scheduler.version

    @property
    def engine_name(self) -> str:
        """`kv` (fast path) or `transformers` (its own cache)."""
        return self._backend.name

    def open(self, seed: int, shared_prompt: Sequence[int] = ()) -> HFSession:
        """A session; `shared_prompt` is computed once for all sessions that name the same one."""
        return HFSession(self, seed, shared_prompt)

    async def sync(self, weights: Weights, version: int) -> None:
        """Take over the model's current weights, which need not be handed over."""
        self.reload(version)

    def reload(self, version: int) -> None:
        """Read the model's weights again.

        Sessions that are open go on; their contexts are computed again under the new weights.
        """
        self.scheduler.sync(version)

    async def sleep(self) -> None:
        """Free the cache for an update: its contexts have to be computed again after that."""
        self.scheduler.sleep()
        give_back()


class HFSession:
    """One trajectory's context."""

    def __init__(self, policy: HFPolicy, seed: int, shared_prompt: Sequence[int]) -> None:
        self._policy, self._seed, self._state = policy, seed, "open"
        self._scheduler = policy.scheduler
        self._goes_on = False
        """True if the next generation needs no new ids: the last one ended before it was done."""
        self._context = self._scheduler.open(Noise(seed), shared_prompt)

    async def generate(
        self,
        new_ids: Sequence[int],
        max_tokens: int,
        temperature: float,
        stops: Sequence[str] = (),
        top_p: float = 1.0,
    ) -> Completion:
        """Append `new_ids` and sample; see `rods.policy.Session.generate`.

        At temperature 0 the log-probabilities are those at temperature 1. A generation that is cut
        by the end of the context finishes with `LENGTH`.
        """
        self._check(new_ids, max_tokens, temperature)
        wanted = self._policy.stops.of(stops)
        self._context.ids.extend(new_ids)
        most = min(max_tokens, self._policy.max_context - len(self._context.ids))
        self._state = "generating"
        request = Sampling(self._context, most, temperature, wanted, top_p)
        self._scheduler.submit(request)
        try:
            completion = await request.future
        except (asyncio.CancelledError, PolicyError):
            self._scheduler.cancel(request)
            if self._state == "generating":
                self._state = "broken by a cancelled or failed generation"
            raise
        self._state = "open"
        self._goes_on = completion.finish is FinishReason.STOP_STRING
        return completion

    def close(self) -> None:
        """Free the row; a generation in flight is cancelled."""
        self._state = "closed"
        self._scheduler.close(self._context)

    def _check(self, new_ids: Sequence[int], max_tokens: int, temperature: float) -> None:
        where = f"session with seed {self._seed}, {len(self._context.ids)} tokens of context"
        vocabulary = self._policy.vocabulary
        if self._state != "open":
            raise PolicyError(f"{where}: it is {self._state}; open a new session.")
        if not (new_ids or self._goes_on) or max_tokens < 1 or not temperature >= 0:
            raise PolicyError(
                f"{where}: got {len(new_ids)} new ids, max_tokens={max_tokens}, "
                f"temperature={temperature}; expected at least one id, at least one token and a "
                "temperature of at least 0."
            )
        if new_ids and (min(new_ids) < 0 or max(new_ids) >= vocabulary):
            raise PolicyError(
                f"{where}: new ids lie in {min(new_ids)}..{max(new_ids)}, the model knows "
                f"0..{vocabulary - 1}; model and tokenizer do not belong together."
            )
        if len(self._context.ids) + len(new_ids) >= self._policy.max_context:
            raise PolicyError(
                f"{where}: {len(new_ids)} new ids leave no room for a sampled token in a context "
                f"of {self._policy.max_context}; raise the context budget, or shorten tool results."
            )


def make_hf(options: EngineOptions) -> HFPolicy:
    """The engine of `engine.name = "hf"`, with as many rows as a step has trajectories."""
    rollout = options.config.rollout
    return HFPolicy(
        options.model,
        options.template.stop_ids,
        rows=rollout.in_flight,
        max_context=rollout.context_tokens,
        cache_bytes=options.cache,
        share=options.share,
        device=options.device,
        dtype=torch.bfloat16 if options.half else torch.float32,
        decode=options.template.raw_decode,
    )


def generation_stops(model: nn.Module) -> tuple[int, ...]:
    """Ids that end a generation by the model's generation config.

    It names more than the chat template shows: Llama's `<|eom_id|>`, Qwen's `<|endoftext|>`.
    """
    return ends_of(getattr(base_of(model), "generation_config", None))


def ends_of(generation: object) -> tuple[int, ...]:
    """Ids that end a generation by a generation config, which may name none, one or several."""
    named: Any = getattr(generation, "eos_token_id", None)
    return tuple(int(i) for i in (named if isinstance(named, list) else [named]) if i is not None)
