"""Listening: an address that is ours before it is printed, and connections that cannot pile up.

Owns the socket and the connections of a service; `guard.py` decides who may ask. Needs uvicorn.
"""

from __future__ import annotations

import asyncio
import os
import resource
import socket
from collections.abc import Callable
from typing import Any

import uvicorn
from uvicorn.protocols.http.h11_impl import H11Protocol

from rods.errors import ConfigError
from rods.infra.guard import SECONDS, Receive, Refused, Scope, Send, refuse

BACKLOG = 512
MORE = 64  # connections beside those that are in work at once
ROOM = 128  # connections beside these, which are answered with 503
SPARE = 256 + ROOM  # open files beside the connections
YOUNG = 1.0  # seconds for which a connection may wait for a request where others are refused
LOOKS = 8  # looks at a connection until it has waited too long
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
    in work, or came just now, it is answered with 503; `room` of these are read at once.
    """

    class Connection(H11Protocol):
        """One of them."""

        _since, _unread = 0.0, 0
        """When it began to wait, and bytes that its client had not read when it was looked at."""

        def connection_made(self, transport: asyncio.Transport) -> None:
            super().connection_made(transport)
            self._since = self.loop.time()
            if len(self.connections) > connections and not self._took_a_place():
                self.app = _busy
                if len(self.connections) > connections + room:
                    transport.abort()
            self._look()

        def _waits(self) -> bool:
            cycle: Any = self.cycle
            return cycle is None or cycle.response_complete

        def _took_a_place(self) -> bool:
            rest = [one for one in self.connections if isinstance(one, Connection) and one._waits()]
            first = min(rest, key=lambda one: one._since)
            if first._since > self.loop.time() - YOUNG:
                return False
            self.connections.discard(first)
            first.transport.abort()
            return True

        def _look(self) -> None:
            """End it where it has waited too long: for a request, or for its client to read."""
            now, unread = self.loop.time(), self.transport.get_write_buffer_size()
            if not self._waits() and (not unread or unread != self._unread):
                self._since = now
            self._unread = unread
            if now - self._since >= seconds:
                self.transport.abort()
            elif self in self.connections:
                self.loop.call_later(seconds / LOOKS, self._look)

        def _should_upgrade(self) -> bool:
            # What speaks WebSockets would wait for ever for the end of a body.
            whole = _BODIED.isdisjoint(name for name, _ in self.headers)
            return whole and self.app is not _busy and super()._should_upgrade()

    return Connection


def server(app: Callable[..., object], connections: int, body: int) -> uvicorn.Server:
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


def serve(
    app: Callable[..., object], listening: socket.socket, connections: int, body: int
) -> None:
    """Answer until the program is ended."""
    asyncio.run(server(app, connections, body).serve(sockets=[listening]))
