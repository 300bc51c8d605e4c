"""The connection to an inference server: requests, repetitions, and errors that say what to do.

Owns the `openai` package's client, which repeats what failed and heeds `Retry-After`, the key, and
the words for everything that can go wrong. It knows no sessions and no weights.

    connection = Connection("http://localhost:8000/v1", seconds=600)
    await connection.models()
    await connection.complete({"model": "m", "prompt": [5, 6, 7], "max_tokens": 8}, "session-7")
    await connection.control("sleep", {"level": 1})
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Mapping
from typing import Any, cast

import openai

from rods.config.engine import KEY_VARIABLE
from rods.errors import ConfigError, PolicyError
from rods.infra.service import read_key
from rods.infra.text import address_of, excerpt

RETRIES = 4
"""Repetitions after a broken connection, HTTP 429 or 5xx; what came too late is not asked again."""
_KEY = f"Put a valid key into the variable {KEY_VARIABLE}."
_LONG = "If the context is too long, serve the model with at least rollout.context_tokens."
ADVICE = {
    401: _KEY,
    403: _KEY,
    404: "Is engine.model what it calls the model, and does engine.url end in /v1?",
    429: "Lower rollout.concurrency.",
    **dict.fromkeys((400, 413, 422), _LONG),
}
"""Advice by HTTP status."""


class _TooLateError(BaseException):
    """No answer in time. The package repeats a request after every `Exception`."""


class _Client(openai.DefaultAsyncHttpxClient):
    """Waits for one answer for so many seconds."""

    def __init__(self, seconds: float) -> None:
        super().__init__(timeout=None)
        self._seconds = seconds

    async def send(self, *request: Any, **options: Any) -> Any:
        """Send one request."""
        try:
            async with asyncio.timeout(self._seconds):
                return await super().send(*request, **options)
        except TimeoutError as error:
            raise _TooLateError from error


class Connection:
    """One server. Make it on the event loop on which it is used."""

    def __init__(self, url: str, seconds: float, key: str = "") -> None:
        """Prepare; nothing is sent yet.

        `url` goes up to and with /v1, and one answer may take so many `seconds`. An empty `key` is
        that of the environment variable. Raises `ConfigError` where URL or key cannot be used.
        """
        if address_of(url) is None:
            raise ConfigError(
                f"engine.url: {url!r} is not the address of a server; expected something like "
                "http://localhost:8000/v1."
            )
        self.url = url.rstrip("/")
        self._root = self.url.removesuffix("/v1")
        self._key, self._seconds = key or read_key(KEY_VARIABLE), seconds
        self._api = openai.AsyncOpenAI(
            base_url=self.url,
            api_key=self._key or "none",  # else the package would send another service's key
            max_retries=RETRIES,
            timeout=None,  # the client's own
            http_client=_Client(seconds),
        )
        self._api.organization = self._api.project = None  # nor that service's account

    async def models(self) -> list[Mapping[str, Any]]:
        """The server's description of each model, such as `id`; `PolicyError` if it lists none."""
        answer = await self._answer(self._api.get("/models", cast_to=object))
        rows = _list(answer, "data")
        if not rows:
            raise PolicyError(
                f"engine {self.url}: it lists no model ({excerpt(answer)}). Does engine.url end "
                "where the API begins (/v1)?"
            )
        return rows

    async def complete(self, body: Mapping[str, object], session: str) -> Mapping[str, Any]:
        """The first choice of a completion, with the server's own fields.

        Routers send requests of one session to the same replica, whose cache has it. Raises
        `PolicyError` where there is no completion.
        """
        own: Any = {"headers": {"X-Session-ID": session}}
        request = self._api.post("/completions", cast_to=object, body=dict(body), options=own)
        answer = await self._answer(request)
        choices = _list(answer, "choices")
        if not choices:
            raise PolicyError(f"engine {self.url}: this is not a completion: {excerpt(answer)}.")
        return choices[0]

    async def control(
        self,
        route: str,
        query: Mapping[str, object] | None = None,
        body: Mapping[str, object] | None = None,
    ) -> Mapping[str, Any]:
        """POST to a route beside /v1 (or below it, if it begins so); what it answers.

        Raises:
            PolicyError: the server has no such route, or refuses.
        """
        url, own = f"{self._root}/{route}", {"params": dict(query or {}), "max_retries": 0}
        request = self._api.post(url, cast_to=object, body=body or {}, options=cast("Any", own))
        answer = await self._answer(request, route)
        fields: dict[str, Any] = answer if isinstance(answer, dict) else {}
        if fields.get("success") is False:
            raise PolicyError(f"engine {self.url}: /{route} failed: {excerpt(fields)}.")
        return fields

    async def close(self) -> None:
        """Close it; may be called more than once."""
        await self._api.close()

    async def _answer(self, request: Awaitable[object], route: str = "") -> object:
        """Send a request and return its answer; or state what went wrong, and what to do."""
        try:
            return await request
        except _TooLateError as error:
            raise PolicyError(
                f"engine {self.url}: no answer within {self._seconds:g} s. Raise engine.timeout, "
                "or lower rollout.concurrency."
            ) from error
        except openai.APIConnectionError as error:
            raise PolicyError(
                f"engine {self.url}: it cannot be reached ({error.__cause__ or error}). Start the "
                "server, or correct engine.url."
            ) from error
        except openai.APIStatusError as error:
            status, words = error.status_code, str(error.body or error.message)
            advice = ADVICE.get(status, "Look at the server's log.")
            if status == 404 and route:
                advice = (
                    f"It has no /{route}. Start it so that it does (docs/guides/engines.md), or "
                    "set engine.weights to what it offers."
                )
            if self._key:
                words = words.replace(self._key, "***")
            raise PolicyError(
                f"engine {self.url}: HTTP {status}: {excerpt(words)}. {advice}"
            ) from error
        except (openai.APIError, ValueError, RecursionError) as error:  # also of broken JSON
            raise PolicyError(f"engine {self.url}: this is not its answer: {error}.") from error


def _list(answer: object, key: str) -> list[Mapping[str, Any]]:
    found: object = answer.get(key) if isinstance(answer, dict) else None
    rows: list[Any] = found if isinstance(found, list) else []
    return [row for row in rows if isinstance(row, dict)]
