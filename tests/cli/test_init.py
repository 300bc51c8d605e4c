"""`rods init`: a new project runs as its README says."""

from __future__ import annotations

import io
import json
import re
import shlex
import subprocess
import sys
from pathlib import Path

import pytest

from places import ROOT
from rods.cli.init import PROJECT
from rods.config import load_config
from rods.envs.originals import split_tasks
from rods.store import RunDirectory
from rods.task import read_tasks
from rods.trajectory_codec import read_parquet
from verbs import rods

FILES = {"README.md", "pytest.ini", "recipe.toml", "tasks.jsonl", "test_tools.py", "tools.py"}
VERBS = ("check", "synth", "inspect", "demonstrate", "sft", "train", "train", "compare",
         "eval", "chat", "export")  # fmt: skip
SMALL = {
    "synth": "--n 4",
    "demonstrate": "--n 24 --model tiny",
    "sft": "--model tiny --epochs 8 --train.lr 5e-3 --model.dtype float32 --model.threads 1",
    "train": "--updates 1 --rollout.k 4 --rollout.tasks_per_step 4 --evaluation.variants 0 "
    "--evaluation.samples 0 --rollout.temperature 0.2 --rollout.generated_tokens 128 "
    "--rollout.step_tokens 64 --model.dtype float32 --model.threads 1 --synthesis.drain_seconds 5",
}
"""What makes the commands of the README small: the bundled policy, a few conversations."""


