"""Answers of a chat server: their text, the JSON in it, and the file that keeps them.

The key of an answer is the SHA-256 of all that decides it (model, messages, sampling, seed,
schema), not of the server's address. Text is parsed, never evaluated.
"""

from __future__ import annotations

import hashlib
import json
import re
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

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
SCHEMA = (
    "CREATE TABLE answers (key TEXT PRIMARY KEY, text TEXT NOT NULL, truncated INTEGER NOT NULL, "
    "prompt_tokens INTEGER NOT NULL, completion_tokens INTEGER NOT NULL) WITHOUT ROWID",
)


@dataclass(frozen=True)
class Reply:
    """An answer."""

    text: str
    """Without thinking; never empty."""
    truncated: bool
    """`max_tokens` ended it."""
    prompt_tokens: int
    completion_tokens: int
    data: Json | None = None
    """The JSON found in the text, where a schema was asked for. The schema is not checked."""


class ResponseCache(Database):
    """A map from request to answer that survives the process; processes may share the file."""

    def __init__(self, path: Path) -> None:
        """Open or make the file; raises `StoreError` where it is damaged."""
        path.parent.mkdir(parents=True, exist_ok=True)
        super().__init__(path, SCHEMA, version=1, what="response cache")

    def get(self, key: str) -> Reply | None:
        """The answer to a request, None if it was never answered."""
        columns = "text, truncated, prompt_tokens, completion_tokens"
        for text, cut, asked, completed in self.rows(
            f"SELECT {columns} FROM answers WHERE key = ?", [key]
        ):
            return Reply(str(text), bool(cut), int(asked or 0), int(completed or 0))
        return None

    def put(self, key: str, reply: Reply) -> None:
        """Keep an answer; the first one to a request stays."""
        row = (key, reply.text, reply.truncated, reply.prompt_tokens, reply.completion_tokens)
        self.run("INSERT OR IGNORE INTO answers VALUES (?, ?, ?, ?, ?)", row)

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


def reply_of(completion: Any) -> tuple[Reply, str]:
    """The reply in a completion of the `openai` package, and why it is of no use, if it is of none.

    A server may send anything: of what is no completion, some attribute, item or type is missing.
    """
    choice, usage = completion.choices[0], completion.usage
    reason, refusal = getattr(choice, "finish_reason", None), choice.message.refusal
    text = strip_thinking(choice.message.content or "").encode("utf-8", "replace").decode()
    tokens = (usage.prompt_tokens or 0, usage.completion_tokens or 0) if usage else (0, 0)
    reply = Reply(text, reason == "length", *tokens)
    if refusal or reason == "content_filter" or is_refusal(text):
        return reply, f"the model refused: {refusal or text or reason}"
    thought = ", all tokens went into thinking" if reply.truncated else ""
    return reply, "" if text else f"the answer is empty{thought}"


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
