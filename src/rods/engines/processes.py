"""The embedded engine in several processes, one a core: `engine.name = "processes"`.

This side shares sessions out among the replicas (`replica.py`) and hands weights over. They talk in
frames over sockets: the length of the content in eight bytes, and the content, pickled, as both
ends are one program. A call names a method of the replica; its answer comes under the call's
number, in any order. None of it runs on a GPU.

Threads of one process wait for each other at every product, and a decode step has many short ones:
two processes of one thread each sample more than one process of two threads, and lose nothing
beside a busy neighbor. A session stays with its replica, and so do all that share its prompt while
there is room, so that a prompt is computed and kept once. Which generations share a batch depends
on the clock: last digits of log-probabilities may differ from run to run.

    engine = Processes(options, processes=2)
    await engine.start()
"""

from __future__ import annotations

import asyncio
import itertools
import logging
import os
import pickle
import signal
import socket
import sys
from asyncio import StreamReader, StreamWriter
from asyncio.subprocess import Process
from collections import Counter
from collections.abc import Sequence
from typing import Any, NamedTuple

from rods.config import RolloutSettings
from rods.engines.options import EngineOptions
from rods.engines.threads import most_threads
from rods.engines.weights import base_of
from rods.errors import PolicyError
from rods.policy import Capabilities, Completion, Engine, Weights

_LOG = logging.getLogger(__name__)

ROWS = 8
"""Trajectories in flight that are worth a process: fewer read the weights for little."""
_LENGTH = 8
"""Bytes of a frame that hold the length of its content."""
UNEVEN = 4
"""Sessions that a replica has more than another when one of them moves there at its next turn. It
costs the computing of its context, and ends the wait for the replica that has the longer tasks."""
GRACE = 5.0
"""Seconds that a replica may take to end."""
_WHY = "if it printed no error, it was killed, perhaps for memory (the kernel's log says so)"
_NUMBERS = itertools.count(1)
"""Numbers of sessions, which their generations have too, and of other calls."""


