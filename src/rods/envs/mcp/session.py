"""Sessions with MCP servers, for threads that wait: the SDK's client behind plain functions.

Owns the event loop of all sessions, on one thread; what a failure of infrastructure is (a server
that dies, hangs or breaks the protocol: `EnvError`); and what is read of an answer.

    session = McpSession(["python", "/x/server.py"], "", 60.0, {})
    session.call("add_note", {"title": "milk"})     # ToolResult
"""

from __future__ import annotations

import asyncio
import functools
import json
import keyword
import logging
import re
import shutil
import tempfile
import threading
from collections.abc import AsyncGenerator, Coroutine, Mapping, Sequence
from concurrent.futures import CancelledError, Future
from contextlib import asynccontextmanager, suppress
from pathlib import Path
from typing import Any, TypeVar

import anyio
import httpx2
import mcp_types as types
from mcp import Client, MCPError, StdioServerParameters, stdio_client
from mcp.client.streamable_http import streamable_http_client
from pydantic import ValidationError

from rods.errors import EnvError
from rods.types import Json, ToolResult, ToolSpec

START_SECONDS = 120.0  # until a server has answered the handshake
PAGES = 1000  # of its list of tools at most: one that forgets the cursor begins again
_BROKEN = {types.CONNECTION_CLOSED, types.PARSE_ERROR, types.INVALID_REQUEST, types.REQUEST_TIMEOUT}
_HTTP_STATUS = "Server returned an error response"  # the SDK's word for one that is not a success
_FAILURES = OSError, RuntimeError, ValidationError, httpx2.HTTPError, ExceptionGroup, CancelledError
T = TypeVar("T")
logging.getLogger("mcp").setLevel(logging.CRITICAL)  # it logs tracebacks of what is raised here


@functools.cache
def _loop() -> asyncio.AbstractEventLoop:
    """The loop on which all sessions of this process live."""
    loop = asyncio.new_event_loop()
    threading.Thread(target=loop.run_forever, name="mcp", daemon=True).start()
    return loop


class Refusal(EnvError):
    """An error that a server answered with."""


class McpSession:
    """One session with a server, started for it in a folder with `files`, or behind a `url`."""

    def __init__(self, command: Sequence[str], url: str, seconds: float, files: Mapping[str, str]):
        self._command, self._url, self._seconds = command, url, seconds
        self.id = ""  # given by a server behind a URL that keeps sessions
        self.healthy, self._fault = True, ""  # no request left the server in an unknown state
        self.waited = False  # for another world
        self._stop = asyncio.Event()
        self._scope: anyio.CancelScope | None = None
        self._opened: Future[Client] = Future()
        self._asked: Future[Any] = self._opened
        self._folder = Path(tempfile.mkdtemp(prefix="rods-mcp-"))
        (self._folder / "work").mkdir()
        for path, text in files.items():
            (self._folder / "work" / path).parent.mkdir(parents=True, exist_ok=True)
            (self._folder / "work" / path).write_text(text, encoding="utf-8")
        self._serving = asyncio.run_coroutine_threadsafe(self._serve(), _loop())
        try:
            self._client = self._answer(self._opened, START_SECONDS)
        except BaseException:  # Ctrl-C too: the server that was started must end
            self.close()
            raise

    @asynccontextmanager
    async def _streams(self) -> AsyncGenerator[Any]:
        if self._command:
            # Of the environment it gets PATH, HOME and the like: no secret of this process.
            program, *words = self._command
            server = StdioServerParameters(command=program, args=words, cwd=self._folder / "work")
            with (self._folder / "errors").open("w") as log:
                async with stdio_client(server, log) as streams:
                    yield streams
            return

        async def note(response: httpx2.Response) -> None:
            self.id = self.id or response.headers.get("mcp-session-id", "")

        limit, hooks = httpx2.Timeout(START_SECONDS + self._seconds), {"response": [note]}
        async with (
            httpx2.AsyncClient(timeout=limit, event_hooks=hooks) as http,
            streamable_http_client(self._url, http_client=http, max_sse_event_size=None) as streams,
        ):
            yield streams

    async def _serve(self) -> None:
        """Hold the session until it is to stop; the task that entered it must leave it."""

        async def note(message: object) -> None:
            if isinstance(message, Exception):
                self._fault = f"it broke the protocol: {message}"
                self._asked.cancel()

        # Every server knows the handshake; behind HTTP it keeps a session only after one.
        client = Client(self._streams(), mode="legacy", cache=None, message_handler=note)
        with anyio.CancelScope() as self._scope:  # `Task.cancel` would break into its shutdown
            try:
                async with client:
                    self._opened.set_result(client)
                    await self._stop.wait()
            except BaseException as error:  # raised where the session is awaited
                if self._opened.done():
                    raise
                self._opened.set_exception(error)

    def _answer(self, future: Future[T], seconds: float) -> T:
        try:
            found = future.result(seconds)
            if self._fault:  # the answer came before its request could be cancelled
                raise CancelledError
            return found
        except MCPError as error:
            if error.code not in _BROKEN and error.message != _HTTP_STATUS:
                raise Refusal(error.message) from error
            cause, why = error, error.message
        except TimeoutError as error:
            cause, why = error, f"it gave no answer for {seconds:g} seconds"
        except _FAILURES as error:
            cause: BaseException = error
            if isinstance(error, RecursionError):  # of the arguments
                raise Refusal("nested too deep") from error
            while isinstance(cause, ExceptionGroup):
                cause = cause.exceptions[0]
            why = f"{type(cause).__name__}: {cause}"
        except ValueError as error:  # what JSON cannot say
            raise Refusal(str(error)) from error
        finally:
            future.cancel()
        self.healthy, errors = False, self._folder / "errors"
        lines = errors.read_bytes()[-2000:].splitlines() if errors.is_file() else []
        tail = b"\n".join(lines[-5:]).decode("utf-8", "replace")
        text = f"MCP server {self._url or ' '.join(self._command)!r}: {self._fault or why}"
        raise EnvError(f"{text}. Its standard error ends with: {tail}" if tail else text) from cause

    def _ask(self, request: Coroutine[object, object, T]) -> T:
        if not self.healthy:
            request.close()
            raise EnvError("the MCP server of this world failed before, or its session was closed")
        self._asked = asked = asyncio.run_coroutine_threadsafe(request, _loop())
        return self._answer(asked, self._seconds)

    def tools(self) -> dict[str, types.Tool]:
        """All tools of the server by name, page by page; raises `EnvError` where it lists none."""
        found, cursor = list[types.Tool](), None
        for _ in range(PAGES):
            page = self._ask(self._client.list_tools(cursor=cursor))
            found += page.tools
            if not (cursor := page.next_cursor):  # empty, where a server always writes it
                return {tool.name: tool for tool in found}
        raise EnvError(f"after {PAGES} pages there is still a nextCursor")

    def _called(self, name: str, arguments: Mapping[str, object]) -> types.CallToolResult:
        params = types.CallToolRequestParams(name=name, arguments=dict(arguments))
        # `Client.call_tool` would list all tools once more in each session.
        request = self._client.session.send_request
        return self._ask(request(types.CallToolRequest(params=params), types.CallToolResult))

    def call(self, name: str, arguments: Mapping[str, object]) -> ToolResult:
        """Result of a tool; it failed where it raised or the server refused the request."""
        try:
            return result_of(self._called(name, arguments))
        except Refusal as error:
            return ToolResult(f"Error: {error}", failed=True)

    def value(self, source: str) -> Json:
        """Content of a tool without arguments or a resource; raises `EnvError` if it fails."""
        try:
            if "://" in source:
                parts = self._ask(self._client.read_resource(source)).contents
                texts = [getattr(part, "text", None) or getattr(part, "blob", "") for part in parts]
                return _parsed(texts[0]) if len(texts) == 1 else [*texts]
            result = self._called(source, {})
            if result.is_error:
                raise Refusal(result_of(result).content)
        except Refusal as error:
            raise EnvError(f"{source!r} of the MCP server failed: {error}") from error
        return _data(result)

    def stop(self) -> None:
        """Begin to end it, without waiting."""

        def end() -> None:
            self._stop.set()
            if self._scope and (self._opened.cancelled() or not self._opened.done()):
                self._scope.cancel()

        self.healthy = False
        _loop().call_soon_threadsafe(end)

    def close(self) -> None:
        """End the session and the server that was started for it, and remove its folder."""
        self.stop()
        with suppress(Exception, CancelledError):  # of a server that is broken
            self._serving.result(30)
        shutil.rmtree(self._folder, ignore_errors=True)


