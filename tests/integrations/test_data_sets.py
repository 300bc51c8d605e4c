"""Data sets of `datasets`: which split of a folder is read, and what is written with a card."""

from __future__ import annotations

import gzip
import json
import sys
from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pyarrow
import pyarrow.parquet
import pytest

from report_runs import write_trajectories
from rods.config import load_config
from rods.envs.bfcl.tasks import load_tasks
from rods.errors import PrerequisiteError, TaskError
from rods.infra import shards
from rods.infra.rows import file_rows
from rods.infra.shards import files_of
from rods.integrations.formats.logged import read_rewards
from rods.store import RunDirectory
from rods.task import Task, Turn, read_tasks, write_tasks
from rods.trajectory_codec import read_parquet
from verbs import rods

DATA_SETS = ("hf:owner/name", "hf:owner/name/main", "hf:owner/name:test")


def table(path: Path, *numbers: int) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    pyarrow.parquet.write_table(pyarrow.table({"n": numbers}), path)


def numbers(name: str | Path) -> list[int]:
    return [row["n"] for *_, row in file_rows(Path(name), "numbers", TaskError)]


def test_one_split_is_read_and_the_others_are_named(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    table(tmp_path / "data" / "train-00000-of-00002.parquet", 1, 2)
    table(tmp_path / "data" / "train-00001-of-00002.parquet", 3)
    table(tmp_path / "data" / "test-00000-of-00001.parquet", 4)
    (tmp_path / "extra.jsonl").write_text('{"n": 5}\n\n{"n": 6}\n')
    found = list(file_rows(tmp_path, "numbers", TaskError))
    assert [number for number, *_ in found] == [1, 2, 3]
    assert found[2][1].endswith("train-00001-of-00002.parquet, row 1"), "its place in its file"
    assert numbers(tmp_path) == [1, 2, 3]
    assert caplog.text.count("the split train is read, not test, extra;") == 1
    assert numbers(f"{tmp_path}:test") == [4]
    assert numbers(f"{tmp_path}:extra") == [5, 6]


def test_a_path_with_a_colon_is_a_path(tmp_path: Path) -> None:
    table(tmp_path / "a:test" / "x.parquet", 1)
    table(tmp_path / "a" / "test.parquet", 2)
    assert numbers(tmp_path / "a:test") == [1]


def test_files_without_a_split_are_one(tmp_path: Path) -> None:
    table(tmp_path / "b.parquet", 2)
    table(tmp_path / "a.parquet", 1)
    (tmp_path / ".hidden").mkdir()
    table(tmp_path / ".hidden" / "c.parquet", 3)
    assert numbers(tmp_path) == [1, 2]


def lacking(folder: Path) -> str:
    table(folder / "train-00000-of-00002.parquet", 1)
    return "1 of 2 files of the split train are here"


def of_two_data_sets(folder: Path) -> str:
    table(folder / "main" / "train-00000-of-00001.parquet", 1)
    table(folder / "other" / "train-00000-of-00001.parquet", 1)
    return r"the split train lies in .*main, .*other\. Name one of them"


def without_train(folder: Path) -> str:
    table(folder / "data" / "sft-00000-of-00001.parquet", 1)
    table(folder / "data" / "rl-00000-of-00001.parquet", 1)
    return "no split 'train'. Name one of rl, sft after a colon: .*:rl"


def packed(folder: Path) -> str:
    (folder / "data").mkdir(parents=True)
    (folder / "data" / "test.jsonl").write_text('{"n": 1}\n')
    with gzip.open(folder / "data" / "train.jsonl.gz", "wt") as out:
        out.write('{"n": 2}\n')
    return r"train\.jsonl\.gz:1: not UTF-8 text; expected a file of numbers, unpacked\."


def of_another_kind(folder: Path) -> str:
    folder.mkdir()
    (folder / "train.csv").write_text("n\n1\n")
    return r"without files of numbers; expected some of \.parquet, \.arrow, \.jsonl, \.json"


@pytest.mark.parametrize(
    "made", [lacking, of_two_data_sets, without_train, packed, of_another_kind]
)
def test_a_folder_that_cannot_be_read_says_why(made: Callable[[Path], str], tmp_path: Path) -> None:
    expected = made(tmp_path / "rows")
    with pytest.raises(TaskError, match=expected):
        numbers(tmp_path / "rows")


def test_files_of_one_name_are_no_split(tmp_path: Path) -> None:
    """The second one would be read alone, in place of both."""
    table(tmp_path / "test.parquet", 1)
    for number, name in enumerate("ab"):
        table(tmp_path / name / "rows.parquet", number)
    with pytest.raises(TaskError, match=r"the split rows lies in .*a, .*b\. Name one of them"):
        numbers(f"{tmp_path}:rows")


def test_an_arrow_file_that_is_none_is_refused(tmp_path: Path) -> None:
    for content in (b"", b"ARROW1 and no more", b"n,m"):
        (tmp_path / "x.arrow").write_bytes(content)
        with pytest.raises(TaskError, match=r"x\.arrow: not an Arrow file, or cut short"):
            numbers(tmp_path / "x.arrow")


def test_arrow_files_of_both_forms_are_read(tmp_path: Path) -> None:
    rows = pyarrow.table({"n": [1, 2, 3]})
    for form in (pyarrow.ipc.new_stream, pyarrow.ipc.new_file):
        with form(str(tmp_path / "x.arrow"), rows.schema) as out:
            out.write_table(rows, max_chunksize=2)
        assert numbers(tmp_path / "x.arrow") == [1, 2, 3]


# -- hub -------------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", DATA_SETS)
def test_a_data_set_of_the_hub_needs_its_package(
    name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(shards, "installed", lambda _: None)
    with pytest.raises(PrerequisiteError, match=r"need `datasets` \(pip install datasets\)"):
        files_of(Path(name), "questions", TaskError)


@pytest.mark.parametrize("fault", [ConnectionError, ValueError, RuntimeError])
def test_a_hub_that_does_not_answer_is_one_sentence(
    fault: type[Exception], monkeypatch: pytest.MonkeyPatch
) -> None:
    def load_dataset(*_: Any) -> Any:
        raise fault("Couldn't\nreach it")

    monkeypatch.setattr(shards, "installed", lambda _: "5")
    monkeypatch.setitem(sys.modules, "datasets", SimpleNamespace(load_dataset=load_dataset))
    with pytest.raises(TaskError, match=r"hf:a/b: cannot be loaded: Couldn't reach it\. Check"):
        files_of(Path("hf:a/b"), "questions", TaskError)


@pytest.mark.slow
def test_datasets_loads_what_a_name_means(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Without a network `owner/name` may be a folder, which `datasets` loads in the same way."""
    datasets = pytest.importorskip("datasets")
    monkeypatch.setattr(datasets.config, "HF_DATASETS_CACHE", str(tmp_path / "cache"))
    monkeypatch.chdir(tmp_path)
    table(Path("owner/name/data/train-00000-of-00001.parquet"), 1, 2)
    table(Path("owner/name/data/test-00000-of-00001.parquet"), 3)
    assert numbers("hf:owner/name") == [1, 2]
    assert numbers("hf:owner/name:test") == [3]


# -- written ---------------------------------------------------------------------------------------


def variant() -> Task:
    original = load_tasks()[0]
    turns = (Turn("Other words.", original.turns[0].ground_truth), *original.turns[1:])
    plain = Task("bfcl", "base", turns, original.world).to_json()
    plain["provenance"] = {"origin": "multi_turn_base_0", "ancestors": [original.id], "seed": 7}
    return Task.from_json(plain)


def columns_of_card(text: str) -> list[str]:
    rows = text.partition("## Columns")[2].splitlines()
    return [row.split("`")[1] for row in rows if row.startswith("| `")]


def test_tasks_become_a_folder_with_a_card(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    tasks = [load_tasks()[0], variant()]
    write_tasks(Path("in.jsonl"), tasks)
    words = ["convert", "--tasks", "in.jsonl", "--format", "datasets"]
    assert rods(*words, "--out", "out", monkeypatch=monkeypatch) == 0
    found = pyarrow.parquet.read_table("out/data/train-00000-of-00001.parquet").to_pylist()
    assert [(row["task_id"], row["seed"]) for row in found] == [(tasks[0].id, 0), (tasks[1].id, 7)]
    assert found[1]["user_messages"] == [turn.user for turn in tasks[1].turns]
    card = Path("out/README.md").read_text()
    assert columns_of_card(card) == list(found[0])
    assert "1 originals, 1 variants" in card and "| train | 2 |" in card
    assert "* Written by `rods convert --tasks in.jsonl --format datasets --out out`" in card
    assert "\nlicense" not in card.partition("\n---\n")[0], "it is the owner's to choose"
    back = list(read_tasks(Path("out")))
    assert [task.to_json() for task in back] == [task.to_json() for task in tasks]
    assert rods(*words, "--out", "out", monkeypatch=monkeypatch) == 0, "the same content"
    write_tasks(Path("in.jsonl"), tasks[:1])
    assert rods(*words, "--out", "out", monkeypatch=monkeypatch) == 2, "other content"
    assert sorted(p.name for p in tmp_path.iterdir()) == ["in.jsonl", "out"]


@pytest.mark.slow
def test_the_tasks_of_an_environment_come_as_two_splits(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    words = ["convert", "--format", "datasets", "--categories", "base"]
    assert rods(*words, "--out", "out", monkeypatch=monkeypatch) == 0
    assert rods(*words, "--split", "held_out", "--out", "held", monkeypatch=monkeypatch) == 0
    train, test = (list(read_tasks(Path(f"out:{split}"))) for split in ("train", "test"))
    assert len(train) == len(test) == 100
    assert not {t.provenance.scenario for t in train} & {t.provenance.scenario for t in test}
    assert list(read_tasks(Path("held"))) == test
    assert [p.name for p in Path("held/data").iterdir()] == ["test-00000-of-00001.parquet"]


def run_in(path: Path) -> Path:
    path.mkdir()
    run = RunDirectory.create(path, load_config())
    judged = {"task_id": "o0000a7c", "category": "base", "origin": "original", "rbar": 0.5}
    judged |= {"phi": 0.5, "variance": 0.1, "n_valid": 8, "region": "boundary"}
    run.log({"kind": "step", "step": 31, "judgements": [{**judged, "first_visit": True}]})
    write_trajectories(path)
    return path


def test_trajectories_of_a_run_become_a_folder_with_a_card(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    run = run_in(Path("run"))
    words = ["convert", "--run", "run", "--out", "out"]
    assert rods(*words, "--format", "datasets", monkeypatch=monkeypatch) == 0
    found = pyarrow.parquet.read_table("out/data/train-00000-of-00001.parquet").to_pylist()
    files = sorted((run / "trajectories").iterdir())
    ours = [one for file in files for one in read_parquet(file)]
    assert [row["input_ids"] for row in found] == [one.ledger.ids for one in ours]
    assert [row["assistant_masks"] for row in found] == [one.ledger.mask for one in ours]
    solved = [sum(v.solved for v in one.verdicts) / one.n_turns for one in ours]
    assert [row["progress"] for row in found] == solved
    assert [row["reward"] for row in found] == solved
    parts = [{"solved": share, "reached": 1.0} for share in solved]
    assert [json.loads(row["reward_parts"]) for row in found] == parts
    for row, share in zip(found, solved, strict=True):  # in a group of mean reward 0.4
        pairs = {*zip(row["assistant_masks"], row["advantages"], strict=True)}
        assert {own: a and round(a, 6) for own, a in pairs} == {0: None, 1: round(share - 0.4, 6)}
        assert len(pairs) == 2
    assert {r["category"] for r in found if r["task_id"] == ours[0].task_id} == {"base"}
    assert [row["step"] for row in found] == [0] * 48 + [31] * 48
    said = [{"role": m.role, "content": m.content} for m in ours[0].messages]
    assert found[0]["messages"] == said
    card = Path("out/README.md").read_text()
    assert columns_of_card(card) == list(found[0])
    assert "| train | 96 |" in card and "seed 0, 1 updates" in card
    for more in ([], ["--format", "verl"], ["--format", "datasets", "--split", "train"]):
        assert rods(*words, *more, monkeypatch=monkeypatch) == 2


def test_rewards_that_a_run_does_not_hold_are_null(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    run = run_in(Path("run"))
    write_trajectories(run, signals=False)
    words = ["convert", "--run", "run", "--out", "out", "--format", "datasets"]
    assert rods(*words, monkeypatch=monkeypatch) == 0
    found = pyarrow.parquet.read_table("out/data/train-00000-of-00001.parquet").to_pylist()
    names = ("reward", "reward_parts", "advantages")
    assert {row[name] for row in found for name in names} == {None}
    logged = read_rewards(Path("out/data/train-00000-of-00001.parquet"))
    assert [row.reward for row in logged] == [row["progress"] for row in found]


def test_a_run_without_trajectories_is_refused(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    Path("run").mkdir()
    RunDirectory.create(Path("run"), load_config())
    words = ["convert", "--run", "run", "--out", "out", "--format", "datasets"]
    assert rods(*words, monkeypatch=monkeypatch) == 2
    assert "run: this run holds no trajectories" in capsys.readouterr().err
    assert not Path("out").exists()


@pytest.mark.slow
def test_datasets_loads_what_is_written(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    datasets = pytest.importorskip("datasets")
    monkeypatch.chdir(tmp_path)
    run_in(Path("run"))
    write_tasks(Path("in.jsonl"), [load_tasks()[0], variant()])
    for words in (["--run", "run", "--out", "a"], ["--tasks", "in.jsonl", "--out", "b"]):
        words = ["convert", *words, "--format", "datasets"]
        assert rods(*words, monkeypatch=monkeypatch) == 0
    loaded = [
        datasets.load_dataset(f"./{n}", cache_dir=str(tmp_path / "cache")) for n in ("a", "b")
    ]
    assert [len(one["train"]) for one in loaded] == [96, 2]
    assert loaded[0]["train"][0]["messages"][1]["role"] == "user"
    assert Task.from_json(json.loads(loaded[1]["train"][1]["task"])) == variant()
