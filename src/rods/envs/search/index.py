"""BM25 over a local corpus: built once, kept beside it, mapped into memory when it is loaded.

Owns the index: its folder, when it is built again, and the ranking. The
folder's name holds a digest of the corpus, so an index can never belong to another text. Ties go to
the earlier document. Never talks to a network.

    index = Bm25Index.of_file(Path("wiki.jsonl"))      # wiki.jsonl.bm25-0123456789abcdef/
    for hit in index.search("river of Okdal", 3):
        hit.document.title, hit.score
"""

from __future__ import annotations

import contextlib
import glob
import hashlib
import importlib
import json
import logging
import os
import shutil
import sys
import tempfile
from array import array
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path
from typing import Any

import numpy as np
from rich.console import Console
from rich.progress import Progress

from rods.envs.search.documents import CorpusFile, Document, Hit, read_lines, words
from rods.errors import ConfigError, EnvError, PrerequisiteError
from rods.infra.install import install_line

K1, B = 1.2, 0.75  # Saturation of repeated words, and how much the length of a document counts
FORM = "rods-bm25-1"  # Changed whenever words or files of an index change; part of the digest
CARD, STARTS = "rods.json", "starts.npy"


_Words = tuple[list["array[int]"], dict[str, int]]
"""A corpus as numbers of words: its documents, and the number of each word."""


class Bm25Index:
    """Finds the documents of a corpus; may be asked by many threads at once."""

    def __init__(self, scores: Any, documents: Sequence[Document] | CorpusFile):
        """`scores`: a `bm25s.BM25` with an index of these documents."""
        self._scores, self._documents = scores, documents

    def __len__(self) -> int:
        return len(self._documents)

    @classmethod
    def of(cls, documents: Sequence[Document]) -> Bm25Index:
        """An index in memory; raises `ConfigError` where no document has a word."""
        numbered = _numbered((_text(document) for document in documents), "the corpus")
        return cls(_built(numbered, shown=False), documents)

    @classmethod
    def of_file(cls, corpus: Path, mapped: bool = True, shown: bool = False) -> Bm25Index:
        """The index of a file, built if there is none of exactly this text.

        Args:
            mapped: False: load the index into memory.
            shown: show on standard error how far the building is.

        Raises:
            ConfigError: the corpus is missing, empty or broken, or the folder cannot be written.
            PrerequisiteError: bm25s is not installed.
        """
        bm25s = engine()
        if not corpus.is_file():
            raise ConfigError(
                f"env.search.corpus: {corpus} is not a file; expected JSON lines of documents."
            )
        place = _find(corpus)
        if not (place / CARD).is_file():
            _build(corpus, place, shown)
        try:
            scores = bm25s.BM25.load(place, mmap=mapped)
            starts = np.load(place / STARTS, mmap_mode="r" if mapped else None)
            return cls(scores, CorpusFile(corpus, starts))
        except (OSError, ValueError, KeyError) as error:
            raise ConfigError(
                f"{place}: the index cannot be read: {error}. Remove this folder; the index is "
                "then built again."
            ) from error

    def search(self, query: str, limit: int) -> list[Hit]:
        """The best documents, best first; a document without any word of the query is none."""
        stop = engine().stopwords.STOPWORDS_EN
        kept = [word for word in words(query) if word not in stop]
        numbers: list[int] = self._scores.get_tokens_ids(kept)
        if not numbers or limit < 1:
            return []
        try:
            scores = self._scores.get_scores_from_ids(numbers)
        except MemoryError as error:
            raise EnvError(f"no memory to score {len(self)} documents: {error}") from error
        return [Hit(self._documents[i], float(scores[i])) for i in _best(scores, limit)]


def engine() -> Any:
    """The package bm25s; raises `PrerequisiteError` where it is not installed."""
    try:
        found = importlib.import_module("bm25s")
    except ImportError as error:
        raise PrerequisiteError(
            f"searching a local corpus needs bm25s: {install_line('search')}; or give "
            "the address of a retriever in env.search.corpus."
        ) from error
    logging.getLogger("bm25s").setLevel(logging.WARNING)  # it asks for every message of its own
    return found


