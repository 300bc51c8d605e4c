"""A client for any OpenAI-compatible chat server: vLLM, SGLang, llama.cpp, a hosted one.

Owns the requests: their limit of concurrency, time limits, repetitions, cache and accounts. All of
them run on one event loop in a thread of the client's own, so any thread or loop may ask. It never
decides whether an answer is good, and never shows the key.

    with ChatClient(ChatSettings(url="http://localhost:8000/v1"), folder / "chat.sqlite") as chat:
        chat.ask("plan", [{"role": "user", "content": "Plan a trip."}], seed=7).text
"""

from __future__ import annotations

import asyncio
import concurrent.futures
import dataclasses
import functools
import random
import re
import time
from collections.abc import Awaitable, Callable, Coroutine, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Self, TypeVar

import openai

from rods.errors import WriterError
from rods.synthesis.chat.cache import Answer, ResponseCache, digest
from rods.synthesis.chat.json_text import find_json
from rods.synthesis.chat.loop_thread import LoopThread
from rods.synthesis.chat.settings import ChatSettings, Reply, Usage, read_key, split_address
from rods.synthesis.chat.trouble import (
    Again,
    Trouble,
    backoff,
    malformed,
    of_error,
    read_answer,
    read_models,
    timed_out,
)
from rods.types import Json

__all__ = ["ChatClient", "ChatSettings", "Reply", "Usage", "find_json"]

T = TypeVar("T")

RESEEDS = 2
"""How often a refused or empty answer is asked for again with another seed."""
SEED_STEP, SEED_LIMIT = 1_000_003, 2**31
"""Distance of those seeds; servers take 31 bits."""
SILENCES = 8
"""Requests in a row, of all stages, without any answer after which the server counts as down."""
SECRET_LENGTH = 12
"""Keys from here on are also removed from answers; a shorter one (`EMPTY`) may be a word."""


@dataclass(frozen=True)
class _Asked:
    """One question on its way."""

    stage: str
    model: str
    seed: int
    key: str
    fields: Mapping[str, Json]
    schema: Mapping[str, Json] | None


