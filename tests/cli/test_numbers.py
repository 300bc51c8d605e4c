"""Options that take several numbers: anything else is refused in one sentence."""

from __future__ import annotations

from pathlib import Path

import pytest

from rods.cli.common import numbers
from verbs import rods

ODD = [
    "null,1", "[0],1", "{},1", "0,inf", "-inf,1", "nan,1", "NaN,1", "-Infinity,1", "1e999,2",
    "true,2", '"0",1', "0,1]", "x,1", "1,x", ",",
]  # fmt: skip
PAIRS = ["0", "0,1,2", "0,", ",1", ""]
"""Numbers, but not two of them."""
OPTIONS = {
    "--range": (("observe", "log.jsonl"), "expected two numbers, such as -1,1."),
    "--difficulties": (
        ("demonstrate", "--n", "2", "--out", "x.jsonl"), "expected whole numbers, such as 1,2,3.",
    ),
    "--difficulties of searches": (
        ("demonstrate", "--dialect", "search_r1", "--n", "2", "--out", "x.jsonl"),
        "expected whole numbers, such as 1,2,3.",
    ),
    "--seeds": (("experiment", "--dry-run"), "expected whole numbers, such as 0,1,2."),
}  # fmt: skip


@pytest.mark.parametrize(
    ("option", "text"),
    [(name, text) for name in OPTIONS for text in (*ODD, *(PAIRS if name == "--range" else ()))],
)
def test_anything_else_is_one_sentence(
    option: str,
    text: str,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    monkeypatch.chdir(tmp_path)
    Path("log.jsonl").write_text('{"task_id": "a", "reward": 1}\n' * 2)
    words, expected = OPTIONS[option]
    name = option.partition(" ")[0]
    assert rods(*words, f"{name}={text}", monkeypatch=monkeypatch) == 2
    assert capsys.readouterr().err == f"rods: {name} {text!r}: {expected}\n"
    assert [p.name for p in tmp_path.iterdir()] == ["log.jsonl"]


@pytest.mark.parametrize(
    ("text", "count", "found"),
    [("-1,1", 2, [-1, 1]), (" 0 , 2.5", 2, [0, 2.5]), ("1,,2", 0, [1, 2]), ("", 0, [])],
)
def test_numbers_between_commas(text: str, count: int, found: list[float]) -> None:
    assert numbers(text, "--x", float, "1,2", count) == found


def test_a_number_beyond_all_floats_is_refused(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    words = ("experiment", "--dry-run", "--seeds", "9" * 400)
    assert rods(*words, monkeypatch=monkeypatch) == 2
    assert "expected whole numbers" in capsys.readouterr().err
