"""Listening: an address that is ours before it is printed, and connections that cannot pile up.

Owns the socket and the connections of a service. Never knows what it answers, nor who may ask
(`guard.py`). Needs uvicorn.

    with bound("127.0.0.1", 8010) as listening:
        print(address(listening, "127.0.0.1"))
        serve(app, listening, connections=1024)
"""

from __future__ import annotations

import asyncio
import os
import resource
import socket
from typing import Any

import uvicorn
from uvicorn.protocols.http.h11_impl import H11Protocol

from rods.errors import ConfigError
from rods.infra.guard import SECONDS

BACKLOG = 512
MORE = 64
"""Connections beside those that are in work at once."""
SPARE = 256
"""Open files beside the connections."""


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


def protocol(connections: int, seconds: float = SECONDS) -> type[asyncio.Protocol]:
    """Connections: so many at once, each of which must send a request's head in time."""

    class Connection(H11Protocol):
        """One of them."""

        _timer: asyncio.TimerHandle | None = None
        _upgraded = False

        def connection_made(self, transport: Any) -> None:
            super().connection_made(transport)
            if len(self.connections) > connections:
                transport.abort()
            self._watch()

        def data_received(self, data: bytes) -> None:
            super().data_received(data)
            self._watch()

        def _watch(self) -> None:
            """Wait for a head unless a request is in work."""
            cycle: Any = self.cycle
            works = cycle is not None and not cycle.response_complete
            if works or self._upgraded:
                self._stop()
            elif self._timer is None:
                self._timer = self.loop.call_later(seconds, self.transport.abort)

        def _stop(self) -> None:
            if self._timer is not None:
                self._timer.cancel()
                self._timer = None

        def handle_websocket_upgrade(self, event: Any) -> None:
            self._upgraded = True
            super().handle_websocket_upgrade(event)

        def connection_lost(self, exc: Exception | None) -> None:
            self._stop()
            super().connection_lost(exc)

    return Connection


def server(app: Any, connections: int, body: int) -> uvicorn.Server:
    """The server of an application, to be run with a socket."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    files = connections + SPARE
    if soft != resource.RLIM_INFINITY and soft < files:
        files = files if hard == resource.RLIM_INFINITY else min(files, hard)
        resource.setrlimit(resource.RLIMIT_NOFILE, (max(soft, files), hard))
        connections = max(1, min(connections, max(soft, files) - SPARE))
    config = uvicorn.Config(app, http=protocol(connections), log_level="warning", ws_max_size=body)
    return uvicorn.Server(config)


def serve(app: Any, listening: socket.socket, connections: int, body: int) -> None:
    """Answer until the program is ended."""
    asyncio.run(server(app, connections, body).serve(sockets=[listening]))
