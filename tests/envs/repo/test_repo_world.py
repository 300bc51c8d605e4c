"""The working copy: its tools, its patch, its verdict, its ends."""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path

import pytest

from repo_cases import bash, environment_as, repairs, tasks
from rods.abilities import ability
from rods.env import Ending
from rods.envs.hints import hinted
from rods.envs.remote.messages import Hosted, RemoteWorld
from rods.envs.repo.environment import RepoEnvironment
from rods.envs.repo.world import Did, RepoWorld, stuck
from rods.errors import EnvError, TaskError
from rods.sandbox.editor import edit
from rods.sandbox.shell import Shell, ShellLimits
from rods.task import Task
from rods.trajectory_codec import from_json, to_json
from rods.types import ToolCall
from rollout_cases import play, script
from sandbox_cases import EACH_KIND


@pytest.fixture(scope="module")
def environment() -> RepoEnvironment:
    return RepoEnvironment(wrap="off")


@pytest.fixture
def world(environment: RepoEnvironment) -> Iterator[RepoWorld]:
    world = environment.open(tasks()[0])
    world.begin_turn(0)
    yield world
    world.close()


@pytest.mark.slow
@pytest.mark.parametrize("kind", EACH_KIND)
def test_the_repair_is_solved(kind: str, tmp_path: Path) -> None:
    environment = environment_as(kind, tmp_path)
    with environment.shell() as shell:
        assert kind in shell.isolation
    world = environment.open(tasks()[9])
    world.begin_turn(0)
    assert isinstance(world, Ending)
    for call in repairs(tasks()[9]):
        assert world.ended() == ""
        assert not world.call(call).failed
    assert world.ended() == "finish"
    assert world.call(bash("ls")).failed
    assert world.end_turn().solved
    world.close()


@pytest.mark.slow
def test_half_a_repair_is_not_solved(environment: RepoEnvironment) -> None:
    task = tasks()[4]
    assert len(repairs(task)) == 3
    for left_out in (0, 1):
        world = environment.open(task)
        world.begin_turn(0)
        world.call(repairs(task)[1 - left_out])
        assert not world.end_turn().solved
        world.close()


def test_nothing_done_is_not_solved(world: RepoWorld) -> None:
    assert not world.end_turn().solved


@pytest.mark.slow
def test_what_bash_says(world: RepoWorld) -> None:
    assert "README.md" in world.call(bash("ls")).content
    failed = world.call(bash("cat nothing; exit 3"))
    assert failed.failed and failed.content.endswith("[exit status 3]")
    assert world.call(bash("pwd")).content == "."
    assert world.call(bash("git log --oneline | wc -l")).content == "1"
    assert world.call(bash("cd tests && ls; false | true")).content.startswith("test_")
    assert world.call(bash("sleep 99 & echo started")).content == "started"
    assert "Error: command is" in world.call(bash(" ")).content
    assert "there is no function" in world.call(ToolCall("sh", {})).content


@pytest.mark.slow
def test_what_the_agent_wrote_is_in_the_patch_whatever_it_committed(world: RepoWorld) -> None:
    for call in repairs(tasks()[0])[:-1]:
        world.call(call)
    world.call(bash("git commit -qam done; echo x > new.txt; git rm -q --cached README.md"))
    assert "new.txt" in str(world.snapshot())
    assert world.end_turn().solved


@pytest.mark.slow
@pytest.mark.parametrize(
    "command",
    [
        "rm -rf .git",
        "git config core.fsmonitor 'sleep 99'; git config core.pager 'sleep 99'",
        "echo '*.py diff=x' > .gitattributes; git config diff.x.textconv 'echo fooled'",
        "git init -q other; rm -rf .git; mv other/.git .git",
        "chmod 000 .git",
        "rm -rf * .[a-z]*",
    ],
)
def test_a_broken_git_is_the_agents_fault(world: RepoWorld, command: str) -> None:
    world.call(bash(command))
    assert not world.end_turn().solved


def test_what_a_task_lacks_is_said(environment: RepoEnvironment) -> None:
    bare = tasks()[0]
    for world in ({"files": {}, "checks": [["a.f()", "1"]]}, {"files": {"a.py": ""}}):
        with pytest.raises(TaskError, match="its world has no"):
            environment.open(Task("repo", "x", bare.turns, world))


def test_sides_are_parted_by_repository() -> None:
    split = RepoEnvironment().part(tasks(), None)
    assert {t.world["repository"] for t in split.train}.isdisjoint(
        t.world["repository"] for t in split.held_out
    )
    assert split.train and split.held_out


@pytest.mark.slow
def test_going_in_circles_ends_the_turn(world: RepoWorld) -> None:
    for _ in range(3):
        world.call(bash("ls"))
        assert world.ended() == ""
    assert "again and again" in world.call(bash("ls")).content
    assert world.ended() == "stuck"


