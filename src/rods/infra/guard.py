"""Guard in front of every service that we start: who may ask, and in what form.

Owns the checks of a request before an application sees it: `Host` and `Origin` (a web page that is
open in a browser on this machine can send requests to loopback, too), the token, the content type,
the size, the time that a body takes, and JSON that nobody can read. A pure ASGI application; it
imports no framework.

A client shows the token as `Authorization: Bearer TOKEN`. One that can send no header, such as
OpenEnv's, has it as the first part of the path: `http://127.0.0.1:8010/TOKEN`.
"""

from __future__ import annotations

import asyncio
import hmac
import json
import math
import secrets
from collections import defaultdict
from collections.abc import Awaitable, Callable, MutableMapping
from typing import Any, NoReturn, TypeAlias, cast
from urllib.parse import urlsplit

from rods.infra.text import levels

Scope: TypeAlias = MutableMapping[str, Any]
Message: TypeAlias = MutableMapping[str, Any]
Receive: TypeAlias = Callable[[], Awaitable[Message]]
Send: TypeAlias = Callable[[Message], Awaitable[None]]
App: TypeAlias = Callable[[Any, Any, Any], Awaitable[None]]

LOCAL = frozenset({"localhost", "127.0.0.1", "::1"})
"""Names by which this machine calls itself; a foreign name that leads here is another's page."""
OPEN = ("/health",)  # paths that anybody may GET
SECONDS = 30.0  # until a request must have come whole
DEEPEST = 200
"""Levels of JSON within one another; deeper ones exhaust the stack of those who read them."""


class Refused(Exception):
    """A request that is not let through: the status of the answer, and why."""

    def __init__(self, status: int, why: str) -> None:
        super().__init__(why)
        self.status = status


def new_token() -> str:
    """A token that nobody can guess; it may stand in an address."""
    return secrets.token_urlsafe(24)


def loads(raw: bytes | str) -> object:
    """JSON that others can read, too: no NaN, no infinity, not too deep; else `ValueError`."""
    try:
        found = json.loads(raw, parse_constant=_refuse, parse_float=_finite)
    except RecursionError as error:
        raise ValueError(f"nested more than {DEEPEST} deep") from error
    marks = ("[", "{") if isinstance(raw, str) else (b"[", b"{")
    many = sum(raw.count(cast("Any", mark)) for mark in marks) > DEEPEST
    if many and sum(1 for _ in levels(found)) > DEEPEST + 1:
        raise ValueError(f"nested more than {DEEPEST} deep")
    return found


def _refuse(name: str) -> NoReturn:
    raise ValueError(f"{name} is no JSON")


def _finite(text: str) -> float:
    number = float(text)
    if math.isinf(number):
        raise ValueError(f"{text} is too large a number")
    return number


