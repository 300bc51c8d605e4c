"""A replica: the embedded engine on one thread, for a run at the other end of two pipes.

Owns its process. It ends when its input does, which the kernel closes even after a SIGKILL of the
run. It decides nothing: which sessions it has is the run's choice.

    python -m rods.engines.processes.replica < frames > frames
"""

from __future__ import annotations

import asyncio
import os
import sys
from typing import Any

import torch
from transformers import AutoModelForCausalLM

from rods.engines.hf import HFPolicy, HFSession
from rods.engines.processes import wire
from rods.errors import PolicyError


class _Replica:
    """The engine and the sessions of the run, by their numbers."""

    def __init__(self, setup: wire.Setup, out: int) -> None:
        self._model: Any = AutoModelForCausalLM.from_config(setup.architecture).eval()
        self._engine = HFPolicy(
            self._model,
            setup.stop_ids,
            setup.rows,
            setup.max_context,
            threads=1,
            cache_bytes=setup.cache_bytes,
            share=True,
            decode=setup.decode,
        )
        self._out = out
        self._sessions: dict[int, HFSession] = {}
        self._work: set[asyncio.Task[None]] = set()

    async def do(self, message: wire.Message) -> None:
        """What the run asks for; generations go on beside."""
        match message:
            case wire.OpenSession():
                made = self._engine.open(message.seed, message.shared)
                self._sessions[message.session] = made
            case wire.Generate():
                work = asyncio.create_task(self._generate(message))
                self._work.add(work)
                work.add_done_callback(self._work.discard)
            case wire.Close():
                self._sessions.pop(message.session).close()
            case wire.Sync():
                self._sync(message)
                self.say(wire.Ack())
            case wire.Sleep():
                await self._engine.sleep()
                self.say(wire.Ack())
            case _:
                raise AssertionError(f"a replica is not told {type(message).__name__}")

    def say(self, message: wire.Message) -> None:
        """Tell the run."""
        content = memoryview(wire.frame(message))
        while content:
            content = content[os.write(self._out, content) :]

    async def _generate(self, asked: wire.Generate) -> None:
        number = asked.session
        session = self._sessions[number]
        try:
            completion = await session.generate(
                asked.new_ids, asked.max_tokens, asked.temperature, asked.stops, asked.top_p
            )
        except PolicyError as error:
            self.say(wire.Failed(number, str(error)))
        except asyncio.CancelledError:
            return  # the session was closed, and nobody waits
        else:
            self.say(wire.Generated(number, completion, session.goes_on))

    @torch.no_grad()
    def _sync(self, message: wire.Sync) -> None:
        own: dict[str, torch.Tensor] = self._model.state_dict()
        for name, tensor in message.tensors.items():
            own[name].copy_(tensor)
        self._engine.reload(message.version)


async def _serve(out: int) -> None:
    reader = asyncio.StreamReader()
    pipe = asyncio.StreamReaderProtocol(reader)
    await asyncio.get_running_loop().connect_read_pipe(lambda: pipe, sys.stdin.buffer)
    setup = await wire.received(reader)
    if not isinstance(setup, wire.Setup):
        return
    replica = _Replica(setup, out)
    replica.say(wire.Ack())
    while (message := await wire.received(reader)) is not None:
        await replica.do(message)


def main() -> None:
    """Serve until the run is gone."""
    out = os.dup(sys.stdout.fileno())
    os.dup2(sys.stderr.fileno(), sys.stdout.fileno())  # what a library prints is no frame
    asyncio.run(_serve(out))
    os._exit(0)  # generations that nobody waits for


if __name__ == "__main__":
    main()
