"""Continuous batching: which generations wait, which join the batch, when a token is made.

Cooperative and deterministic: one coroutine drives the backend and yields to the event loop between
steps, so that an episode whose generation ended runs its tools and comes back to the running batch.
It lives only while something is to be generated. It knows no architecture.

    scheduler = Scheduler(backend, stop_ids={2})
    context = scheduler.open(Noise(7), shared_prompt)
    context.ids.extend(new_ids)
    scheduler.submit(request := Sampling(context, limit=64, temperature=1.0))
    completion = await request.future
"""

from __future__ import annotations

import asyncio
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field

from torch import Tensor

from rods.engines.rows import Context, Rows
from rods.engines.sampling import Noise, draw
from rods.engines.storage import Backend
from rods.engines.threads import DECODE, use_threads
from rods.errors import PolicyError
from rods.policy import Completion
from rods.stops import StopStrings
from rods.types import FinishReason

_PREFILL_TOKENS = 8192
"""Most tokens of one packed prefill (a single longer chunk still goes whole)."""


@dataclass(eq=False, slots=True)
class Sampling:
    """One generation."""

    context: Context
    limit: int
    temperature: float
    stops: StopStrings | None = None
    top_p: float = 1.0
    future: asyncio.Future[Completion] = field(
        default_factory=lambda: asyncio.get_running_loop().create_future()
    )
    ids: list[int] = field(default_factory=list[int])
    logprobs: list[float] = field(default_factory=list[float])
    version: int = 0
    """Policy version that sampled its first token."""
    age: int = 0
    """Decode steps for which it has waited."""