def test_what_counts_as_a_circle() -> None:
    a, b, c = Did("a", "1", False), Did("b", "2", False), Did("c", "3", True)
    assert stuck([a] * 4) and not stuck([a] * 3) and not stuck([a, a, b, a, a])
    assert stuck([c] * 3) and stuck([c, Did("c", "4", True), c])
    assert not stuck([c, c, Did("c", "4", False)])
    assert stuck([a, b] * 3) and not stuck([a, b, a, b, a]) and not stuck([a, b, a, b, a, c])


# -- the editor -----------------------------------------------------------------------------


def test_the_editor_does_what_it_says(tmp_path: Path) -> None:
    path = str(tmp_path / "deep" / "a.txt")

    def do(command: str, **more: object) -> str:
        edited = edit({"command": command, "path": path, **more})
        assert not edited.failed, edited
        return edited.text

    do("create", file_text="one\ntwo\nthree\n")
    assert do("view").split("\n")[1] == "     2\ttwo"
    assert do("view", view_range=[2, -1]).startswith("     2\ttwo")
    assert "     2\t2\n     3\tzwei" in do("str_replace", old_str="two", new_str="2\nzwei")
    do("insert", insert_line=0, new_str="zero")
    assert Path(path).read_text() == "zero\none\n2\nzwei\nthree\n"
    do("str_replace", old_str="zero\n")
    assert edit({"command": "view", "path": str(tmp_path)}).text == "deep/"


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        ({"command": "drop"}, "there is no command"),
        ({"command": "create", "file_text": "x"}, "exists"),
        ({"command": "create"}, "file_text is None"),
        ({"command": "str_replace", "old_str": "o", "new_str": ""}, "3 times"),
        ({"command": "str_replace", "old_str": "x"}, "not in the file"),
        ({"command": "str_replace", "old_str": ""}, "empty"),
        ({"command": "insert", "insert_line": 9, "new_str": ""}, "between 0 and"),
        ({"command": "view", "view_range": [2, 1]}, "two lines between"),
        ({"command": "view", "path": "missing"}, "No such file"),
        ({"command": "view", "path": "\0"}, ""),
    ],
)
def test_the_editor_says_what_is_wrong(
    tmp_path: Path, arguments: dict[str, object], said: str
) -> None:
    file = tmp_path / "a.txt"
    file.write_text("two\nfoo")
    before = file.read_text()
    edited = edit({"path": str(file), **arguments})
    assert said in edited.text and (edited.failed or not said)
    assert file.read_text() == before


# -- the workplace --------------------------------------------------------------------------


@pytest.mark.slow
def test_limits_end_a_command(tmp_path: Path) -> None:
    limits = ShellLimits(seconds=5, output=1000, disk=1 << 20, processes=16)
    with Shell(limits, "off") as shell:
        assert shell.run(["sleep", "9"], seconds=0.2).limit == "time"
        assert shell.run(["bash", "-c", "yes"]).limit == "output"
        assert not shell.run(["bash", "-c", "head -c 4000000 /dev/zero > big"]).ok
        assert shell.run(["bash", "-c", "echo still here"]).output == "still here\n"


def test_a_lost_keeper_is_a_failure_of_infrastructure() -> None:
    shell = Shell(wrap="off")
    os.kill(shell.pid, 9)
    with pytest.raises(EnvError, match="keeper"):
        shell.run(["true"])
    shell.close()
    with pytest.raises(EnvError, match="closed"):
        shell.run(["true"])


def test_paths_of_ours_stay_within() -> None:
    with Shell(wrap="off") as shell:
        for path in ("/etc/x", "../x", "a/../../x"):
            with pytest.raises(EnvError, match="not a path within"):
                shell.put({path: ""})


@pytest.mark.slow
def test_elsewhere_a_world_ends_as_here(environment: RepoEnvironment) -> None:
    hosted = Hosted(environment, tasks()[0])
    world = RemoteWorld(hosted.open(), hosted.step, hosted.close)
    assert isinstance(world, Ending)
    world.begin_turn(0)
    for call in repairs(tasks()[0]):
        assert world.ended() == ""
        world.call(call)
    assert world.ended() == "finish" and world.end_turn().solved
    world.close()
    layer = hinted(environment.open(tasks()[0]))
    ending = ability(layer, Ending)
    assert ending and ending.ended() == ""
    layer.close()


@pytest.mark.slow
def test_an_episode_ends_where_the_world_says_so(environment: RepoEnvironment) -> None:
    repair = str(repairs(tasks()[0])[0])
    said = [f"[{repair}]", "[bash(command='ls'), finish(), bash(command='rm -r *')]", "[finish()]"]
    played = play(tasks()[0], script(*said), environment, seconds=300)
    assert [len(step.results) for step in played.steps] == [1, 2]
    assert played.verdicts[0].ended == "finish" and played.solved and played.failure is None
    circles = ["[bash(command='ls')]"] * 9
    played = play(tasks()[0], script(*circles), environment, seconds=300, steps_per_turn=9)
    assert len(played.steps) == 4 and played.verdicts[0].ended == "stuck" and not played.solved
    again = from_json(to_json(played))
    assert again.verdicts == played.verdicts
