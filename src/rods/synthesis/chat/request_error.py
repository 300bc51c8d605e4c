"""What can go wrong with a chat server, and whether asking again helps.

Owns the classification of failures: of the connection, of HTTP states, of answers. It asks nothing,
waits for nothing, and keeps no key: the client puts stage and address in front of its words.

    error = of_error(failure, sent={"seed"}, timeout=120)
    error.again, error.what, error.advice
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from collections.abc import Set as AbstractSet
from enum import Enum, auto
from typing import Any, cast

import openai

from rods.synthesis.chat.cache import Answer
from rods.synthesis.chat.json_text import strip_thinking
from rods.synthesis.chat.settings import KEY_VARIABLE

QUOTE = 300
"""Characters of a server's own words that a message repeats."""

DROPPABLE = {
    "response_format": r"response_format|json_schema|guided|grammar|structured",
    "seed": r"\bseed\b",
    "max_tokens": r"max_completion_tokens",
}
"""Fields that a server may not know, and what its complaint about each looks like."""
_CONTEXT = re.compile(
    r"context[ _](length|window|size)|context_length_exceeded|exceed\w* the (available )?context"
    r"|max_model_len|(prompt|input)( \(.*?\))? is too long|too many (input )?tokens",
    re.IGNORECASE,
)
_NO_MODEL = re.compile(
    r"model_not_found|model\b.{0,120}?(not found|not exist|unknown|not served|not available)",
    re.IGNORECASE | re.DOTALL,
)
_REFUSAL = re.compile(
    r"(i['\u2019]m (very )?sorry|i am sorry|sorry|i apologi[sz]e|unfortunately|as an ai[^,.]*)?"
    r"[\s,.;]*(but )?i (can['\u2019]?t|cannot|can not|won['\u2019]t|will not|am unable to"
    r"|['\u2019]?m unable to|am not able to)\s+"
    r"(help|assist|comply|fulfil|continue|do (that|this)|provide|create|generate|write|discuss)",
    re.IGNORECASE,
)


class Again(Enum):
    """Whether and how a request is repeated."""

    NO = auto()
    """Never: it fails again, or was repeated often enough."""
    RESEED = auto()
    """With another sampling seed."""
    WITHOUT = auto()
    """At once, without `RequestError.field`."""


class RequestError(Exception):
    """Why one request gave no answer."""

    def __init__(
        self,
        what: str,
        advice: str,
        again: Again = Again.NO,
        *,
        fatal: bool = False,
        field: str = "",
        no_model: bool = False,
        silent: bool = False,
        garbage: bool = False,
    ) -> None:
        """Keep the words for the user and what the client must know."""
        super().__init__(what)
        self.what, self.advice, self.again, self.fatal = what, advice, again, fatal
        self.field, self.no_model = field, no_model
        self.silent = silent
        """Whether the server gave no answer at all; many in a row mean that it is down."""
        self.garbage = garbage
        """Whether the server answered, but not as a chat server; many in a row mean it is none."""
        self.tries = 1
        self.down = False
        """Set by the client: the server has answered nobody for a while."""


def of_error(error: openai.APIError, sent: AbstractSet[str], timeout: float) -> RequestError:
    """What an error of the `openai` package means; `sent` are the fields of the request."""
    if isinstance(error, openai.APIConnectionError):
        return _of_connection(error.__cause__, timeout)
    if isinstance(error, openai.APIStatusError):
        return of_status(error.status_code, _words(error), sent)
    return malformed(str(error))


def _of_connection(cause: BaseException | None, timeout: float) -> RequestError:
    kinds = [kind.__name__ for kind in type(cause).__mro__]  # httpx, by any of its names
    if "TimeoutException" in kinds:
        return RequestError(
            f"no answer within {timeout:g} s",
            "Raise synthesis.llm.timeout, or lower concurrency or max_tokens beside it.",
            silent=True,
        )
    if "ConnectError" in kinds:
        return RequestError(
            f"the server cannot be reached ({cause})",
            "Start it, or correct synthesis.llm.url.",
            fatal=True,
            silent=True,
        )
    return RequestError(
        f"the connection broke before the answer was complete ({kinds[0]})",
        "Look at the server's log: it may have run out of memory or been restarted.",
        silent=True,
    )


def _words(error: openai.APIStatusError) -> str:
    body = error.body
    if isinstance(body, dict):
        data = cast("dict[str, Any]", body)
        words = [data.get("message") or data.get("detail") or "", data.get("code") or ""]
        return " ".join(str(word) for word in words if word) or str(data)
    return str(body or error.message)


