"""A newcomer who gets everything wrong: what is said, status 2, and nothing left in the way."""

from __future__ import annotations

import json
import shutil
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from loop_cases import task_of
from pool_cases import config as pool_config
from rods import assemble
from rods.config import Start, load_config
from rods.curriculum import saving
from rods.curriculum.online import OnlineCurriculum
from rods.envs.bfcl.tasks import load_tasks
from rods.errors import ConfigError, RewardError, StoreError, TaskError
from rods.rewards import get_reward
from rods.store import RunDirectory, new_run_dir
from rods.task import read_tasks, write_tasks
from sweeps import slow
from verbs import rods

POOL = "pool.jsonl"
VERBS = (["check", "--tasks"], ["inspect"], ["synth", "--out", "v", "--tasks"])
FILES = {
    "latin.jsonl": (
        b'{}\n{"caf\xe9": 1}\n',
        "latin.jsonl:2: not UTF-8 text; expected a file",
    ),
    "half.jsonl": (b'{"half": "\xed\xa0\x80"}\n', "half.jsonl:1: not UTF-8 text; expected a"),
    "utf16.jsonl": ('{"a": 1}\n'.encode("utf-16"), "utf16.jsonl:1: not UTF-8 text"),
    "null.jsonl": (b"null\n", "null.jsonl:1: not a task row, but null. Expected an object with"),
    "list.jsonl": (b"[1]\n", "list.jsonl:1: not a task row, but a list. Expected"),
    "torn.jsonl": (b'{"env": "bf', "torn.jsonl:1: not JSON"),
    "empty.jsonl": (b"", "empty.jsonl: holds no task."),
    "blank.jsonl": (b"\n\n", "blank.jsonl: holds no task."),
}


