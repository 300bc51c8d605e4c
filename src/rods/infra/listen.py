"""Listening: an address that is ours before it is printed, and connections that cannot pile up.

Owns the socket and the connections of a service. Never knows what it answers, nor who may ask
(`guard.py`). Needs uvicorn.

    with bound("127.0.0.1", 8010) as listening:
        print(address(listening, "127.0.0.1"))
        serve(app, listening, connections=1024)
"""

from __future__ import annotations

import asyncio
import math
import os
import resource
import socket
from typing import Any

import uvicorn
from uvicorn.protocols.http.h11_impl import H11Protocol

from rods.errors import ConfigError
from rods.infra.guard import SECONDS, Receive, Refused, Scope, Send, refuse

BACKLOG = 512
MORE = 64
"""Connections beside those that are in work at once."""
ROOM = 128
"""Connections beside these, which are answered with 503."""
SPARE = 256 + ROOM
"""Open files beside the connections."""
YOUNG = 1.0
"""Seconds for which a connection may wait for a request where others are refused."""
_BODIED = frozenset({b"content-length", b"transfer-encoding"})


def bound(host: str, port: int) -> socket.socket:
    """A socket that listens; raises `ConfigError` where port or address cannot be had."""
    try:
        family, _, _, _, place = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM)[0]
        both = family == socket.AF_INET6 and socket.has_dualstack_ipv6()
        return socket.create_server(place, family=family, backlog=BACKLOG, dualstack_ipv6=both)
    except (OSError, OverflowError, UnicodeError) as error:
        why = os.strerror(error.errno) if isinstance(error, OSError) and error.errno else error
        if isinstance(error, socket.gaierror):
            why = error.strerror
        raise ConfigError(
            f"--host {host} --port {port}: nothing can listen there: {why}. Choose another port "
            "(0: any free one) or address, or end what listens there."
        ) from error


def address(listening: socket.socket, host: str) -> str:
    """The address of a socket as clients write it."""
    name = f"[{host}]" if ":" in host else host
    return f"http://{name}:{listening.getsockname()[1]}"


async def _busy(scope: Scope, receive: Receive, send: Send) -> None:
    await refuse(scope, send, Refused(503, "too many requests are in work here: ask again"))


def protocol(connections: int, seconds: float = SECONDS, room: int = ROOM) -> type[H11Protocol]:
    """Connections: so many at once, each of which must send a request's head in time.

    One more takes the place of the one that has waited longest for a request. Where all have one
    in work, or came just now, it is answered with 503; `room` of these are heard at once.
    """

    class Connection(H11Protocol):
        """One of them."""

        _timer: asyncio.TimerHandle | None = None
        """While it waits for a head, or for its client to read."""

        def connection_made(self, transport: Any) -> None:
            super().connection_made(transport)
            if len(self.connections) > connections and not self._took_a_place():
                self.app = _busy
                if len(self.connections) > connections + room:
                    transport.abort()
            self._watch()

        def _took_a_place(self) -> bool:
            mine: Any = self.connections
            ends = {one._timer.when(): one for one in mine if getattr(one, "_timer", None)}
            first = min(ends, default=math.inf)
            if first > self.loop.time() + seconds - YOUNG:
                return False
            self.connections.discard(ends[first])
            ends[first].transport.abort()
            return True

        def _should_upgrade(self) -> bool:
            # What speaks WebSockets would wait for ever for the end of a body.
            whole = _BODIED.isdisjoint(name for name, _ in self.headers)
            return whole and self.app is not _busy and super()._should_upgrade()

        def data_received(self, data: bytes) -> None:
            super().data_received(data)
            self._watch()

        def pause_writing(self) -> None:
            super().pause_writing()
            self._watch()

        def resume_writing(self) -> None:
            super().resume_writing()
            self._watch()

        def connection_lost(self, exc: Exception | None) -> None:
            super().connection_lost(exc)
            self._watch()

        def _watch(self) -> None:
            """Let a connection end that keeps its place for nothing."""
            cycle: Any = self.cycle
            works = cycle is not None and not cycle.response_complete
            if self not in self.connections or (works and not self.flow.write_paused):
                if self._timer is not None:
                    self._timer.cancel()
                self._timer = None
            elif self._timer is None:
                self._timer = self.loop.call_later(seconds, self.transport.abort)

    return Connection


def server(app: Any, connections: int, body: int) -> uvicorn.Server:
    """The server of an application, to be run with a socket."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    files = connections + SPARE
    if soft != resource.RLIM_INFINITY and soft < files:
        files = files if hard == resource.RLIM_INFINITY else min(files, hard)
        resource.setrlimit(resource.RLIMIT_NOFILE, (max(soft, files), hard))
        connections = max(1, min(connections, max(soft, files) - SPARE))
    http: Any = {"http": protocol(connections), "timeout_keep_alive": int(YOUNG)}
    config = uvicorn.Config(app, **http, log_level="warning", ws_max_size=body)
    return uvicorn.Server(config)


def serve(app: Any, listening: socket.socket, connections: int, body: int) -> None:
    """Answer until the program is ended."""
    asyncio.run(server(app, connections, body).serve(sockets=[listening]))
