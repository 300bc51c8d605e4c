"""Documents of a search corpus: read from JSON lines, found again by their place in the file.

Owns the row forms and the errors about them; the words that a text is searched by. Never ranks.

    for start, document in read_lines(Path("wiki.jsonl")):
        document.id, document.title, document.text

A row is `{"id": ..., "contents": "TITLE\\nTEXT"}` (the form of Search-R1, whose first line is the
title) or `{"id": ..., "title": ..., "text": ...}`.
"""

from __future__ import annotations

import json
import mmap
import re
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple, Protocol

from rods.errors import ConfigError, EnvError
from rods.infra.text import require_whole

_WORD = re.compile(r"\w+")


class Document(NamedTuple):
    """One text that can be found."""

    id: str
    title: str
    text: str


class Hit(NamedTuple):
    """A document that was found."""

    document: Document
    score: float


class QueryRefused(EnvError):
    """A retriever answers other queries, but not this one: the query is at fault."""


class Retriever(Protocol):
    """Source of documents for a search; used by many threads at once."""

    def search(self, query: str, limit: int) -> list[Hit]:
        """The best documents for a query, best first; none is a valid answer.

        Raises:
            QueryRefused: it answers other queries.
            EnvError: it cannot be asked.
        """
        ...


def words(text: str) -> list[str]:
    """The words of a text in lower case, stop words included."""
    return _WORD.findall(text.lower())


def document_of(row: object) -> Document:
    """A row as a document; raises `ValueError`, which says why it has none of the two forms."""
    if not isinstance(row, dict):
        raise ValueError(f"expected an object, got {type(row).__name__}")
    data: Mapping[str, Any] = row
    name = data.get("id")
    if not isinstance(name, str | int) or isinstance(name, bool):
        raise ValueError(f"'id' is {name!r}, expected a text or a number")
    if isinstance(data.get("contents"), str):
        title, _, text = data["contents"].partition("\n")
        return Document(str(name), title.strip().strip('"').strip(), text.strip())
    if isinstance(data.get("title"), str) and isinstance(data.get("text"), str):
        return Document(str(name), data["title"].strip(), data["text"].strip())
    raise ValueError("expected a text 'contents', or two texts 'title' and 'text'")


def read_lines(path: Path) -> Iterator[tuple[int, Document]]:
    """The documents of a corpus in order, each with where its line begins; empty lines are skipped.

    Raises `ConfigError` for a broken row; the message names file and line.
    """
    start = 0
    with path.open("rb") as lines:
        for number, line in enumerate(lines, 1):
            if line.strip():
                yield start, _document_at(line, f"{path}:{number}")
            start += len(line)


def _document_at(line: bytes, where: str) -> Document:
    try:
        require_whole(found := json.loads(line), where, ConfigError)
        return document_of(found)
    except (ValueError, RecursionError) as error:  # no JSON and no UTF-8 are ValueErrors too
        raise ConfigError(
            f"{where}: not a document: {error}. A row is "
            '{"id": ..., "contents": "TITLE\\nTEXT"} or {"id": ..., "title": ..., "text": ...}.'
        ) from error


class CorpusFile:
    """The documents of a file by number, read when asked for; the file is mapped, not loaded."""

    def __init__(self, path: Path, starts: Sequence[int]):
        """`starts`: where the line of each document begins."""
        self._path, self._starts = path, starts
        with path.open("rb") as file:
            self._bytes = mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ)

    def __len__(self) -> int:
        return len(self._starts)

    def __getitem__(self, number: int) -> Document:
        start = int(self._starts[number])
        end = self._bytes.find(b"\n", start)
        line = self._bytes[start:] if end < 0 else self._bytes[start:end]
        try:
            return document_of(json.loads(line))
        except ValueError as error:
            raise EnvError(
                f"{self._path}: no document at byte {start} any more: the file was changed while "
                "it was searched. Start again; the index is then built again."
            ) from error
