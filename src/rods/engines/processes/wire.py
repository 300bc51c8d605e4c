"""What a run and its replicas say to each other: frames over pipes.

A frame is the length of its content in eight bytes and the content, pickled: both ends are one
program. Owns the form alone; who says what when is `engine.py`'s and `replica.py`'s business.

    writer.write(frame(Generate(7, (5, 6), 64, 1.0, (), 1.0)))
    message = await received(reader)            # None: the other end is gone
"""

from __future__ import annotations

import asyncio
import pickle
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, NamedTuple

from rods.policy import Completion
from rods.stops import Decode

_LENGTH = 8


@dataclass(frozen=True)
class Setup:
    """What a replica is made of."""

    architecture: Any
    """The model's configuration, of transformers; weights come with the first `Sync`."""
    stop_ids: frozenset[int]
    rows: int
    max_context: int
    cache_bytes: int | None
    decode: Decode | None
    """Text of ids."""


class OpenSession(NamedTuple):
    """A session under a number of the run's."""

    session: int
    seed: int
    shared: tuple[int, ...]


class Generate(NamedTuple):
    """A generation of an open session; answered by `Generated` or `Failed`."""

    session: int
    new_ids: tuple[int, ...]
    max_tokens: int
    temperature: float
    stops: tuple[str, ...]
    top_p: float


class Close(NamedTuple):
    """The end of a session; a generation in flight is cancelled and not answered."""

    session: int


class Sync(NamedTuple):
    """All weights, adapters added in, by name, and their version; `Ack` answers."""

    version: int
    tensors: Mapping[str, Any]


class Sleep(NamedTuple):
    """Free the cache where memory is short; `Ack` answers."""


class Generated(NamedTuple):
    """What a session sampled."""

    session: int
    completion: Completion
    goes_on: bool


class Failed(NamedTuple):
    """Why it did not."""

    session: int
    message: str


class Ack(NamedTuple):
    """The answer to `Setup`, `Sync` and `Sleep`, in their order."""


Message = Setup | OpenSession | Generate | Close | Sync | Sleep | Generated | Failed | Ack


def frame(message: Message) -> bytes:
    """A message as bytes."""
    content = pickle.dumps(message, protocol=pickle.HIGHEST_PROTOCOL)
    return len(content).to_bytes(_LENGTH, "big") + content


async def received(reader: asyncio.StreamReader) -> Message | None:
    """The next message; None: the other end is gone, be it within one."""
    try:
        length = int.from_bytes(await reader.readexactly(_LENGTH), "big")
        return pickle.loads(await reader.readexactly(length))
    except (asyncio.IncompleteReadError, ConnectionError):
        return None