def spec_of(tool: types.Tool) -> ToolSpec:
    """A tool as agents read of it, by a name that every dialect can write (an identifier)."""
    name = re.sub(r"\W", "_", tool.name, flags=re.ASCII)
    name = f"_{name}" if keyword.iskeyword(name) or not name.isidentifier() else name
    text = tool.description or tool.title or name.replace("_", " ")
    rows: dict[str, Any] = tool.input_schema.get("properties") or {}
    # true (any value) is {}, too
    shape: dict[str, Any] = {key: {} if isinstance(row, bool) else row for key, row in rows.items()}
    schema = {"type": "object"} | tool.input_schema | {"properties": shape}
    return ToolSpec(name, text.strip(), schema)


def result_of(result: types.CallToolResult) -> ToolResult:
    """A result as the agent reads it: its text, and its data unless the text holds them."""
    texts = [_shown(block) for block in result.content]
    text, data = "\n".join(texts), result.structured_content
    if data is not None:
        shown = text, _parsed(text), [_parsed(one) for one in texts]
        options = [data, *(data.values() if len(data) == 1 else ())]  # servers wrap one value
        held = [one for one in options if one in shown] or ([] if texts else [_data(result)])
        compact = json.dumps(held[0] if held else data, ensure_ascii=False)
        texts = [compact] if held else [text, compact]
        text = held[0] if held and isinstance(held[0], str) else "\n".join(texts)
    return ToolResult(text, failed=result.is_error)


def _data(result: types.CallToolResult) -> Json:
    """The value of a result: its data, or its text as JSON, or its text."""
    data: dict[str, Json] | None = result.structured_content
    if data is None:
        return _parsed("\n".join(map(_shown, result.content)))
    return data["result"] if list(data) == ["result"] else data  # SDKs wrap what is not an object


def _shown(block: types.ContentBlock) -> str:
    text = getattr(getattr(block, "resource", block), "text", None)
    return f"[{block.type}: not text, not shown]" if text is None else text


def _parsed(text: str) -> Json:
    try:
        return json.loads(text)
    except (ValueError, RecursionError):
        return text