class Scheduler:
    """Waiting and running generations of one backend."""

    def __init__(
        self, backend: Backend, stop_ids: Iterable[int], join_at: int = 8, patience: int = 4
    ) -> None:
        """Make it.

        Waiting requests interrupt the running batch at once if they are `join_at`, and fewer after
        `patience` decode steps.
        """
        self.version = 0
        """Policy version of the weights."""
        self._backend = backend
        self._rows = Rows(backend)
        self._stop = frozenset(stop_ids)
        self._join_at, self._patience = join_at, patience
        self._contexts: set[Context] = set()
        self._waiting: list[Sampling] = []
        self._joining: list[Sampling] = []  # out of the queue, not yet in the batch
        self._running: list[Sampling] = []
        self._driver: asyncio.Task[None] | None = None
        self._unfinished = False
        """True if a driver began and did not end as it should."""
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
        self._rows.release(context)
        if not self._contexts:
            self._rows.forget()

    def submit(self, request: Sampling) -> None:
        """Queue a generation and make sure that somebody drives the backend."""
        self._waiting.append(request)
        if self._driver is None or self._driver.done():
            self._driver = asyncio.get_running_loop().create_task(self._drive())
            self._driver.add_done_callback(self._stopped)

    def cancel(self, request: Sampling) -> None:
        """Take a generation out of the queue or the batch."""
        request.future.cancel()
        self._prune()

    def sync(self, version: int) -> None:
        """Read the weights again; contexts of open sessions are computed again when next used."""
        self.version = version
        self._requeue()
        self._backend.sync()

    def sleep(self) -> None:
        """Give the cache's memory back; contexts are computed again when next used."""
        self._requeue()
        self._backend.release()

    def _requeue(self) -> None:
        """Forget what rows hold; what runs waits again."""
        self._rows.forget()
        self._waiting[:0] = self._running
        self._running.clear()

    def _stopped(self, driver: asyncio.Task[None]) -> None:
        """The driver ended: normally nothing is left; otherwise say so to all that wait."""
        error = None if driver.cancelled() else driver.exception()
        if driver is not self._driver:
            return  # a request came in between, and its driver took the queues over
        left = [*self._waiting, *self._joining, *self._running]
        self._waiting, self._joining, self._running = [], [], []
        for request in left:
            if error is not None and not request.future.done():
                failure = PolicyError(
                    f"the engine stopped while {len(left)} sessions were generating: "
                    f"{type(error).__name__}: {error}. Their trajectories are invalid; with a "
                    "memory error use fewer rows or a shorter context."
                )
                failure.__cause__ = error
                request.future.set_exception(failure)
            request.future.cancel()  # does nothing where it is done

    async def _drive(self) -> None:
        self._waiting[:0], self._joining = self._joining, []  # of a driver that failed
        if self._unfinished:  # a cache that could not grow may have longer keys than values
            self.sleep()
        self._unfinished = True
        while self._waiting or self._running:
            await self._gather()
            use_threads(DECODE)
            self._prune()
            self._pass += 1
            if self._should_join():
                self._join()
            if self._running:
                self._step()
        self._unfinished = False

    async def _gather(self) -> None:
        """Let episodes run; with an idle batch, until no more of them ask for a generation."""
        await asyncio.sleep(0)
        quiet = 0
        while not self._running and quiet < 3 and self._ready() < len(self._rows):
            before = len(self._waiting)
            await asyncio.sleep(0)
            quiet = quiet + 1 if len(self._waiting) == before else 0

    def _prune(self) -> None:
        """Drop requests that were cancelled; their tasks may not have run since."""
        self._waiting = [r for r in self._waiting if not r.future.done()]
        self._running = [r for r in self._running if not r.future.done()]

    def _ready(self) -> int:
        """Waiting requests whose session has a row."""
        return sum(r.context.row is not None for r in self._waiting)

    def _should_join(self) -> bool:
        able = min(len(self._waiting), self._ready() + self._rows.free)
        if not self._running or able >= self._join_at:
            return bool(self._waiting)
        for request in self._waiting:
            request.age += 1
        return bool(able) and self._waiting[0].age >= self._patience

    def _join(self) -> None:
        """Give rows to waiting requests, feed their new tokens, sample their first token."""
        self._make_room()
        ready = self._take_rows()
        if not ready and not self._running:
            self._rows.evict(len(self._waiting))
            ready = self._take_rows()
        waves = self._waves(ready)
        self._joining = [*waves[0], *waves[1]]
        for wave in waves:
            for batch in self._cut(wave):
                self._fill(batch)

    def _take_rows(self) -> list[Sampling]:
        """Requests that have or get a row, in order; they leave the queue."""
        self._rows.assign([r.context for r in self._waiting if r.context.row is None])
        ready = [r for r in self._waiting if r.context.row is not None]
        self._waiting = [r for r in self._waiting if r.context.row is None]
        return ready

    def _waves(self, ready: Sequence[Sampling]) -> tuple[list[Sampling], list[Sampling]]:
        """Split off those that compute a prompt which others of their group then copy."""
        leaders: dict[tuple[int, ...], Sampling] = {}
        for request in ready:
            if self._rows.is_leader(request.context):
                leaders.setdefault(request.context.shared, request)
        first = list(leaders.values())
        return first, [request for request in ready if request not in first]

    def _cut(self, wave: Sequence[Sampling]) -> Iterator[list[Sampling]]:
        """Parts of a wave that feed at most `_PREFILL_TOKENS` tokens each."""
        part: list[Sampling] = []
        room = _PREFILL_TOKENS
        for request in wave:
            self._rows.copy_prompt(request.context)
            count = len(self._rows.missing(request.context))
            if part and count > room:
                yield part
                part, room = [], _PREFILL_TOKENS
            part.append(request)
            room -= count
        if part:
            yield part

    def _fill(self, batch: Sequence[Sampling]) -> None:
        chunks = [self._rows.missing(r.context) for r in batch]
        logits = self._backend.prefill(_rows_of(batch), chunks)
        for request in batch:
            self._rows.remember_prompt(request.context)
        self._running.extend(batch)
        del self._joining[: len(batch)]
        self._sample(batch, logits)

    def _step(self) -> None:
        """One token for every running request."""
        self._make_room()
        self._rows.compact(_rows_of(self._running), self._pass)
        batch = sorted(self._running, key=lambda r: r.context.row or 0)
        logits = self._backend.decode(_rows_of(batch), [r.context.ids[-1] for r in batch])
        self._sample(batch, logits)

    def _make_room(self) -> None:
        """Have only as many rows as memory allows with what comes next; the others wait again."""
        if self._rows.make_room():
            self._waiting[:0] = [r for r in self._running if r.context.row is None]
            self._running = [r for r in self._running if r.context.row is not None]

    def _sample(self, batch: Sequence[Sampling], logits: Tensor) -> None:
        contexts = [r.context for r in batch]
        ids, logprobs = draw(
            logits,
            [r.temperature for r in batch],
            [c.noise.at(len(c.ids)) for c in contexts],
            [r.top_p for r in batch],
        )
        for request, token, logprob in zip(batch, ids, logprobs, strict=True):
            request.context.used = self._pass
            self._accept(request, token, logprob)
        self._prune()

    def _accept(self, request: Sampling, token: int, logprob: float) -> None:
        context = request.context
        if logprob != logprob:
            words = f"the model gave NaN after {len(context.ids)} tokens of context; the weights "
            words += "are broken (look at the last update's gradient norm)."
            request.future.set_exception(PolicyError(words))
            return
        if not request.ids:
            request.version = self.version
        context.ids.append(token)
        request.ids.append(token)
        request.logprobs.append(logprob)
        if token in self._stop:
            finish = FinishReason.STOP
        elif request.stops is not None and request.stops.completed_by(request.ids):
            finish = FinishReason.STOP_STRING
        elif len(request.ids) >= request.limit:
            finish = FinishReason.LENGTH
        else:
            return
        ids, logprobs = tuple(request.ids), tuple(request.logprobs)
        request.future.set_result(Completion(ids, logprobs, finish, request.version))


def _rows_of(requests: Sequence[Sampling]) -> list[int]:
    return [r.context.row for r in requests if r.context.row is not None]
