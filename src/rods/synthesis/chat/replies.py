"""Answers of a chat server: their text, the JSON in it, and the file that keeps them.

The key of an answer is the SHA-256 of all that decides it (model, messages, sampling, seed,
schema), not of the server's address. Text is parsed, never evaluated.
"""

from __future__ import annotations

import hashlib
import json
import re
from collections.abc import Mapping
from pathlib import Path
from typing import Any, NamedTuple

from rods.infra.database import Database
from rods.types import Json

_THINKING = re.compile(r"<think(?:ing)?>.*?(?:</think(?:ing)?>|\Z)", re.IGNORECASE | re.DOTALL)
_CLOSING = re.compile(r"</think(?:ing)?>", re.IGNORECASE)
_FENCE = re.compile(r"(?:```|~~~)[^\n`~]*\n(.*?)(?:```|~~~)", re.DOTALL)
_REFUSAL = re.compile(
    r"(i['\u2019]m (very )?sorry|i am sorry|sorry|i apologi[sz]e|unfortunately|as an ai[^,.]*)?"
    r"[\s,.;]*(but )?i (can['\u2019]?t|cannot|can not|won['\u2019]t|will not|am unable to"
    r"|['\u2019]?m unable to|am not able to)\s+"
    r"(help|assist|comply|fulfil|continue|do (that|this)|provide|create|generate|write|discuss)",
    re.IGNORECASE,
)
SCHEMA = ("CREATE TABLE answers (key TEXT PRIMARY KEY, text TEXT NOT NULL) WITHOUT ROWID",)


class Reply(NamedTuple):
    """An answer."""

    text: str
    """Without thinking; never empty."""
    data: Json | None = None
    """The JSON found in the text, where a schema was asked for. The schema is not checked."""


class ResponseCache(Database):
    """A map from request to answer that survives the process; processes may share the file."""

    def __init__(self, path: Path) -> None:
        """Open or make the file; raises `StoreError` where it is damaged."""
        path.parent.mkdir(parents=True, exist_ok=True)
        super().__init__(path, SCHEMA, version=2, what="response cache")

    def get(self, key: str) -> str | None:
        """The answer to a request, None if it was never answered."""
        rows = self.rows("SELECT text FROM answers WHERE key = ?", [key])
        return next((str(text) for (text,) in rows), None)

    def put(self, key: str, text: str) -> None:
        """Keep an answer; the first one to a request stays."""
        self.run("INSERT OR IGNORE INTO answers VALUES (?, ?)", (key, text))

    def count(self) -> int:
        """Number of answers."""
        return self.number("SELECT count(*) FROM answers")


def digest(request: Mapping[str, object]) -> str:
    """Key of a request: equal requests, equal keys, in any order of their fields."""
    text = json.dumps(request, sort_keys=True, separators=(",", ":"))
    return hashlib.sha256(text.encode()).hexdigest()


def strip_thinking(text: str) -> str:
    """The answer without its thinking; thinking that never ends leaves nothing behind it."""
    # The prompt of some models holds the opening tag: all before a lone closing one is thinking.
    return _CLOSING.split(_THINKING.sub("", text))[-1].strip()


def read_answer(completion: Any) -> tuple[str, str, tuple[int, int]]:
    """Text of a completion, why it is of no use (or nothing), tokens of prompt and answer.

    A server may send anything: of what is no completion, some attribute, item or type is missing.
    """
    choice, usage = completion.choices[0], completion.usage
    reason, refusal = getattr(choice, "finish_reason", None), choice.message.refusal
    text = strip_thinking(choice.message.content or "").encode("utf-8", "replace").decode()
    tokens = (usage.prompt_tokens or 0, usage.completion_tokens or 0) if usage else (0, 0)
    problem = ""
    if refusal or reason == "content_filter" or is_refusal(text):
        problem = f"the model refused: {refusal or text or reason}"
    elif not text:
        thought = ", all tokens went into thinking" if reason == "length" else ""
        problem = f"the answer is empty{thought}"
    return text, problem, tokens


def is_refusal(text: str) -> bool:
    """Tell whether a whole answer is a polite no: short, and nothing in it is markup."""
    return len(text) < 400 and not re.search(r"[<{\[]", text) and bool(_REFUSAL.match(text))


def find_json(text: str) -> Json | None:
    """The JSON of a text: all of it, its last fenced block, or its first to its last brace."""
    for candidate in (text, *_FENCE.findall(text)[-1:], text[text.find("{") : text.rfind("}") + 1]):
        try:
            value: Json = json.loads(candidate, strict=False)
            json.dumps(value, ensure_ascii=False, allow_nan=False).encode()
        except (ValueError, RecursionError):  # also NaN, and half of a surrogate pair
            continue
        return value
    return None
