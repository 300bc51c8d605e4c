"""Continuous batching: which sessions own rows, which are filled, which are decoded next.

Cooperative and deterministic: one coroutine drives the backend and yields to the event loop between
steps, so that an episode whose generation ended runs its tools and comes back to the running batch.
It owns rows and requests; it never looks inside the backend and never decides what to sample beyond
the sessions' noise.

    scheduler = Scheduler(backend, stop_ids={2}, max_context=1024)
    request = scheduler.submit(context, max_tokens=64, temperature=1.0)
    await request.future
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field

from torch import Tensor

from rods.engines.backend import Backend
from rods.engines.sampling import Noise, draw
from rods.errors import PolicyError
from rods.policy import Completion
from rods.types import FinishReason

_PREFILL_TOKENS = 8192
"""Most tokens of one packed prefill (a single longer chunk still goes whole)."""


@dataclass(slots=True)
class EngineStats:
    """What an engine did since it was made."""

    generated_tokens: int = 0
    prefill_tokens: int = 0
    forked_tokens: int = 0
    """Prompt tokens that were copied from another row of the group instead of computed."""
    prefill_passes: int = 0
    decode_steps: int = 0
    evictions: int = 0
    """Idle contexts that lost their row to a waiting session and were computed again."""
    moves: int = 0
    """Rows moved to keep the running batch dense."""
    prefill_seconds: float = 0.0
    decode_seconds: float = 0.0
    sample_seconds: float = 0.0


@dataclass(eq=False, slots=True)
class Context:
    """Everything the scheduler knows of one session."""

    noise: Noise
    shared: tuple[int, ...]
    """Prompt that other sessions of the group start with; empty: none."""
    ids: list[int] = field(default_factory=list[int])
    row: int | None = None
    used: int = 0
    """Number of the scheduler's pass that used it last."""


@dataclass(eq=False, slots=True)
class Request:
    """One generation."""

    context: Context
    limit: int
    temperature: float
    future: asyncio.Future[Completion]
    ids: list[int] = field(default_factory=list[int])
    logprobs: list[float] = field(default_factory=list[float])
    age: int = 0
    """Decode steps for which it has waited."""


