"""Servers that answer, but not as chat servers: asking ends after a few requests, one is shown."""

from __future__ import annotations

import gzip
import json
import threading
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

import pytest

from rods.errors import WriterError
from rods.infra.service import Service, ServiceFailure
from rods.synthesis.chat import LlmWriterSettings
from rods.synthesis.chat.client import GARBAGE, USELESS, ChatClient
from sweeps import slow

ASK = [{"role": "user", "content": "Say it."}]
PAGE = b"<!doctype html><html>Please log in to the proxy.</html>"
JSON = "application/json"
ENDLESS, DRIBBLE = b"*endless", b"*dribble"


def completion(content: Any) -> bytes:
    message = {"role": "assistant", "content": content}
    return json.dumps({"choices": [{"message": message, "finish_reason": "stop"}]}).encode()


BAD: dict[str, tuple[str, bytes, str]] = {
    "a page": ("text/html", PAGE, "log in to the proxy"),
    "a page as JSON": (JSON, PAGE, "Expecting value"),
    "a text": ("text/plain", b"hello there", "hello there"),
    "no type": ("", b"hello there", "hello there"),
    "nothing": (JSON, b"", "Expecting value"),
    "half of JSON": (JSON, b'{"choices": [', "Expecting value"),
    "null": (JSON, b"null", "None"),
    "a list": (JSON, b"[1, 2]", "[1, 2]"),
    "no choices": (JSON, b'{"object": "chat.completion", "choices": []}', "chat.completion"),
    "choices that are none": (JSON, b'{"choices": {"a": 1}}', "choices"),
    "an error": (JSON, b'{"error": {"message": "out of memory"}}', "out of memory"),
    "an error's text": (JSON, b'{"error": "no such route"}', "no such route"),
    "nested JSON": (JSON, b"[" * 100_000, "not what a chat server answers"),
    "no UTF-8": (JSON, b'{"choices": "\xff\xfe"}', "not what a chat server answers"),
    "a stream of events": ("text/event-stream", b'data: {"choices": []}\n\n', "data:"),
    "much JSON": (JSON, b'{"a": "' + b"x" * (17 << 20) + b'"}', "more than 16777216 bytes"),
    "much JSON, packed": ("gzip", gzip.compress(b"[" + b" " * (100 << 20)), "more than 16777216"),
    "a stream without end": (JSON, ENDLESS, "more than 16777216 bytes"),
    "an empty choice": (JSON, b'{"choices": [null]}', "the answer is empty"),
    "no content": (JSON, completion(None), "the answer is empty"),
    "blanks": (JSON, completion(" \n"), "the answer is empty"),
    "a number": (JSON, completion(7), "the answer is empty"),
    "only thoughts": (JSON, completion("<think>and so on"), "the answer is empty"),
    "refusals": (JSON, completion("I'm sorry, but I can't help with that."), "refused"),
}
MAY_BE_THE_MODEL = (
    *("an empty choice", "no content", "blanks", "a number", "only thoughts", "refusals"),
)


