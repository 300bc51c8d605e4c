"""Answers of chat servers by the content of the request, in one SQLite file.

Owns the key and the rows. The key is the SHA-256 of all that decides an answer (model, messages,
sampling, seed, schema), not of the server's address. Failed answers never get here.

    cache = ResponseCache(folder / "chat.sqlite")
    cache.put(digest(request), Answer("hello", False, 12, 3))
    cache.get(digest(request))
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping
from pathlib import Path
from typing import NamedTuple

from rods.infra.database import Database

SCHEMA = (
    "CREATE TABLE answers (key TEXT PRIMARY KEY, text TEXT NOT NULL, truncated INTEGER NOT NULL, "
    "prompt_tokens INTEGER NOT NULL, completion_tokens INTEGER NOT NULL) WITHOUT ROWID",
)
VERSION = 1


class Answer(NamedTuple):
    """What a server said."""

    text: str
    truncated: bool
    """The limit of tokens ended it."""
    prompt_tokens: int
    completion_tokens: int


def digest(request: Mapping[str, object]) -> str:
    """Key of a request: equal requests, equal keys, whatever the order of their fields."""
    text = json.dumps(request, sort_keys=True, separators=(",", ":"))
    return hashlib.sha256(text.encode()).hexdigest()


class ResponseCache:
    """A map from request to answer that survives the process; processes may share the file."""

    def __init__(self, path: Path) -> None:
        """Open or make the file; raises `StoreError` where it is damaged."""
        path.parent.mkdir(parents=True, exist_ok=True)
        self._db = Database(path, SCHEMA, VERSION, "response cache")

    def get(self, key: str) -> Answer | None:
        """The answer to a request, None if it was never answered."""
        rows = self._db.rows(
            "SELECT text, truncated, prompt_tokens, completion_tokens FROM answers WHERE key = ?",
            (key,),
        )
        if not rows:
            return None
        text, truncated, asked, said = rows[0]
        return Answer(str(text), bool(truncated), int(asked or 0), int(said or 0))

    def put(self, key: str, answer: Answer) -> None:
        """Keep an answer; the first one to a request stays."""
        self._db.run("INSERT OR IGNORE INTO answers VALUES (?, ?, ?, ?, ?)", (key, *answer))

    def count(self) -> int:
        """How many answers there are."""
        return int(str(self._db.rows("SELECT count(*) FROM answers")[0][0]))

    def close(self) -> None:
        """Close the file."""
        self._db.close()
