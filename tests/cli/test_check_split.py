"""`rods check` refuses what training refuses: tasks that leave a side of the split empty."""

from __future__ import annotations

import json
import re
from contextlib import nullcontext
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from rods.abilities import WorldKeys, ability, unvaried
from rods.assemble.refusals import require_variants
from rods.cli.common import say
from rods.config import EnvSettings, load_config
from rods.envs import make_environment
from rods.envs.originals import require_worlds, split_tasks
from rods.errors import SynthesisError, TaskError
from rods.split import split
from rods.task import Provenance, Task, Turn
from rods.task import write_tasks as write_rows
from rods.types import ToolCall
from verbs import rods
from worlds import NotesEnvironment, notes_task

DESK = """
from rods.envs.tool_classes import ToolClasses
from rods.split import given_split
from rods.task import read_tasks
class Desk:
    def __init__(self, rooms: dict[str, dict]):
        self.rooms = rooms
    def book(self, room: str) -> dict:
        "Book a room."
        self.rooms[room]["booked"] = True
        return {"room": room}
    def free(self, room: str) -> dict:
        "Free a room."
        self.rooms[room]["booked"] = False
        return {"room": room}
class Own(ToolClasses):
    def tasks(self, held_out: float):
        return list(read_tasks("tasks.jsonl"))
class Whole(Own):
    def part(self, tasks, held_out: float | None):
        return given_split(tasks, ())
desk = ToolClasses("desk", [Desk])
own = Own("desk", [Desk])
whole = Whole("desk", [Desk])
"""


def desk_project(
    folder: Path, monkeypatch: pytest.MonkeyPatch, count: int, scenario: str | None = None
) -> None:
    """Make a folder with the class and so many tasks, and go there."""
    monkeypatch.chdir(folder)
    Path("desk.py").write_text(DESK, encoding="utf-8")
    write_tasks(count, scenario)


def write_tasks(count: int, scenario: str | None) -> None:
    with Path("tasks.jsonl").open("w", encoding="utf-8") as file:
        for number in range(count):
            room = f"R-{number}"
            calls = [{"name": "book", "arguments": {"room": room}}]
            state = {"Desk": {"rooms": {room: {}}}}
            task: dict[str, Any] = {
                "env": "desk",
                "category": "base",
                "turns": [{"user": f"Book room {room}.", "ground_truth": calls}],
                "world": {"classes": ["Desk"], "initial_config": state},
            }
            if scenario:
                task["provenance"] = {"origin": room, "scenario": scenario}
            file.write(json.dumps(task) + "\n")


FILES = ("--env.name", "./desk.py:desk", "--env.tasks", "tasks.jsonl")
OWN = ("--env.name", "./desk.py:own")
WHOLE = ("--env.name", "./desk.py:whole")
DRY = ("--dry-run", "--profile", "smollm2", "--model", "smollm2-bfcl", "--memory", "16")


