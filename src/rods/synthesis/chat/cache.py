"""Answers of chat servers by the content of the request, in one SQLite file.

Owns the key and the rows. The key is the SHA-256 of all that decides an answer (model, messages,
sampling, seed, schema), not of the server's address. Failed answers never get here.

    cache = ResponseCache(folder / "chat.sqlite")
    cache.put(digest(request), Reply("hello", False, 12, 3))
    cache.get(digest(request))
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping
from pathlib import Path

from rods.infra.database import Database
from rods.synthesis.chat.settings import Reply

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