@pytest.fixture
def project(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The folder of a new project, which is the working directory."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(sys, "path", [*sys.path])
    assert rods("init", "my_agent", monkeypatch=monkeypatch) == 0
    monkeypatch.chdir("my_agent")
    return tmp_path / "my_agent"


def commands(readme: Path) -> list[list[str]]:
    """Words of the README's commands, without the program's name."""
    lines = re.findall(r"^ +rods (.+)$", readme.read_text(encoding="utf-8"), re.MULTILINE)
    return [shlex.split(line) for line in lines]


def test_it_writes_tools_tasks_settings_and_tests(project: Path) -> None:
    assert {path.name for path in project.iterdir()} == FILES
    assert len((PROJECT / "README.md").read_text(encoding="utf-8").splitlines()) < 50
    tasks = list(read_tasks(project / "tasks.jsonl"))
    assert len(tasks) == 8 and {task.category for task in tasks} == {
        "base", "miss_param", "miss_func",
    }  # fmt: skip
    assert {len(task.turns) for task in tasks} == {2, 3}
    assert [words[0] for words in commands(project / "README.md")] == list(VERBS)


def test_the_first_command_is_quoted(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    assert rods("init", "my agent", monkeypatch=monkeypatch) == 0
    assert "The project is in my agent/. Go there (cd 'my agent')" in capsys.readouterr().err


@pytest.mark.slow
def test_its_tests_heed_no_settings_around_it(project: Path) -> None:
    """As in a clone of RODS, whose settings need a plug-in that nobody asked for."""
    around = "[tool.pytest.ini_options]\naddopts = '--no-such-option'\n"
    (project.parent / "pyproject.toml").write_text(around, encoding="utf-8")
    words = [sys.executable, "-m", "pytest", "-q"]
    done = subprocess.run(words, capture_output=True, text=True, cwd=project, timeout=120)
    assert done.returncode == 0, done.stdout + done.stderr


def test_its_two_sides_have_the_same_tools_and_categories(project: Path) -> None:
    sides = split_tasks(load_config("recipe.toml").env)
    train, held_out = (
        ({call.name for t in side for turn in t.turns for call in turn.ground_truth},
         {t.category for t in side})
        for side in (sides.train, sides.held_out)
    )  # fmt: skip
    assert train == held_out and len(train[0]) == 6 and len(train[1]) == 3


@pytest.mark.slow
@pytest.mark.parametrize("name", ["", ".", "..", "a/b", "/a", "a\nb"])
def test_a_name_that_is_no_new_folder_is_refused(
    name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    assert rods("init", name, monkeypatch=monkeypatch) == 2
    expected = "expected the name of one new folder" if name else "An argument is empty"
    assert expected in capsys.readouterr().err
    assert not [*tmp_path.iterdir()]


@pytest.mark.slow
def test_a_folder_with_files_is_refused_and_left_alone(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "mine").mkdir()
    (tmp_path / "file").touch()
    assert rods("init", "mine/", monkeypatch=monkeypatch) == 0, "an empty folder will do"
    (tmp_path / "mine" / "tools.py").write_text("my own")
    for name in ("mine", "file"):
        assert rods("init", name, monkeypatch=monkeypatch) == 2
    said = capsys.readouterr().err
    assert said.count("exists and is not empty; choose another name") == 2
    assert (tmp_path / "mine" / "tools.py").read_text() == "my own"


@pytest.mark.slow
def test_the_tasks_can_be_trained_on(
    project: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    assert rods("check", "--recipe", "recipe.toml", monkeypatch=monkeypatch) == 0
    printed = capsys.readouterr()
    assert " s: no fault." in " ".join(printed.out.split())
    assert "held-out tasks call" not in printed.err, "a training task calls each of the tools"
    monkeypatch.setattr("huggingface_hub.constants.HF_HUB_OFFLINE", True)
    words = ["train", "--recipe", "recipe.toml", "--dry-run"]
    assert rods(*words, monkeypatch=monkeypatch) == 2, "as training: `rods sft` wrote no model yet"
    printed = capsys.readouterr()
    assert "Training tasks: " in printed.out and "model 'cold'" in printed.err
    assert "each of 4 tasks x 8 rollouts\n" in printed.out
    rods(*words, "--rollout.tasks_per_step", "32", monkeypatch=monkeypatch)
    assert "each of at most 32 tasks x 8 rollouts (at first 4)" in capsys.readouterr().out
    there = ["--profile", "smollm2", "--model.name", "smollm2-bfcl"]
    assert rods(*words, *there, monkeypatch=monkeypatch) == 0, capsys.readouterr().err


@pytest.mark.slow
def test_its_own_tests_pass(project: Path) -> None:
    words = [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider"]
    done = subprocess.run(words, cwd=project, capture_output=True, text=True, check=False)
    assert done.returncode == 0 and "16 passed" in done.stdout, done.stdout


BERTH = """
from rods.envs.tool_classes import ToolClasses
class Berths:
    def free(self) -> list[str]:
        "List the free berths."
        return []
    def named(self, boat: str) -> list[str]:
        "List the berths of a boat."
        return []
bistro = ToolClasses("berths", [Berths])
"""


@pytest.mark.slow
def test_its_tests_cope_with_any_tools(project: Path) -> None:
    """Without arguments, without an effect, and tasks in which nothing is to be called."""
    rows = [("free", {}), ("named", {"boat": "Swan"}), ()]
    truths = [[{"name": row[0], "arguments": row[1]}] if row else [] for row in rows]
    turns = [{"user": "Which berths?", "ground_truth": truth} for truth in truths]
    world = {"classes": ["Berths"]}
    tasks = [
        {"env": "berths", "category": "base", "turns": [turn], "world": world} for turn in turns
    ]
    (project / "tools.py").write_text(BERTH, encoding="utf-8")
    (project / "tasks.jsonl").write_text("\n".join(map(json.dumps, tasks)), encoding="utf-8")
    words = [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider"]
    done = subprocess.run(words, cwd=project, capture_output=True, text=True, check=False)
    assert done.returncode == 0 and "6 passed" in done.stdout, done.stdout


@pytest.mark.slow
def test_the_guide_of_gates_quotes_how_many_variants_are_accepted_here(
    project: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    page = " ".join((ROOT / "docs/reference/gates.md").read_text(encoding="utf-8").split())
    quoted = r"`rods (synth --n \d+)` accepted (\d+) of (\d+) candidates\. Act"
    [(command, accepted, tried)] = re.findall(quoted, page)
    words = [*command.split(), "--recipe", "recipe.toml", "--out", "variants.jsonl"]
    assert rods(*words, monkeypatch=monkeypatch) == 0
    assert f"{tried} tried, {accepted} accepted" in capsys.readouterr().err
    assert len(list(read_tasks(project / "variants.jsonl"))) == int(accepted)


@pytest.mark.slow
@pytest.mark.usefixtures("worker_thread")
def test_the_commands_of_its_readme_run(
    project: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """All in order and in small: the bundled policy learns the tools and is trained."""
    monkeypatch.setattr(sys, "stdin", io.StringIO("Which starters are there?\n"))
    for verb, *words in commands(project / "README.md"):
        more = shlex.split(SMALL.get(verb, ""))
        assert rods(verb, *words, *more, monkeypatch=monkeypatch) == 0, [verb, *words]
    assert len(list(read_tasks(project / "variants.jsonl"))) == 4
    assert len(list(read_parquet(project / "cold.parquet"))) == 24
    steps = [row for row in RunDirectory.open(project / "run").metrics() if row["kind"] == "step"]
    assert [row["step"] for row in steps] == [1]
    assert "you: Which starters are there?" in capsys.readouterr().out
    assert (project / "agent" / "model.safetensors").is_file()
