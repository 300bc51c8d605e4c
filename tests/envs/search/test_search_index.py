"""BM25 over a corpus: what is found, when the index is built again, and errors about rows."""

from __future__ import annotations

import json
import math
import os
import random
import threading
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from rods.envs.search import index as index_module
from rods.envs.search.documents import Document, document_of, read_lines, words
from rods.envs.search.index import K1, B, Bm25Index, digest
from rods.errors import ConfigError, EnvError, PrerequisiteError

TEXTS = {
    "Okdal": "Okdal is a town. The river Sarn flows through Okdal.",
    "Sarn": "The Sarn is a river. It is cold.",
    "Ana Velm": "Ana Velm was born in Okdal.",
    "Bo Velm": "Bo Velm was born in Toreb.",
}
DOCUMENTS = [Document(str(i), *pair) for i, pair in enumerate(TEXTS.items())]


def write(path: Path, rows: list[Any]) -> Path:
    path.write_text("".join(json.dumps(row) + "\n" for row in rows), encoding="utf-8")
    return path


@pytest.fixture
def corpus(tmp_path: Path) -> Path:
    return write(tmp_path / "c.jsonl", [d._asdict() for d in DOCUMENTS])


def found(index: Bm25Index, query: str, limit: int = 3) -> list[str]:
    return [hit.document.title for hit in index.search(query, limit)]


def folders(corpus: Path) -> list[Path]:
    return sorted(p for p in corpus.parent.iterdir() if p.is_dir())


def counted(monkeypatch: pytest.MonkeyPatch) -> list[Path]:
    built: list[Path] = []
    real = index_module._build
    monkeypatch.setattr(index_module, "_build", lambda *a: (built.append(a[1]), real(*a)))
    return built


def by_hand(query: str) -> dict[str, float]:
    """BM25 as Lucene has it, written out."""
    texts = {d.title: words(f"{d.title} {d.text}") for d in DOCUMENTS}
    stop = set(index_module.engine().stopwords.STOPWORDS_EN)
    texts = {title: [w for w in text if w not in stop] for title, text in texts.items()}
    mean = sum(map(len, texts.values())) / len(texts)
    scores: dict[str, float] = {}
    for title, text in texts.items():
        for word in words(query):
            having = sum(word in other for other in texts.values())
            weight = math.log(1 + (len(texts) - having + 0.5) / (having + 0.5))
            often = text.count(word)
            part = often / (often + K1 * (1 - B + B * len(text) / mean))
            scores[title] = scores.get(title, 0.0) + weight * part
    return {title: score for title, score in scores.items() if score > 0}


def test_scores_are_bm25() -> None:
    index = Bm25Index.of(DOCUMENTS)
    for query in ("okdal", "river sarn", "velm born", "Velm, Okdal!"):
        scores = {hit.document.title: hit.score for hit in index.search(query, 9)}
        assert scores == pytest.approx(by_hand(query), rel=1e-5)


def test_best_first_ties_by_place_and_nothing_without_a_word() -> None:
    index = Bm25Index.of(DOCUMENTS)
    assert found(index, "Velm") == ["Ana Velm", "Bo Velm"]
    assert found(index, "Velm", 1) == ["Ana Velm"]
    assert found(index, "Ana VELM") == ["Ana Velm", "Bo Velm"]
    assert found(index, "where is it?") == found(index, "zebra") == found(index, "") == []
    assert found(index, "Velm", 0) == []


def test_best_is_what_sorting_gives() -> None:
    rng = random.Random(4)
    for size in (1, 2, 7, 200):
        scores = np.array([rng.choice([0, 0, 1, 2, 2.5]) for _ in range(size)], dtype=np.float32)
        right = sorted((i for i in range(size) if scores[i] > 0), key=lambda i: (-scores[i], i))
        for limit in (1, 3, 300):
            assert index_module._best(scores, limit) == right[:limit]


@pytest.mark.parametrize("mapped", [True, False])
def test_a_file_is_as_memory(corpus: Path, mapped: bool) -> None:
    index, memory = Bm25Index.of_file(corpus, mapped=mapped), Bm25Index.of(DOCUMENTS)
    assert len(index) == 4
    assert isinstance(index._scores.scores["data"], np.memmap) == mapped
    for query in ("okdal", "river", "velm born"):
        assert index.search(query, 3) == memory.search(query, 3)


