"""The gallery of examples: each has a page, is in the index, and runs."""

from __future__ import annotations

import ast
import dataclasses
import json
import re
import runpy
import subprocess
import sys
from pathlib import Path
from typing import Any
from unittest.mock import MagicMock

import pytest

import forked
from page_commands import commands
from page_inputs import QWEN3_4B
from places import ROOT
from rods.config import load_config
from rods.env import TurnVerdict
from rods.integrations.trl.args import given_to
from rods.rewards import get_reward
from rods.store import RunDirectory
from rods.task import read_tasks
from tir_cases import CALL, NO_BOX, RIGHT, WRONG, code, play, question, says
from verbs import rods

GALLERY = ROOT / "examples"
FOLDERS = [path for path in sorted(GALLERY.iterdir()) if path.is_dir() and path.name[0] not in "._"]


def test_every_example_has_a_page_in_the_index() -> None:
    index = (ROOT / "docs" / "examples" / "index.md").read_text(encoding="utf-8")
    assert len(FOLDERS) >= 10
    for folder in FOLDERS:
        assert (folder / "README.md").is_file(), folder
        assert f"(../../examples/{folder.name}/README.md)" in index
    files = [path.name for path in GALLERY.iterdir() if path.is_file()]
    assert files == ["one_page_loop.py"], "a folder with a page, as the index says of the others"
    [row] = [line for line in index.splitlines() if "`examples/one_page_loop.py`" in line]
    assert "(../start/one-page.md)" in row
    assert len(re.findall(r"^\| \[", index, re.M)) == len(FOLDERS) + len(files)


@pytest.fixture(scope="module")
def hello(tmp_path_factory: pytest.TempPathFactory) -> subprocess.CompletedProcess[str]:
    """The first example in small; `args` is its folder."""
    place = tmp_path_factory.mktemp("hello")
    source = (GALLERY / "hello" / "hello.py").read_text(encoding="utf-8")
    small = '"updates=1", "evaluation.tasks=4", "evaluation.samples=0", "model.threads=1"'
    assert '"updates=20"' in source and len(source.splitlines()) <= 12
    (place / "hello.py").write_text(source.replace('"updates=20"', small))
    done = forked.run(["hello.py"], place)
    return subprocess.CompletedProcess(str(place), done.returncode, done.stdout, done.stderr)


@pytest.mark.slow
def test_hello_says_what_was_learned(hello: subprocess.CompletedProcess[str]) -> None:
    assert re.search(r"before: \d of 4 .*\nafter: \d of 4 held-out", hello.stdout), hello.stderr
    assert (Path(hello.args) / "runs" / "hello" / "report.html").is_file()


@pytest.mark.parametrize(
    ("steps", "value"),
    [
        ([CALL, RIGHT], 1.0),
        ([RIGHT], 0.5),
        ([code("", True), RIGHT], 0.5),
        ([CALL, says(RIGHT, tokens=140)], 0.9),
        ([CALL, says(RIGHT, tokens=5_000)], 0.8),
        ([CALL, WRONG], 0.0),
        ([CALL, NO_BOX], 0.0),
        ([CALL], 0.0),
        ([CALL, r"\boxed{6 \cdot 7}"], 0.0),
        ([CALL, f"{RIGHT} {WRONG}"], 0.0),
        ([CALL, f"{WRONG} {RIGHT}"], 1.0),
    ],
)
def test_the_reward_of_the_example_pays_what_its_page_says(steps: list[Any], value: float) -> None:
    reward: Any = get_reward(f"{GALLERY / 'own_reward' / 'reward.py'}:computed")
    assert reward(question(), play(*steps)).value == pytest.approx(value)


