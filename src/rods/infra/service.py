"""A service that is asked by POST with JSON: requests, repetitions, and what counts as a failure.

Owns the connection and when to ask again. The caller reads an answer, and decides whether one that
it cannot use may be another the next time.
"""

from __future__ import annotations

import json
import os
import random
import time
from collections.abc import Callable, Mapping
from typing import TypeVar

import httpx

from rods.errors import ConfigError
from rods.infra.text import address_of

LARGEST_ANSWER = 64 << 20
BUSY = frozenset({408, 425, 429, 500, 502, 503, 504})  # statuses that may be another the next time

T = TypeVar("T")


def read_key(variable: str) -> str:
    """The key in an environment variable, or nothing; `ConfigError` if no header can hold it."""
    key = os.environ.get(variable, "").strip()
    if not all("!" <= letter <= "~" for letter in key):
        raise ConfigError(
            f"environment variable {variable}: the key holds a space or a character that no "
            "HTTP header can carry. Set it again, without quotes."
        )
    return key


class ServiceFailure(Exception):
    """The service gave no usable answer."""

    def __init__(self, message: str, again: bool) -> None:
        super().__init__(message)
        self.again = again
        """True if asking again may help."""
        self.attempts = 1
        """Number of requests."""
        self.refused = False
        """True: the service answers another request, so this one is at fault."""


class Service:
    """Asks one address.

    Args:
        url: Address of the service, with or without `path`.
        setting: Name of the address in messages.
        seconds: How long one answer may take.
        retries: How often to ask again when the service failed.
        patience: Seconds before the first repetition; doubled each time, with some chance in it.
        size: Requests at once; more callers wait.

    Raises `ConfigError` where the address is none.
    """

    def __init__(
        self,
        url: str,
        path: str,
        setting: str,
        seconds: float = 30.0,
        retries: int = 3,
        patience: float = 0.5,
        size: int = 32,
        headers: Mapping[str, str] | None = None,
    ) -> None:
        if (parts := address_of(url)) is None:
            raise ConfigError(f"{setting} is {url!r}, expected http(s)://host[:port][/path].")
        port = parts.port or (443 if parts.scheme == "https" else 80)
        route = parts.path.rstrip("/").removesuffix(path) + path
        self.where = f"{parts.hostname}:{port}{route}"
        """The address as messages name it."""
        self._url = parts._replace(path=route, query="", fragment="").geturl()
        # Each request has a connection of its own: one that its server closed while it was idle
        # would fail a request that may not be repeated.
        self._client = httpx.Client(
            headers={"Content-Type": "application/json", **(headers or {})},
            timeout=httpx.Timeout(seconds, pool=None),
            limits=httpx.Limits(max_connections=size, max_keepalive_connections=0),
            trust_env=False,
        )
        self._seconds, self._retries, self._patience = seconds, retries, patience
        self._rng = random.Random()  # its own: training draws from the global one

    def ask(
        self, body: object, understand: Callable[[object], T], plain: object = None
    ) -> tuple[T, int]:
        """Return the meaning of the answer, and the number of requests for it.

        Args:
            understand: Reads an answer; raises `ServiceFailure` for one of no use.
            plain: A request that any such service can answer. It is asked once where `body` gets no
                usable answer: if it gets one, `body` is at fault (`ServiceFailure.refused`).

        Raises:
            ServiceFailure: no usable answer came, after all repetitions.
        """
        raw = json.dumps(body).encode()
        for attempt in range(1, self._retries + 2):
            try:
                return understand(self._answer(raw)), attempt
            except ServiceFailure as failure:
                if not failure.again or attempt > self._retries:
                    failure.attempts = attempt
                    failure.refused = plain is not None and self._answers(plain, understand)
                    raise
            time.sleep(self._patience * 2 ** (attempt - 1) * self._rng.uniform(0.5, 1.0))
        raise AssertionError("the last attempt returns or raises")

    def _answers(self, plain: object, understand: Callable[[object], object]) -> bool:
        try:
            understand(self._answer(json.dumps(plain).encode()))
        except ServiceFailure:
            return False
        return True

    def _answer(self, raw: bytes) -> object:
        text, deadline = bytearray(), time.monotonic() + self._seconds
        try:
            with self._client.stream("POST", self._url, content=raw) as answer:
                for part in answer.iter_bytes():
                    text += part
                    if len(text) > LARGEST_ANSWER:
                        what = f"{self.where} answered more than {LARGEST_ANSWER} bytes"
                        raise ServiceFailure(what, False)
                    if time.monotonic() > deadline:
                        what = f"{self.where}: the answer did not end in {self._seconds:g} s"
                        raise ServiceFailure(what, True)
        except httpx.HTTPError as error:
            raise ServiceFailure(f"{self.where}: {type(error).__name__}: {error}", True) from error
        if answer.status_code != 200:
            status, excerpt = answer.status_code, text[:200].decode(errors="replace")
            raise ServiceFailure(f"{self.where} answered {status}: {excerpt}", status in BUSY)
        try:
            return json.loads(text)
        except (ValueError, RecursionError) as error:
            raise ServiceFailure(f"{self.where} answered no JSON: {error}", True) from error
