"""A chat server on loopback that speaks the chat-completions protocol, friendly or hostile.

Owns the protocol and the ways to break it; what is answered comes from an author, a function of the
request's body. Which answers are broken depends on the seed, the body and how often that body came,
not on the order of threads.

    with Loopback(lambda body: "hello", hostile=["http_500"], share=0.3) as server:
        ChatClient(LlmWriterSettings(url=server.url)).ask("plan", messages)

By hand, prints its URL:

    python tests/support/loopback.py --author module:attribute [--hostile MODE ...]
"""

from __future__ import annotations

import argparse
import importlib
import json
import os
import random
import re
import socket
import sys
import threading
import time
from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any, Self, cast

Body = dict[str, Any]

MODES = (
    "invalid_json",
    "no_tags",
    "wrong_function",
    "refusal",
    "empty",
    "truncated",
    "http_429",
    "http_500",
    "slow",
    "dropped",
    "thinking",
    "no_schema",
    "html",
)
REFUSAL = "I'm sorry, but I can't help with that."
THOUGHT = '<think>The user wants {"draft": true}, or <plan>a draft</plan>? Let me see.</think>\n\n'
PROSE = "Certainly. I would be glad to help, and everything is as you wish."
PAGE = "<!doctype html><html><body>Please log in to the proxy.</body></html>"
UNKNOWN = "conjure_result"
"""Name of a function that no world has."""


class Loopback:
    """The server; a context manager, or `start` and `stop`."""

    def __init__(
        self,
        author: Callable[[Body], str],
        hostile: Iterable[str] = (),
        share: float = 1.0,
        seed: int = 0,
        *,
        delay: float = 0.3,
        pace: float = 0.0,
        models: Sequence[str] = ("loopback",),
        key: str = "",
        context: int = 0,
        refuses: Callable[[Body], tuple[int, str] | None] = lambda body: None,
        spared: str = "",
        retry_after: str = "0.001",
        port: int = 0,
    ) -> None:
        """Bind, but do not answer yet.

        Args:
            author: Writes the assistant's text for a request's body.
            hostile: Modes, each answer that is broken gets one of them.
            share: Of the answers that are broken.
            seed: Of the choice.
            delay: Seconds of the mode `slow`.
            pace: Seconds that every answer takes.
            models: What is listed; others are answered with 404.
            key: What `Authorization: Bearer` must say, where it is not empty.
            context: Longest conversation in characters, where it is not 0.
            refuses: Status and words of an answer to a body; None: it is not refused.
            spared: A message of it has an honest answer, where it is not empty.
            retry_after: What HTTP 429 says of it.
            port: 0: any free one.
        """
        self.author, self.hostile, self.share, self.seed = author, tuple(hostile), share, seed
        if unknown := set(self.hostile) - set(MODES):
            raise ValueError(f"unknown modes {sorted(unknown)}; there are {', '.join(MODES)}")
        self.delay, self.pace, self.models = delay, pace, tuple(models)
        self.key, self.context, self.retry_after = key, context, retry_after
        self.refuses, self.spared = refuses, spared
        self.requests: list[Body] = []
        """Bodies of all requests for completions, in order of arrival."""
        self.times: list[float] = []
        """When each of them arrived."""
        self.headers: list[dict[str, str]] = []
        """Their headers; names in lower case."""
        self.modes: Counter[str] = Counter()
        """How often each mode was used."""
        self.most = 0
        """Most completions that were in work at the same time."""
        self.stopping = threading.Event()
        self._now = 0
        self._seen: Counter[str] = Counter()
        self._lock = threading.Lock()
        self._server = _Server(("127.0.0.1", port), _Handler)
        self._server.loopback = self
        self._thread = threading.Thread(target=self._server.serve_forever, args=(0.02,))

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self._server.server_port}/v1"

    @property
    def count(self) -> int:
        """Requests for completions so far."""
        return len(self.requests)

    def start(self) -> Self:
        self._thread.start()
        return self

    def stop(self) -> None:
        self.stopping.set()
        self._server.shutdown()
        self._thread.join()
        self._server.server_close()

    __enter__ = start

    def __exit__(self, *_: object) -> None:
        self.stop()

    def arrive(self, body: Body, headers: dict[str, str]) -> str:
        """Note a request; the mode of its answer, empty for an honest one."""
        text = json.dumps(body, sort_keys=True)
        with self._lock:
            self.requests.append(body)
            self.times.append(time.monotonic())
            self.headers.append(headers)
            self._seen[text] += 1
            self._now += 1
            self.most = max(self.most, self._now)
            rng = random.Random(f"{self.seed}:{text}:{self._seen[text]}")
            hostile = bool(self.hostile) and rng.random() < self.share
            if self.spared and body["messages"][-1]["content"] == self.spared:
                hostile = False
            mode = rng.choice(self.hostile) if hostile else ""
            self.modes[mode] += bool(mode)
        return mode

    def leave(self) -> None:
        with self._lock:
            self._now -= 1


class _Server(ThreadingHTTPServer):
    daemon_threads = True
    request_queue_size = 64
    loopback: Loopback

    def handle_error(self, request: Any, client_address: Any) -> None:
        if not isinstance(sys.exception(), OSError):  # a client that went away is no error here
            super().handle_error(request, client_address)


