"""Client of a retriever on another machine, in the request form of Search-R1 (`POST /retrieve`).

Owns the request, the repetitions and what an answer means. A service that is busy, broken or away
is a failure of infrastructure: `EnvError`, never an empty result.

    retriever = RemoteRetriever("http://retriever.example:8000")
    retriever.search("river of Okdal", 3)

The request is `{"queries": [...], "topk": 3, "return_scores": true}`, the answer
`{"result": [[{"document": {...}, "score": 1.5}, ...], ...]}`, one list a query. A document has one
of the two forms of `documents.py`; its id may be missing.
"""

from __future__ import annotations

import http.client
import json
import random
import threading
import time
from collections.abc import Sequence
from typing import Any, cast
from urllib.parse import urlsplit

from rods.envs.search.documents import Hit, document_of
from rods.errors import ConfigError, EnvError

LARGEST_ANSWER = 64 << 20
BUSY = frozenset({408, 425, 429, 500, 502, 503, 504})
"""Statuses that may be another the next time."""


class _Failure(Exception):
    """The service gave no usable answer."""

    def __init__(self, message: str, again: bool) -> None:
        super().__init__(message)
        self.again = again


class RemoteRetriever:
    """Asks a retrieval service, `size` requests at once.

    Args:
        url: Address of the service, with or without `/retrieve`.
        seconds: How long one answer may take.
        retries: How often to ask again when the service failed.
        patience: Seconds before the first repetition; doubled each time, with some chance in it.
        size: Requests at once; more callers wait.
    """

    def __init__(
        self,
        url: str,
        seconds: float = 30.0,
        retries: int = 3,
        patience: float = 0.5,
        size: int = 32,
    ) -> None:
        parts = urlsplit(url)
        if parts.scheme not in ("http", "https") or not parts.hostname:
            raise ConfigError(f"env.retriever is {url!r}, expected http(s)://host[:port][/path].")
        self._https, self._host, self._port = parts.scheme == "https", parts.hostname, parts.port
        self._path = parts.path.rstrip("/").removesuffix("/retrieve") + "/retrieve"
        self._seconds, self._retries, self._patience = seconds, retries, patience
        self._chance = random.Random()  # its own: training draws from the global one
        self._slots = threading.BoundedSemaphore(size)

    def search(self, query: str, limit: int) -> list[Hit]:
        """The best documents for one query, best first."""
        return self.search_many([query], limit)[0]

    def search_many(self, queries: Sequence[str], limit: int) -> list[list[Hit]]:
        """The best documents for each of some queries, in one request.

        Raises:
            EnvError: no usable answer came, after all repetitions.
        """
        asked = {"queries": list(queries), "topk": limit, "return_scores": True}
        body = json.dumps(asked).encode()
        reason, attempt = "", 0
        with self._slots:
            for attempt in range(1, self._retries + 2):
                try:
                    return self._understand(self._ask(body), len(queries), limit)
                except _Failure as failure:
                    reason = str(failure)
                    if not failure.again:
                        break
                if attempt <= self._retries:
                    time.sleep(self._patience * 2 ** (attempt - 1) * self._chance.uniform(0.5, 1))
        raise EnvError(
            f"the retriever failed after {attempt} attempt{'s' * (attempt > 1)}: {reason}"
        )

    def _ask(self, body: bytes) -> object:
        kind = http.client.HTTPSConnection if self._https else http.client.HTTPConnection
        connection = kind(self._host, self._port, timeout=self._seconds)
        where = f"{self._host}:{connection.port}{self._path}"
        try:
            connection.request("POST", self._path, body, {"Content-Type": "application/json"})
            answer = connection.getresponse()
            text = answer.read(LARGEST_ANSWER + 1)
        except (OSError, http.client.HTTPException) as error:
            raise _Failure(f"{where}: {type(error).__name__}: {error}", True) from error
        finally:
            connection.close()
        if answer.status != 200:
            excerpt = text[:200].decode(errors="replace")
            raise _Failure(f"{where} said {answer.status}: {excerpt}", answer.status in BUSY)
        if len(text) > LARGEST_ANSWER:
            raise _Failure(f"{where} answered more than {LARGEST_ANSWER} bytes", False)
        try:
            return json.loads(text)
        except ValueError as error:
            raise _Failure(f"{where} answered what is no JSON: {error}", True) from error

    def _understand(self, answer: object, queries: int, limit: int) -> list[list[Hit]]:
        """The answer as hits, one list a query."""
        found = cast("dict[str, Any]", answer).get("result") if isinstance(answer, dict) else None
        lists = cast("list[Any]", found) if isinstance(found, list) else []
        if len(lists) != queries or not all(isinstance(rows, list) for rows in lists):
            raise _Failure(
                f"{self._host} answered {str(answer)[:200]!r}, expected an object with 'result': "
                f"{queries} lists of documents",
                False,
            )
        try:
            return [[_hit(row, i) for i, row in enumerate(rows[:limit])] for rows in lists]
        except ValueError as error:
            raise _Failure(
                f"{self._host} answered with a broken document: {error}", False
            ) from error


def _hit(row: object, number: int) -> Hit:
    """One row; without scores some services give the document alone."""
    data: dict[str, Any] = cast("dict[str, Any]", row) if isinstance(row, dict) else {}
    inner = data.get("document", row)
    if isinstance(inner, dict):
        inner = {"id": str(number)} | cast("dict[str, Any]", inner)
    score = data.get("score", 0.0)
    if not isinstance(score, int | float):
        raise ValueError(f"'score' is {score!r}, expected a number")
    return Hit(document_of(inner), float(score))
