"""Data sets in the formats of others: every export is read back to the same tasks."""

from __future__ import annotations

import dataclasses
import json
from pathlib import Path

import pytest

from rods.envs.bfcl.files import load_entries
from rods.envs.bfcl.tasks import load_tasks
from rods.errors import ConfigError, StoreError, TaskError
from rods.integrations.formats.exports import export
from rods.task import Task, read_tasks
from rods.types import Message, ToolCall
from synthesis_cases import ENVIRONMENT, named, with_calls, with_turn
from worlds import NotesEnvironment, notes_task


def variants() -> list[Task]:
    """Two tasks of each category, as variants: other words, a nested call, odd characters."""
    made: list[Task] = []
    for category in ("base", "miss_func", "miss_param", "long_context"):
        for number in (3, 17):
            task = named(f"multi_turn_{category}_{number}")
            first = task.turns[0]
            text = f"{first.user} \u2028 'quoted' \"twice\" \\n {number} ü\nand\ttabs\x85"
            origin = dataclasses.replace(
                task.provenance, ancestors=(task.id,), recipe="test:odd", seed=number
            )
            task = with_turn(task, 0, dataclasses.replace(first, user=text))
            made.append(dataclasses.replace(task, provenance=origin))
    nested = ToolCall("round_number", {"number": ToolCall("mean", {"numbers": [1, -2.5]})})
    strange = ToolCall("echo", {"content": 'it\'s "so"\nor (not) \\ \u2028 é', "file_name": None})
    if "GorillaFileSystem" in str(made[0].world["classes"]):
        made[0] = with_calls(made[0], 1, (strange,))
    world = {**made[0].world, "classes": [*made[0].world["classes"], "MathAPI"]}  # type: ignore
    made[0] = with_calls(dataclasses.replace(made[0], world=world), 0, (nested,))
    return made


def rows(tasks: list[Task]) -> list[dict[str, object]]:
    return [task.to_json() for task in tasks]


def test_every_format_is_read_back(tmp_path: Path) -> None:
    tasks = variants()
    names = ("jsonl.jsonl", "verl.parquet", "envtuning.parquet", "bfcl", "verifiers.jsonl")
    for name in (*names, "verifiers.parquet"):
        path = tmp_path / name
        export(tasks, path, name.partition(".")[0], ENVIRONMENT)
        assert rows(ENVIRONMENT.load(path)) == rows(tasks), name
    assert len(list(tmp_path.iterdir())) == len(names) + 1, "nothing is left beside them"
    whole = [task for task in tasks if not any(turn.withheld for turn in task.turns)]
    for name in ("trl.jsonl", "trl.parquet"):
        export(whole, tmp_path / name, "trl", ENVIRONMENT)
        assert rows(ENVIRONMENT.load(tmp_path / name)) == rows(whole)


@pytest.mark.parametrize(
    ("name", "form", "wanted"),
    [
        ("x.jsonl", "verl", r"Parquet\. Let the name end in \.parquet"),
        ("x.json", "envtuning", r"Parquet\. Let the name end in \.parquet"),
        ("x.parquet", "jsonl", r"JSON lines\. Let the name end in \.jsonl"),
    ],
)
def test_an_ending_that_says_another_form_is_refused(
    name: str, form: str, wanted: str, tmp_path: Path
) -> None:
    with pytest.raises(StoreError, match=wanted):
        export([named("multi_turn_base_3")], tmp_path / name, form, ENVIRONMENT)
    assert not list(tmp_path.iterdir())


def test_originals_come_back_with_their_names(tmp_path: Path) -> None:
    originals = [t for t in load_tasks() if t.provenance.origin.endswith(("_7", "_49"))]
    export(originals, tmp_path / "b", "bfcl", ENVIRONMENT)
    for old, new in zip(originals, load_entries(tmp_path / "b"), strict=True):
        assert new.provenance == old.provenance
        assert new.world == old.world
        for a, b in zip(old.turns, new.turns, strict=True):
            assert (a.user, a.ground_truth, set(a.withheld)) == (
                b.user,
                b.ground_truth,
                set(b.withheld),
            )


def test_bfcl_files_have_the_benchmarks_shape(tmp_path: Path) -> None:
    export(variants(), tmp_path / "b", "bfcl", ENVIRONMENT)
    name = "BFCL_v4_multi_turn_miss_func.json"
    lines = (tmp_path / "b" / name).read_text("utf-8").split("\n")
    entry = json.loads(lines[0])
    answer = json.loads((tmp_path / "b/possible_answer" / name).read_text().split("\n")[0])
    assert entry["id"] == answer["id"] == "multi_turn_miss_func_1002"
    assert entry["missed_function"] == {"1": ["find", "ls"]}
    assert entry["question"][1] == [], "functions are given back without a word"
    assert entry["question"][2][0]["role"] == "user"
    assert entry["path"][0] == "GorillaFileSystem.find"
    assert answer["ground_truth"][0] == []
    assert answer["ground_truth"][1] == ["find(path='.', name='test')"]


