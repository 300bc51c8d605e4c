"""A client for any OpenAI-compatible chat server: vLLM, SGLang, llama.cpp, a hosted one.

Owns the questions: their limit of concurrency, cache and usage, and what is asked again with
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
import time
from collections.abc import Callable, Generator, Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple, TypeVar

import httpx
import openai

from rods.errors import WriterError
from rods.infra.service import read_key
from rods.infra.turns import FairPlaces
from rods.synthesis.chat import LlmWriterSettings
from rods.synthesis.chat.failures import (
    DROPPABLE,
    RESEED,
    RequestError,
    find_json,
    malformed,
    of_error,
    read_answer,
    read_models,
)
from rods.synthesis.chat.settings import (
    KEY_VARIABLE,
    ChatUsage,
    Reply,
    ResponseCache,
    digest,
    split_address,
)
from rods.types import Json

T = TypeVar("T")
RETRIES, RESEEDS = 4, 2
"""Repetitions of a failed request, and of an answer of no use (refused, empty, malformed)."""
GARBAGE, USELESS = 6, 24
"""Answers in a row after which nothing more is asked: that are no chat completions; that are
refused, empty or no completions, while no other ever came."""
SEED_STEP, SEED_LIMIT = 1_000_003, 2**31
"""Distance of the seeds of repetitions; servers take 31 bits."""
SECRET_LENGTH = 12
"""Keys from here on are also removed from answers; a shorter one (`EMPTY`) may be a word."""
SILENCES = 8
"""Requests in a row, of all stages, without any answer after which the server counts as down."""
LARGEST = 16 << 20
"""Bytes of an answer; of a longer one only the beginning is read."""


class ChatSampling(NamedTuple):
    """Sampling of a model's answers."""

    temperature: float
    """0 (greedy) to 2."""
    top_p: float
    """Share of probability that is sampled from, above 0 and up to 1."""


WRITING, GREEDY = ChatSampling(1.0, 0.7), ChatSampling(0.0, 1.0)
"""Of the writer's model, as in the paper; of a user simulator."""


