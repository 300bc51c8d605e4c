"""Meaning of what a chat server sends: an answer, its JSON, or why there is none and what to do.

Owns the classification of failures of the connection, of HTTP states and of answers; the removal of
thinking and the search for JSON in prose. It fixes only what has one meaning (a trailing comma, a
raw line break in a string), guesses nothing, and never evaluates text. It asks nothing and keeps no
key: the client puts stage and address in front of its words.

    reply, unusable = read_answer(data, max_tokens=2048)
    find_json('<think>hm</think> Here you are: {"a": [1, 2,]}')  # {"a": [1, 2]}
"""

from __future__ import annotations

import json
import re
from collections.abc import Container, Iterator
from dataclasses import dataclass, replace
from typing import Any, cast

import openai

from rods.synthesis.chat.settings import KEY_VARIABLE, Reply
from rods.types import Json

_THINKING = re.compile(r"<think(?:ing)?>.*?(?:</think(?:ing)?>|\Z)", re.IGNORECASE | re.DOTALL)
_CLOSING = re.compile(r"</think(?:ing)?>", re.IGNORECASE)
_FENCE = re.compile(r"```[ \t]*[\w+-]*[ \t]*\n(.*?)```", re.DOTALL)
_TRAILING = re.compile(r'("(?:\\.|[^"\\])*")|,(?=\s*[}\]])', re.DOTALL)
_START = re.compile(r"""\{(?=\s*["'}])|\[(?=\s*["'\d{\[\]tfn-])""")
_TOKEN = re.compile(r'"(?:\\.|[^"\\])*"|[{}\[\]]', re.DOTALL)


def strip_thinking(text: str) -> str:
    """The answer without its thinking; thinking that never ends leaves nothing behind it."""
    # The prompt of some models holds the opening tag: all before a lone closing one is thinking.
    return _CLOSING.split(_THINKING.sub("", text))[-1].strip()


def find_json(text: str) -> Json | None:
    """The JSON of a text: all of it, its last fenced block, or the longest object or list in it.

    A cut or broken object gives None, never one of its parts.
    """
    text = strip_thinking(text)
    for candidate in (text, *reversed(_FENCE.findall(text))):
        found, value = _parsed(candidate)
        if found:
            return value
    best, length = None, 0
    for span in _spans(text):
        found, value = _parsed(span)
        if found and len(span) >= length:
            best, length = value, len(span)
    return best


def _parsed(text: str) -> tuple[bool, Json]:
    for form in (text, _TRAILING.sub(lambda match: match.group(1) or "", text)):
        try:
            value = cast("Json", json.loads(form, strict=False, parse_constant=_refuse))
            json.dumps(value, ensure_ascii=False).encode()  # half a surrogate pair is not text
        except (ValueError, RecursionError):
            continue
        return True, value
    return False, None


def _refuse(name: str) -> Json:
    raise ValueError(f"{name} is not JSON")


def _spans(text: str) -> Iterator[str]:
    """Balanced objects and lists, outermost only; nothing after one that is never closed."""
    place = 0
    while found := _START.search(text, place):
        depth = 0
        for token in _TOKEN.finditer(text, start := found.start()):
            depth += {"{": 1, "[": 1, "}": -1, "]": -1}.get(token.group(), 0)
            if depth == 0:
                yield text[start : (place := token.end())]
                break
        else:
            return


QUOTE = 300
"""Characters of a server's own words that a message repeats."""
DROPPABLE = ("response_format", "seed", "max_tokens")
"""Fields that a server may not know."""
RESEED = "another seed"
_REFUSAL = re.compile(
    r"(i['\u2019]m (very )?sorry|i am sorry|sorry|i apologi[sz]e|unfortunately|as an ai[^,.]*)?"
    r"[\s,.;]*(but )?i (can['\u2019]?t|cannot|can not|won['\u2019]t|will not|am unable to"
    r"|['\u2019]?m unable to|am not able to)\s+"
    r"(help|assist|comply|fulfil|continue|do (that|this)|provide|create|generate|write|discuss)",
    re.IGNORECASE,
)


@dataclass(eq=False)
class RequestError(Exception):
    """Why one request gave no answer."""

    what: str
    advice: str = ""
    again: str = ""
    """Remedy by another request: `RESEED`, or the name of a field to leave out; empty: none."""
    fatal: bool = False
    no_model: bool = False
    silent: bool = False
    """Whether the server gave no answer at all; many in a row mean that it is down."""
    garbage: bool = False
    """Whether the server answered, but not as a chat server; many in a row mean it is none."""
    tries: int = 1
    down: bool = False
    """Set by the client: the server has answered nobody for a while."""


_CONTEXT = (
    r"context[ _](length|window|size)|context_length_exceeded|exceed\w* the (available )?context"
    r"|max_model_len|(prompt|input)( \(.*?\))? is too long|too many (input )?tokens"
)
_NO_MODEL = r"model_not_found|model\b.{0,120}?(not (found|exist|served|available)|unknown)"
_KEY = f"Put a valid key into the variable {KEY_VARIABLE}."
_BILL = "Pay the server's bill, or use another one."
_LONGER = "Serve the model with a longer context, or lower synthesis.llm.max_tokens."
_ADDRESS = "Does synthesis.llm.url end where the API begins (/v1)?"
_SCHEMA = "response_format|json_schema|guided|grammar|structured"
_STATES = (
    (r"40[13] ", RequestError("", _KEY, fatal=True)),
    (r".*insufficient_quota", RequestError("", _BILL, fatal=True)),
    (r"429 ", RequestError("", "Lower synthesis.llm.concurrency.")),
    (r"(408|409|425|[5-9]..) ", RequestError("", "Look at the server's log.", silent=True)),
    (rf"413 |(400|422) .*({_CONTEXT})", RequestError("the context overflows", _LONGER)),
    (rf"404 |(400|422) .*({_NO_MODEL})", RequestError("", _ADDRESS, fatal=True, no_model=True)),
    (rf"(400|422) .*({_SCHEMA})", RequestError("", again="response_format")),
    (r"(400|422) .*\bseed\b", RequestError("", again="seed")),
    (r"(400|422) .*max_completion_tokens", RequestError("", again="max_tokens")),
    (r"", RequestError("", "The server refuses this request; its answer has the reason.")),
)
"""Patterns of an HTTP state with the server's words, and what they mean. The first match counts."""


