"""The service behind `rods view`: who may look, and NiceGUI with our pages.

Owns the token of a browser. The printed address holds the token; the first request trades it for a
cookie that no script reads and no other site sends, so later addresses can be copied without it.

    add = partial(add_pages, open_runs(paths))
    with bound("127.0.0.1", 8020) as listening:
        serve_view(add, listening, token)
"""

from __future__ import annotations

import hmac
import socket
from collections.abc import Callable
from typing import Any
from urllib.parse import urlencode

from fastapi import FastAPI
from nicegui import ui
from starlette.requests import HTTPConnection
from starlette.responses import RedirectResponse, Response

from rods.infra.guard import LOCAL, App, Receive, Refused, Scope, Send, refuse, require_own
from rods.infra.listen import serve
from rods.view.frame import ICON

CONNECTIONS = 128
RECONNECT = 30.0  # Seconds for which a page that lost its connection is kept
MESSAGE = 1 << 20  # Bytes of one message of a browser


class BrowserDoor:
    """An application that only a browser with the token sees."""

    def __init__(self, app: App, token: str, port: int) -> None:
        self._app, self._token = app, token
        # Cookies do not tell ports apart, so two services on this machine need two names.
        self._cookie = f"rods_view_{port}"

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Let a request through, trade a token for the cookie, or answer why not."""
        if scope["type"] == "lifespan":
            return await self._app(scope, receive, send)
        try:
            require_own(scope, LOCAL)
        except Refused as refused:
            return await refuse(scope, send, refused)
        asked = HTTPConnection(scope)
        if scope["type"] == "http" and self._right(asked.query_params.get("token", "")):
            return await self._traded(asked)(scope, receive, send)
        if not self._right(asked.cookies.get(self._cookie, "")):
            why = Refused(401, "a token is needed: open the address that rods view printed")
            return await refuse(scope, send, why)
        try:
            await self._app(scope, receive, send)
        except RuntimeError as error:
            # Starlette says so of a browser that left before the page was there.
            if str(error) != "No response returned.":
                raise

    def _right(self, token: str) -> bool:
        return hmac.compare_digest(token.encode("utf-8", "replace"), self._token.encode())

    def _traded(self, asked: HTTPConnection) -> Response:
        """The way to the same page without the token, which the cookie now holds."""
        rest = urlencode([row for row in asked.query_params.multi_items() if row[0] != "token"])
        # A path that begins with two slashes would lead to another site.
        place = "/" + asked.scope["path"].lstrip("/\\") + (f"?{rest}" if rest else "")
        answer = RedirectResponse(place, 303, headers={"referrer-policy": "no-referrer"})
        answer.set_cookie(self._cookie, self._token, httponly=True, samesite="strict")
        return answer


def serve_view(add: Callable[[], None], listening: socket.socket, token: str) -> None:
    """Answer until the program is ended; `add` registers the pages. Once in a process."""
    app: Any = FastAPI(docs_url=None, redoc_url=None, openapi_url=None)
    add()
    ui.run_with(app, title="rods view", favicon=ICON, reconnect_timeout=RECONNECT)
    door = BrowserDoor(app, token, listening.getsockname()[1])
    serve(door, listening, CONNECTIONS, MESSAGE)