@pytest.mark.slow
@pytest.mark.parametrize(
    ("count", "scenario", "words"),
    [
        pytest.param(1, None, FILES, id="one-task"),
        pytest.param(6, "s", FILES, id="one-scenario"),
        pytest.param(6, None, (*FILES, "--env.held_out", "0.99"), id="all-held-out"),
        pytest.param(6, None, WHOLE, id="own-tasks-none-held-out"),
        pytest.param(1, None, OWN, id="own-task"),
    ],
)
def test_check_notes_what_training_refuses(
    count: int,
    scenario: str | None,
    words: tuple[str, ...],
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    desk_project(tmp_path, monkeypatch, count, scenario)
    said: list[str] = []
    for verb in (("train",), ("train", *DRY)):
        assert rods(*verb, *words, monkeypatch=monkeypatch) == 2
        said.append(capsys.readouterr().err.strip().splitlines()[-1].removeprefix("rods: "))
    assert said[0] == said[1]
    assert rods("check", *words, monkeypatch=monkeypatch) == 0, "the tasks are sound"
    shown = capsys.readouterr()
    assert "replayed twice" in shown.out
    assert f"rods train would refuse these tasks. {said[0]}" in " ".join(shown.err.split())
    number = 1 if scenario else count
    assert f"you have {number} scenario{'s' * (number > 1)}" in said[0]
    few = "at least 2 are needed: one to train on, one held out. Add a task with another"
    assert (few if number == 1 else "split empty") in said[0]


@pytest.mark.parametrize(
    ("count", "scenario", "words"),
    [
        pytest.param(2, None, FILES, id="two-tasks"),
        pytest.param(6, None, FILES, id="tasks-without-scenario"),
        pytest.param(1, None, (*FILES[:2], "--tasks", "tasks.jsonl"), id="a-file-to-look-at"),
        pytest.param(2, None, OWN, id="own-tasks"),
    ],
)
def test_check_takes_what_can_be_split(
    count: int,
    scenario: str | None,
    words: tuple[str, ...],
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    desk_project(tmp_path, monkeypatch, count, scenario)
    assert rods("check", *words, monkeypatch=monkeypatch) == 0


@pytest.mark.parametrize("name", ["python_tool", "search"])
def test_generated_questions_of_one_side_are_noted(
    name: str, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    words = ("check", "--env.name", name, "--env.questions.count", "1")
    assert rods(*words, monkeypatch=monkeypatch) == 0
    assert "at least 2 are needed" in capsys.readouterr().err


def split_rows() -> tuple[list[Any], list[Any], list[Any]]:
    """All rows of tasks.jsonl, each with a scenario; those to train on; those held out."""
    rows = [json.loads(line) for line in Path("tasks.jsonl").read_text().splitlines()]
    for number, row in enumerate(rows):
        row["provenance"] = {"origin": f"desk_{number}", "scenario": f"desk_{number}"}
    ids = {task.provenance.origin for task in split([Task.from_json(r) for r in rows]).held_out}
    held_out = [row for row in rows if row["provenance"]["origin"] in ids]
    return rows, [row for row in rows if row not in held_out], held_out


reporting = pytest.mark.parametrize(
    "verb",
    [
        "check",
        "synth --n 1 --out made.jsonl",
        "train --dry-run --profile smollm2 --model smollm2-bfcl --memory 16",
    ],
)
"""Each command that states which tools no training task calls."""


@reporting
def test_a_tool_that_does_not_exist_is_not_one_to_write_training_tasks_for(
    verb: str,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
    caplog: pytest.LogCaptureFixture,
) -> None:
    """A faulty task counts on neither side, and is itself named."""
    desk_project(tmp_path, monkeypatch, 6)
    rows, _, held_out = split_rows()
    wrong = held_out[0]
    wrong["turns"][0]["ground_truth"][0]["name"] = "boook"
    Path("tasks.jsonl").write_text("\n".join(map(json.dumps, rows)), encoding="utf-8")
    words = (*verb.split(), *FILES, "--env.held_out", "0.5")
    assert rods(*words, monkeypatch=monkeypatch) == (verb == "check")
    shown = "".join(capsys.readouterr()) + caplog.text
    seen = " ".join(re.sub("[^a-zA-Z_' ]", " ", shown).split())
    assert "there is no function 'boook'" in seen
    assert "held out tasks call" not in seen and "held out ones call" not in seen


@reporting
def test_a_tool_that_a_faulty_training_task_calls_is_not_said_to_be_in_held_out_tasks_only(
    verb: str,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
    caplog: pytest.LogCaptureFixture,
) -> None:
    desk_project(tmp_path, monkeypatch, 6)
    rows, train, held_out = split_rows()
    for row in (train[0], held_out[0]):
        row["turns"][0]["user"] = row["turns"][0]["user"].replace("Book", "Free")
        row["turns"][0]["ground_truth"][0]["name"] = "free"
    train[0]["turns"][0]["ground_truth"][0]["arguments"]["room"] = "R-99"
    Path("tasks.jsonl").write_text("\n".join(map(json.dumps, rows)), encoding="utf-8")
    words = (*verb.split(), *FILES, "--env.held_out", "0.5")
    assert rods(*words, monkeypatch=monkeypatch) == (verb == "check")
    seen = " ".join(("".join(capsys.readouterr()) + caplog.text).split())
    assert "Of the tasks without a fault, only held-out ones call free: add" in seen


MODEL = "--profile smollm2 --model smollm2-bfcl"
NOTHING = "env.held_out = 0 leaves nothing to evaluate on. Set it above 0, or name files"
EVERY = (*FILES, "--env.held_out", "0")


@pytest.mark.parametrize(
    "verb",
    [
        "check",
        "synth --n 1 --out made.jsonl",
        "inspect tasks.jsonl",
        "convert --format jsonl --out other.jsonl --split train",
        pytest.param(f"trl --dry-run --memory 64 {MODEL}", marks=pytest.mark.slow),
        pytest.param(f"demonstrate {MODEL} --n 1 --out cold.parquet", marks=pytest.mark.slow),
    ],
)
def test_all_tasks_may_be_trained_on_where_nothing_is_evaluated(
    verb: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    desk_project(tmp_path, monkeypatch, 6)
    assert rods(*verb.split(), *EVERY, monkeypatch=monkeypatch) == 0
    shown = capsys.readouterr()
    assert (f"note: {NOTHING}" in shown.err) is (verb == "check")
    if verb.startswith("trl"):
        words = " ".join(shown.out.split())
        assert "Training tasks: 6. Held-out tasks: 0. " in words and "write more" not in words


@pytest.mark.parametrize(
    "verb",
    [
        "convert --format jsonl --out other.jsonl --split held_out",
        "train --dry-run",
        pytest.param(f"train {MODEL} --out run", marks=pytest.mark.slow),
        pytest.param(f"eval {MODEL}", marks=pytest.mark.slow),
    ],
)
def test_no_held_out_task_is_refused_where_one_is_needed(
    verb: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    desk_project(tmp_path, monkeypatch, 6)
    assert rods(*verb.split(), *EVERY, monkeypatch=monkeypatch) == 2
    assert NOTHING in capsys.readouterr().err
    assert not Path("run").exists() and not Path("other.jsonl").exists()


@pytest.mark.parametrize("verb", ["check", "synth --n 1 --out made.jsonl", "inspect tasks.jsonl"])
def test_evaluation_files_are_held_out_beside_all_tasks(
    verb: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    desk_project(tmp_path, monkeypatch, 7)
    lines = Path("tasks.jsonl").read_text().splitlines()
    Path("tasks.jsonl").write_text("\n".join(lines[:6]), encoding="utf-8")
    other = json.loads(lines[6].replace('"book"', '"free"').replace("Book", "Free"))
    Path("evaluation.jsonl").write_text(json.dumps(other), encoding="utf-8")
    words = (*verb.split(), *EVERY, "--evaluation.files", "evaluation.jsonl")
    assert rods(*words, monkeypatch=monkeypatch) == 0
    said = capsys.readouterr().err
    assert NOTHING not in said
    assert ("Only held-out tasks call free" in said) is (verb != "inspect tasks.jsonl")


def test_a_tool_that_nothing_describes_is_a_hint(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    source = DESK.replace('"Book a room."', '"""Book a room.\n\nArgs:\n  room: Which."""')
    Path("desk.py").write_text(source.replace('        "Free a room."\n', ""), encoding="utf-8")
    write_tasks(3, None)
    assert rods("check", *FILES, "--json", monkeypatch=monkeypatch) == 0
    found = json.loads(capsys.readouterr().out)
    assert found["undescribed"] == 1
    (row,) = (row for row in found["rows"] if row["finding"] == "undescribed")
    assert row["detail"].startswith("tool 'free' has no description and no description of 'room'.")
    assert rods("check", *FILES, monkeypatch=monkeypatch) == 0
    assert "tool 'free'" in capsys.readouterr().out
    words = (*FILES[:1], "./desk2.py:desk", *FILES[2:])
    Path("desk2.py").write_text(DESK, encoding="utf-8")
    assert rods("check", *words, "--json", monkeypatch=monkeypatch) == 0
    assert json.loads(capsys.readouterr().out)["undescribed"] == 2, "parameters count, too"


def test_what_is_left_out_is_stated_once(
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
    caplog: pytest.LogCaptureFixture,
) -> None:
    """Files are read for the tasks and again for their splits, in `rods train` even more often."""
    desk_project(tmp_path, monkeypatch, 6)
    rows, train, held_out = split_rows()
    rows[0]["provenance"]["review"] = "rejected"
    tasks, evaluation = tmp_path / "tasks.jsonl", tmp_path / "evaluation.jsonl"
    tasks.write_text("\n".join(map(json.dumps, rows)), encoding="utf-8")
    evaluation.write_text("\n".join(map(json.dumps, (train[-1], held_out[-1]))), encoding="utf-8")
    words = ("--env.name", "./desk.py:desk", "--env.tasks", str(tasks), "--env.held_out", "0.5")
    words = (*words, "--evaluation.files", str(evaluation))
    assert rods("check", *words, monkeypatch=monkeypatch) == 0
    shown = "".join(capsys.readouterr()) + caplog.text
    for what in ("1 of 6 tasks are rejected in a review", "1 training tasks stand in"):
        assert shown.count(what) == 1, shown


@pytest.mark.parametrize("way", ["--env.tasks", "--tasks"])
@pytest.mark.parametrize(
    ("change", "said"),
    [
        (
            {"world": {"classes": ["Desk"], "Desk": {"rooms": {}}}},
            "tasks.jsonl:2: its world has no key 'Desk', only 'classes', 'initial_config'.",
        ),
        (
            {"world": {"classes": ["Desk"], "inital_config": {}}},
            "only 'classes', 'initial_config' (Did you mean 'initial_config'?).",
        ),
        ({"env": "dest"}, "tasks.jsonl:2: env is 'dest', expected 'desk'. Did you mean 'desk'?"),
        ({"env": "x"}, "tasks.jsonl:2 has a task of the environment 'x', but env.name is"),
    ],
)
def test_what_nothing_reads_of_a_task_is_refused_with_its_line(
    way: str,
    change: dict[str, Any],
    said: str,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    desk_project(tmp_path, monkeypatch, 2)
    rows = [json.loads(line) for line in Path("tasks.jsonl").read_text().splitlines()]
    rows[1] |= change
    rows[0]["world"] |= {"unread": None}
    if way == "--tasks" and "env" in change:  # others beside them are findings
        rows, said = rows[1:], said.replace("jsonl:2", "jsonl:1")
    Path("tasks.jsonl").write_text("\n".join(map(json.dumps, rows)), encoding="utf-8")
    words = ("--env.name", "./desk.py:desk", way, "tasks.jsonl")
    assert rods("check", *words, monkeypatch=monkeypatch) == 2
    assert said in " ".join(capsys.readouterr().err.split())


@pytest.mark.parametrize("name", ["bfcl", "mcp", "python_tool", "search", "repo", "function_call"])
def test_a_world_s_key_that_no_environment_reads_is_refused_in_all(
    name: str, tmp_path: Path
) -> None:
    given = {"command": "python server.py"} if name == "mcp" else {}
    environment = make_environment(name, given)
    naming = ability(environment, WorldKeys)
    assert naming is not None
    key = naming.world_keys[0]
    for world, fault in (({key: ["x"]}, ""), ({f"{key}x": ["x"]}, rf"no key '{key}x'.*'{key}'\?")):
        tasks = [Task(name, "base", (Turn("Do it."),), world)]
        write_rows(tmp_path / "rows.jsonl", tasks)
        with pytest.raises(TaskError, match=fault) if fault else nullcontext():
            require_worlds(tasks, tmp_path / "rows.jsonl", environment)


def test_a_finding_names_its_task_once(
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
    caplog: pytest.LogCaptureFixture,
) -> None:
    desk_project(tmp_path, monkeypatch, 6)
    rows = [json.loads(line) for line in Path("tasks.jsonl").read_text().splitlines()]
    rows[0]["world"]["classes"] = ["Bureau"]
    Path("tasks.jsonl").write_text("\n".join(map(json.dumps, rows)), encoding="utf-8")
    name = Task.from_json(rows[0]).id
    assert rods("check", *FILES, "--json", monkeypatch=monkeypatch) == 1
    found = json.loads(capsys.readouterr().out)["rows"][0]
    assert "Bureau" in found["detail"] and name not in found["detail"]
    assert rods("synth", *FILES, "--n", "1", "--out", "v.jsonl", monkeypatch=monkeypatch) == 0
    assert [m.count(name) for m in caplog.messages if "is skipped" in m] == [1]


def test_of_several_processes_the_first_one_speaks(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """`torchrun` and `accelerate launch` number theirs; each may still end with its own error."""
    for rank, shown in (("0", True), ("1", False)):
        monkeypatch.setenv("RANK", rank)
        say("a note")
        assert ("a note" in capsys.readouterr().err) is shown
        assert rods("check", "--dialect", "hermes", monkeypatch=monkeypatch) == 2
        assert "--dialect has no effect" in capsys.readouterr().err


def test_an_environment_that_shows_no_initial_states_is_named_with_what_to_add(
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
    caplog: pytest.LogCaptureFixture,
) -> None:
    """Writers can change nothing there, and a table of rejected candidates does not say why."""
    monkeypatch.chdir(tmp_path)
    made = [notes_task([(f"Add {n}.", [ToolCall("add", {"amount": n})])]) for n in range(8)]
    tasks = [replace(task, provenance=Provenance("", "")) for task in made]  # a scenario each
    write_rows(tmp_path / "notes.jsonl", tasks)
    words = ["--env.name", "worlds:NotesEnvironment", "--env.tasks", "notes.jsonl"]
    note = "NotesEnvironment does not show the initial state of its worlds"
    assert rods("check", *words, monkeypatch=monkeypatch) == 0
    assert note in capsys.readouterr().err

    def stop(*_: Any) -> Any:
        raise SynthesisError("the note came before any work")

    monkeypatch.setattr("rods.cli.synth._make", stop)
    assert rods("synth", *words, "--out", "v.jsonl", monkeypatch=monkeypatch) == 2
    assert note in capsys.readouterr().err
    config = load_config("rods", "small", ["synthesis.writer=graph"])
    require_variants(config, NotesEnvironment(), tasks)
    assert note in caplog.text and "rods.abilities.StateAccess" in caplog.text
    own: dict[str, Any] = {}
    exec(DESK, own)
    assert not unvaried(own["desk"])


@pytest.mark.parametrize("share", [0.25, 0.5])
def test_a_share_of_the_tasks_that_an_environment_brings_is_held_out(
    share: float, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    desk_project(tmp_path, monkeypatch, 8)
    parts = split_tasks(EnvSettings(name="./desk.py:own", held_out=share))
    assert len(parts.held_out) == 8 * share and len(parts.train) == 8 - 8 * share