def test_built_once_and_named_by_the_corpus(corpus: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    built = counted(monkeypatch)
    Bm25Index.of_file(corpus)
    assert folders(corpus) == built == [corpus.parent / f"c.jsonl.bm25-{digest(corpus)}"]
    monkeypatch.setattr(index_module, "digest", lambda _: pytest.fail("read again for nothing"))
    Bm25Index.of_file(corpus)
    assert len(built) == 1


def test_a_card_that_was_cut_off_is_written_again(
    corpus: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    built = counted(monkeypatch)
    Bm25Index.of_file(corpus)
    card = folders(corpus)[0] / index_module.CARD
    whole = card.read_text()
    card.write_text("{")
    Bm25Index.of_file(corpus)
    assert card.read_text() == whole and len(built) == 1


def test_a_new_date_alone_builds_nothing(corpus: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    built = counted(monkeypatch)
    Bm25Index.of_file(corpus)
    os.utime(corpus, ns=(1, 1))
    Bm25Index.of_file(corpus)
    assert len(built) == len(folders(corpus)) == 1


def test_another_text_is_built_anew(corpus: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    built = counted(monkeypatch)
    Bm25Index.of_file(corpus)
    write(corpus, [{"id": 9, "contents": "Zebra\nA zebra."}])
    assert found(Bm25Index.of_file(corpus), "zebra") == ["Zebra"]
    assert len(built) == len(folders(corpus)) == 2


def test_a_build_that_was_killed_leaves_nothing_that_counts(
    corpus: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def full(*_: Any, **__: Any) -> None:
        raise OSError(28, "No space left on device")

    with monkeypatch.context() as patch:
        patch.setattr(np, "save", full)
        with pytest.raises(ConfigError, match=r"c\.jsonl cannot be written to .*No space left"):
            Bm25Index.of_file(corpus)
    assert folders(corpus) == []
    assert found(Bm25Index.of_file(corpus), "sarn") == ["Sarn", "Okdal"]


def test_a_damaged_index_is_said(corpus: Path) -> None:
    Bm25Index.of_file(corpus)
    next(folders(corpus)[0].glob("data*.npy")).write_bytes(b"no array")
    with pytest.raises(ConfigError, match="Remove this folder"):
        Bm25Index.of_file(corpus)


def test_a_corpus_that_changes_under_a_search_is_a_failure(corpus: Path) -> None:
    index = Bm25Index.of_file(corpus)
    text = corpus.read_bytes()
    corpus.write_bytes(text.replace(b"{", b"("))
    with pytest.raises(EnvError, match="the file was changed"):
        index.search("okdal", 1)


def test_many_threads_find_the_same(corpus: Path) -> None:
    index, seen = Bm25Index.of_file(corpus), []
    right = found(index, "velm okdal")
    threads = [
        threading.Thread(target=lambda: seen.append(found(index, "velm okdal"))) for _ in range(8)
    ]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert seen == [right] * 8


def test_both_row_forms(tmp_path: Path) -> None:
    rows = [
        {"id": "7", "contents": '"Okdal"\nA town.\nOn the Sarn.'},
        {"id": 8, "title": "Sarn", "text": "A river."},
    ]
    path = write(tmp_path / "c.jsonl", rows)
    path.write_text(path.read_text() + "\n \n")
    assert [document for _, document in read_lines(path)] == [
        Document("7", "Okdal", "A town.\nOn the Sarn."),
        Document("8", "Sarn", "A river."),
    ]
    assert found(Bm25Index.of_file(path), "sarn") == ["Sarn", "Okdal"]


@pytest.mark.parametrize(
    ("line", "what"),
    [
        ("{", "not a document: Expecting property name"),
        ("[1]", "expected an object, got list"),
        (r'{"id": 1, "title": "a\ud800", "text": "b"}', "half a character"),
        ('{"contents": "A\\nb"}', "'id' is None"),
        ('{"id": true, "contents": "A\\nb"}', "'id' is True"),
        ('{"id": 1, "title": "A"}', "expected a text 'contents'"),
        ('{"id": 1, "contents": 5}', "expected a text 'contents'"),
    ],
)
def test_a_broken_row_names_file_and_line(tmp_path: Path, line: str, what: str) -> None:
    path = tmp_path / "c.jsonl"
    path.write_text('{"id": 1, "contents": "A\\nb"}\n\n' + line + "\n")
    with pytest.raises(ConfigError) as caught:
        Bm25Index.of_file(path)
    assert f"{path}:3: " in str(caught.value) and what in str(caught.value)
    assert folders(path) == []


def test_bytes_that_are_no_text(tmp_path: Path) -> None:
    path = tmp_path / "c.jsonl"
    path.write_bytes(b'{"id": 1, "contents": "\xff"}\n')
    with pytest.raises(ConfigError, match=r"c\.jsonl:1: not a document"):
        Bm25Index.of_file(path)


@pytest.mark.parametrize("text", ["", "\n", '{"id": 1, "contents": "?\\n..."}\n'])
def test_a_corpus_without_words(tmp_path: Path, text: str) -> None:
    path = tmp_path / "c.jsonl"
    path.write_text(text)
    with pytest.raises(ConfigError, match="no word to search by"):
        Bm25Index.of_file(path)


def test_a_missing_file_or_package(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.raises(ConfigError, match="is not a file"):
        Bm25Index.of_file(tmp_path / "none.jsonl")
    monkeypatch.setitem(__import__("sys").modules, "bm25s", None)
    with pytest.raises(PrerequisiteError, match=r"pip install -e '.*\[search\]'"):
        Bm25Index.of(DOCUMENTS)


@pytest.mark.slow
def test_how_far_the_building_is_stands_on_standard_error(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    rows = [{"id": i, "contents": f"T{i}\nword{i}"} for i in range(2001)]
    quiet, shown = (write(tmp_path / name, rows) for name in ("quiet.jsonl", "shown.jsonl"))
    assert len(Bm25Index.of_file(quiet)) == 2001
    assert capsys.readouterr() == ("", "")
    assert len(Bm25Index.of_file(shown, shown=True)) == 2001
    out, err = capsys.readouterr()
    assert out == ""
    assert "shown.jsonl" in err and "100%" in err


def test_a_document_has_one_of_two_forms() -> None:
    assert document_of({"id": "x", "contents": "A"}) == Document("x", "A", "")
    with pytest.raises(ValueError, match="got str"):
        document_of("text")