def of_status(status: int, words: str, sent: AbstractSet[str]) -> RequestError:
    """What an HTTP state other than success means."""
    what = f"HTTP {status}: {_quoted(words)}"
    if status in (401, 403):
        return RequestError(what, f"Put a valid key into the variable {KEY_VARIABLE}.", fatal=True)
    if "insufficient_quota" in words:
        return RequestError(what, "Pay the server's bill, or use another one.", fatal=True)
    if status in (408, 409, 425, 429) or status >= 500:
        busy = status == 429  # it answers, if only that others ask too much
        advice = "Lower synthesis.llm.concurrency." if busy else "Look at the server's log."
        return RequestError(what, advice, silent=not busy)
    if status == 413 or (status in (400, 422) and _CONTEXT.search(words)):
        return RequestError(
            f"the context overflows: {_quoted(words)}",
            "Serve the model with a longer context, or lower synthesis.llm.max_tokens.",
        )
    if status == 404 or (status in (400, 422) and _NO_MODEL.search(words)):
        return RequestError(
            what,
            "Does synthesis.llm.url end where the API begins (/v1)?",
            fatal=True,
            no_model=True,
        )
    if status in (400, 422):
        for field, complaint in DROPPABLE.items():
            if field in sent and re.search(complaint, words, re.IGNORECASE):
                return RequestError(what, "", Again.WITHOUT, field=field)
    return RequestError(what, "The server does not take this request; its words say why.")


def malformed(words: str) -> RequestError:
    """A success that is not a chat completion."""
    return RequestError(
        f"this is not what a chat server answers: {_quoted(words)}",
        "Is synthesis.llm.url an OpenAI-compatible server (base URL ending in /v1)?",
        Again.RESEED,
        garbage=True,
    )


def read_answer(data: object, max_tokens: int) -> tuple[Answer, RequestError | None]:
    """The answer in a server's response, with the tokens it took, and what is wrong with it.

    Raises:
        RequestError: the response is not a chat completion.
    """
    body = _mapping(data)
    choices = body.get("choices")
    if not isinstance(choices, list) or not choices:
        raise malformed(str(cast("object", body.get("error")) or data))
    choice = _mapping(cast("list[object]", choices)[0])
    message, usage = _mapping(choice.get("message")), _mapping(body.get("usage"))
    reason = str(choice.get("finish_reason"))
    answer = Answer(
        strip_thinking(_text(message.get("content"))),
        reason == "length",
        _count(usage.get("prompt_tokens")),
        _count(usage.get("completion_tokens")),
    )
    return answer, _unusable(answer, str(message.get("refusal") or ""), reason, max_tokens)


def read_models(data: object) -> list[str]:
    """Names of the models that a server lists.

    Raises:
        RequestError: the response is not such a list, or it is empty.
    """
    rows = _mapping(data).get("data")
    if not isinstance(rows, list):
        raise malformed(str(data))
    names = [str(_mapping(row).get("id") or "") for row in cast("list[object]", rows)]
    if not any(names):
        raise RequestError(
            "the server lists no model", "Load one, or name it: synthesis.llm.model.", fatal=True
        )
    return [name for name in names if name]


def _unusable(answer: Answer, refusal: str, reason: str, max_tokens: int) -> RequestError | None:
    if not refusal and (reason == "content_filter" or is_refusal(answer.text)):
        refusal = answer.text or reason
    if refusal:
        return RequestError(
            f"the model refused: {_quoted(refusal)}",
            "Use another model for this stage (synthesis.llm.models).",
            Again.RESEED,
        )
    if not answer.text:
        why = f", all {max_tokens} tokens went into thinking" if answer.truncated else ""
        return RequestError(
            f"the answer is empty{why}",
            "Raise synthesis.llm.max_tokens, or name another model for this stage (its models).",
            Again.RESEED,
        )
    return None


def is_refusal(text: str) -> bool:
    """Whether a whole answer is a polite no: short, and nothing in it is markup."""
    return len(text) < 400 and not re.search(r"[<{\[]", text) and bool(_REFUSAL.match(text.strip()))


def _mapping(value: object) -> Mapping[str, object]:
    return cast("Mapping[str, object]", value) if isinstance(value, dict) else {}


def _count(value: object) -> int:
    return value if isinstance(value, int) and value > 0 else 0


def _text(content: object) -> str:
    """Content is text, or a list of parts on some servers; half surrogate pairs are replaced."""
    if isinstance(content, list):
        parts = [_mapping(part).get("text") for part in cast("list[object]", content)]
        content = "".join(part for part in parts if isinstance(part, str))
    text = content if isinstance(content, str) else ""
    return text.encode("utf-8", "replace").decode()


def _quoted(words: str) -> str:
    words = " ".join(words.split())
    return words if len(words) <= QUOTE else words[: QUOTE - 1] + "\u2026"
