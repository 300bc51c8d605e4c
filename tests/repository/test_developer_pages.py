"""The pages for developers: what they show works, and they are short."""

from __future__ import annotations

import random
import re
from dataclasses import MISSING, fields
from pathlib import Path
from typing import Any

import pytest

from page_blocks import blocks_of
from places import ROOT
from rods.config import RunConfig
from rods.env import TurnVerdict
from rods.envs import make_environment
from rods.integrations.task_rollout import TaskRollout
from rods.policy import Engine
from rods.registry import require
from rods.rewards import get_reward
from rods.synthesis.rejection import Rejection
from rods.task import Task, Turn, write_tasks
from rods.types import ToolCall
from verbs import rods
from worlds import NotesEnvironment

PAGES = ROOT / "docs" / "developers"


def code(name: str) -> str:
    """The Python of a page."""
    [block] = [block for block in blocks_of(PAGES / f"{name}.md") if block.language == "python"]
    return block.text


def run(name: str, **names: Any) -> dict[str, Any]:
    """What the Python of a page defines, beside the names that are there before."""
    exec(code(name), names)
    return names


def test_the_environment_of_the_page_is_checked_and_rolled_out(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """`environments.md`, as a program and by the name that the page gives."""
    names = run("environments", __name__="__main__")
    assert capsys.readouterr().out == "1.0\n"
    assert names["episode"].rollout.over
    (tmp_path / "lifts.py").write_text(code("environments"), encoding="utf-8")
    monkeypatch.chdir(tmp_path)
    rollout = TaskRollout(make_environment("lifts.py:Lifts"), names["task"])
    assert rollout.call(ToolCall("up", {"floors": 2})).failed
    assert rollout.call(ToolCall("up")).content == "floor 4"
    rollout.end(answered=True)
    assert rollout.progress() == 0.0, "one floor too few"
    other = Task("lifts", "base", (Turn("One floor up.", (ToolCall("up"),)),), {"floor": 1})
    write_tasks(Path("lifts.jsonl"), [names["task"], other])
    [words] = re.findall(r"`rods (check [^`]*)`", (PAGES / "environments.md").read_text("utf-8"))
    assert rods(*words.split(), monkeypatch=monkeypatch) == 0


def test_the_page_on_worlds_has_the_fields_that_a_world_states() -> None:
    text = (PAGES / "worlds.md").read_text(encoding="utf-8")
    rows = text.partition("| field of `rods.env.TurnVerdict` |")[2].partition("\n\n")[0]
    required = [field.name for field in fields(TurnVerdict) if field.default is MISSING]
    assert re.findall(r"^\| `(\w+)` \| ", rows, re.M) == required


def test_the_attacks_of_the_page_on_rewards_earn_nothing() -> None:
    """Its test passes, and fails for a reward that pays for the turn alone."""
    names = run("rewards")
    names["test_only_a_careful_solution_pays"]()
    names["careful"] = get_reward("progress")
    with pytest.raises(AssertionError, match="try until it works"):
        names["test_only_a_careful_solution_pays"]()


def test_the_writer_of_the_guide_proposes_a_shorter_task() -> None:
    shorter = run("writers")["shorter"]
    seed = Task("notes", "base", (Turn("One."), Turn("Two.")), {})
    writer = shorter([seed], NotesEnvironment())
    made = writer.propose(seed, random.Random(0))
    assert len(made.turns) == 1 and made.provenance.ancestors == (seed.id,)
    assert isinstance(writer.propose(made, random.Random(0)), Rejection)


def test_the_engine_of_the_guide_is_one() -> None:
    names = run("engines")
    engine = names["make"](names["EngineOptions"](RunConfig(), None, None, "cpu", False, 0, False))
    require("engine.name", "mine", engine, Engine)
    assert engine.version == 0 and engine.capabilities.weights == "handed"


def test_pages_on_extending_are_short() -> None:
    names = ("environments", "worlds", "rewards", "writers", "engines")
    pages = [(PAGES / f"{name}.md").read_text(encoding="utf-8") for name in names]
    assert all(len(text.splitlines()) < 60 for text in pages)