def processes_of(rollout: RolloutSettings) -> int:
    """Number of processes: one a core that may be used, and none without work."""
    return max(1, min(most_threads(), rollout.in_flight // ROWS))


class Call(NamedTuple):
    """A method of the replica, which answers under this number if the method has an answer."""

    number: int
    method: str
    args: tuple[Any, ...]


class Answer(NamedTuple):
    """Result of a call, or the reason why it has none."""

    number: int
    result: Any = None
    fault: str | None = None


def frame(message: Call | Answer) -> bytes:
    """A message as bytes."""
    content = pickle.dumps(message, protocol=pickle.HIGHEST_PROTOCOL)
    return len(content).to_bytes(_LENGTH, "big") + content


async def received(reader: asyncio.StreamReader) -> Any:
    """The next message; None: the other end is gone, be it within one."""
    try:
        length = int.from_bytes(await reader.readexactly(_LENGTH), "big")
        return pickle.loads(await reader.readexactly(length))
    except (asyncio.IncompleteReadError, ConnectionError):
        return None


def _call(method: str, *args: Any, number: int = 0) -> tuple[int, bytes]:
    """Number and frame of a call, made once for all replicas that it goes to."""
    return (own := number or next(_NUMBERS)), frame(Call(own, method, args))


class Processes(Engine):
    """Replicas of the embedded engine as one policy."""

    def __init__(self, options: EngineOptions, processes: int) -> None:
        """Start nothing yet; each of the processes, at least 1, has the architecture of a model."""
        self.capabilities = Capabilities("handed", beside_updates=True)
        self._options, self._count = options, processes
        self._replicas: list[Replica] = []
        self._version = 0

    @property
    def version(self) -> int:
        """Version of the last `sync`."""
        return self._version

    async def start(self) -> None:
        """Start the replicas, which load their libraries once, and each makes its model."""
        self._replicas = await self._started(self._count)

    async def sync(self, weights: Weights, version: int) -> None:
        """Hand all weights over; generations in flight go on under the new ones.

        In the place of a replica that has ended another one is started.
        """
        for place, replica in enumerate(self._replicas):
            if not replica.running:
                (self._replicas[place],) = await self._started(1)
        await self._all("sync", {n: t.detach() for n, t in weights.tensors()}, version)
        self._version = version

    async def sleep(self) -> None:
        """Free the caches."""
        await self._all("sleep")

    async def close(self) -> None:
        """End the replicas."""
        replicas, self._replicas = self._replicas, []
        await asyncio.gather(*(replica.close() for replica in replicas))

    def open(self, seed: int, shared_prompt: Sequence[int] = ()) -> ProcessSession:
        """A session; which replica has it is decided when it generates."""
        return ProcessSession(self, seed, tuple(shared_prompt))

    def place(self, shared: tuple[int, ...], now: Replica | None) -> Replica:
        """The replica that a session is to generate in, which has been in `now` or nowhere.

        Raises `PolicyError` where no replica runs any more.
        """
        running = [replica for replica in self._replicas if replica.running]
        if not running:
            raise PolicyError("no process of the engine runs; start it first.")
        fewest = min(running, key=lambda replica: replica.open)
        if now is None:
            same = [r for r in running if r.prompts[shared]] if shared else []
            return min(same or [fewest], key=lambda replica: replica.open)
        return fewest if not now.running or now.open - fewest.open >= UNEVEN else now

    async def _started(self, count: int) -> list[Replica]:
        # Elsewhere, what the libraries have started may not survive a fork.
        shares = [count] if sys.platform == "linux" else [1] * count
        replicas = [replica for share in shares for replica in await _program(share)]
        make = _call("make", *_made_of(self._options, self._count))
        try:
            pids = await asyncio.gather(*(replica.ask(*make) for replica in replicas))
        except BaseException:  # Ctrl-C too: no process may be left behind
            await asyncio.gather(*(replica.close() for replica in replicas))
            raise
        for replica, pid in zip(replicas, pids, strict=True):
            replica.pid = pid
        return replicas

    async def _all(self, method: str, *args: Any) -> None:
        call = _call(method, *args)
        await asyncio.gather(*(r.ask(*call) for r in self._replicas if r.running))


class ProcessSession:
    """One trajectory's context, in the replica that generated last."""

    def __init__(self, engine: Processes, seed: int, shared: tuple[int, ...]) -> None:
        self._engine, self._seed, self._shared = engine, seed, shared
        self._replica: Replica | None = None
        self._number = 0
        self._ids: list[int] = []
        self._closed = False

    async def generate(
        self,
        new_ids: Sequence[int],
        max_tokens: int,
        temperature: float,
        stops: Sequence[str] = (),
        top_p: float = 1.0,
    ) -> Completion:
        """Append `new_ids` and sample; see `rods.policy.Session.generate`.

        Raises:
            PolicyError: what the embedded engine raises, or the replica ended.
        """
        if self._closed:
            raise PolicyError("the session is closed; open a new one.")
        # A generation that goes on with its own last text stays where its cache ends there.
        moves = bool(new_ids) or self._replica is None
        place = self._engine.place(self._shared, self._replica) if moves else self._replica
        assert place is not None
        new = tuple(new_ids)
        if place is not self._replica:
            self._leave()
            self._replica, self._number = place, place.enter(self._seed, self._shared)
            new = (*self._ids, *new)
        asked = (self._number, new, max_tokens, temperature, tuple(stops), top_p)
        made: Completion = await place.ask(*_call("generate", *asked, number=self._number))
        self._ids += [*new_ids, *made.ids]
        return made

    def close(self) -> None:
        """Free the row; a generation in flight is cancelled."""
        self._closed = True
        self._leave()

    def _leave(self) -> None:
        if self._replica is not None:
            self._replica.leave(self._number, self._shared)
            self._replica = None


class Replica:
    """One replica's process, and who waits for what of it."""

    def __init__(self, program: Process, reader: StreamReader, writer: StreamWriter) -> None:
        """At the other end of the streams is the program, or a fork of it."""
        self.open = 0
        """Sessions."""
        self.prompts: Counter[tuple[int, ...]] = Counter()
        """Sessions of each shared prompt."""
        self.pid = 0
        """Number of the process, once it has made its model."""
        self._program, self._writer = program, writer
        self._asked: dict[int, asyncio.Future[Any]] = {}
        self._reading = asyncio.create_task(self._read(reader))

    @property
    def running(self) -> bool:
        """True if it answers."""
        return not self._reading.done()

    async def ask(self, number: int, content: bytes) -> Any:
        """Send a call and wait for its answer; raises `PolicyError`."""
        if not self.running:
            raise PolicyError("this session's process of the engine has ended; open a new session.")
        answer: asyncio.Future[Any] = asyncio.get_running_loop().create_future()
        self._asked[number] = answer
        self.send(content)
        try:
            return await answer
        finally:
            self._asked.pop(number, None)

    def send(self, content: bytes) -> None:
        """Send a call that is not answered; a replica that is gone does not read it."""
        if self.running:
            self._writer.write(content)

    def enter(self, seed: int, shared: tuple[int, ...]) -> int:
        """Open a session; its number."""
        self.open += 1
        self.prompts[shared] += 1
        session = next(_NUMBERS)
        self.send(_call("open", session, seed, shared)[1])
        return session

    def leave(self, session: int, shared: tuple[int, ...]) -> None:
        """Close it; a generation in flight is cancelled."""
        self.open -= 1
        self.prompts -= Counter({shared: 1})  # which keeps no zeros
        if answer := self._asked.pop(session, None):
            answer.cancel()
        self.send(_call("close", session)[1])

    async def close(self) -> None:
        """Close its socket, at which it ends. With it ends the program, if the others do, too."""
        self._writer.close()
        try:
            await asyncio.wait_for(asyncio.shield(self._reading), GRACE)
        except TimeoutError:
            os.kill(self.pid or self._program.pid, signal.SIGKILL)
            await self._reading
        await self._program.wait()

    async def _read(self, reader: StreamReader) -> None:
        while (reply := await received(reader)) is not None:
            answer = self._asked.get(reply.number)
            if answer is None or answer.done():
                continue  # nobody waits any more
            if reply.fault is None:
                answer.set_result(reply.result)
            else:
                answer.set_exception(PolicyError(reply.fault))
        self._writer.close()  # also of one that ended by itself
        waiting = [answer for answer in self._asked.values() if not answer.done()]
        if waiting or self.open:
            _LOG.warning("a process of the engine ended with %d sessions; %s", self.open, _WHY)
        for answer in waiting:
            answer.set_exception(PolicyError(f"a process of the engine ended; {_WHY}."))


async def _program(count: int) -> list[Replica]:
    """Replicas of one program, at least 1. It loads its libraries meanwhile."""
    pairs = [socket.socketpair() for _ in range(count)]
    theirs = [their.fileno() for _, their in pairs]
    program = await asyncio.create_subprocess_exec(
        *(sys.executable, "-m", "rods.engines.replica", *map(str, theirs)),
        pass_fds=theirs,
        stdin=asyncio.subprocess.DEVNULL,
        stdout=2,  # what a library prints is no result of the run
        env={**os.environ, "OMP_NUM_THREADS": "1"},
        start_new_session=True,  # Ctrl-C is for the run, which then ends it
    )
    for _, their in pairs:
        their.close()
    streams = [await asyncio.open_connection(sock=own) for own, _ in pairs]
    return [Replica(program, *pair) for pair in streams]


def _made_of(options: EngineOptions, processes: int) -> tuple[Any, dict[str, Any]]:
    """The model's configuration, and what `HFPolicy` of a replica is made with."""
    rollout = options.config.rollout
    return base_of(options.model).config, {
        "stop": frozenset(options.template.stop_ids),
        "rows": min(rollout.in_flight, -(-rollout.in_flight // processes) + 2 * UNEVEN),
        "max_context": rollout.context_tokens,
        "cache_bytes": None if options.cache is None else options.cache // processes,
        "decode": options.template.raw_decode,
    }


def make_processes(options: EngineOptions) -> Processes:
    """The engine of `engine.name = "processes"`."""
    return Processes(options, processes_of(options.config.rollout))
