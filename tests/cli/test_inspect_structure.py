"""What a task is made of as people read it: `rods inspect --structure`."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from rods.cli.structure import shorten
from rods.task import write_tasks
from synthesis_cases import named
from verbs import rods


def test_a_cut_is_marked() -> None:
    assert shorten("abcdef", 4) == "abc…"
    assert shorten("abcd", 4) == "abcd"


@pytest.fixture(scope="module")
def pool(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("tasks") / "tasks.jsonl"
    write_tasks(path, [named("multi_turn_base_3"), named("multi_turn_base_98")])
    # A blank line before the second task: lines are those of the file.
    path.write_text(path.read_text().replace("\n", "\n\n", 1))
    return path


def test_the_tree_names_turns_calls_sources_and_edges(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    command = ["inspect", "--structure", "--task", "multi_turn_base_98"]
    assert rods(*command, monkeypatch=monkeypatch) == 0
    shown = capsys.readouterr().out
    for words in (
        "turn 2: I'm feeling",
        "4 startEngine",
        "state edges from 2 lockDoors, 3 pressBrakePedal",
        "cityA = '62947' ← result of call 5",
        "ignitionMode = 'START' ← documentation",
        "calls by turn       2, 2, 3 (sum 7)",
        "arguments from      documentation",
        "from earlier turns  0, 0, 0 by turn (sum 0)",
        "state edges         2, 1 across turns, depth 1",
        "value edges         3, 0 across turns, depth 1",
    ):
        assert words in shown


@pytest.mark.parametrize("key", ["multi_turn_base_98", "3", "c12df3", "c12df30b685e0c55"])
def test_a_task_is_found_by_name_line_and_id(
    key: str, pool: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    words = ["inspect", str(pool), "--structure", "--task", key, "--json"]
    assert rods(*words, monkeypatch=monkeypatch) == 0
    (row,) = json.loads(capsys.readouterr().out)
    assert row["origin"] == "multi_turn_base_98"
    assert row["state_edges"] == [[1, 3], [2, 3]]
    assert (row["calls"], row["depth"], row["state_depth"]) == ([2, 2, 3], 1, 1)


@pytest.mark.parametrize(("number", "names"), [("0", 2), ("1", 1)])
def test_so_many_tasks_of_a_file_are_shown(
    number: str,
    names: int,
    pool: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    words = ["inspect", str(pool), "--structure", "--n", number, "--json"]
    assert rods(*words, monkeypatch=monkeypatch) == 0
    shown = [row["origin"] for row in json.loads(capsys.readouterr().out)]
    assert shown == ["multi_turn_base_3", "multi_turn_base_98"][:names]


def test_the_tasks_may_be_those_of_the_environment(
    pool: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    words = ["inspect", "--structure", "--task", "3", "--env.tasks", str(pool), "--json"]
    assert rods(*words, monkeypatch=monkeypatch) == 0
    assert json.loads(capsys.readouterr().out)[0]["origin"] == "multi_turn_base_98"


def test_variants_are_judged_from_a_file_alone(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    assert rods("inspect", monkeypatch=monkeypatch) == 2
    assert "needs a file of variants, or --structure" in capsys.readouterr().err


def test_a_run_is_no_file_of_variants(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "manifest.json").write_text("{}")
    assert rods("inspect", str(tmp_path), monkeypatch=monkeypatch) == 2
    assert "is a run; expected a file of variants" in capsys.readouterr().err


@pytest.mark.parametrize("way", [[], ["--structure"]])
@pytest.mark.parametrize(
    ("key", "said"),
    [
        ("multi_turn_bse_98", "Did you mean 'multi_turn_base_98'"),
        ("2", "a line from 1 to 3"),
        ("c12", "4 digits"),
    ],
)
def test_an_unknown_task_is_an_error_of_the_user(
    key: str,
    said: str,
    way: list[str],
    pool: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    assert rods("inspect", str(pool), "--task", key, *way, monkeypatch=monkeypatch) == 2
    shown = capsys.readouterr()
    assert said in shown.err and "Traceback" not in shown.err
    assert not shown.out


def test_a_name_of_several_variants_is_not_guessed(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    path = tmp_path / "tasks.jsonl"
    tasks = [named("multi_turn_base_3"), named("multi_turn_miss_func_3")]
    rows = [json.dumps(t.to_json()).replace("multi_turn_miss_func_3", "multi_turn_base_3")
            for t in tasks]  # fmt: skip
    path.write_text("\n".join(rows))
    words = ["inspect", str(path), "--structure", "--task", "multi_turn_base_3"]
    assert rods(*words, monkeypatch=monkeypatch) == 2
    said = capsys.readouterr().err
    assert tasks[0].id in said and tasks[1].id in said