@pytest.mark.slow
def test_the_training_with_the_own_reward_makes_an_update(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The commands of its page in small: the log has the parts of the reward."""
    train, view = commands(GALLERY / "own_reward" / "README.md")
    monkeypatch.chdir(tmp_path)
    (tmp_path / "examples").symlink_to(GALLERY)
    train[train.index("--updates") + 1] = "1"
    small = "--rollout.tasks_per_step 2 --evaluation.tasks 2 --evaluation.samples 0"
    words = [*train[1:], *small.split(), "--model.threads", "1"]
    assert rods(*words, monkeypatch=monkeypatch) == 0
    [step] = [row for row in RunDirectory.open(Path(view[2])).metrics() if row["kind"] == "step"]
    assert set(step["reward_parts"]) == {"correct", "ran", "length"}
    seen: list[Path] = []

    def serve_view(add: Any, *given: object) -> None:
        for run in add.args[0]:
            seen.append(run.path)
            run.close()

    monkeypatch.setattr("rods.view.server.serve_view", serve_view)
    assert rods(*view[1:], "--port", "0", monkeypatch=monkeypatch) == 0
    assert [path.name for path in seen] == ["computed"]


def test_the_guide_of_trl_shows_the_whole_script() -> None:
    guide = (ROOT / "docs" / "guides" / "trl.md").read_text(encoding="utf-8")
    [block] = re.findall(r"```python\n(.*?)```", guide, re.S)
    assert block == (GALLERY / "trl" / "train.py").read_text(encoding="utf-8")


def test_the_example_with_an_own_model_inside_trl_has_valid_settings(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """A test of the hosts runs it (tests/integrations/test_trl.py)."""
    pytest.importorskip("peft")
    path = GALLERY / "trl" / "own_model.py"
    monkeypatch.setitem(sys.modules, "rods.integrations.trl", MagicMock())
    found = runpy.run_path(str(path))
    config = load_config("rods", "full", [*found["SETTINGS"], "model.dtype=float32"])
    assert given_to(config, "out", logging_steps=5)["max_steps"] == 200
    assert config.env.name == f"{GALLERY}/library_loans/service.py:library"
    assert len(list(read_tasks(Path(config.env.tasks[0])))) == 16
    assert config.model.name == found["MODEL"]
    [stage] = config.stages
    assert stage.expand and stage.reward.endswith("examples/trl/reward.py:brief")


def test_the_reward_inside_trl_pays_for_solved_turns_and_not_for_calls_that_failed() -> None:
    reward: Any = get_reward(f"{GALLERY / 'trl' / 'reward.py'}:brief")
    solved = play(code("", False, True, True), RIGHT)
    tried = dataclasses.replace(solved, verdicts=(TurnVerdict(True, 3, False, False, False),))
    assert solved.solved and reward(question(), solved).value == pytest.approx(0.9)
    assert not tried.solved and reward(question(), tried).value == 0.0
    assert reward(question(), tried).parts == {"progress": 0.0, "failed": 2.0}


@pytest.mark.slow
@pytest.mark.usefixtures("worker_thread")
def test_the_stand_in_for_a_chat_server_writes_variants(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    server = [sys.executable, str(GALLERY / "llm_writer" / "server.py"), "0"]
    synth, inspect = commands(GALLERY / "llm_writer" / "README.md")[1:]
    monkeypatch.chdir(tmp_path)
    monkeypatch.syspath_prepend(str(ROOT))
    with subprocess.Popen(server, stdout=subprocess.PIPE, text=True) as running:
        assert running.stdout is not None
        address = running.stdout.readline().strip()
        here = {"http://127.0.0.1:8123/v1": address, "5": "3"}
        for words in (synth, inspect):
            words = [here.get(word, word) for word in words[1:]]
            words = [
                w.replace("examples/library_loans", str(GALLERY / "library_loans")) for w in words
            ]
            assert rods(*words, monkeypatch=monkeypatch) == 0
        running.terminate()
    tasks = list(read_tasks(tmp_path / "written.jsonl"))
    assert len(tasks) == 3
    assert all(task.provenance.recipe.startswith("llm:graph") for task in tasks)
    assert all(
        turn.user.startswith(("Please", "The ")) for t in tasks for turn in t.turns if turn.user
    )


@pytest.mark.slow
@pytest.mark.usefixtures("worker_thread")
def test_variants_become_rows_of_another_trainer(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    synth, read = commands(GALLERY / "variants_for_others" / "README.md")
    synth[synth.index("40")] = "6"
    assert rods(*synth[1:], monkeypatch=monkeypatch) == 0
    done = forked.run([str(ROOT / read[1]), read[2]], tmp_path)
    assert "rows with the columns prompt" in done.stdout, done.stderr
    assert "ancestors of the first: [" in done.stdout


@pytest.mark.slow
def test_the_settings_for_one_gpu_fit_the_memory_that_the_page_names(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "config.json").write_text(json.dumps(QWEN3_4B))
    monkeypatch.chdir(ROOT)
    asked = commands(GALLERY / "one_gpu" / "README.md")
    for words in asked:
        words = [*words[1:], "--model.name", str(tmp_path)]
        words += [] if "--dry-run" in words else ["--memory", "24", "--dry-run"]
        assert rods(*words, monkeypatch=monkeypatch) == 0
    assert (
        capsys.readouterr().out.count("it fits into the 24 GiB that you named") == len(asked) == 3
    )


@pytest.mark.slow
def test_the_example_inside_verl_plans_without_verl_and_a_gpu(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """The second command is the first one without `--dry-run`, then as it resumes."""
    (tmp_path / "config.json").write_text(json.dumps(QWEN3_4B))
    plan, train, *_ = [words[1:] for words in commands(GALLERY / "verl" / "README.md")]
    assert [*train, "--dry-run"] == plan
    monkeypatch.chdir(tmp_path)
    words = [str(tmp_path) if word.startswith("Qwen/") else word for word in plan]
    assert rods(*words, monkeypatch=monkeypatch) == 0
    said = " ".join(capsys.readouterr().out.split())
    assert "rollout.n 16, " in said and "at most 100, each of 32 tasks" in said


@pytest.mark.slow
def test_the_notebook_draws_the_run_of_the_first_example(
    hello: subprocess.CompletedProcess[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    pandas, figures = pytest.importorskip("pandas"), pytest.importorskip("plotly.graph_objects")
    monkeypatch.setenv("RUN", str(Path(hello.args) / "runs" / "hello"))
    notebook = json.loads((GALLERY / "notebook" / "curves.ipynb").read_text(encoding="utf-8"))
    assert len({cell["id"] for cell in notebook["cells"]}) == len(notebook["cells"])
    cells = [cell for cell in notebook["cells"] if cell["cell_type"] == "code"]
    assert not any(cell["outputs"] for cell in cells)
    found: dict[str, Any] = {"__name__": "__main__"}
    shown = [result_of(ast.parse("".join(cell["source"])), found) for cell in cells]
    rows = {name: len(found[name]) for name in ("steps", "judged", "held_out", "trajectories")}
    assert rows == {"steps": 1, "judged": 8, "held_out": 8, "trajectories": 64}
    kinds = [figures.Figure, pandas.DataFrame]
    assert [type(one) for one in shown[1:]] == [*kinds, *kinds]
    curves, tasks = (one for one in shown if isinstance(one, figures.Figure))
    assert [trace.name for trace in curves.data] == ["progress_mean", "zero_variance"]
    assert sum(len(trace.x) for trace in tasks.data) == 8
    for figure in (curves, tasks):  # what a browser gets
        assert '"data"' in figure.to_json()


def result_of(cell: ast.Module, names: dict[str, Any]) -> Any:
    """Run a cell and return what a notebook shows: the value of its last line."""
    last = cell.body.pop() if isinstance(cell.body[-1], ast.Expr) else None
    exec(compile(cell, "cell", "exec"), names)
    if isinstance(last, ast.Expr):
        return eval(compile(ast.Expression(last.value), "cell", "eval"), names)
    return None
