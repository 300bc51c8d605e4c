"""The embedded engine in several processes, one a core: `engine.name = "processes"`.

`engine.py` shares sessions out and hands weights over, `replica.py` is the program that samples.
Here stands what they say to each other: frames over sockets. A frame is the length of its content
in eight bytes and the content, pickled: both ends are one program. A call names a method of the
replica; its answer comes under the call's number, in any order. None of it runs on a GPU.

    writer.write(frame(Call(7, "sleep", ())))
    answer = await received(reader)             # None: the other end is gone
"""

from __future__ import annotations

import asyncio
import pickle
from typing import Any, NamedTuple

from rods.config import RolloutSettings
from rods.engines.threads import most_threads

ROWS = 8
"""Trajectories in flight that are worth a process: fewer make a batch that reads weights for
little."""


def processes_of(rollout: RolloutSettings) -> int:
    """How many: one a core that may be used, and none without work."""
    return max(1, min(most_threads(), rollout.in_flight // ROWS))


_LENGTH = 8


class Call(NamedTuple):
    """A method of the replica, which answers under this number if the method has an answer."""

    number: int
    method: str
    args: tuple[Any, ...]


class Answer(NamedTuple):
    """What a call gave."""

    number: int
    result: Any = None
    fault: str | None = None
    """Why it gave nothing."""


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
