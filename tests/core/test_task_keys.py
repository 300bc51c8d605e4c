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
from rods.synthesis.stages import stages_of
from rods.task import Task, read_tasks
from worlds import NotesEnvironment

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


@pytest.mark.parametrize("number", ["NaN", "Infinity", "-Infinity", "1e999"])
@pytest.mark.parametrize("named", [True, False], ids=["named", "without-origin"])
@pytest.mark.parametrize("text", [False, True], ids=["json", "json-in-a-text"])
def test_a_number_that_json_has_not_is_refused_with_file_and_line(
    number: str, named: bool, text: bool, tmp_path: Path
) -> None:
    """A task without a name gets its id while it is read, which such a number prevents."""
    world = '{"count": %s}'
    row = {**ROW, "world": "W", "provenance": {"origin": "o", "scenario": "s"} if named else {}}
    line = json.dumps(row).replace('"W"', json.dumps(world) if text else world)
    file = tmp_path / "tasks.jsonl"
    file.write_text(f"{line % 1}\n{line % number}\n", encoding="utf-8")
    with pytest.raises(TaskError) as error:
        list(read_tasks(file))
    assert str(error.value).startswith(f"{file}:2: "), str(error.value)
    assert "has no NaN and no infinity. Write null" in str(error.value)
    assert "not a task row" not in str(error.value)
    states = tmp_path / "states.jsonl"
    states.write_text(f"{world % 1}\n{world % number}\n", encoding="utf-8")
    with pytest.raises(TaskError, match="has no NaN") as error:
        stages_of(NotesEnvironment(), states=states)
    assert str(error.value).startswith(f"{states}:2: "), str(error.value)


@pytest.mark.parametrize(
    "row",
    [
        {"prompt": "Book R-3.", "answer": "R-3"},
        {"prompt": [{"role": "user", "content": "Book R-3."}], "extra_info": {"index": 1}},
        {"messages": [{"role": "user", "content": "Book R-3."}]},
        {"conversations": [{"from": "human", "value": "Book R-3."}]},
    ],
    ids=lambda row: next(iter(row)),
)
@pytest.mark.parametrize("form", ["json-lines", "table"])
def test_a_file_of_prompts_is_called_so_and_the_command_for_it_is_named(
    row: dict[str, Any], form: str, tmp_path: Path
) -> None:
    if form == "table":
        file = table(tmp_path / "rows.parquet", row)
    else:
        file = written(tmp_path / "rows.jsonl", row)
    for read in (read_tasks, load_entries):
        with pytest.raises(TaskError) as error:
            list(read(file))
        said = str(error.value)
        assert said.startswith((f"{file}:1: ", f"{file}, row 1: "))
        assert f"prompts, not tasks ({next(iter(row))!r}" in said, said
        for part in ("calls", "`rods sft`", "--env.name python_tool", "--from-scratch"):
            assert part in said


@pytest.mark.parametrize("levels", [200, 700, 900])
@pytest.mark.parametrize("place", ["world", "arguments"])
def test_a_value_that_is_nested_too_deep_is_refused_with_file_and_line(
    place: str, levels: int, tmp_path: Path
) -> None:
    """JSON takes more levels than what copies and compares values."""
    row = copy.deepcopy(ROW)
    holder = row["world"] if place == "world" else PLACES["a call"](row)["arguments"]
    holder["deep"] = "D"
    line = json.dumps(row).replace('"D"', '{"a":' * levels + "1" + "}" * levels)
    file = tmp_path / "x.jsonl"
    file.write_text(f"{json.dumps(ROW)}\n{line}\n", encoding="utf-8")
    for read in (lambda p: [*read_tasks(p)], load_entries):
        with pytest.raises(TaskError) as error:
            read(file)
        assert str(error.value).startswith(f"{file}:2: ") and "nested" in str(error.value)


@pytest.mark.parametrize("seed", [2**63, -(2**70)])
def test_a_seed_that_no_table_holds_is_refused(seed: int, tmp_path: Path) -> None:
    row = {**ROW, "provenance": {"seed": seed}}
    with pytest.raises(TaskError, match=r"x\.jsonl:1: .*seed must have at most 63 bits"):
        [*read_tasks(written(tmp_path / "x.jsonl", row))]
    fits = {**ROW, "provenance": {"seed": 2**63 - 1}}
    assert [*read_tasks(written(tmp_path / "x.jsonl", fits))] == [Task.from_json(fits)]
