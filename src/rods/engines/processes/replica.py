"""A replica: the embedded engine on one thread, for a run at the other end of two pipes.

Owns its process. It ends when its input does, which the kernel closes even after a SIGKILL of the
run. It decides nothing: which sessions it has is the run's choice.

    python -m rods.engines.processes.replica < frames > frames
"""

from __future__ import annotations

import asyncio
import os
import sys
from collections.abc import Mapping
from typing import Any

import torch
from transformers import AutoModelForCausalLM

from rods.engines.hf import HFPolicy, HFSession
from rods.engines.processes import Answer, frame, received
from rods.errors import PolicyError


class _Replica:
    """The engine and the sessions of the run, by their numbers. Its methods are what `Call`s name;
    those with an answer give it back, and a generation goes on beside the others."""

    def __init__(self, out: int) -> None:
        self._out = out
        self._sessions: dict[int, HFSession] = {}
        self._work: set[asyncio.Task[None]] = set()

    async def make(self, architecture: Any, options: dict[str, Any]) -> None:
        """Make the engine; weights come with the first `sync`."""
        self._model: Any = AutoModelForCausalLM.from_config(architecture).eval()
        self._engine = HFPolicy(self._model, threads=1, share=True, **options)

    @torch.no_grad()
    async def sync(self, tensors: Mapping[str, torch.Tensor], version: int) -> None:
        """Take all weights, adapters added in, by name."""
        own: dict[str, torch.Tensor] = self._model.state_dict()
        for name, tensor in tensors.items():
            own[name].copy_(tensor)
        self._engine.reload(version)

    async def sleep(self) -> None:
        """Free the cache where memory is short."""
        await self._engine.sleep()

    def open(self, session: int, seed: int, shared: tuple[int, ...]) -> None:
        """Open a session under a number of the run's."""
        self._sessions[session] = self._engine.open(seed, shared)

    def close(self, session: int) -> None:
        """End a session; a generation in flight is cancelled and not answered."""
        self._sessions.pop(session).close()

    def generate(self, session: int, *asked: Any) -> None:
        """Begin a generation of an open session; its answer has the session's number."""
        work = asyncio.create_task(self._generate(session, asked))
        self._work.add(work)
        work.add_done_callback(self._work.discard)

    async def _generate(self, session: int, asked: tuple[Any, ...]) -> None:
        try:
            self.say(Answer(session, await self._sessions[session].generate(*asked)))
        except PolicyError as error:
            self.say(Answer(session, fault=str(error)))
        except asyncio.CancelledError:
            return  # the session was closed, and nobody waits

    def say(self, answer: Answer) -> None:
        """Tell the run."""
        content = memoryview(frame(answer))
        while content:
            content = content[os.write(self._out, content) :]


async def _serve(out: int) -> None:
    reader = asyncio.StreamReader()
    pipe = asyncio.StreamReaderProtocol(reader)
    await asyncio.get_running_loop().connect_read_pipe(lambda: pipe, sys.stdin.buffer)
    replica = _Replica(out)
    while (call := await received(reader)) is not None:
        work = getattr(replica, call.method)(*call.args)
        if work is not None:
            replica.say(Answer(call.number, await work))


def main() -> None:
    """Serve until the run is gone."""
    out = os.dup(sys.stdout.fileno())
    os.dup2(sys.stderr.fileno(), sys.stdout.fileno())  # what a library prints is no frame
    asyncio.run(_serve(out))
    os._exit(0)  # generations that nobody waits for


if __name__ == "__main__":
    main()