def _best(scores: Any, limit: int) -> list[int]:
    """Numbers of the best scores above zero; the earlier of two equal ones first."""
    least = 0.0
    if limit < len(scores):
        place = len(scores) - limit  # argpartition: ten times as fast here as partition
        least = float(scores[np.argpartition(scores, place)[place]])
    found = np.flatnonzero(scores >= least) if least > 0 else np.flatnonzero(scores > 0)
    order = np.lexsort((found, -scores[found]))
    return [int(i) for i in found[order][:limit]]


def _text(document: Document) -> str:
    return f"{document.title}\n{document.text}"


# -- building ------------------------------------------------------------------------------------


def _numbered(texts: Iterable[str], where: str) -> _Words:
    """Words as numbers in the order of their first appearance."""
    stop = frozenset(engine().stopwords.STOPWORDS_EN)
    numbers: dict[str, int] = {}
    documents: list[array[int]] = []
    for text in texts:
        kept = (word for word in words(text) if word not in stop)
        documents.append(array("i", [numbers.setdefault(word, len(numbers)) for word in kept]))
    if not numbers:
        raise ConfigError(
            f"env.search.corpus: {where} has {len(documents)} documents and no word to search by."
        )
    return documents, numbers


def _built(numbered: _Words, shown: bool) -> Any:
    scores = engine().BM25(k1=K1, b=B, method="lucene")
    # Its bars write many lines where nothing erases them.
    scores.index(numbered, show_progress=shown and sys.stderr.isatty())
    return scores


def _read(corpus: Path, starts: array[int], shown: bool) -> Iterator[str]:
    """The texts of a corpus; notes where their lines start."""
    size = corpus.stat().st_size
    with Progress(console=Console(stderr=True, emoji=False), disable=not shown) as bar:
        task = bar.add_task(f"reading {corpus.name} ({size / 2**20:,.0f} MiB)", total=size)
        for start, document in read_lines(corpus):
            starts.append(start)
            if not len(starts) % 1000:
                bar.update(task, completed=start)
            yield _text(document)
        bar.update(task, completed=size)


def _build(corpus: Path, place: Path, shown: bool) -> None:
    """Build in a folder of its own and rename it: what has the right name is whole."""
    starts = array("Q")
    try:
        scores = _built(_numbered(_read(corpus, starts, shown), str(corpus)), shown)
        part = Path(tempfile.mkdtemp(prefix=f"{place.name}.part-", dir=place.parent))
        try:
            scores.save(part, show_progress=False)
            np.save(part / STARTS, np.asarray(starts, dtype=np.uint64))
            (part / CARD).write_text(json.dumps(_stamp(corpus)), encoding="utf-8")
            if not place.exists():  # another process may have been faster
                part.rename(place)
        finally:
            shutil.rmtree(part, ignore_errors=True)
    except OSError as error:
        if (place / CARD).is_file():
            return
        raise ConfigError(
            f"env.search.corpus: the index of {corpus} cannot be written to {place}: {error}. Make "
            "room or allow writing there."
        ) from error


# -- which folder --------------------------------------------------------------------------------


def _stamp(corpus: Path) -> dict[str, int]:
    """Mark of a file that changes when it is written again."""
    stat = corpus.stat()
    return {"bytes": stat.st_size, "mtime_ns": stat.st_mtime_ns}


def _find(corpus: Path) -> Path:
    """The folder of this corpus's index; a corpus that was not written to is not read again."""
    stamp = _stamp(corpus)
    for place in sorted(corpus.parent.glob(f"{glob.escape(corpus.name)}.bm25-*")):
        with contextlib.suppress(OSError, ValueError):  # it cannot be read
            if json.loads((place / CARD).read_text(encoding="utf-8")) == stamp:
                return place
    place = corpus.parent / f"{corpus.name}.bm25-{digest(corpus)}"
    if (place / CARD).is_file() and os.access(place / CARD, os.W_OK):
        (place / CARD).write_text(json.dumps(stamp), encoding="utf-8")  # only the date differs
    return place


def digest(corpus: Path) -> str:
    """First 16 hex digits of the SHA-256 of a corpus and of what its index depends on besides."""
    found = hashlib.sha256(f"{FORM} k1={K1} b={B} ".encode())
    with corpus.open("rb") as file:
        return hashlib.file_digest(file, lambda: found).hexdigest()[:16]
