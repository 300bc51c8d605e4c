"""A client for any OpenAI-compatible chat server: vLLM, SGLang, llama.cpp, a hosted one.

Owns the limit of concurrency, cache and usage, and what is asked again with another seed or without
a field. Connection, repetitions and kinds of errors are the `openai` package's. It never shows the
key.
"""

from __future__ import annotations

import contextlib
import importlib
import re
import threading
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import Any, TypeVar

import openai

from rods.errors import WriterError
from rods.infra.service import read_key
from rods.infra.text import excerpt
from rods.infra.turns import FairPlaces
from rods.synthesis.chat import LlmWriterSettings, split_address
from rods.synthesis.chat.replies import Reply, ResponseCache, digest, find_json, read_answer
from rods.types import Json

T = TypeVar("T")
_base = openai.DefaultHttpxClient.__bases__[0].__module__
HTTP: Any = importlib.import_module(_base.partition(".")[0])
"""The HTTP library that the installed `openai` uses, httpx or its successor."""
KEY_VARIABLE = "RODS_WRITER_KEY"
RETRIES, RESEEDS = 4, 2
"""Repetitions of a failed request, and of an answer of no use (refused, empty, malformed)."""
USELESS = 24
"""Answers of no use in a row after which nothing more is asked."""
SEED_STEP, SEED_LIMIT = 1_000_003, 2**31
"""Distance of the seeds of repetitions; servers take 31 bits."""
LONGEST = 16 << 20
"""Bytes of an answer that are read."""
WRITING, GREEDY = {"temperature": 1.0, "top_p": 0.7}, {"temperature": 0.0, "top_p": 1.0}
"""Sampling of the writer's model, as in the paper, and of a user simulator."""
OPTIONAL = {
    "response_format": "response_format|json_schema|guided|grammar|structured",
    "seed": r"\bseed\b",
    "max_tokens": "max_completion_tokens",
}
"""Fields that a server may not know, and the words by which it refuses them."""
_KEY = f"Put a valid key into the variable {KEY_VARIABLE}."
MEANINGS: tuple[tuple[type[openai.APIError], bool, str], ...] = (
    (openai.AuthenticationError, True, _KEY),
    (openai.PermissionDeniedError, True, _KEY),
    (openai.NotFoundError, True, "Does synthesis.llm.url end where the API begins (/v1)?"),
    (openai.RateLimitError, False, "Lower synthesis.llm.concurrency, or raise the server's limit."),
    (openai.InternalServerError, False, "Look at the server's log."),
    (openai.APITimeoutError, False, "Raise synthesis.llm.timeout, or lower its max_tokens."),
    (openai.APIConnectionError, False, "Start the server, or correct synthesis.llm.url."),
    (
        openai.APIError,
        False,
        "Read the server's reason. If it is the context: serve the model with a longer one, or "
        "lower synthesis.llm.max_tokens.",
    ),
)
"""Errors of the package: whether later requests fail, too, and what to do. The first one counts."""


def _bound(seconds: float, response: Any) -> None:
    """End an answer that has no end; the package's timeout is of silence alone."""
    stream, until = response.stream, time.monotonic() + seconds

    def content() -> Iterator[bytes]:
        size = 0
        with contextlib.closing(stream):
            for chunk in stream:
                if (size := size + len(chunk)) > LONGEST:
                    raise HTTP.ReadError(f"an answer of more than {LONGEST} bytes")
                if time.monotonic() > until:
                    raise HTTP.ReadTimeout("the answer has no end")
                yield chunk

    response.stream = HTTP.Response(200, content=content()).stream