@contextmanager
def answering(kind: str, body: bytes, good: int = 0) -> Iterator[tuple[str, list[float]]]:
    """A server that answers nothing else, after so many good answers; and when it was asked."""
    asked: list[float] = []
    stop = threading.Event()

    class Handler(BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            self.rfile.read(int(self.headers.get("Content-Length") or 0))
            asked.append(time.monotonic())
            fine = len(asked) <= good
            self.send_response(200)
            if kind:
                self.send_header("Content-Type", JSON if kind == "gzip" or fine else kind)
            if kind == "gzip" and not fine:
                self.send_header("Content-Encoding", "gzip")
            self.end_headers()
            try:
                self._write(completion("fine") if fine else body)
            except OSError:
                return

        do_GET = do_POST

        def _write(self, body: bytes) -> None:
            while body in (ENDLESS, DRIBBLE) and not stop.is_set():
                self.wfile.write(b" " * (1 << 20 if body == ENDLESS else 1))
                if body == DRIBBLE:
                    stop.wait(0.05)
            self.wfile.write(body)

        def log_message(self, format: str, *args: object) -> None:
            return

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    server.daemon_threads = True
    thread = threading.Thread(target=server.serve_forever, args=(0.01,))
    thread.start()
    try:
        yield f"http://127.0.0.1:{server.server_port}/v1", asked
    finally:
        stop.set()
        server.shutdown()
        thread.join()
        server.server_close()


def client(url: str, timeout: float = 30.0, **settings: Any) -> ChatClient:
    return ChatClient(LlmWriterSettings(url=url, model="m", timeout=timeout, **settings))


def ask(chat: ChatClient, number: int) -> WriterError | None:
    try:
        chat.ask("plan", ASK, seed=number)
    except WriterError as error:
        return error
    return None


@pytest.mark.parametrize("name", [*[*BAD][:6], *slow(*[*BAD][6:])])
def test_asking_ends_after_a_few_answers_and_one_is_shown(name: str) -> None:
    kind, body, words = BAD[name]
    with answering(kind, body) as (url, asked), client(url) as chat:
        errors = list[WriterError]()
        while not errors or not errors[-1].fatal:
            error = ask(chat, len(errors))
            assert error is not None and len(errors) < USELESS
            errors.append(error)
        assert len(asked) == (USELESS if name in MAY_BE_THE_MODEL else GARBAGE)
        said = str(errors[-1])
        assert words in said and "is of use, the last:" in said and len(said) < 1000
        ask(chat, 99)
        assert len(asked) <= USELESS + 1  # each further question is one request


@pytest.mark.slow
def test_many_threads_ask_a_few_times_more_at_most() -> None:
    with answering("text/html", PAGE) as (url, asked), client(url, concurrency=8) as chat:
        with ThreadPoolExecutor(8) as pool:
            errors = list(pool.map(lambda n: ask(chat, n), range(8)))
        assert any(error and error.fatal for error in errors)
        assert len(asked) <= GARBAGE + 8


def test_a_list_of_models_that_is_none_counts() -> None:
    settings = LlmWriterSettings(url="", timeout=30.0)
    with answering("text/html", PAGE) as (url, asked):
        with ChatClient(settings.model_copy(update={"url": url})) as chat:
            errors = [ask(chat, number) for number in range(GARBAGE)]
        last = errors[-1]
        assert last is not None and last.fatal and "log in to the proxy" in str(last)
        assert len(asked) == GARBAGE


def test_a_server_that_was_of_use_may_be_empty_for_a_while() -> None:
    with answering(JSON, completion(""), good=1) as (url, asked), client(url) as chat:
        assert chat.ask("plan", ASK).text == "fine"
        errors = [ask(chat, number) for number in range(1, 12)]
        assert len(asked) == 1 + 3 * 11
        assert not any(error is None or error.fatal for error in errors)


@pytest.mark.slow
def test_an_answer_that_comes_byte_by_byte_is_given_up(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("openai._base_client.INITIAL_RETRY_DELAY", 0.001)
    with answering(JSON, DRIBBLE) as (url, asked), client(url, 0.5) as chat:
        began = time.monotonic()
        error = ask(chat, 0)
        assert error is not None and "no answer within 0.5 s" in str(error)
        assert time.monotonic() - began < 10 and len(asked) <= 5


@pytest.mark.parametrize(
    ("kind", "body", "words"),
    [
        (JSON, DRIBBLE, "did not end in 0.4 s"),
        (JSON, b"[" * 100_000, "no JSON"),
        ("text/html", PAGE, "no JSON"),
    ],
    ids=["byte by byte", "nested JSON", "a page"],
)
def test_other_services_are_asked_a_bounded_number_of_times(
    kind: str, body: bytes, words: str
) -> None:
    with answering(kind, body) as (url, asked):
        service = Service(url, "/x", "env.x", seconds=0.4, retries=2, patience=0.01)
        with pytest.raises(ServiceFailure, match=words):
            service.ask({}, lambda found: found)
        assert len(asked) == 3