@pytest.fixture
def here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A working directory with a file of tasks."""
    monkeypatch.chdir(tmp_path)
    write_tasks(tmp_path / POOL, load_tasks()[:12])
    return tmp_path


def made(where: Path) -> RunDirectory:
    start = Start("rods", "small", ["updates=1"])
    return RunDirectory.create(new_run_dir(where, "mine"), load_config(*start), start=start)


@pytest.mark.parametrize("name", [*[*FILES][:2], *slow(*[*FILES][2:])])
@pytest.mark.parametrize("words", VERBS, ids=lambda words: words[0])
def test_a_file_that_holds_no_tasks_is_named(
    name: str,
    words: list[str],
    here: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    content, said = FILES[name]
    (here / name).write_bytes(content)
    more = [] if words[0] == "check" else ["--env.tasks", POOL]
    assert rods(*words, name, *more, monkeypatch=monkeypatch) == 2
    assert said in capsys.readouterr().err
    assert not list(here.glob("v*"))


def test_a_folder_is_no_file_and_a_mark_at_the_start_is_no_text(here: Path) -> None:
    (here / "folder").mkdir()
    with pytest.raises(TaskError, match="folder: is a folder without files of tasks"):
        list(read_tasks(here / "folder"))
    (here / "marked.jsonl").write_bytes(b"\xef\xbb\xbf" + (here / POOL).read_bytes())
    assert [t.id for t in read_tasks(here / "marked.jsonl")] == [t.id for t in load_tasks()[:12]]


@pytest.mark.slow
@pytest.mark.parametrize(
    ("setting", "said"),
    [
        (["--stages.0.reward", "nope"], "stages.0.reward: there is no reward 'nope'"),
        (
            ["--stages.2.reward", "json:dumps"],
            "stages.2.reward: 'json:dumps' is not called with a ta",
        ),
        (["--synthesis.writer", "nope"], "synthesis.writer: there is no writer 'nope'"),
        (["--synthesis.writer", "json:dumps"], "'json:dumps' is not called with a pool and an env"),
        (["--evaluation.files", "20261130"], "evaluation.files.0 must be a text; got 20261130"),
        (["--evaluation.files", "2026-11-30"], "evaluation.files: 2026-11-30: there is no such"),
        (["--track.names", "[5]"], "track.names.0 must be a text"),
        (["--model.name", "5"], "model.name must be a text"),
        (["--train.lr", "0"], "command line: train.lr"),
        (["--train.lr", "inf"], "train.lr must be a finite number"),
        (["--env.questions.families", "nope", "--recipe", "torl"], "nope"),
    ],
)
def test_what_is_named_wrongly_is_said_before_anything_is_made(
    setting: list[str],
    said: str,
    here: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    def start_run(*_: object) -> None:
        pytest.fail("it was begun")

    files = ["--env.tasks", POOL]
    if "torl" in setting:
        files = []
    else:
        monkeypatch.setattr(assemble, "start_run", start_run)
    assert rods("train", "--out", "new", *files, *setting, monkeypatch=monkeypatch) == 2
    assert said in capsys.readouterr().err
    assert not (here / "new").exists()


def test_a_fault_of_the_file_is_not_the_command_lines(here: Path) -> None:
    (here / "own.toml").write_text("[train]\nlr = 0\n")
    with pytest.raises(ConfigError, match=r"own\.toml: train\.lr"):
        load_config("own.toml", "", ["seed=3"])
    (here / "own.toml").write_text("profile = 3\n")
    with pytest.raises(ConfigError, match="'profile' must hold tables"):
        load_config("own.toml", "small")
    (here / "own.toml").write_bytes(b"# \xff\n")
    with pytest.raises(ConfigError, match="not UTF-8 text"):
        load_config("own.toml")


@pytest.mark.parametrize(
    ("options", "missing"),
    [([], "small"), (["--profile", "small"], "small"), (["--profile", "full"], "large"),
     (["--model", "tiny"], "large"), (["--model", "tiny", "--profile", "laptop"], "small")],
)  # fmt: skip
def test_only_files_of_the_profile_in_use_must_be_there(
    options: list[str],
    missing: str,
    here: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    profile = '[profile.laptop.env]\ntasks = ["small.jsonl"]\n'
    (here / "own.toml").write_text(f'[env]\ntasks = ["large.jsonl"]\n{profile}')
    assert rods("train", "--recipe", "own.toml", *options, monkeypatch=monkeypatch) == 2
    said = capsys.readouterr().err
    assert f"{missing}.jsonl: there is no such file" in said


def test_a_list_of_one_is_given_as_it_is() -> None:
    torl = load_config(
        "torl", "small", ["env.questions.families=add", "env.questions.difficulty=2"]
    )
    assert (torl.env.questions.families, torl.env.questions.difficulty) == (("add",), (2,))
    rods_ = load_config("rods", "small", ["stages.1.categories=base"])
    assert rods_.stages[1].categories == ("base",)


def refused(parts: object, run: RunDirectory, display: object) -> None:
    with run.checkpoint(0) as folder:
        (folder / "weights").write_text("start")
    raise RewardError("the reward is nan, expected a finite number.")


def pressed(parts: object, run: RunDirectory, display: object) -> None:
    raise KeyboardInterrupt


@pytest.mark.slow
@pytest.mark.parametrize(("play", "status"), [(refused, 2), (pressed, 130)])
def test_a_start_that_fails_leaves_its_folder_to_the_next(
    play: Callable[..., None], status: int, here: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    @contextmanager
    def nothing(*_: object) -> Iterator[None]:
        yield None

    monkeypatch.setattr(assemble, "assemble", nothing)
    monkeypatch.setattr(assemble, "run_loop", play)
    for _ in range(2):
        words = ["train", "--out", "new", "--env.tasks", POOL]
        assert rods(*words, monkeypatch=monkeypatch) == status
        assert not (here / "new").exists()


@pytest.mark.slow
def test_a_second_ctrl_c_says_how_to_continue_where_there_is_a_checkpoint(
    here: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    @contextmanager
    def nothing(*_: object) -> Iterator[None]:
        yield None

    def pressed_twice(parts: object, run: RunDirectory, display: object) -> None:
        run.log({"kind": "step", "step": 1})
        with run.checkpoint(1) as folder:
            (folder / "weights").write_text("one")
        raise KeyboardInterrupt

    monkeypatch.setattr(assemble, "assemble", nothing)
    monkeypatch.setattr(assemble, "run_loop", pressed_twice)
    words = ["train", "--out", "new", "--env.tasks", POOL]
    assert rods(*words, monkeypatch=monkeypatch) == 130
    assert capsys.readouterr().err.endswith("checkpoint: rods train --resume new\n")


@pytest.mark.slow
@pytest.mark.parametrize(
    "words",
    [
        ["report", "mine"],
        ["compare", "other", "mine"],
        ["eval", "mine"],
        ["train", "--resume", "mine"],
    ],
    ids=lambda words: words[0],
)
def test_a_damaged_manifest_is_named_by_every_verb(
    words: list[str],
    here: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    shutil.copytree(made(here).path, here / "other")
    for content, said in ((b"\xff\xfe", "not UTF-8"), (b'{"ro', "not JSON"), (b"[]", "manifest")):
        (here / "mine" / "manifest.json").write_bytes(content)
        assert rods(*words, monkeypatch=monkeypatch) == 2
        error = capsys.readouterr().err
        assert "mine/manifest.json" in error and said in error


@pytest.mark.parametrize("content", ["xx", json.dumps({"step": 1})])
def test_a_damaged_mark_of_a_checkpoint_says_how_to_go_on(content: str, here: Path) -> None:
    run = made(here)
    run.log({"kind": "step", "step": 1})
    with run.checkpoint(1) as folder:
        (folder / "weights").write_text("one")
    (run.path / "checkpoint" / "step-000001" / "mark.json").write_text(content)
    path = run.path
    del run
    with pytest.raises(StoreError, match=r"mark\.json: damaged .* Remove the folder .*step-000001"):
        RunDirectory.resume(path)


@pytest.mark.parametrize("content", ["{", None])
def test_a_damaged_file_of_a_checkpoint_says_how_to_go_on(content: str | None, here: Path) -> None:
    run = made(here)
    with run.checkpoint(1) as folder:
        if content is not None:
            (folder / "rewards.json").write_text(content)
    checkpoint = run.latest_checkpoint()
    assert checkpoint is not None
    how = r"Remove the folder .*step-000001 to resume from the checkpoint before it"
    with pytest.raises(StoreError, match=rf"rewards\.json: damaged .* {how}"):
        checkpoint.read("rewards.json")
    curriculum = OnlineCurriculum(pool_config(curriculum="static"), [task_of(1)])
    with pytest.raises(StoreError, match=how):
        saving.load(curriculum, checkpoint.path)


def test_a_reward_of_ones_own_takes_a_task_and_a_trajectory() -> None:
    with pytest.raises(ConfigError, match="is not called with a task and a trajectory"):
        get_reward("json:dumps")
