"""The client of a remote retriever, against a server on loopback."""

from __future__ import annotations

import json
import threading
import time
from typing import Any

import pytest

from rods.envs.search.documents import Document
from rods.envs.search.environment import SearchEnvironment
from rods.envs.search.remote import RemoteRetriever
from rods.errors import ConfigError, EnvError
from rods.task import Task, Turn
from rods.types import ToolCall
from services import Reply, service


def rows(*documents: dict[str, Any]) -> Reply:
    """One list of documents, scores falling."""
    found = [{"document": d, "score": 9.5 - i} for i, d in enumerate(documents)]
    return 200, json.dumps({"result": [found]}).encode()


OKDAL = {"id": "4", "contents": '"Okdal"\nA town.'}
SARN = {"id": "5", "title": "Sarn", "text": "A river."}


def client(url: str, **settings: Any) -> RemoteRetriever:
    return RemoteRetriever(url, **({"patience": 0.01, "retries": 2} | settings))


@pytest.mark.parametrize("ending", ["", "/", "/retrieve", "/retrieve/"])
def test_request_and_answer(ending: str) -> None:
    with service(lambda *_: rows(OKDAL, SARN)) as (url, seen):
        hits = client(url + ending).search("river of Okdal", 3)
    asked = {"queries": ["river of Okdal"], "topk": 3, "return_scores": True}
    assert seen == [("/retrieve", asked)]
    assert [(h.document, h.score) for h in hits] == [
        (Document("4", "Okdal", "A town."), 9.5),
        (Document("5", "Sarn", "A river."), 8.5),
    ]


def test_a_path_before_retrieve_is_kept() -> None:
    with service(lambda *_: rows()) as (url, seen):
        assert client(url + "/v2/retrieve").search("x", 1) == []
    assert seen[0][0] == "/v2/retrieve"


def test_no_more_hits_than_were_asked_for() -> None:
    def reply(body: dict[str, Any], _: int) -> Reply:
        found = [[{"document": {"contents": q}, "score": 1}] * 5 for q in body["queries"]]
        return 200, json.dumps({"result": found}).encode()

    with service(reply) as (url, seen):
        hits = client(url).search("a", 2)
    assert len(seen) == 1
    assert [hit.document.title for hit in hits] == ["a", "a"]


def test_documents_alone_are_understood() -> None:
    with service(lambda *_: (200, json.dumps({"result": [[OKDAL]]}).encode())) as (url, _):
        (hit,) = client(url).search("x", 3)
    assert (hit.document.title, hit.score) == ("Okdal", 0.0)


@pytest.mark.parametrize(
    "bad", [(500, b"oops"), (429, b""), (503, b""), (0, b""), (200, b"<html>")]
)
def test_failures_are_tried_again(bad: Reply) -> None:
    with service(lambda _, number: bad if number < 3 else rows(SARN)) as (url, seen):
        (hit,) = client(url).search("x", 3)
    assert hit.document.title == "Sarn" and len(seen) == 3


@pytest.mark.parametrize(
    ("bad", "said"),
    [
        ((422, b"topk: field required"), "answered 422: topk: field required"),
        ((404, b""), "answered 404"),
        ((200, b"[]"), "expected an object with 'result'"),
        ((200, b'{"result": []}'), "expected an object with 'result': a list with one list"),
        ((200, b'{"result": [[{"document": {"id": 1}}]]}'), "expected a text 'contents'"),
        ((200, b'{"result": [[5]]}'), "expected an object, got int"),
        ((200, b'{"result": [[{"document": {"contents": "a"}, "score": "x"}]]}'), "'score' is 'x'"),
    ],
)
def test_what_cannot_get_better_is_asked_once(bad: Reply, said: str) -> None:
    with (
        service(lambda *_: bad) as (url, seen),
        pytest.raises(EnvError, match="after 1 attempt: ") as caught,
    ):
        client(url).search("x", 3)
    assert said in str(caught.value) and len(seen) == 2  # and a plain query once


def test_a_service_that_stays_broken_or_away() -> None:
    with service(lambda *_: (503, b"no pod")) as (url, seen):
        with pytest.raises(EnvError, match=r"failed after 3 attempts: .* answered 503: no pod"):
            client(url).search("x", 3)
        assert len(seen) == 4
    with pytest.raises(EnvError, match="Connection refused"):
        client(url).search("x", 3)


def test_waiting_has_an_end_and_pauses_grow() -> None:
    def slow(*_: object) -> Reply:
        time.sleep(0.3)
        return rows(SARN)

    with service(slow) as (url, _), pytest.raises(EnvError, match="ReadTimeout"):
        client(url, seconds=0.05, retries=0).search("x", 3)
    with service(lambda *_: (500, b"")) as (url, _):
        began = time.monotonic()
        with pytest.raises(EnvError):
            client(url, patience=0.05, retries=2).search("x", 3)
        assert time.monotonic() - began >= 0.5 * (0.05 + 0.1)


def test_no_more_than_size_at_once() -> None:
    now, most, lock = 0, 0, threading.Lock()

    def reply(*_: object) -> Reply:
        nonlocal now, most
        with lock:
            now += 1
            most = max(most, now)
        time.sleep(0.02)
        with lock:
            now -= 1
        return rows(SARN)

    with service(reply) as (url, seen):
        asking = client(url, size=2)
        threads = [threading.Thread(target=asking.search, args=("x", 1)) for _ in range(6)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
    assert len(seen) == 6 and most == 2


@pytest.mark.parametrize("url", ["", "host:80", "ftp://host", "http://"])
def test_no_address(url: str) -> None:
    with pytest.raises(ConfigError, match=r"env\.search\.corpus"):
        RemoteRetriever(url)


def test_the_environment_asks_it() -> None:
    task = Task("search", "hops-1", (Turn("Which river?"),), {"answer": "Sarn"})
    with service(lambda *_: rows(OKDAL)) as (url, seen):
        world = SearchEnvironment(corpus=url).open(task)
        world.begin_turn(0)
        result = world.call(ToolCall("search", {"query": " river\nof  Okdal"}))
    assert result.content == "Doc 1 (Title: Okdal) A town."
    assert seen[0][1]["queries"] == ["river of Okdal"] and seen[0][1]["topk"] == 3
