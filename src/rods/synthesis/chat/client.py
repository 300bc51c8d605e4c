"""A client for any OpenAI-compatible chat server: vLLM, SGLang, llama.cpp, a hosted one.

Owns the questions: their limit of concurrency, cache and accounts, and what is asked again with
another seed or without a field. Repetitions after a failure, their pauses and `Retry-After` are the
`openai` package's. It never decides whether an answer is good, and never shows the key.

    with ChatClient(LlmWriterSettings(url="http://localhost:8000/v1"), cache) as chat:
        chat.ask("plan", [{"role": "user", "content": "Plan a trip."}], seed=7).text
"""

from __future__ import annotations

import contextlib
import dataclasses
import re
import threading
from collections.abc import Callable, Generator, Mapping, Sequence
from pathlib import Path
from typing import Any, Self

import openai

from rods.errors import WriterError
from rods.infra.turns import Turns
from rods.settings.synthesis import LlmWriterSettings
from rods.synthesis.chat.cache import Answer, ResponseCache, digest
from rods.synthesis.chat.json_text import find_json
from rods.synthesis.chat.request_error import (
    Again,
    RequestError,
    malformed,
    of_error,
    read_answer,
    read_models,
)
from rods.synthesis.chat.settings import Reply, Usage, read_key, split_address
from rods.synthesis.chat.watch import Watch
from rods.types import Json

__all__ = ["ChatClient", "Reply", "Usage", "find_json"]

RETRIES = 4
RESEEDS = 2
"""How often an answer of no use (refused, empty, malformed) is asked for with another seed."""
GARBAGE, USELESS = 6, 24
"""Answers in a row after which nothing more is asked: that are no chat completions; that are
refused, empty or no completions, while no other ever came."""
SEED_STEP, SEED_LIMIT = 1_000_003, 2**31
"""Distance of those seeds; servers take 31 bits."""
SECRET_LENGTH = 12
"""Keys from here on are also removed from answers; a shorter one (`EMPTY`) may be a word."""


