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
from collections.abc import Callable, Mapping, Sequence
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
ADVICE = {
    **dict.fromkeys((401, 403), f"Put a valid key into the variable {KEY_VARIABLE}."),
    404: "Does synthesis.llm.url end where the API begins (/v1)?",
    429: "Lower synthesis.llm.concurrency, or raise the server's limit.",
    400: "Read the server's reason. If it is the context: serve the model with a longer one, or "
    "lower synthesis.llm.max_tokens.",
    500: "Look at the server's log.",
}
"""Advice by HTTP status; the last two also for others from 300 and from 500 on."""


def _read_all(seconds: float, response: Any) -> None:
    """Read an answer that has an end; the package's timeout is of silence alone."""
    content, until = bytearray(), time.monotonic() + seconds
    http = importlib.import_module(type(response).__module__.partition(".")[0])  # the package's own
    for chunk in response.iter_bytes():
        content += chunk
        if len(content) > LONGEST:
            raise http.ReadError(f"an answer of more than {LONGEST} bytes")
        if time.monotonic() > until:
            raise http.ReadTimeout("the answer has no end")
    response._content = bytes(content)  # where `response.read()` keeps what it has read


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
        hooks = {"response": [partial(_read_all, settings.timeout)]}
        self._api = openai.OpenAI(
            base_url=self._url,
            api_key=key or "none",  # else the package would send another service's key
            max_retries=RETRIES,
            timeout=settings.timeout,
            http_client=openai.DefaultHttpxClient(event_hooks=hooks),
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
        for number in range(RESEEDS + 1):
            seed = (fields["seed"] + number * SEED_STEP) % SEED_LIMIT
            try:
                raw = self._sent({**fields, "seed": seed})
                text, problem, (asked, completed) = self._read(raw, read_answer)
                price = self.settings.price
                cost = (asked * price[0] + completed * price[1]) / 1e6
                self._count(stage, prompt_tokens=asked, completion_tokens=completed, cost=cost)
                if problem:
                    advice = "Name another model (synthesis.llm.model), or raise its max_tokens."
                    raise self._of_no_use(f"{excerpt(problem)}. {advice}")
                self._useless = 0
                return text
            except WriterError as error:
                if error.fatal or number == RESEEDS:
                    raise
        raise AssertionError("the last attempt returns or raises")

    def _sent(self, fields: dict[str, Any]) -> Any:
        """The response; a field that the server does not know is left out from then on."""
        body, model = dict(fields), fields["model"]
        for name in OPTIONAL:
            if (model, name) in self._unknown and (value := body.pop(name, None)):
                body |= {"max_completion_tokens": value} if name == "max_tokens" else {}
        try:
            return self._api.chat.completions.with_raw_response.create(**body)
        except (openai.BadRequestError, openai.UnprocessableEntityError) as error:
            for name, words in OPTIONAL.items():
                if name in body and re.search(words, error.response.text, re.IGNORECASE):
                    self._unknown.add((model, name))
                    return self._sent(fields)
            raise

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

    def _explained(self, stage: str, error: Exception, began: float) -> WriterError:
        """The error as users read it: stage, server, what happened and what to do."""
        fatal, down, text = isinstance(error, WriterError) and error.fatal, False, str(error)
        if isinstance(error, openai.APIStatusError):
            status = error.status_code
            advice = ADVICE.get(status, ADVICE[500 if status >= 500 else 400])
            if status == 404:
                with contextlib.suppress(openai.APIError, WriterError):
                    advice = f"The server has {', '.join(self._models())}: synthesis.llm.model."
            fatal = status in (401, 403, 404)  # the next request gets the same
            text = f"HTTP {status}: {excerpt(error.response.text)}. {advice}"
        elif isinstance(error, openai.APIConnectionError):
            cause, down = error.__cause__, self._last_answer < began
            text = f"the connection failed ({type(cause).__name__}: {cause}). Start the server, or "
            text += "correct synthesis.llm.url."
            if isinstance(error, openai.APITimeoutError):
                text = f"no answer within {self.settings.timeout:g} s. Raise synthesis.llm.timeout,"
                text += " or lower its max_tokens."
            fatal = type(cause).__name__ == "ConnectError"
        text = f"step of synthesis {stage!r}, {self._url}: {text}"
        for secret in self._secrets:
            text = text.replace(secret, "***")
        return WriterError(text, fatal, down)

    def _count(self, stage: str, **more: float) -> None:
        with self._lock:
            row = self._usage.setdefault(stage, {})
            row |= {name: row.get(name, 0) + amount for name, amount in more.items()}
