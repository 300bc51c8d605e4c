"""Values around the chat client: answers and the file that keeps them, usage, the server's address.

Owns the reading of the URL, which fails before anything is sent, and the key of an answer: the
SHA-256 of all that decides it (model, messages, sampling, seed, schema), not of the server's
address. Failed answers are never kept. Never imports the `openai` package, so a configuration can
be checked without it.

    url, login = split_address("http://me:secret@localhost:8000/v1")
    ResponseCache(folder / "chat.sqlite").get(digest(request))      # a Reply, or None
"""

from __future__ import annotations

import base64
import hashlib
import json
import re
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from urllib.parse import unquote, urlsplit

from rods.errors import ConfigError
from rods.infra.database import Database
from rods.types import Json

KEY_VARIABLE = "RODS_WRITER_KEY"


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
    cached: bool = False


@dataclass(frozen=True)
class ChatUsage:
    """Requests, tokens, time and cost of a stage."""

    calls: int = 0
    """Questions that went to the server; each is one request and its `retries`."""
    cached: int = 0
    """Questions that the cache answered."""
    retries: int = 0
    prompt_tokens: int = 0
    completion_tokens: int = 0
    seconds: float = 0.0
    """Time of all requests, added up; pauses and queueing are not in it."""
    cost: float = 0.0


def split_address(url: str) -> tuple[str, str]:
    """The URL without credentials, and those as HTTP's basic authentication wants them.

    Raises:
        ConfigError: it is empty, or not the URL of a server.
    """
    if not url.strip():
        raise ConfigError(
            "synthesis.llm.url is empty: the writer `llm` needs the base URL of an "
            "OpenAI-compatible chat server, for example --writer-url http://localhost:8000/v1."
        )
    try:
        parts = urlsplit(url.strip())
        usable = parts.scheme in ("http", "https") and bool(parts.hostname) and parts.port != 0
    except ValueError:  # a port that is no number
        parts, usable = urlsplit(""), False
    if not usable:
        shown = re.sub(r"//[^/]*@", "//", url)
        raise ConfigError(
            f"synthesis.llm.url: {shown!r} is not the address of a chat server; expected "
            "something like http://localhost:8000/v1."
        )
    pair, _, host = parts.netloc.rpartition("@")
    pair += "" if ":" in pair else ":"
    login = base64.b64encode(unquote(pair).encode()).decode() if pair.strip(":") else ""
    return f"{parts.scheme}://{host}{parts.path}", login


SCHEMA = (
    "CREATE TABLE answers (key TEXT PRIMARY KEY, text TEXT NOT NULL, truncated INTEGER NOT NULL, "
    "prompt_tokens INTEGER NOT NULL, completion_tokens INTEGER NOT NULL) WITHOUT ROWID",
)


def digest(request: Mapping[str, object]) -> str:
    """Key of a request: equal requests, equal keys, in any order of their fields."""
    text = json.dumps(request, sort_keys=True, separators=(",", ":"))
    return hashlib.sha256(text.encode()).hexdigest()


class ResponseCache(Database):
    """A map from request to answer that survives the process; processes may share the file."""

    def __init__(self, path: Path) -> None:
        """Open or make the file; raises `StoreError` where it is damaged."""
        path.parent.mkdir(parents=True, exist_ok=True)
        super().__init__(path, SCHEMA, version=1, what="response cache")

    def get(self, key: str) -> Reply | None:
        """The answer to a request, None if it was never answered."""
        columns = "text, truncated, prompt_tokens, completion_tokens"
        for text, cut, asked, said in self.rows(
            f"SELECT {columns} FROM answers WHERE key = ?", [key]
        ):
            return Reply(str(text), bool(cut), int(asked or 0), int(said or 0), cached=True)
        return None

    def put(self, key: str, reply: Reply) -> None:
        """Keep an answer; the first one to a request stays."""
        row = (key, reply.text, reply.truncated, reply.prompt_tokens, reply.completion_tokens)
        self.run("INSERT OR IGNORE INTO answers VALUES (?, ?, ?, ?, ?)", row)

    def count(self) -> int:
        """Number of answers."""
        return self.number("SELECT count(*) FROM answers")