class Guard:
    """An application behind the checks.

    Args:
        hosts: names in `Host` that are let through; None: any, where others may reach it.
        body: bytes of one request.
        in_path: whether the token may be the first part of the path.
    """

    def __init__(
        self,
        app: App,
        token: str,
        hosts: frozenset[str] | None,
        body: int,
        in_path: bool = False,
        seconds: float = SECONDS,
    ) -> None:
        if not token:
            raise ValueError("a service needs a token")
        self.app = app
        self._token, self._hosts, self._body = token.encode(), hosts, body
        self._in_path, self._seconds = in_path, seconds

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Let a request through, or answer why not."""
        if scope["type"] == "lifespan":
            return await self.app(scope, receive, send)
        try:
            scope = self._known(scope)
            if scope["type"] == "http":
                receive = await self._whole(scope, receive)
            else:
                receive = _readable(receive)
        except Refused as refused:
            return await refuse(scope, send, refused)
        await self.app(scope, receive, send)

    def _known(self, scope: Scope) -> Scope:
        """The request as the application sees it, if it is from whom it should be."""
        headers = require_own(scope, self._hosts)
        if scope["type"] == "http" and scope["method"] == "GET" and scope["path"] in OPEN:
            return scope
        kind, _, shown = headers.get("authorization", "").partition(" ")
        if kind.lower() == "bearer" and hmac.compare_digest(shown.encode(), self._token):
            return scope
        first, _, rest = str(scope["path"]).removeprefix("/").partition("/")
        if self._in_path and hmac.compare_digest(first.encode("utf-8", "replace"), self._token):
            return {**scope, "path": f"/{rest}", "raw_path": f"/{rest}".encode()}
        raise Refused(401, "a token is needed: Authorization: Bearer TOKEN")

    async def _whole(self, scope: Scope, receive: Receive) -> Receive:
        """The request's body, read and checked, for the application to receive."""
        try:
            async with asyncio.timeout(self._seconds):
                raw = await self._read(scope, receive)
        except TimeoutError as error:
            raise Refused(408, f"the request did not come whole in {self._seconds:g} s") from error
        if raw:
            kind = _headers(scope).get("content-type", "").partition(";")[0].strip().lower()
            if kind != "application/json":
                raise Refused(415, f"the content type is {kind!r}, expected application/json")
            try:
                loads(raw)
            except ValueError as error:
                raise Refused(400, f"the request is not JSON: {error}") from error
        given = [{"type": "http.request", "body": raw, "more_body": False}]

        async def again() -> Message:
            return given.pop() if given else await receive()

        return again

    async def _read(self, scope: Scope, receive: Receive) -> bytes:
        size = _headers(scope).get("content-length", "0")
        raw, more = bytearray(), True
        while True:
            if len(raw) > self._body or not size.isdecimal() or int(size) > self._body:
                raise Refused(413, f"a request may have {self._body} bytes")
            if not more:
                return bytes(raw)
            message = await receive()
            if message["type"] == "http.disconnect":
                raise Refused(400, "the client went away")
            raw += message.get("body", b"")
            more = message.get("more_body", False)


def _readable(receive: Receive) -> Receive:
    """Messages of a WebSocket; one that no JSON reader stands is replaced by what is no JSON."""

    async def checked() -> Message:
        message = await receive()
        text = message.get("text") or message.get("bytes")
        if message["type"] == "websocket.receive" and text:
            try:
                loads(text)
            except ValueError as error:
                return {"type": "websocket.receive", "text": f"no JSON: {error}"}
        return message

    return checked


def require_own(scope: Scope, hosts: frozenset[str] | None) -> dict[str, str]:
    """Headers of a request that names this service and comes from no other site.

    Args:
        hosts: names in `Host` that are let through; None: any.

    Raises `Refused` where it names another service, or a page of another site sends it.
    """
    headers = _headers(scope)
    host = _name(headers.get("host", ""))
    if not host or (hosts is not None and host not in hosts):
        raise Refused(403, f"this service is not called {host!r}")
    origin = headers.get("origin")
    if origin is not None and urlsplit(origin).netloc != headers["host"]:
        raise Refused(403, "requests of web pages are refused")
    return headers


def _headers(scope: Scope) -> dict[str, str]:
    """Headers by name; of one that comes twice, nothing that any check would let through."""
    found: dict[str, list[str]] = defaultdict(list)
    for name, value in scope["headers"]:
        found[name.decode("latin-1").lower()].append(value.decode("latin-1"))
    return {name: ", ".join(values) for name, values in found.items()}


def _name(host: str) -> str:
    """The name in a `Host` header."""
    try:
        return urlsplit(f"//{host}").hostname or ""
    except ValueError:
        return ""


async def refuse(scope: Scope, send: Send, refused: Refused) -> None:
    """Answer why a request is not let through."""
    why = str(refused)
    if scope["type"] == "websocket":
        await send({"type": "websocket.close", "code": 1008, "reason": why})
        return
    body = json.dumps({"detail": why, "message": why}).encode()
    headers = [
        (b"content-type", b"application/json"),
        (b"content-length", str(len(body)).encode()),
        (b"connection", b"close"),
        *([(b"retry-after", b"1")] if refused.status == 503 else []),
    ]
    start = {"type": "http.response.start", "status": refused.status, "headers": headers}
    await send(start)
    await send({"type": "http.response.body", "body": body})
