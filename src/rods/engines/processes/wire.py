"""What a run and its replicas say to each other: frames over pipes.

A frame is the length of its content in eight bytes and the content, pickled: both ends are one
program. A call names a method of the replica; its answer comes under the call's number, in any
order. Owns the form alone; who says what when is `engine.py`'s and `replica.py`'s business.

    writer.write(frame(Call(7, "sleep", ())))
    answer = await received(reader)             # None: the other end is gone
"""

from __future__ import annotations

import asyncio
import pickle
from typing import Any, NamedTuple

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
