"""Keys of a task row: one that nothing reads is refused, so that no scenario is lost by a slip."""

from __future__ import annotations

import copy
import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from rods.envs.bfcl.files import load_entries
from rods.errors import TaskError
from rods.task import Task, read_tasks

ROW: dict[str, Any] = {
    "env": "desk",
    "category": "base",
    "turns": [
        {"user": "Book R-3.", "ground_truth": [{"name": "book", "arguments": {"room": "R-3"}}]}
    ],
    "world": {"anything": {"is": "allowed"}},
    "provenance": {"origin": "desk_1", "scenario": "desk_1"},
    "dialogue": [{"role": "user", "content": "Hello."}],
}
PLACES: dict[str, Callable[[dict[str, Any]], dict[str, Any]]] = {
    "a task": lambda row: row,
    "a turn": lambda row: row["turns"][0],
    "a call": lambda row: row["turns"][0]["ground_truth"][0],
    "provenance": lambda row: row["provenance"],
    "a message": lambda row: row["dialogue"][0],
}


def written(path: Path, row: dict[str, Any]) -> Path:
    path.write_text(json.dumps(row) + "\n", encoding="utf-8")
    return path


def table(path: Path, row: dict[str, Any]) -> Path:
    texts = {k: json.dumps(v) if isinstance(v, dict | list) else v for k, v in row.items()}
    pq.write_table(pa.Table.from_pylist([texts]), path)
    return path


@pytest.mark.parametrize(
    ("place", "key", "meant"),
    [
        ("a task", "prvenance", "provenance"),
        ("a task", "dialog", "dialogue"),
        ("a turn", "witheld", "withheld"),
        ("a call", "argument", "arguments"),
        ("provenance", "scenaro", "scenario"),
        ("a message", "call", "calls"),
    ],
)
def test_a_key_that_nothing_reads_is_refused_by_place_and_nearest_name(
    place: str, key: str, meant: str, tmp_path: Path
) -> None:
    row = copy.deepcopy(ROW)
    PLACES[place](row)[key] = "s"
    named = rf"x\.jsonl:1: .*{place} has no key '{key}'.*Did you mean '{meant}'\?"
    for read in (lambda p: [*read_tasks(p)], load_entries):
        with pytest.raises(TaskError, match=named):
            read(written(tmp_path / "x.jsonl", row))


@pytest.mark.parametrize("place", PLACES)
def test_a_key_without_a_near_name_is_refused_too_and_null_counts_as_missing(place: str) -> None:
    row = copy.deepcopy(ROW)
    PLACES[place](row)["zzz"] = None
    assert Task.from_json(row) == Task.from_json(ROW)
    PLACES[place](row)["zzz"] = 1
    with pytest.raises(TaskError, match=f"{place} has no key 'zzz', only "):
        Task.from_json(row)


def test_a_table_may_have_other_columns_but_none_that_is_misspelled(tmp_path: Path) -> None:
    path = tmp_path / "x.parquet"
    more = {"data_source": "mine", "__index_level_0__": 3, "task": "a name", "zzz": None}
    for read in (lambda p: [*read_tasks(p)], load_entries):
        assert read(table(path, ROW | more)) == [Task.from_json(ROW)]
        with pytest.raises(TaskError, match=r"row 1: .*no key 'prvenance'"):
            read(table(path, ROW | {"prvenance": '{"scenario": "s"}'}))


def test_a_row_of_another_format_may_have_any_columns(tmp_path: Path) -> None:
    text = json.dumps(ROW)
    for row in ({"prompt": [], "task": text}, {"zzz": 1, "extra_info": {"task": text, "index": 0}}):
        assert [*read_tasks(written(tmp_path / "x.jsonl", row))] == [Task.from_json(ROW)]
