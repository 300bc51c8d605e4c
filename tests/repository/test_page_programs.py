"""Programs of pages that no other test runs: the sandbox, other trainers, TRL's rollouts."""

from __future__ import annotations

import ast
import json
import re
import sys
from pathlib import Path
from types import SimpleNamespace
from typing import Any
from unittest.mock import MagicMock

import pytest

import rods
from page_blocks import blocks_of
from places import ROOT
from rods.dialects import structured
from rods.types import ToolCall
from verbs import rods as program
from worlds import NotesEnvironment, notes_task

GUIDES = ROOT / "docs" / "guides"


def programs(page: str, name: str) -> list[str]:
    """The blocks of a guide that have the mark of a test."""
    return [b.text for b in blocks_of(GUIDES / page) if b.mark == f"test {name}"]


def test_the_programs_of_the_page_on_the_sandbox_run() -> None:
    """The service of the last one is nowhere: only its client is made."""
    found = programs("sandbox.md", "test_the_programs_of_the_page_on_the_sandbox_run")
    assert len(found) == 3
    for code in found:
        exec(code, {})


@pytest.mark.slow
@pytest.mark.usefixtures("worker_thread")
def test_the_curriculum_of_the_guide_grows(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """It imports no internal module, trains on variants, and continues from what it saved."""
    [code] = programs("other-trainers.md", "test_the_curriculum_of_the_guide_grows")
    assert not re.search(r"^(?:from|import) rods\.", code, re.M)
    monkeypatch.chdir(tmp_path)
    exec(code, names := {"__name__": "__main__"})
    assert ast.literal_eval(capsys.readouterr().out)["ingested"] > 0
    state = json.loads((tmp_path / "runs" / "curriculum" / "state.json").read_text())
    with rods.hosted(names["config"]) as run:
        run.open(tmp_path / "again")
        run.curriculum.load_state_dict(state)
        assert run.curriculum.epoch == names["curriculum"].epoch > 0
        [lost, *_] = run.curriculum.draw(2)
        run.curriculum.release([lost.task.id])
        assert [lease.task.id for lease in run.curriculum.draw(1)] == [lost.task.id]


@pytest.mark.slow
def test_the_page_gives_trl_a_class_for_each_set_of_tools(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """On the tasks that its command writes; TRL and its data set are stand-ins."""
    [code] = programs(
        "serve-environments.md", "test_the_page_gives_trl_a_class_for_each_set_of_tools"
    )
    text = (GUIDES / "serve-environments.md").read_text(encoding="utf-8")
    [command] = re.findall(r"^    rods (convert .*)$", text, re.M)
    monkeypatch.chdir(tmp_path)
    assert program(*command.split(), monkeypatch=monkeypatch) == 0
    trainer = MagicMock()
    monkeypatch.setitem(sys.modules, "datasets", SimpleNamespace(load_dataset=MagicMock()))
    monkeypatch.setitem(sys.modules, "trl", SimpleNamespace(GRPOTrainer=trainer))
    exec(code, {"model": "a model", "args": None})
    kinds = trainer.call_args.kwargs["environment_factory"]
    assert kinds and all(callable(kind) for kind in kinds.values())
    trainer.return_value.train.assert_called_once_with()


def test_an_episode_of_the_page_is_a_rollout() -> None:
    [code] = programs("serve-environments.md", "test_an_episode_of_the_page_is_a_rollout")
    task = notes_task([("Add two.", [ToolCall("add", {"amount": 2})])])
    names: dict[str, Any] = {"environment": NotesEnvironment(), "task": task}

    names["text"] = structured("hermes").write([ToolCall("add", {"amount": 2})])
    exec(code, names)
    assert [message.role for message in names["back"]] == ["tool"]
    assert names["episode"].opening[-1].content == "Add two."