class ChatClient(contextlib.AbstractContextManager["ChatClient"]):
    """Asks one server. Threads may share it; `close` it, or use `with`."""

    def __init__(
        self,
        settings: LlmWriterSettings,
        cache: Path | None = None,
        sampling: Mapping[str, float] = WRITING,
    ) -> None:
        """Prepare; nothing is sent yet. `cache` is an SQLite file of earlier answers.

        Raises `ConfigError` where the URL or the key cannot be used; `StoreError` where the cache
        is damaged.
        """
        self.settings, self._sampling = settings, sampling
        self._url, login = split_address(settings.url)
        key = read_key(KEY_VARIABLE)
        self._secrets = [secret for secret in (key, login) if secret]
        self._cache = ResponseCache(cache) if cache else None
        bound = partial(_bound, settings.timeout)
        self._api = openai.OpenAI(
            base_url=self._url,
            api_key=key or "none",  # else the package would send another service's key
            max_retries=RETRIES,
            timeout=settings.timeout,
            http_client=openai.DefaultHttpxClient(event_hooks={"response": [bound]}),
            default_headers={"Authorization": f"Basic {login}"} if login else None,
        )
        self._api.organization = self._api.project = None  # nor that service's account
        self._slots, self._lock = FairPlaces(settings.concurrency), threading.Lock()
        self._served: list[str] = []
        self._unknown: set[tuple[str, str]] = set()
        self._usage: dict[str, dict[str, float]] = {}
        self._closed, self._under_way, self._useless, self._last_answer = False, 0, 0, 0.0

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

        Raises `WriterError` where there is no answer; `fatal` where there will never be one.
        """
        models, began = self.settings.model, time.monotonic()
        with self._lock:
            if self._closed:
                raise WriterError("the chat client was closed: ask before.", fatal=True)
            self._under_way += 1
        try:
            fields: dict[str, Any] = {
                "model": models.get(stage) or models.get("all") or self._models()[0],
                "messages": [dict(message) for message in messages],
                **self._sampling,
                "max_tokens": self.settings.max_tokens,
                "seed": seed,
            }
            key = digest({**fields, "schema": schema})
            text = self._cache.get(key) if self._cache else None
            if text is None:
                if schema is not None:
                    form = {"name": re.sub(r"\W", "_", stage), "schema": dict(schema)}
                    fields["response_format"] = {"type": "json_schema", "json_schema": form}
                with self._slots:
                    text = self._answer(stage, fields)
                if self._cache:
                    self._cache.put(key, text)
        except (openai.APIError, WriterError) as error:
            raise self._explained(stage, error, began) from None
        finally:
            self._leave()
        return Reply(text, None if schema is None else find_json(text))

    def usage(self) -> Mapping[str, Mapping[str, float]]:
        """Questions (`calls`), tokens and cost by stage, since this client was made."""
        with self._lock:
            return {stage: dict(row) for stage, row in self._usage.items()}

    def close(self) -> None:
        """Ask nothing more. What is under way ends first. May be called twice."""
        with self._lock:
            self._closed = True
        self._leave(0)

    def __exit__(self, *_: object) -> None:
        self.close()

    def _leave(self, questions: int = 1) -> None:
        with self._lock:
            self._under_way -= questions
            if self._closed and not self._under_way:
                self._api.close()
                if self._cache:
                    self._cache.close()

    def _answer(self, stage: str, fields: dict[str, Any]) -> str:
        """The first answer of use, each asked for with another seed."""
        self._count(stage, calls=1)
        for number in range(RESEEDS):
            try:
                return self._asked(stage, fields, number)
            except WriterError as error:
                if error.fatal:
                    raise
        return self._asked(stage, fields, RESEEDS)

    def _asked(self, stage: str, fields: dict[str, Any], number: int) -> str:
        """One answer; a field that the server does not know is left out from then on."""
        model, create = fields["model"], self._api.chat.completions.with_raw_response.create
        body = {**fields, "seed": (fields["seed"] + number * SEED_STEP) % SEED_LIMIT}
        for name in OPTIONAL:
            if (model, name) in self._unknown and (value := body.pop(name, None)):
                body |= {"max_completion_tokens": value} if name == "max_tokens" else {}
        try:
            raw = create(**body)
        except (openai.BadRequestError, openai.UnprocessableEntityError) as error:
            for name, words in OPTIONAL.items():
                if name in body and re.search(words, error.response.text, re.IGNORECASE):
                    self._unknown.add((model, name))
                    return self._asked(stage, fields, number)
            raise
        text, problem, (asked, completed) = self._read(raw, read_answer)
        of_prompts, of_answers = self.settings.price
        cost = (asked * of_prompts + completed * of_answers) / 1e6
        self._count(stage, prompt_tokens=asked, completion_tokens=completed, cost=cost)
        if problem:
            advice = "Name another model (synthesis.llm.model), or raise synthesis.llm.max_tokens."
            raise self._of_no_use(f"{excerpt(problem)}. {advice}")
        self._useless = 0
        return text

    def _models(self) -> list[str]:
        """The models that the server lists, at least one."""
        if not self._served:
            raw = self._api.models.with_raw_response.list()
            self._served = self._read(raw, lambda page: [row.id for row in page.data])
        if not self._served:
            advice = "Load one, or name it: synthesis.llm.model."
            raise WriterError(f"the server lists no model. {advice}", fatal=True)
        return self._served

    def _read(self, raw: Any, read: Callable[[Any], T]) -> T:
        """Return what `read` finds in a response, which may be anything."""
        self._last_answer = time.monotonic()
        try:
            return read(raw.parse())
        except (AttributeError, LookupError, TypeError, ValueError, RecursionError):
            what = f"this is not what a chat server answers: {excerpt(raw.text)}"
            advice = "Is synthesis.llm.url an OpenAI-compatible server (base URL ending in /v1)?"
            raise self._of_no_use(f"{what}. {advice}") from None

    def _of_no_use(self, what: str) -> WriterError:
        """The error for an answer of no use; after too many in a row, no other helps."""
        with self._lock:
            self._useless += 1
            if ends := self._useless >= USELESS:
                what = f"none of {self._useless} answers in a row is of use, the last: {what}"
        return WriterError(what, ends)

    def _explained(
        self, stage: str, error: openai.APIError | WriterError, began: float
    ) -> WriterError:
        """The error as users read it: stage, server, what happened and what to do."""
        fatal, down = isinstance(error, WriterError) and error.fatal, False
        text = str(error)
        if isinstance(error, openai.APIError):
            fatal, advice = next(row[1:] for row in MEANINGS if isinstance(error, row[0]))
            if isinstance(error, openai.APIStatusError):
                what = f"HTTP {error.status_code}: {excerpt(error.response.text)}"
            else:
                cause = error.__cause__
                what = f"the connection failed ({type(cause).__name__}: {cause})"
                fatal, down = type(cause).__name__ == "ConnectError", self._last_answer < began
            if isinstance(error, openai.APITimeoutError):
                what = f"no answer within {self.settings.timeout:g} s"
            if isinstance(error, openai.NotFoundError):
                with contextlib.suppress(openai.APIError, WriterError):
                    advice = f"The server has {', '.join(self._models())}: synthesis.llm.model."
            text = f"{what}. {advice}"
        text = f"step of synthesis {stage!r}, {self._url}: {text}"
        for secret in self._secrets:
            text = text.replace(secret, "***")
        return WriterError(text, fatal, down)

    def _count(self, stage: str, **more: float) -> None:
        with self._lock:
            row = self._usage.setdefault(stage, {})
            row |= {name: row.get(name, 0) + amount for name, amount in more.items()}