def test_parquet_rows_have_verls_shape(tmp_path: Path) -> None:
    import pyarrow.parquet

    tasks = variants()
    export(tasks, tmp_path / "p", "verl", ENVIRONMENT, dialect="hermes", split="val")
    table = pyarrow.parquet.read_table(tmp_path / "p")
    assert table.column_names == ["data_source", "prompt", "ability", "reward_model", "extra_info"]
    row = table.to_pylist()[2]
    system, user = row["prompt"]
    assert (system["role"], user["role"]) == ("system", "user")
    assert user["content"] == tasks[2].turns[0].user
    assert '"cp"' in system["content"] and '"find"' not in system["content"], "find is withheld"
    assert row["data_source"] == "rods/bfcl" and row["ability"] == "miss_func"
    truth = [[str(call) for call in turn.ground_truth] for turn in tasks[2].turns]
    assert row["reward_model"] == {"style": "interaction", "ground_truth": truth}
    extra = row["extra_info"]
    assert (extra["index"], extra["split"], extra["task_id"]) == (2, "val", tasks[2].id)
    kwargs = extra["interaction_kwargs"]
    assert kwargs["ground_truth"] == truth
    assert len(kwargs["question"]) == len(truth) == len(kwargs["processed_question"]) + 1
    assert json.loads(kwargs["initial_config"]) == tasks[2].world["initial_config"]
    given_back = kwargs["processed_question"][0]
    assert given_back.startswith("More functions are available now:") and '"find"' in given_back


def test_what_exists_is_never_overwritten(tmp_path: Path) -> None:
    tasks = variants()
    for form in ("jsonl", "verl", "bfcl"):
        path = tmp_path / form
        export(tasks, path, form, ENVIRONMENT)
        export(tasks, path, form, ENVIRONMENT)
        with pytest.raises(StoreError, match="other content"):
            export(tasks[1:], path, form, ENVIRONMENT)
        assert not [*tmp_path.glob("*.part")]
    assert rows(list(read_tasks(tmp_path / "jsonl"))) == rows(tasks)
    assert rows(load_entries(tmp_path / "bfcl")) == rows(tasks)


@pytest.mark.parametrize("form", ["jsonl", "verl", "bfcl"])
def test_what_has_nearly_the_name_of_the_output_is_left(form: str, tmp_path: Path) -> None:
    """Another program may have put it there: browsers call unfinished downloads so."""
    (tmp_path / "a.part").mkdir()
    (tmp_path / "a.part" / "mine").write_text("mine")
    (tmp_path / "b.part").write_text("mine")
    for name in ("a", "b"):
        export(variants(), tmp_path / name, form, ENVIRONMENT)
    assert (tmp_path / "a.part" / "mine").read_text() == (tmp_path / "b.part").read_text() == "mine"
    assert sorted(p.name for p in tmp_path.iterdir()) == ["a", "a.part", "b", "b.part"]


def test_what_a_format_cannot_say_is_refused(tmp_path: Path) -> None:
    note = notes_task([("add", [ToolCall("add", {"amount": 1})])])
    with pytest.raises(ConfigError, match="'bfcl': expected one of jsonl, datasets"):
        export([note], tmp_path / "b", "bfcl", NotesEnvironment())
    with pytest.raises(TaskError, match=rf"task {note.id} .*world needs `classes`"):
        export([note], tmp_path / "b", "bfcl", ENVIRONMENT)
    export([note], tmp_path / "p.parquet", "verl", NotesEnvironment())
    assert NotesEnvironment().load(tmp_path / "p.parquet") == [note]
    said = dataclasses.replace(note, dialogue=(Message("user", "hello"),))
    with pytest.raises(TaskError, match=f"task {said.id}: verifiers cannot express it"):
        export([said], tmp_path / "q", "verifiers", NotesEnvironment())
    withheld = notes_task([("add", [])], withheld={0: ("add",)})
    with pytest.raises(TaskError, match=f"task {withheld.id} .base.: TRL cannot express it"):
        export([withheld], tmp_path / "q", "trl", NotesEnvironment())
    other = dataclasses.replace(withheld, category="miss_func")
    with pytest.raises(TaskError, match="Take the other categories: --categories base"):
        export([note, other], tmp_path / "q", "trl", NotesEnvironment())
    task = variants()[0]
    late = with_turn(task, 1, dataclasses.replace(task.turns[1], withheld=("ls",)))
    with pytest.raises(TaskError, match=r"ls is withheld in turns \[2\]"):
        export([late], tmp_path / "b", "bfcl", ENVIRONMENT)
    with pytest.raises(ConfigError, match="no dialect"):
        export([task], tmp_path / "q", "verl", ENVIRONMENT, dialect="none")
    with pytest.raises(ConfigError, match="'csv': expected one of"):
        export([task], tmp_path / "q", "csv", ENVIRONMENT)
    assert sorted(p.name for p in tmp_path.iterdir()) == ["p.parquet"]


def test_readers_name_what_is_broken(tmp_path: Path) -> None:
    with pytest.raises(TaskError, match="is a folder without files of tasks"):
        load_entries(tmp_path)
    export(variants(), tmp_path / "b", "bfcl", ENVIRONMENT)
    (tmp_path / "b/possible_answer/BFCL_v4_multi_turn_base.json").write_text("")
    with pytest.raises(TaskError, match=r"base.json:1: multi_turn_base_1000: there is no answer"):
        load_entries(tmp_path / "b")
