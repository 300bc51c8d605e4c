"""Servers that answer, but not as chat servers: asking ends after a few requests, one is shown."""

from __future__ import annotations

import json
import threading
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

import pytest

from loopback import Loopback
from rods.errors import WriterError
from rods.infra.service import Service, ServiceFailure
from rods.synthesis.chat import LlmWriterSettings
from rods.synthesis.chat.client import USELESS, ChatClient
from sweeps import slow

ASK = [{"role": "user", "content": "Say it."}]
PAGE = b"<!doctype html><html>Please log in to the proxy.</html>"
JSON = "application/json"
ENDLESS, DRIBBLE = b"*endless", b"*dribble"


def completion(content: Any, reason: str = "stop", **more: Any) -> bytes:
    message = {"role": "assistant", "content": content, **more}
    return json.dumps({"choices": [{"message": message, "finish_reason": reason}]}).encode()


BAD: dict[str, tuple[str, bytes, str]] = {
    "a page": ("text/html", PAGE, "log in to the proxy"),
    "a page as JSON": (JSON, PAGE, "log in to the proxy"),
    "a text": ("text/plain", b"hello there", "hello there"),
    "no type": ("", b"hello there", "hello there"),
    "nothing": (JSON, b"", "not what a chat server answers"),
    "half of JSON": (JSON, b'{"choices": [', '{"choices": ['),
    "null": (JSON, b"null", "null"),
    "a list": (JSON, b"[1, 2]", "[1, 2]"),
    "no choices": (JSON, b'{"object": "chat.completion", "choices": []}', "chat.completion"),
    "choices that are none": (JSON, b'{"choices": {"a": 1}}', "choices"),
    "an error": (JSON, b'{"error": {"message": "out of memory"}}', "out of memory"),
    "an error's text": (JSON, b'{"error": "no such route"}', "no such route"),
    "nested JSON": (JSON, b"[" * 100_000, "not what a chat server answers"),
    "no UTF-8": (JSON, b'{"choices": "\xff\xfe"}', "not what a chat server answers"),
    "a stream of events": ("text/event-stream", b'data: {"choices": []}\n\n', "data:"),
    "an empty choice": (JSON, b'{"choices": [null]}', '{"choices": [null]}'),
    "a number": (JSON, completion(7), '"content": 7'),
    "no content": (JSON, completion(None), "the answer is empty"),
    "blanks": (JSON, completion(" \n"), "the answer is empty"),
    "only thoughts": (JSON, completion("<think>and so on"), "the answer is empty"),
    "cut thoughts": (JSON, completion("<think>a", "length"), "all tokens went into thinking"),
    "refusals": (JSON, completion("I'm sorry, but I can't help with that."), "the model refused"),
    "refusals of the API": (JSON, completion(None, refusal="No."), "the model refused: No."),
    "filtered": (JSON, completion("x", "content_filter"), "the model refused: x"),
}


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
                self.send_header("Content-Type", JSON if fine else kind)
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
    return ChatClient(LlmWriterSettings(url=url, model="loopback", timeout=timeout, **settings))


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
        assert len(asked) == USELESS
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
        assert len(asked) <= USELESS + 8


def test_a_list_of_models_that_is_none_counts() -> None:
    settings = LlmWriterSettings(url="", timeout=30.0)
    with answering("text/html", PAGE) as (url, asked):
        with ChatClient(settings.model_copy(update={"url": url})) as chat:
            errors = [ask(chat, number) for number in range(USELESS)]
        last = errors[-1]
        assert last is not None and last.fatal and "log in to the proxy" in str(last)
        assert len(asked) == USELESS


def test_an_answer_of_use_ends_the_count() -> None:
    with Loopback(lambda body: "fine", ["empty"]) as server, client(server.url) as chat:
        for share, count in ((1.0, 7), (0.0, 1), (1.0, 7)):
            server.share = share
            errors = [ask(chat, number) for number in range(count)]
            assert not any(error and error.fatal for error in errors)
            assert all(errors) is bool(share)
        assert server.count == 21 + 1 + 21
        assert (last := ask(chat, 99)) is not None and last.fatal


@pytest.mark.slow
@pytest.mark.parametrize(
    ("body", "said"),
    [(DRIBBLE, "no answer within 0.5 s"), (ENDLESS, "more than 16777216 bytes")],
)
def test_an_answer_without_an_end_is_given_up(
    body: bytes, said: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("openai._base_client.INITIAL_RETRY_DELAY", 0.001)
    seconds = 0.5 if body == DRIBBLE else 30.0
    with answering(JSON, body) as (url, asked), client(url, seconds) as chat:
        began = time.monotonic()
        error = ask(chat, 0)
        assert error is not None and said in str(error)
        assert time.monotonic() - began < 60 and len(asked) <= 5


def test_half_of_a_surrogate_pair_is_replaced() -> None:
    with answering(JSON, completion("x\ud800")) as (url, _), client(url) as chat:
        assert chat.ask("plan", ASK).text == "x?"


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