class ChatClient(contextlib.AbstractContextManager["ChatClient"]):
    """Asks one server. Threads may share it; `close` it, or use `with`."""

    def __init__(
        self,
        settings: LlmWriterSettings,
        cache: Path | None = None,
        retries: int = RETRIES,
        sampling: ChatSampling = WRITING,
    ) -> None:
        """Prepare; nothing is sent yet.

        Args:
            settings: the server and the limits.
            cache: SQLite file of earlier answers, made where it is missing.
            retries: repetitions after a timeout, a broken connection, HTTP 429 or 5xx.
            sampling: of all answers.

        Raises:
            ConfigError: the URL or the key cannot be used.
            StoreError: the cache is damaged.
        """
        self.settings, self._sampling = settings, sampling
        self._key = read_key(KEY_VARIABLE)
        self._url, self._login = split_address(settings.url)
        self._cache = ResponseCache(cache) if cache else None
        self._watch = _Watch(settings.timeout)
        self._api = openai.OpenAI(
            base_url=self._url,
            api_key=self._key or "none",  # else the package would send another service's key
            max_retries=retries,
            timeout=settings.timeout,
            default_headers={"Authorization": f"Basic {self._login}"} if self._login else None,
            http_client=self._watch,
        )
        self._api.organization = self._api.project = None  # nor that service's account
        self._slots = FairPlaces(settings.concurrency)
        self._listing, self._lock = threading.Lock(), threading.Lock()
        self._served: list[str] = []
        self._unknown: set[tuple[str, str]] = set()
        self._usage: dict[str, ChatUsage] = {}
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
            stage: Whose question this is: chooses the model, and the account.
            messages: The conversation: `role` and `content`.
            seed: Of the sampling. An answer that is of no use comes again for the same seed.
            schema: JSON schema that the answer shall follow.

        Raises:
            WriterError: there is no answer; `fatal` where there will never be one.
        """
        settings, models = self.settings, self.settings.model
        with self._errors(stage):
            fields: dict[str, Json] = {
                "model": models.get(stage) or models.get("all") or self._models()[0],
                "messages": [dict[str, Json](message) for message in messages],
                "temperature": self._sampling.temperature,
                "top_p": self._sampling.top_p,
                "max_tokens": settings.max_tokens,
                "seed": seed,
            }
            key = digest({**fields, "schema": schema})
            reply = self._cache.get(key) if self._cache else None
            if reply:
                self._count(stage, cached=1)
            else:
                if schema is not None:
                    name = re.sub(r"[^A-Za-z0-9_-]", "_", stage)[:64] or "answer"
                    form: Json = {"name": name, "schema": dict(schema)}
                    fields["response_format"] = {"type": "json_schema", "json_schema": form}
                reply = self._answer(stage, fields, seed)
                with self._lock:
                    self._require_open()
                    if self._cache:
                        self._cache.put(key, reply)
        return reply if schema is None else dataclasses.replace(reply, data=find_json(reply.text))

    def usage(self) -> Mapping[str, ChatUsage]:
        """ChatUsage by stage, since this client was made."""
        return dict(self._usage)

    def close(self) -> None:
        """Ask nothing more; a thread that still waits gets an error. May be called twice."""
        with self._lock:
            self._closed = True
            if self._cache:
                self._cache.close()
            if not self._under_way:
                self._api.close()

    def __exit__(self, *_: object) -> None:
        self.close()

    @contextlib.contextmanager
    def _errors(self, stage: str) -> Generator[None]:
        """Turn failures into a `WriterError` that names stage and server."""
        try:
            self._require_open()
            yield
        except RequestError as error:
            tries = f" (asked {error.tries} times)" if error.tries > 1 else ""
            text = f"writer stage {stage!r}, {self._url}: {error.what}{tries}. {error.advice}"
            raise WriterError(self._hidden(text), error.fatal, error.down) from None

    def _require_open(self) -> None:
        if self._closed:
            advice = "Ask before it is closed."
            raise RequestError("the chat client was closed", advice, fatal=True)

    @contextlib.contextmanager
    def _account(self, stage: str) -> Generator[None]:
        """A question's place among those in flight, and its requests on a stage's account."""
        with self._slots:
            with self._lock:
                self._require_open()
                self._under_way += 1
            self._watch.mine.requests = requests = list[float]()
            try:
                yield
            except RequestError as error:
                error.tries, error.down = len(requests), error.silent and self._watch.down
                raise
            finally:
                self._count(stage, retries=max(0, len(requests) - 1), seconds=sum(requests))
                with self._lock:
                    self._under_way -= 1
                    if self._closed and not self._under_way:
                        self._api.close()

    def _answer(self, stage: str, fields: Mapping[str, Json], seed: int) -> Reply:
        """Ask until there is an answer of use, or no hope of one."""
        self._count(stage, calls=1)
        model, reseeded = str(fields["model"]), 0
        try:
            with self._account(stage):
                while True:
                    body = {**fields, "seed": (seed + reseeded * SEED_STEP) % SEED_LIMIT}
                    for field in DROPPABLE:
                        if field in body and (model, field) in self._unknown:
                            value = body.pop(field)
                            if field == "max_tokens":
                                body["max_completion_tokens"] = value
                    try:
                        return self._send(body, lambda data: self._read(stage, data))
                    except RequestError as error:
                        if error.again in DROPPABLE:
                            self._unknown.add((model, error.again))
                        elif error.again == RESEED and reseeded < RESEEDS:
                            reseeded += 1
                        else:
                            raise
        except RequestError as error:
            with contextlib.suppress(RequestError):
                if error.no_model and model not in (served := self._models()):
                    there = ", ".join(map(repr, served))
                    error.what = f"model {model!r} is not there; the server has {there}"
                    error.advice = (
                        "Set synthesis.llm.model, or the stage's entry of it, to one of these."
                    )
            raise

    def _read(self, stage: str, data: object) -> Reply:
        """The reply in a response, whose tokens are counted even where it is of no use."""
        reply, unusable = read_answer(data, self.settings.max_tokens)
        asked, said = reply.prompt_tokens, reply.completion_tokens
        of_prompts, of_answers = self.settings.price
        cost = (asked * of_prompts + said * of_answers) / 1e6
        self._count(stage, prompt_tokens=asked, completion_tokens=said, cost=cost)
        if unusable:
            raise unusable
        with self._lock:
            self._garbage, self._useless, self._useful = 0, 0, True
        if len(self._key) < SECRET_LENGTH:
            return reply
        return dataclasses.replace(reply, text=self._hidden(reply.text))

    def _send(self, body: Mapping[str, Json], read: Callable[[object], T]) -> T:
        """One request, which the package repeats; without a body for the list of models.

        Answers of no use in a row are counted; too many of them end the asking.
        """
        try:
            if body:
                return read(self._api.post("/chat/completions", cast_to=object, body=dict(body)))
            return read(self._api.get("/models", cast_to=object))
        except openai.APIError as failure:
            error = of_error(failure, body, self.settings.timeout)
        except (ValueError, RecursionError) as failure:
            error = malformed(str(failure))
        except RequestError as failure:
            error = failure
        if error.again == RESEED:
            with self._lock:
                self._useless += 1
                self._garbage = self._garbage + 1 if error.garbage else 0
                if self._garbage >= GARBAGE or (self._useless >= USELESS and not self._useful):
                    error.again, error.fatal = "", True
                    error.what = f"no answer of {self._useless} is of use, the last: {error.what}"
        raise error from None

    def _models(self) -> list[str]:
        with self._listing:
            if not self._served:
                with self._account("check"):
                    self._served = self._send({}, read_models)
        return self._served

    def _count(self, stage: str, **more: float) -> None:
        with self._lock:
            old = self._usage.get(stage, ChatUsage())
            sums: dict[str, Any] = {name: getattr(old, name) + more[name] for name in more}
            self._usage[stage] = dataclasses.replace(old, **sums)

    def _hidden(self, text: str) -> str:
        for secret in filter(None, (self._key, self._login)):
            text = text.replace(secret, "***")
        return text


class _Watch(openai.DefaultHttpxClient):
    """Connections of one server: bounds each answer, and counts requests without any.

    When too many in a row bring no answer, the `openai` package is told to repeat no more.
    """

    def __init__(self, timeout: float) -> None:
        super().__init__(timeout=timeout)
        self.mine = threading.local()
        """`requests`: the seconds of each of this thread's requests."""
        self._seconds, self._silences, self._since = timeout, 0, 0.0

    @property
    def down(self) -> bool:
        """Tell whether nobody got an answer for a while; a hang counts as long as two requests."""
        hangs = time.monotonic() - self._since >= 2 * self._seconds
        return self._silences >= SILENCES or (hangs and self._silences > 1)

    def send(self, request: Any, **options: Any) -> Any:
        """One request, as the package sends it."""
        started, options["stream"] = time.monotonic(), True
        try:
            response = super().send(request, **options)
            response = self._whole(response, started + self._seconds)
        except Exception as error:  # raised again: the package tells them apart
            if self._silent(started):  # its own errors are not repeated
                raise openai.APIConnectionError(request=request) from error
            raise
        finally:
            self.mine.requests.append(time.monotonic() - started)
        if response.status_code < 500 and response.status_code not in (408, 409, 425):
            self._silences = 0
        elif self._silent(started):
            response.headers["x-should-retry"] = "false"
        return response

    def _whole(self, response: Any, deadline: float) -> Any:
        """The response with its body; of one that is too long the beginning, as a text.

        Raises:
            httpx.ReadTimeout: it came, but not whole in time.
        """
        body, headers = bytearray(), dict(response.headers)
        with contextlib.closing(response):
            for part in response.iter_bytes():
                body += part
                if len(body) > LARGEST:
                    headers["content-type"] = "text/plain"
                    body = f"more than {LARGEST} bytes: ".encode() + body[:1000]
                    break
                if time.monotonic() > deadline:
                    raise httpx.ReadTimeout("the answer does not end", request=response.request)
        for name in ("content-encoding", "content-length", "transfer-encoding"):
            headers.pop(name, None)  # not true of a body that was read
        return httpx.Response(
            response.status_code, headers=headers, content=bytes(body), request=response.request
        )

    def _silent(self, started: float) -> bool:
        if not self._silences:
            self._since = started
        self._silences += 1
        return self.down
