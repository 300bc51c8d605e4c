"""A replica: the embedded engine on one thread, for a run at the other end of a socket.

Owns its process. It ends when the run closes the socket, which the kernel does even after a
SIGKILL. It decides nothing: which sessions it has is the run's choice. Replicas that start together
are forks of one program: libraries are imported once, which takes seconds, before any thread.

    python -m rods.engines.replica 7 9        # sockets that it has inherited, by number
"""

from __future__ import annotations

import asyncio
import gc
import os
import signal
import socket
import sys
from collections.abc import Awaitable, Mapping, Sequence
from typing import Any

import torch
from transformers import AutoModelForCausalLM

from rods.engines.hf import HFPolicy, HFSession
from rods.engines.processes import Answer, frame, received
from rods.errors import PolicyError
from rods.policy import Completion


class _Replica:
    """The engine and the sessions of the run, by their numbers. Its methods are what `Call`s name;
    those with an answer give it back, and a generation goes on beside the others."""

    def __init__(self, run: asyncio.StreamWriter) -> None:
        self._run = run
        self._sessions: dict[int, HFSession] = {}
        self._work: set[asyncio.Task[None]] = set()

    async def make(self, architecture: object, options: dict[str, Any]) -> int:
        """Make the engine; weights come with the first `sync`. The number of this process."""
        self._model: Any = AutoModelForCausalLM.from_config(architecture).eval()
        self._engine = HFPolicy(self._model, threads=1, share=True, **options)
        return os.getpid()

    @torch.no_grad()
    async def sync(self, tensors: Mapping[str, torch.Tensor], version: int) -> None:
        """Take all weights, adapters added in, by name."""
        own: dict[str, torch.Tensor] = self._model.state_dict()
        for name, tensor in tensors.items():
            own[name].copy_(tensor)
        self._engine.reload(version)

    async def sleep(self) -> None:
        """Free the cache."""
        await self._engine.sleep()

    def open(self, session: int, seed: int, shared: tuple[int, ...]) -> None:
        """Open a session under a number of the run's."""
        self._sessions[session] = self._engine.open(seed, shared)

    def close(self, session: int) -> None:
        """End a session; a generation in flight is cancelled and not answered."""
        self._sessions.pop(session).close()

    def generate(self, session: int, *asked: Any) -> None:
        """Begin a generation of an open session; its answer has the session's number."""
        made = self._sessions[session].generate(*asked)  # it may be closed before the task runs
        self._work.add(work := asyncio.create_task(self._generate(session, made)))
        work.add_done_callback(self._work.discard)

    async def _generate(self, session: int, made: Awaitable[Completion]) -> None:
        try:
            self.send(Answer(session, await made))
        except PolicyError as error:
            self.send(Answer(session, fault=str(error)))
        except asyncio.CancelledError:
            return  # the session was closed, and nobody waits

    def send(self, answer: Answer) -> None:
        """Send an answer to the run, if it is there."""
        if not self._run.is_closing():
            self._run.write(frame(answer))


async def _serve(number: int) -> None:
    reader, writer = await asyncio.open_connection(sock=socket.socket(fileno=number))
    replica = _Replica(writer)
    while (call := await received(reader)) is not None:
        work = getattr(replica, call.method)(*call.args)
        if work is not None:
            replica.send(Answer(call.number, await work))


def main(sockets: Sequence[int]) -> None:
    """Serve each socket in a process of its own until the run is gone."""
    gc.freeze()  # else collections copy the pages that the forks share
    signal.signal(signal.SIGCHLD, signal.SIG_IGN)  # forks that end leave no zombies
    mine, *others = sockets
    for number in others:
        if not os.fork():
            mine = number
            break
    for number in sockets:
        if number != mine:
            os.close(number)  # or the run would not see that another replica ended
    asyncio.run(_serve(mine))
    os._exit(0)  # generations that nobody waits for


if __name__ == "__main__":
    main([int(number) for number in sys.argv[1:]])