class Scheduler:
    """Rows, waiting and running requests of one backend."""

    def __init__(
        self,
        backend: Backend,
        stop_ids: Iterable[int],
        join_at: int = 8,
        patience: int = 4,
    ) -> None:
        """Make it.

        Args:
            backend: the rows.
            stop_ids: ids that end a generation; may be empty.
            join_at: waiting requests that interrupt the running batch at once.
            patience: decode steps after which fewer may interrupt it too.
        """
        self.stats = EngineStats()
        self._backend = backend
        self._stop = frozenset(stop_ids)
        self._join_at, self._patience = join_at, patience
        self._owner: list[Context | None] = [None] * len(backend.lengths)
        self._donors: dict[tuple[int, ...], int] = {}
        self._contexts: set[Context] = set()
        self._waiting: list[Request] = []
        self._running: list[Request] = []
        self._driver: asyncio.Task[None] | None = None
        self._pass = 0

    def open(self, noise: Noise, shared: Sequence[int]) -> Context:
        """Register a session."""
        context = Context(noise, tuple(shared))
        self._contexts.add(context)
        return context

    def close(self, context: Context) -> None:
        """Free what a session holds; a generation in flight is cancelled."""
        if context not in self._contexts:
            return
        self._contexts.discard(context)
        for request in [r for r in (*self._waiting, *self._running) if r.context is context]:
            self.cancel(request)
        self._release(context)
        if not self._contexts:
            self._forget_rows()

    def submit(self, context: Context, limit: int, temperature: float) -> Request:
        """Queue a generation and make sure that somebody drives the backend."""
        loop = asyncio.get_running_loop()
        request = Request(context, limit, temperature, loop.create_future())
        self._waiting.append(request)
        if self._driver is None or self._driver.done():
            self._driver = loop.create_task(self._drive())
            self._driver.add_done_callback(self._stopped)
        return request

    def cancel(self, request: Request) -> None:
        """Take a generation out of the queue or the batch."""
        for queue in (self._waiting, self._running):
            if request in queue:
                queue.remove(request)
        request.future.cancel()

    def sync(self) -> None:
        """Read the weights again; contexts of open sessions are computed again when next used."""
        self._backend.sync()
        self._donors.clear()
        self._waiting[:0] = self._running
        self._running.clear()

    def _release(self, context: Context) -> None:
        if context.row is not None:
            self._owner[context.row] = None
            context.row = None

    def _forget_rows(self) -> None:
        """Start clean, so that what runs next does not depend on what ran before."""
        self._donors.clear()
        for row in range(len(self._owner)):
            self._backend.clear(row)

    def _stopped(self, driver: asyncio.Task[None]) -> None:
        """The driver ended: normally nothing is left; otherwise say so to whoever waits."""
        error = None if driver.cancelled() else driver.exception()
        left = [*self._waiting, *self._running]
        self._waiting.clear()
        self._running.clear()
        for request in left:
            if request.future.done():
                continue
            if error is None:
                request.future.cancel()
                continue
            failure = PolicyError(
                f"the engine stopped while {len(left)} sessions were generating: "
                f"{type(error).__name__}: {error}. Their trajectories are invalid; with a memory "
                "error use fewer rows or a shorter context."
            )
            failure.__cause__ = error
            request.future.set_exception(failure)

    async def _drive(self) -> None:
        while self._waiting or self._running:
            await self._gather()
            self._pass += 1
            if self._should_join():
                self._join()
            if self._running:
                self._step()

    async def _gather(self) -> None:
        """Let episodes run; with an idle batch, until no more of them ask for a generation."""
        await asyncio.sleep(0)
        quiet = 0
        while not self._running and quiet < 3 and len(self._waiting) < len(self._owner):
            before = len(self._waiting)
            await asyncio.sleep(0)
            quiet = quiet + 1 if len(self._waiting) == before else 0

    def _should_join(self) -> bool:
        ready = sum(r.context.row is not None for r in self._waiting)
        free = sum(owner is None for owner in self._owner)
        able = min(len(self._waiting), ready + free)
        if not self._running or able >= self._join_at:
            return bool(self._waiting)
        for request in self._waiting:
            request.age += 1
        return bool(able) and self._waiting[0].age >= self._patience

    def _join(self) -> None:
        """Give rows to waiting requests, feed their new tokens, sample their first token."""
        ready = self._take_rows()
        if not ready and not self._running:
            self._evict()
            ready = self._take_rows()
        leaders, others = self._split(ready)
        for wave in (leaders, others):
            for batch in _batches(wave, self._missing):
                self._fill(batch)

    def _take_rows(self) -> list[Request]:
        ready: list[Request] = []
        for request in self._waiting:
            if request.context.row is None:
                row = self._free_row()
                if row is None:
                    continue
                self._owner[row] = request.context
                self._drop(row)
                request.context.row = row
            ready.append(request)
        self._waiting = [r for r in self._waiting if r.context.row is None]
        return ready

    def _free_row(self) -> int | None:
        """The lowest free row, rather one whose prompt nobody needs any more."""
        wanted = {c.shared for c in self._contexts if c.row is None}
        needed = {row for key, row in self._donors.items() if key in wanted}
        free = [row for row, owner in enumerate(self._owner) if owner is None]
        return min(free, key=lambda row: (row in needed, row), default=None)

    def _drop(self, row: int) -> None:
        """Forget what a row holds."""
        self._backend.clear(row)
        for key in [key for key, donor in self._donors.items() if donor == row]:
            del self._donors[key]

    def _evict(self) -> None:
        """Take the row of the session that has been idle longest, for the first in the queue."""
        idle = [c for c in self._owner if c is not None]
        victim = min(idle, key=lambda c: (c.used, c.row))
        self._release(victim)
        self.stats.evictions += 1

    def _missing(self, request: Request) -> int:
        context = request.context
        assert context.row is not None
        return len(context.ids) - self._backend.lengths[context.row]

    def _split(self, ready: Sequence[Request]) -> tuple[list[Request], list[Request]]:
        """Those who compute a prompt that others of their group then copy, and the rest."""
        leaders: list[Request] = []
        others: list[Request] = []
        claimed: set[tuple[int, ...]] = set()
        for request in ready:
            context = request.context
            shared = context.shared
            fresh = context.row is not None and self._backend.lengths[context.row] == 0
            usable = len(shared) > 1 and tuple(context.ids[: len(shared)]) == shared
            if fresh and usable and shared not in claimed and shared not in self._donors:
                claimed.add(shared)
                leaders.append(request)
            else:
                others.append(request)
        return leaders, others

    def _fork(self, context: Context, row: int) -> None:
        """Copy the group's prompt into an empty row, if some row holds it."""
        source = self._donors.get(context.shared) if self._backend.lengths[row] == 0 else None
        if source is None or tuple(context.ids[: len(context.shared)]) != context.shared:
            return
        # The same length for all, and at least one token left to compute.
        length = len(context.shared) - 1
        if self._backend.fork(source, row, length):
            self.stats.forked_tokens += length

    def _fill(self, batch: Sequence[Request]) -> None:
        started = time.perf_counter()
        rows: list[int] = []
        chunks: list[list[int]] = []
        for request in batch:
            context = request.context
            assert context.row is not None
            self._fork(context, context.row)
            rows.append(context.row)
            chunks.append(context.ids[self._backend.lengths[context.row] :])
        logits = self._backend.prefill(rows, chunks)
        for request, row in zip(batch, rows, strict=True):
            context = request.context
            shared = context.shared
            if len(shared) > 1 and tuple(context.ids[: len(shared)]) == shared:
                self._donors.setdefault(shared, row)
        self.stats.prefill_passes += 1
        self.stats.prefill_tokens += sum(map(len, chunks))
        self.stats.prefill_seconds += time.perf_counter() - started
        self._running.extend(batch)
        self._sample(batch, logits)

    def _step(self) -> None:
        """One token for every running request."""
        started = time.perf_counter()
        self._compact()
        self._running.sort(key=lambda r: r.context.row or 0)
        batch = list(self._running)
        rows = [r.context.row for r in batch if r.context.row is not None]
        logits = self._backend.decode(rows, [r.context.ids[-1] for r in batch])
        self.stats.decode_steps += 1
        self.stats.decode_seconds += time.perf_counter() - started
        self._sample(batch, logits)

    def _compact(self) -> None:
        """Move running rows down when most rows below the highest of them are idle."""
        rows = sorted(r.context.row for r in self._running if r.context.row is not None)
        if rows[-1] + 1 < 2 * len(rows) + 8:
            return
        gaps = [row for row in range(len(rows)) if row not in set(rows)]
        for low, high in zip(gaps, reversed(rows), strict=False):
            self._backend.swap(low, high)
            self._owner[low], self._owner[high] = self._owner[high], self._owner[low]
            for row in (low, high):
                owner = self._owner[row]
                if owner is not None:
                    owner.row = row
            places = {low: high, high: low}
            self._donors = {key: places.get(row, row) for key, row in self._donors.items()}
            self.stats.moves += 1

    def _sample(self, batch: Sequence[Request], logits: Tensor) -> None:
        started = time.perf_counter()
        contexts = [r.context for r in batch]
        ids, logprobs = draw(
            logits, [r.temperature for r in batch], [c.noise.at(len(c.ids)) for c in contexts]
        )
        for request, token, logprob in zip(batch, ids, logprobs, strict=True):
            request.context.used = self._pass
            self._accept(request, token, logprob)
        self.stats.generated_tokens += len(batch)
        self.stats.sample_seconds += time.perf_counter() - started

    def _accept(self, request: Request, token: int, logprob: float) -> None:
        if logprob != logprob:
            self._running.remove(request)
            request.future.set_exception(
                PolicyError(
                    f"the model gave NaN after {len(request.context.ids)} tokens of context; the "
                    "weights are broken (look at the last update's gradient norm)."
                )
            )
            return
        request.context.ids.append(token)
        request.ids.append(token)
        request.logprobs.append(logprob)
        stopped = token in self._stop
        if stopped or len(request.ids) >= request.limit:
            self._running.remove(request)
            finish = FinishReason.STOP if stopped else FinishReason.LENGTH
            completion = Completion(tuple(request.ids), tuple(request.logprobs), finish)
            request.future.set_result(completion)


def _batches(requests: Sequence[Request], size: Callable[[Request], int]) -> list[list[Request]]:
    """Cut a wave so that each part feeds at most `_PREFILL_TOKENS` tokens."""
    batches: list[list[Request]] = []
    room = 0
    for request in requests:
        count = size(request)
        if not batches or count > room:
            batches.append([])
            room = _PREFILL_TOKENS
        batches[-1].append(request)
        room -= count
    return batches
