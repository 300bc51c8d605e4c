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

_QUIET = 8
"""Passes without use after which an idle row may be moved out of the way."""
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

    @property
    def begins_shared(self) -> bool:
        """Whether it really starts with the shared prompt, and that is worth sharing."""
        count = len(self.shared)
        return count > 1 and tuple(self.ids[:count]) == self.shared


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
        self._donors: dict[tuple[int, ...], list[int]] = {}
        """Rows whose first tokens are a shared prompt, whether or not a session owns them."""
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
        if driver is not self._driver:
            return  # a request came in between, and its driver took the queues over
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
        while not self._running and quiet < 3 and self._ready() < len(self._owner):
            before = len(self._waiting)
            await asyncio.sleep(0)
            quiet = quiet + 1 if len(self._waiting) == before else 0

    def _ready(self) -> int:
        """Waiting requests whose session has a row."""
        return sum(r.context.row is not None for r in self._waiting)

    def _should_join(self) -> bool:
        free = sum(owner is None for owner in self._owner)
        able = min(len(self._waiting), self._ready() + free)
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
        """Give free rows to waiting requests in order; those that have one leave the queue."""
        homeless = [r.context for r in self._waiting if r.context.row is None]
        wanted = {context.shared for context in homeless}
        for context in homeless:
            row = self._pick_row(context, wanted)
            if row is None:
                break
            if not self._cut_to_prompt(context, row):
                self._drop(row)
            self._owner[row] = context
            context.row = row
        ready = [r for r in self._waiting if r.context.row is not None]
        self._waiting = [r for r in self._waiting if r.context.row is None]
        return ready

    def _pick_row(self, context: Context, wanted: set[tuple[int, ...]]) -> int | None:
        """The lowest free row that holds the context's prompt, or whose content nobody wants."""
        own = self._donors.get(context.shared, [])
        last = {rows[0] for key, rows in self._donors.items() if key in wanted and len(rows) == 1}
        free = [row for row, owner in enumerate(self._owner) if owner is None]
        return min(free, key=lambda row: (row not in own, row in last, row), default=None)

    def _cut_to_prompt(self, context: Context, row: int) -> bool:
        """Use a free row again whose first tokens are the prompt of the context's group."""
        if row not in self._donors.get(context.shared, []) or not context.begins_shared:
            return False
        length = len(context.shared) - 1
        if not self._backend.fork(row, row, length):
            return False
        self.stats.forked_tokens += length
        return True

    def _drop(self, row: int) -> None:
        """Forget what a row holds."""
        self._backend.clear(row)
        for rows in self._donors.values():
            if row in rows:
                rows.remove(row)

    def _evict(self) -> None:
        """Take rows from sessions that have been idle longest; nobody else could run now."""
        idle = sorted((c for c in self._owner if c is not None), key=lambda c: (c.used, c.row))
        count = max(1, min(len(self._waiting), len(idle) // 2))
        for context in idle[:count]:
            self._release(context)
        self.stats.evictions += count

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
            fresh = self._missing(request) == len(context.ids)
            known = context.shared in claimed or bool(self._donors.get(context.shared))
            if fresh and context.begins_shared and not known:
                claimed.add(context.shared)
                leaders.append(request)
            else:
                others.append(request)
        return leaders, others

    def _fork(self, context: Context, row: int) -> None:
        """Copy the group's prompt into an empty row, if some row holds it."""
        sources = self._donors.get(context.shared)
        if not sources or self._backend.lengths[row] or not context.begins_shared:
            return
        # The same length for all, and at least one token left to compute.
        length = len(context.shared) - 1
        if self._backend.fork(sources[0], row, length):
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
            if request.context.begins_shared:
                holders = self._donors.setdefault(request.context.shared, [])
                if row not in holders:
                    holders.append(row)
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
        """Move running rows down where rows below them are free or have been idle for a while."""
        running = {r.context.row for r in self._running if r.context.row is not None}
        top = max(running) + 1
        if top - len(running) < max(4, top // 8):
            return
        holes = [row for row in range(top) if row not in running and self._is_quiet(row)]
        if len(holes) < max(4, top // 8):
            return
        for low, high in zip(holes, sorted(running, reverse=True), strict=False):
            if high < low:
                break
            self._swap(low, high)

    def _is_quiet(self, row: int) -> bool:
        owner = self._owner[row]
        return owner is None or self._pass - owner.used > _QUIET

    def _swap(self, low: int, high: int) -> None:
        self._backend.swap(low, high)
        owners = self._owner
        owners[low], owners[high] = owners[high], owners[low]
        for row in (low, high):
            owner = owners[row]
            if owner is not None:
                owner.row = row
        places = {low: high, high: low}
        for rows in self._donors.values():
            rows[:] = [places.get(row, row) for row in rows]
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