class ChatClient:
    """Asks one server. Threads and event loops may share it; `close` it, or use `with`."""

    def __init__(self, settings: ChatSettings, cache: Path | None = None) -> None:
        """Prepare; nothing is sent yet.

        Args:
            settings: the server and the limits.
            cache: SQLite file of earlier answers, made where it is missing.

        Raises:
            ConfigError: the URL or the key cannot be used.
            StoreError: the cache is damaged.
        """
        self.settings = settings
        self._key = read_key(settings.key_variable)
        self._url, self._login = split_address(settings.url)
        self._cache = ResponseCache(cache) if cache else None
        self._loop = LoopThread("rods-chat")
        self._gate = asyncio.Semaphore(max(1, settings.concurrency))
        self._listing = asyncio.Lock()
        self._served: list[str] = []
        self._unknown: set[tuple[str, str]] = set()
        self._usage: dict[str, Usage] = {}
        self._silences, self._since = 0, 0.0

    async def complete(
        self,
        stage: str,
        messages: Sequence[Mapping[str, str]],
        *,
        seed: int = 0,
        schema: Mapping[str, Json] | None = None,
    ) -> Reply:
        """One answer, from the cache where the same question was answered before.

        Args:
            stage: Whose question this is: chooses model and temperature, and the account.
            messages: The conversation: `role` and `content`.
            seed: Of the sampling. An answer that is of no use comes again for the same seed.
            schema: JSON schema that the answer shall follow.

        Raises:
            WriterError: there is no answer; `fatal` where there will never be one.
        """
        future = self._loop.submit(self._complete(stage, messages, seed, schema))
        try:
            return await asyncio.wrap_future(future)
        except asyncio.CancelledError:
            if not self._loop.closed:
                raise
            raise self._error(stage, _closed()) from None

    def ask(
        self,
        stage: str,
        messages: Sequence[Mapping[str, str]],
        *,
        seed: int = 0,
        schema: Mapping[str, Json] | None = None,
    ) -> Reply:
        """`complete` for threads: waits for the answer."""
        return self._wait(stage, self._complete(stage, messages, seed, schema))

    def check(self) -> str:
        """The model that unnamed stages will get; asks the server which ones it has.

        Raises:
            WriterError: the server cannot be used, or a model of the settings is not there.
        """
        return self._wait("check", self._check())

    def usage(self) -> Mapping[str, Usage]:
        """Accounts by stage, since this client was made."""
        return dict(self._usage)

    def close(self) -> None:
        """Cancel what is running, close connections and the cache. May be called twice."""
        self._loop.close(self._disconnect)
        if self._cache:
            self._cache.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def _wait(self, stage: str, work: Coroutine[Any, Any, T]) -> T:
        try:
            return self._loop.wait(work)
        except concurrent.futures.CancelledError:
            raise self._error(stage, _closed()) from None

    async def _disconnect(self) -> None:
        if "_api" in self.__dict__:
            await self._api.close()

    async def _complete(
        self,
        stage: str,
        messages: Sequence[Mapping[str, str]],
        seed: int,
        schema: Mapping[str, Json] | None,
    ) -> Reply:
        try:
            asked = await self._question(stage, messages, seed, schema)
            answer = self._cache.get(asked.key) if self._cache else None
            if cached := answer is not None:
                self._count(stage, cached=1)
            else:
                answer = await self._answer(asked)
        except Trouble as trouble:
            raise self._error(stage, trouble) from None
        data = None if schema is None else find_json(answer.text)
        return Reply(data=data, cached=cached, **answer._asdict())

    async def _question(
        self,
        stage: str,
        messages: Sequence[Mapping[str, str]],
        seed: int,
        schema: Mapping[str, Json] | None,
    ) -> _Asked:
        settings = self.settings
        model = settings.models.get(stage) or settings.model or (await self._models())[0]
        fields: dict[str, Json] = {
            "model": model,
            "messages": [dict[str, Json](message) for message in messages],
            "temperature": settings.temperatures.get(stage, settings.temperature),
            "top_p": settings.top_p,
            "max_tokens": settings.max_tokens,
            "seed": seed,
        }
        return _Asked(stage, model, seed, digest({**fields, "schema": schema}), fields, schema)

    async def _answer(self, asked: _Asked) -> Answer:
        self._count(asked.stage, calls=1)
        try:
            answer = await self._persist(
                asked.stage, asked.key, functools.partial(self._request, asked)
            )
        except Trouble as trouble:
            if not trouble.no_model:
                raise
            raise await self._about_model(asked, trouble) from None
        if self._cache:
            self._cache.put(asked.key, answer)
        return answer

    async def _persist(self, stage: str, key: str, attempt: Callable[[int], Awaitable[T]]) -> T:
        """Repeat while it may help; `attempt` is told how often a new seed was needed."""
        rng, failed, reseeded = random.Random(key), 0, 0
        while True:
            started = time.monotonic()
            try:
                answer = await attempt(reseeded)
                self._silences = 0
                return answer
            except Trouble as trouble:
                pause = 0.0
                trouble.down = self._silent(trouble, started)
                if trouble.down:
                    raise
                if trouble.again is Again.LATER and failed < self.settings.retries:
                    pause = backoff(failed, rng) if trouble.pause is None else trouble.pause
                    failed += 1
                elif trouble.again is Again.RESEED and reseeded < RESEEDS:
                    reseeded += 1
                elif trouble.again is not Again.WITHOUT:
                    trouble.tries = failed + reseeded + 1
                    raise
            self._count(stage, retries=1)
            await asyncio.sleep(pause)

    def _silent(self, trouble: Trouble, started: float) -> bool:
        """Count requests in a row without any answer; whether the server counts as down.

        One that hangs is given up after the time of two requests, not of eight.
        """
        if not trouble.silent:
            self._silences = 0
            return False
        if not self._silences:
            self._since = started
        self._silences += 1
        hangs = time.monotonic() - self._since >= 2 * self.settings.timeout
        return self._silences >= SILENCES or (hangs and self._silences > 1)

    async def _request(self, asked: _Asked, reseeded: int) -> Answer:
        body, settings = self._body(asked, reseeded), self.settings
        try:
            data = await self._send(
                lambda: self._api.post("/chat/completions", cast_to=object, body=body),
                frozenset(body),
                asked.stage,
            )
        except Trouble as trouble:
            if trouble.again is Again.WITHOUT:
                self._unknown.add((asked.model, trouble.field))
            raise
        answer, trouble = read_answer(data, settings.max_tokens)
        asked_tokens, said_tokens = answer.prompt_tokens, answer.completion_tokens
        self._count(
            asked.stage,
            prompt_tokens=asked_tokens,
            completion_tokens=said_tokens,
            cost=(asked_tokens * settings.price_in + said_tokens * settings.price_out) / 1e6,
        )
        if trouble:
            raise trouble
        if len(self._key) >= SECRET_LENGTH:
            answer = answer._replace(text=self._hidden(answer.text))
        return answer

    def _body(self, asked: _Asked, reseeded: int) -> dict[str, Json]:
        body = dict(asked.fields)
        body["seed"] = (asked.seed + reseeded * SEED_STEP) % SEED_LIMIT
        if asked.schema is not None:
            body["response_format"] = {
                "type": "json_schema",
                "json_schema": {"name": _name(asked.stage), "schema": dict(asked.schema)},
            }
        for model, unknown in self._unknown:
            if model == asked.model and unknown in body:
                value = body.pop(unknown)
                if unknown == "max_tokens":
                    body["max_completion_tokens"] = value
        return body

    async def _send(
        self, call: Callable[[], Awaitable[object]], sent: frozenset[str], stage: str
    ) -> object:
        """One HTTP request, within the limits of concurrency and time, on a stage's account."""
        timeout = self.settings.timeout
        async with self._gate:
            start = time.monotonic()
            try:
                async with asyncio.timeout(timeout):
                    return await call()
            except TimeoutError:
                raise timed_out(timeout) from None
            except openai.APIError as error:
                raise of_error(error, sent, timeout) from None
            except ValueError as error:
                raise malformed(str(error)) from None
            finally:
                self._count(stage, seconds=time.monotonic() - start)

    @functools.cached_property
    def _api(self) -> openai.AsyncOpenAI:
        api = openai.AsyncOpenAI(
            base_url=self._url,
            api_key=self._key or "none",  # else the package would send another service's key
            max_retries=0,
            timeout=self.settings.timeout,
            default_headers={"Authorization": f"Basic {self._login}"} if self._login else None,
        )
        api.organization = api.project = None  # nor that service's account
        return api

    async def _check(self) -> str:
        try:
            served = await self._models()
            for model in (self.settings.model, *self.settings.models.values()):
                if model and model not in served:
                    raise _no_model(model, served)
        except Trouble as trouble:
            raise self._error("check", trouble) from None
        return self.settings.model or served[0]

    async def _models(self) -> list[str]:
        async with self._listing:
            if not self._served:
                self._served = await self._persist("check", "models", lambda _: self._list())
        return self._served

    async def _list(self) -> list[str]:
        data = await self._send(
            lambda: self._api.get("/models", cast_to=object), frozenset(), "check"
        )
        return read_models(data)

    async def _about_model(self, asked: _Asked, trouble: Trouble) -> Trouble:
        try:
            served = await self._models()
        except Trouble:
            return trouble
        return trouble if asked.model in served else _no_model(asked.model, served)

    def _count(self, stage: str, **more: float) -> None:
        old = self._usage.get(stage, Usage())
        sums: dict[str, Any] = {name: getattr(old, name) + more[name] for name in more}
        self._usage[stage] = dataclasses.replace(old, **sums)

    def _error(self, stage: str, trouble: Trouble) -> WriterError:
        tries = f" (asked {trouble.tries} times)" if trouble.tries > 1 else ""
        advice = trouble.advice.replace("{key_variable}", self.settings.key_variable)
        text = f"writer stage {stage!r}, {self._url}: {trouble.what}{tries}. {advice}"
        return WriterError(self._hidden(text), trouble.fatal, trouble.down)

    def _hidden(self, text: str) -> str:
        for secret in filter(None, (self._key, self._login)):
            text = text.replace(secret, "***")
        return text


def _closed() -> Trouble:
    return Trouble("the chat client was closed", "Ask before it is closed.", fatal=True)


def _no_model(model: str, served: Sequence[str]) -> Trouble:
    return Trouble(
        f"model {model!r} is not there; the server has {', '.join(map(repr, served))}",
        "Set synthesis.llm.model, or the stage's entry of synthesis.llm.models, to one of these.",
        fatal=True,
    )


def _name(stage: str) -> str:
    """A stage as the protocol allows schemas to be named."""
    return re.sub(r"[^A-Za-z0-9_-]", "_", stage)[:64] or "answer"