def of_status(status: int, words: str, sent: Container[str]) -> RequestError:
    """Meaning of an HTTP state other than success; `sent` are the fields of the request."""
    said = f"{status} {words[:4000]}"
    meaning = next(
        error
        for pattern, error in _STATES
        if re.match(pattern, said, re.IGNORECASE | re.DOTALL)
        and (not error.again or error.again in sent)
    )
    return replace(meaning, what=f"{meaning.what or f'HTTP {status}'}: {_quoted(words)}")


def of_error(error: openai.APIError, sent: Container[str], timeout: float) -> RequestError:
    """Meaning of an error of the `openai` package."""
    if isinstance(error, openai.APIStatusError):
        body = cast("Any", error.body)
        if isinstance(body, dict):
            words = (body.get("message") or body.get("detail"), body.get("code"))
            body = " ".join(str(word) for word in words if word) or body
        return of_status(error.status_code, str(body or error.message), sent)
    if not isinstance(error, openai.APIConnectionError):
        return malformed(str(error))
    kinds = [kind.__name__ for kind in type(error.__cause__).__mro__]  # of httpx, or of httpx2
    if "TimeoutException" in kinds:
        what = f"no answer within {timeout:g} s"
        advice = "Raise synthesis.llm.timeout, or lower concurrency or max_tokens beside it."
    elif "ConnectError" in kinds:
        what = f"the server cannot be reached ({error.__cause__})"
        advice = "Start it, or correct synthesis.llm.url."
    else:
        what = f"the connection broke before the answer was complete ({kinds[0]})"
        advice = "Look at the server's log: it may have run out of memory or been restarted."
    return RequestError(what, advice, fatal="ConnectError" in kinds, silent=True)


def malformed(words: str) -> RequestError:
    """A success that is not a chat completion."""
    what = f"this is not what a chat server answers: {_quoted(words)}"
    advice = "Is synthesis.llm.url an OpenAI-compatible server (base URL ending in /v1)?"
    return RequestError(what, advice, RESEED, garbage=True)


def read_models(data: object) -> list[str]:
    """Names of the models that a server lists; raises `RequestError` where there is none."""
    if not isinstance(rows := _field(data, "data"), list):
        raise malformed(str(data))
    names = [str(name) for row in cast("list[object]", rows) if (name := _field(row, "id"))]
    if not names:
        advice = "Load one, or name it: synthesis.llm.model."
        raise RequestError("the server lists no model", advice, fatal=True)
    return names


def read_answer(data: object, max_tokens: int) -> tuple[Reply, RequestError | None]:
    """The answer in a server's response, with the tokens it took, and what is wrong with it.

    Raises:
        RequestError: the response is not a chat completion.
    """
    choices = _field(data, "choices")
    if not isinstance(choices, list) or not choices:
        raise malformed(str(_field(data, "error") or data))
    choice, usage = cast("list[object]", choices)[0], _field(data, "usage")
    message, reason = _field(choice, "message"), _field(choice, "finish_reason")
    text = strip_thinking(_text(_field(message, "content")))
    tokens = [_field(usage, name) for name in ("prompt_tokens", "completion_tokens")]
    asked, said = (n if isinstance(n, int) and n > 0 else 0 for n in tokens)
    reply = Reply(text, reason == "length", asked, said)
    refusal = str(_field(message, "refusal") or "")
    if not refusal and (reason == "content_filter" or is_refusal(text)):
        refusal = text or str(reason)
    if refusal:
        advice = "Use another model for this stage (synthesis.llm.model)."
        return reply, RequestError(f"the model refused: {_quoted(refusal)}", advice, RESEED)
    if not text:
        why = f", all {max_tokens} tokens went into thinking" if reply.truncated else ""
        advice = "Raise synthesis.llm.max_tokens, or name another model (synthesis.llm.model)."
        return reply, RequestError(f"the answer is empty{why}", advice, RESEED)
    return reply, None


def is_refusal(text: str) -> bool:
    """Tell whether a whole answer is a polite no: short, and nothing in it is markup."""
    return len(text) < 400 and not re.search(r"[<{\[]", text) and bool(_REFUSAL.match(text.strip()))


def _field(data: object, name: str) -> object:
    return cast("dict[str, object]", data).get(name) if isinstance(data, dict) else None


def _text(content: object) -> str:
    """Content is text, or a list of parts on some servers; half surrogate pairs are replaced."""
    parts = cast("list[object]", content) if isinstance(content, list) else [{"text": content}]
    texts = [text for part in parts if isinstance(text := _field(part, "text"), str)]
    return "".join(texts).encode("utf-8", "replace").decode()


def _quoted(words: str) -> str:
    words = " ".join(words.split())
    return words if len(words) <= QUOTE else words[: QUOTE - 1] + "\u2026"
