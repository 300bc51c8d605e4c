"""Task rows of other trainers and of the benchmark, read by `rods convert` and `--env.tasks`."""

from __future__ import annotations

import dataclasses
import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pyarrow
import pyarrow.parquet
import pytest

from rods.envs.bfcl import assets
from rods.envs.bfcl.tasks import load_tasks
from rods.errors import TaskError
from rods.task import Task, read_tasks, write_tasks
from synthesis_cases import ENVIRONMENT, named
from verbs import rods
from worlds import notes_task

NAMES = [f"multi_turn_{name}_7" for name in assets.CATEGORIES]


def tuning_row(name: str) -> dict[str, Any]:
    """A row as the README of Environment Tuning prints it, which says nothing of withheld tools."""
    category = name.removeprefix("multi_turn_").rpartition("_")[0]
    entry = next(e for e in assets.rows("question", category) if e["id"] == name)
    answer = next(e for e in assets.rows("answer", category) if e["id"] == name)
    truth = answer["ground_truth"]
    return {
        "data_source": "bfcl",
        "prompt": [{"role": "system", "content": "Use the functions."}],
        "ability": "multi_turn_function_calling",
        "reward_model": {"style": "interaction", "ground_truth": truth},
        "extra_info": {
            "split": "train",
            "index": name,
            "original_id": name,
            "interaction_kwargs": {
                "name": "multi_turn_tool_call",
                "id": name,
                "initial_config": json.dumps(entry["initial_config"]),
                "involved_classes": entry["involved_classes"],
                "ground_truth": truth,
                "processed_question": ["next"] * (len(truth) - 1),
                "question": entry["question"],
            },
        },
    }


def written(path: Path, rows: list[dict[str, Any]]) -> Path:
    if path.suffix == ".parquet":
        pyarrow.parquet.write_table(pyarrow.Table.from_pylist(rows), path)
    else:
        path.write_text("".join(json.dumps(row) + "\n" for row in rows), encoding="utf-8")
    return path


@pytest.mark.parametrize("ending", ["parquet", "jsonl"])
def test_rows_of_environment_tuning_are_the_benchmarks_tasks(tmp_path: Path, ending: str) -> None:
    path = written(tmp_path / f"train.{ending}", [tuning_row(name) for name in NAMES])
    assert ENVIRONMENT.load(path) == [named(name) for name in NAMES]
    assert any(turn.withheld for turn in ENVIRONMENT.load(path)[1].turns), "known by the id"


@pytest.mark.slow
def test_files_of_the_benchmark_are_its_tasks(tmp_path: Path) -> None:
    (tmp_path / "possible_answer").mkdir()
    for place, kind in ((tmp_path, "question"), (tmp_path / "possible_answer", "answer")):
        written(place / "BFCL_v3_multi_turn_miss_param.json", list(assets.rows(kind, "miss_param")))
    read = ENVIRONMENT.load(tmp_path / "BFCL_v3_multi_turn_miss_param.json")
    assert read == [task for task in load_tasks() if task.category == "miss_param"]


def broken(change: Callable[[dict[str, Any]], Any], name: str = NAMES[0]) -> dict[str, Any]:
    row = tuning_row(name)
    change(row["extra_info"]["interaction_kwargs"])
    return row


@pytest.mark.parametrize(
    ("row", "words"),
    [
        ({"text": []}, "Expected a task row of RODS, an entry of the benchmark"),
        ({"prompt": []}, "the file has prompts, not tasks"),
        ({"extra_info": {"index": 1}}, "'interaction_kwargs' is missing"),
        ({"task": '{"env": '}, "its task is not JSON"),
        ({"task": '{"turns": 1, "world": 1}'}, "not a task row: turns must be a list, got 1"),
        ({"id": "multi_turn_base_7", "question": []}, "no such file of answers"),
        (broken(lambda k: k.update(initial_config="{")), "is not JSON"),
        (broken(lambda k: k.update(involved_classes=["None"])), "there is no class 'None'"),
        (broken(lambda k: k.update(involved_classes=["TravelApi"])), "Did you mean 'TravelAPI'?"),
        (broken(lambda k: k.update(ground_truth=[["rm()"]])), "zip"),
        (broken(lambda k: k.update(ground_truth=None)), "base_7: not an entry"),
        (broken(lambda k: k["question"].append("x")), "base_7: not an entry"),
        (broken(lambda k: k.update(id="base_7")), "expected multi_turn_CATEGORY_NUMBER"),
        (
            broken(lambda k: k.update(id="multi_turn_miss_func_999")),
            "the withheld functions, is missing",
        ),
        (tuning_row(NAMES[3]), "stands at .*train.jsonl:1 already"),
    ],
)
def test_a_bad_row_is_named(tmp_path: Path, row: dict[str, Any], words: str) -> None:
    path = written(tmp_path / "train.jsonl", [tuning_row(NAMES[3]), row])
    with pytest.raises(TaskError, match=rf"train\.jsonl(:2|.*no such file).*{words}|{words}"):
        ENVIRONMENT.load(path)