class ChatClient:
    """Asks one server. Threads may share it; `close` it, or use `with`."""

    def __init__(
        self, settings: LlmWriterSettings, cache: Path | None = None, retries: int = RETRIES
    ) -> None:
        """Prepare; nothing is sent yet.

        Args:
            settings: the server and the limits.
            cache: SQLite file of earlier answers, made where it is missing.
            retries: repetitions after a timeout, a broken connection, HTTP 429 or 5xx.

        Raises:
            ConfigError: the URL or the key cannot be used.
            StoreError: the cache is damaged.
        """
        self.settings = settings
        self._key = read_key()
        self._url, self._login = split_address(settings.url)
        self._cache = ResponseCache(cache) if cache else None
        self._watch = Watch(settings.timeout)
        self._api = openai.OpenAI(
            base_url=self._url,
            api_key=self._key or "none",  # else the package would send another service's key
            max_retries=retries,
            timeout=settings.timeout,
            default_headers={"Authorization": f"Basic {self._login}"} if self._login else None,
            http_client=self._watch,
        )
        self._api.organization = self._api.project = None  # nor that service's account
        self._slots = Turns(settings.concurrency)
        self._listing, self._lock = threading.Lock(), threading.Lock()
        self._served: list[str] = []
        self._unknown: set[tuple[str, str]] = set()
        self._usage: dict[str, Usage] = {}
        self._closed, self._under_way = False, 0
        self._garbage, self._useless, self._useful = 0, 0, False

    def ask(
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
        settings = self.settings
        with self._told(stage):
            model = settings.models.get(stage) or settings.model or self._models()[0]
            fields: dict[str, Json] = {
                "model": model,
                "messages": [dict[str, Json](message) for message in messages],
                "temperature": settings.temperatures.get(stage, settings.temperature),
                "top_p": settings.top_p,
                "max_tokens": settings.max_tokens,
                "seed": seed,
            }
            key = digest({**fields, "schema": schema})
            answer = self._cache.get(key) if self._cache else None
            if cached := answer is not None:
                self._count(stage, cached=1)
            else:
                if schema is not None:
                    form: dict[str, Json] = {"name": _name(stage), "schema": dict(schema)}
                    fields["response_format"] = {"type": "json_schema", "json_schema": form}
                answer = self._answer(stage, model, fields)
                self._keep(key, answer)
        data = None if schema is None else find_json(answer.text)
        return Reply(data=data, cached=cached, **answer._asdict())

    def check(self) -> str:
        """The model that unnamed stages will get; asks the server which ones it has.

        Raises:
            WriterError: the server cannot be used, or a model of the settings is not there.
        """
        with self._told("check"):
            served = self._models()
            for model in (self.settings.model, *self.settings.models.values()):
                if model and model not in served:
                    raise _no_model(model, served)
            return self.settings.model or served[0]

    def usage(self) -> Mapping[str, Usage]:
        """Accounts by stage, since this client was made."""
        return dict(self._usage)

    def close(self) -> None:
        """Ask nothing more; whoever still waits for an answer is told so. May be called twice."""
        with self._lock:
            self._closed = True
            if self._cache:
                self._cache.close()
            if not self._under_way:
                self._api.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    @contextlib.contextmanager
    def _told(self, stage: str) -> Generator[None]:
        """Say what went wrong in the words of a writer."""
        try:
            self._must_be_open()
            yield
        except RequestError as error:
            tries = f" (asked {error.tries} times)" if error.tries > 1 else ""
            advice = error.advice
            text = f"writer stage {stage!r}, {self._url}: {error.what}{tries}. {advice}"
            raise WriterError(self._hidden(text), error.fatal, error.down) from None

    def _must_be_open(self) -> None:
        if self._closed:
            raise RequestError("the chat client was closed", "Ask before it is closed.", fatal=True)

    def _keep(self, key: str, answer: Answer) -> None:
        with self._lock:
            self._must_be_open()
            if self._cache:
                self._cache.put(key, answer)

    @contextlib.contextmanager
    def _account(self, stage: str) -> Generator[None]:
        """A question's place among those in flight, and its requests on a stage's account."""
        with self._slots:
            with self._lock:
                self._must_be_open()
                self._under_way += 1
            self._watch.requests = requests = []
            try:
                yield
            except RequestError as error:
                error.tries = len(requests)
                error.down = error.silent and self._watch.down
                raise
            finally:
                retries = max(0, len(requests) - 1)
                self._count(stage, retries=retries, seconds=sum(requests))
                with self._lock:
                    self._under_way -= 1
                    if self._closed and not self._under_way:
                        self._api.close()

    def _answer(self, stage: str, model: str, fields: Mapping[str, Json]) -> Answer:
        """Ask until there is an answer of use, or no hope of one."""
        self._count(stage, calls=1)
        reseeded, seed = 0, int(str(fields["seed"]))
        try:
            with self._account(stage):
                while True:
                    body = {**fields, "seed": (seed + reseeded * SEED_STEP) % SEED_LIMIT}
                    self._leave_out(model, body)
                    try:
                        answer = self._request(stage, body)
                        self._take(None)
                        return answer
                    except RequestError as error:
                        self._take(error)
                        if error.again is Again.WITHOUT:
                            self._unknown.add((model, error.field))
                        elif error.again is not Again.RESEED or reseeded == RESEEDS:
                            raise
                        else:
                            reseeded += 1
        except RequestError as error:
            if not error.no_model:
                raise
            with contextlib.suppress(RequestError):
                if model not in (served := self._models()):
                    error = _no_model(model, served)
            raise error from None

    def _take(self, error: RequestError | None) -> None:
        """Count answers of no use in a row; too many of them end the asking."""
        with self._lock:
            if error is None:
                self._garbage, self._useless, self._useful = 0, 0, True
            elif error.again is Again.RESEED:
                self._useless += 1
                self._garbage = self._garbage + 1 if error.garbage else 0
                most = 0 if self._useful else USELESS
                if self._garbage >= GARBAGE or (most and self._useless >= most):
                    error.again, error.fatal = Again.NO, True
                    error.what = f"no answer of {self._useless} is of use, the last: {error.what}"

    def _leave_out(self, model: str, body: dict[str, Json]) -> None:
        """Without the fields that the server does not know."""
        for unknown in [field for name, field in self._unknown if name == model]:
            if unknown in body:
                value = body.pop(unknown)
                if unknown == "max_tokens":
                    body["max_completion_tokens"] = value

    def _request(self, stage: str, body: Mapping[str, Json]) -> Answer:
        data = self._send(
            lambda: self._api.post("/chat/completions", cast_to=object, body=dict(body)), body
        )
        answer, unusable = read_answer(data, self.settings.max_tokens)
        asked, said = answer.prompt_tokens, answer.completion_tokens
        cost = (asked * self.settings.price_in + said * self.settings.price_out) / 1e6
        self._count(stage, prompt_tokens=asked, completion_tokens=said, cost=cost)
        if unusable:
            raise unusable
        if len(self._key) >= SECRET_LENGTH:
            answer = answer._replace(text=self._hidden(answer.text))
        return answer

    def _send(self, call: Callable[[], object], sent: Mapping[str, Json]) -> object:
        """What the server says, after the repetitions that the package makes."""
        try:
            return call()
        except openai.APIError as error:
            raise of_error(error, sent.keys(), self.settings.timeout) from None
        except (ValueError, RecursionError) as error:
            raise malformed(str(error)) from None

    def _models(self) -> list[str]:
        with self._listing:
            if not self._served:
                with self._account("check"):
                    try:
                        data = self._send(lambda: self._api.get("/models", cast_to=object), {})
                        self._served = read_models(data)
                    except RequestError as error:
                        self._take(error)
                        raise
        return self._served

    def _count(self, stage: str, **more: float) -> None:
        with self._lock:
            old = self._usage.get(stage, Usage())
            sums: dict[str, Any] = {name: getattr(old, name) + more[name] for name in more}
            self._usage[stage] = dataclasses.replace(old, **sums)

    def _hidden(self, text: str) -> str:
        for secret in filter(None, (self._key, self._login)):
            text = text.replace(secret, "***")
        return text


def _no_model(model: str, served: Sequence[str]) -> RequestError:
    return RequestError(
        f"model {model!r} is not there; the server has {', '.join(map(repr, served))}",
        "Set synthesis.llm.model, or the stage's entry of synthesis.llm.models, to one of these.",
        fatal=True,
    )


def _name(stage: str) -> str:
    """A stage as the protocol allows schemas to be named."""
    return re.sub(r"[^A-Za-z0-9_-]", "_", stage)[:64] or "answer"