class _Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    timeout = 30

    @property
    def loopback(self) -> Loopback:
        return cast("_Server", self.server).loopback

    def log_message(self, format: str, *args: object) -> None:
        pass

    def do_GET(self) -> None:
        if not self._allowed():
            return
        if self.path != "/v1/models":
            self._fail(404, f"no such page: {self.path}")
            return
        rows = [{"id": name, "object": "model"} for name in self.loopback.models]
        self._send(200, {"object": "list", "data": rows})

    def do_POST(self) -> None:
        data = self.rfile.read(int(self.headers.get("Content-Length") or 0))
        if not self._allowed():
            return
        if self.path != "/v1/chat/completions":
            self._fail(404, f"no such page: {self.path}")
            return
        body = cast("Body", json.loads(data))
        mode = self.loopback.arrive(
            body, {name.lower(): value for name, value in self.headers.items()}
        )
        try:
            self._complete(body, mode)
        finally:
            self.loopback.leave()

    def _allowed(self) -> bool:
        key, told = self.loopback.key, self.headers.get("Authorization") or ""
        if key and told != f"Bearer {key}":
            self._fail(401, f"Incorrect API key provided: {told}")
            return False
        return True

    def _complete(self, body: Body, mode: str) -> None:
        server = self.loopback
        if server.pace or mode == "slow":
            server.stopping.wait(server.pace + (server.delay if mode == "slow" else 0.0))
        length = sum(len(message["content"]) for message in body["messages"])
        if (refusal := server.refuses(body)) is not None:
            self._fail(*refusal)
        elif body["model"] not in server.models:
            self._fail(404, f"The model `{body['model']}` does not exist.")
        elif server.context and length > server.context:
            limit = f"This model's maximum context length is {server.context} tokens."
            self._fail(400, f"{limit} However, your messages have {length} tokens.")
        elif mode == "http_429":
            self._fail(429, "Rate limit reached", {"Retry-After": server.retry_after})
        elif mode == "http_500":
            self._fail(500, "Internal server error")
        elif mode == "html":
            self._send(200, PAGE, kind="text/html")
        elif mode == "no_schema" and "response_format" in body:
            self._fail(400, "Unknown field: response_format")
        else:
            self._answer(broken(mode, server.author(body)), body, mode)

    def _answer(self, text: str, body: Body, mode: str) -> None:
        said = " ".join(message["content"] for message in body["messages"])
        tokens = {"prompt_tokens": len(said.split()), "completion_tokens": len(text.split())}
        choice = {
            "index": 0,
            "message": {"role": "assistant", "content": text},
            "finish_reason": "length" if mode == "truncated" else "stop",
        }
        answer = {
            "id": "loopback",
            "object": "chat.completion",
            "model": body["model"],
            "choices": [choice],
            "usage": tokens | {"total_tokens": sum(tokens.values())},
        }
        self._send(200, answer, whole=mode != "dropped")

    def _fail(self, status: int, words: str, headers: dict[str, str] | None = None) -> None:
        self._send(status, {"error": {"message": words, "code": status}}, headers)

    def _send(
        self,
        status: int,
        data: object,
        headers: dict[str, str] | None = None,
        whole: bool = True,
        kind: str = "application/json",
    ) -> None:
        text = (json.dumps(data) if kind.endswith("json") else str(data)).encode()
        self.send_response(status)
        self.send_header("Content-Type", kind)
        self.send_header("Content-Length", str(len(text)))
        for name, value in (headers or {}).items():
            self.send_header(name, value)
        self.end_headers()
        self.wfile.write(text if whole else text[: len(text) // 2])
        if not whole:
            self.wfile.flush()
            self.close_connection = True
            self.connection.shutdown(socket.SHUT_RDWR)


def broken(mode: str, text: str) -> str:
    """An author's text as a hostile mode would have it."""
    if mode == "invalid_json":
        broken_json = re.sub(r'"\s*:', '" =', text)
        return broken_json if broken_json != text else '{"answer": [1, 2'
    if mode == "no_tags":
        bare = re.sub(r"</?\w+[^>]*>", "", text)
        return bare if bare.strip() and bare != text else PROSE
    if mode == "wrong_function":
        return _wrong_function(text)
    if mode == "truncated":
        return text[: len(text) // 2]
    if mode == "thinking":
        return THOUGHT + text
    return {"refusal": REFUSAL, "empty": ""}.get(mode, text)


def _wrong_function(text: str) -> str:
    """Other names of functions: in fields that name them, in lists of them, and in calls."""
    text = re.sub(r'("(?:name|function|tool)"\s*:\s*")[^"]*"', rf'\g<1>{UNKNOWN}"', text)
    text = re.sub(r'("(?:functions|tools|calls)"\s*:\s*\[\s*")[^"]*"', rf'\g<1>{UNKNOWN}"', text)
    return re.sub(r"\b[A-Za-z_][\w.]*\((?=[^)]*=|\))", f"{UNKNOWN}(", text)


def _arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description="A chat server for trying things by hand.")
    parser.add_argument("--author", required=True, help="module:attribute, called with the body")
    parser.add_argument("--hostile", nargs="*", default=[], choices=MODES, metavar="MODE")
    parser.add_argument("--share", type=float, default=1.0, help="of the answers that are broken")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--delay", type=float, default=0.3, help="seconds of the mode slow")
    parser.add_argument("--pace", type=float, default=0.0, help="seconds of every answer")
    parser.add_argument("--port", type=int, default=0)
    return parser.parse_args()


def main() -> None:
    options = vars(_arguments())
    sys.path.insert(0, os.getcwd())
    module, _, attribute = options.pop("author").partition(":")
    server = Loopback(getattr(importlib.import_module(module), attribute), **options)
    with server:
        sys.stdout.write(server.url + "\n")
        sys.stdout.flush()
        try:
            threading.Event().wait()
        except KeyboardInterrupt:
            sys.stderr.write(f"{server.count} requests; {dict(server.modes)}\n")


if __name__ == "__main__":
    main()