def test_a_row_may_carry_a_task_of_ours(tmp_path: Path) -> None:
    tasks = [notes_task([(f"add {n}", [])], count=n) for n in range(3)]
    plain = [task.to_json() for task in tasks]
    rows = [
        plain[0],
        {"task": json.dumps(plain[1]), "prompt": "x"},
        {"extra_info": {"task": plain[2]}},
    ]
    assert list(read_tasks(written(tmp_path / "a.jsonl", rows))) == tasks
    table = [{"task": json.dumps(row), "n": i} for i, row in enumerate(plain)]
    assert list(read_tasks(written(tmp_path / "a.parquet", table))) == tasks
    with pytest.raises(TaskError, match=r"b.parquet, row 2: .*stands at .*row 1 already"):
        list(read_tasks(written(tmp_path / "b.parquet", [table[0], table[0]])))
    with pytest.raises(TaskError, match=r"c.parquet, row 2: not a task row"):
        list(read_tasks(written(tmp_path / "c.parquet", [table[0], {"task": "gsm8k", "n": 1}])))


@pytest.mark.slow
def test_the_verb_goes_round(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def run(*words: str) -> int:
        return rods("convert", *map(str, words), monkeypatch=monkeypatch)

    monkeypatch.chdir(tmp_path)
    variant = named(NAMES[0])
    origin = dataclasses.replace(variant.provenance, ancestors=(variant.id,), recipe="test")
    turns = (dataclasses.replace(variant.turns[0], user="Other words."), *variant.turns[1:])
    write_tasks(
        Path("in.jsonl"),
        [*map(named, NAMES), dataclasses.replace(variant, turns=turns, provenance=origin)],
    )
    last = "in.jsonl"
    for form, name in (
        ("verl", "a.parquet"),
        ("envtuning", "b.parquet"),
        ("verifiers", "c.jsonl"),
        ("bfcl", "d"),
        ("jsonl", "out.jsonl"),
    ):
        assert run("--tasks", last, "--out", name, "--format", form) == 0
        last = name
    ours, back = (list(read_tasks(Path(name))) for name in ("in.jsonl", "out.jsonl"))
    by_category = sorted(ours, key=lambda task: assets.CATEGORIES.index(task.category))
    assert [t.to_json() for t in back] == [t.to_json() for t in by_category]
    words = ("--tasks", "in.jsonl", "--out", "e.jsonl", "--format", "trl")
    assert run(*words) == 2, "miss_func withholds tools"
    assert run(*words, "--categories", "base,miss_param") == 0
    assert [t.category for t in read_tasks(Path("e.jsonl"))] == ["base", "miss_param", "base"]


@pytest.mark.slow
def test_the_verb_says_what_is_wrong(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    write_tasks(Path("in.jsonl"), [named(NAMES[0])])
    Path("there.jsonl").write_text("x")
    for words, said in (
        (("--tasks", "in.jsonl", "--out", "there.jsonl/x"), "there.jsonl is a file; expected a"),
        (("--tasks", "none.jsonl", "--out", "x"), "none.jsonl: there is no such file"),
        (
            ("--tasks", "in.jsonl", "--out", "x", "--format", "csv"),
            "expected one of jsonl, datasets, verl",
        ),
        (("--tasks", "in.jsonl", "--out", "x", "--categories", "odd"), "expected some of base"),
        (("--tasks", "in.jsonl", "--out", "there.jsonl"), "exists, with other content"),
    ):
        assert rods("convert", *words, monkeypatch=monkeypatch) == 2
        assert said in capsys.readouterr().err
    assert sorted(p.name for p in tmp_path.iterdir()) == ["in.jsonl", "there.jsonl"]


def test_published_questions_become_tasks(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A data set of TRL's form: a prompt of messages, an answer."""
    monkeypatch.chdir(tmp_path)
    prompt = [{"role": "user", "content": "What is 2 + 3?"}]
    written(Path("q.parquet"), [{"prompt": prompt, "answer": "5"}])
    words = ["--tasks", "q.parquet", "--out", "q.jsonl", "--env.name", "python_tool"]
    assert rods("convert", *words, monkeypatch=monkeypatch) == 0
    task: Task = next(iter(read_tasks(Path("q.jsonl"))))
    assert (task.turns[0].user, task.world["answer"]) == ("What is 2 + 3?", "5")
