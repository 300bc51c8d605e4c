"""`rods chat`: typed messages, commands, and what is shown of the agent's steps."""

from __future__ import annotations

import io
import signal
import subprocess
import sys
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from rods.cli.chat import _listed
from rods.cli.evaluate import conversing
from rods.config import RunConfig, load_config
from rods.errors import ConfigError
from rods.policy import ScriptedPolicy
from rods.rollout.template import ChatTemplate
from rods.types import ToolSpec
from rollout_cases import TEMPLATE, script
from verbs import rods

PROJECT = ("--recipe", "recipe.toml", "--model.dialect", "pythonic", "--task", "bistro_5")
ROOM = ("--rollout.context_tokens", "30000", "--rollout.step_tokens", "400")
"""The fake tokenizer has a token for each character."""


def chatting(
    policy: ScriptedPolicy, typed: str, monkeypatch: pytest.MonkeyPatch
) -> list[RunConfig]:
    """Let a scripted policy answer what is typed; returns the settings that it was made with."""
    seen: list[RunConfig] = []

    @asynccontextmanager
    async def ready(
        config: RunConfig, _run: Any
    ) -> AsyncGenerator[tuple[ScriptedPolicy, ChatTemplate]]:
        seen.append(config)
        yield policy, TEMPLATE

    monkeypatch.setattr("rods.assemble.evaluated.ready_policy", ready)
    monkeypatch.setattr(sys, "stdin", io.StringIO(typed))
    return seen


@pytest.fixture
def project(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(sys, "path", [*sys.path])
    assert rods("init", "agent", monkeypatch=monkeypatch) == 0
    monkeypatch.chdir("agent")


@pytest.mark.slow
@pytest.mark.usefixtures("project")
def test_calls_run_in_a_live_world_that_reset_opens_again(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    policy = script(
        "[cancel_reservation(reservation_id='R-16')]",
        "It is \x1b[31mcancelled.",
        "[cancel_reservation(reservation_id='R-16')]",
        "[cancel_reservation(",
        "[fly()]",
        "Sorry.",
    )
    typed = "Cancel R-16.\n\n/tools\n/help\nAnd again.\n/reset\nCancel R-16.\n/quit\nnot read\n"
    seen = chatting(policy, typed, monkeypatch)
    before = signal.getsignal(signal.SIGINT)
    assert rods("chat", *PROJECT, *ROOM, monkeypatch=monkeypatch) == 0
    assert signal.getsignal(signal.SIGINT) is before
    assert seen[0].rollout.generated_tokens == 30_000
    shown, said = capsys.readouterr()
    cancel, done = "  cancel_reservation(reservation_id='R-16')\n", '  {"cancelled": "R-16"'
    first, _, second = shown.partition("you: And again.\n")
    assert first.startswith(f"you: Cancel R-16.\n{cancel}{done}")
    assert "agent: It is ␛[31mcancelled.\n" in first, "a terminal would obey an escape"
    assert "order_dish(reservation_id: string, dish_id: string, portions: integer?)" in first
    again, _, third = second.partition("you: Cancel R-16.\n")
    assert again.startswith(f'{cancel}  {{"error": "there is no reservation R-16"}}\n  malformed: ')
    assert "\n  unknown_tool: [fly()]\n" in again and again.endswith("agent: Sorry.\n")
    assert third.startswith(f"{cancel}{done}"), "a fresh world"
    assert "not read" not in shown
    assert (
        "tools.py:bistro, task bistro_5 (--env.name and --task" in said
        and "There is no /help." in said
    )


@pytest.mark.slow
@pytest.mark.usefixtures("project")
def test_a_spent_budget_is_stated_and_the_next_conversation_begins(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    policy = script("[show_menu(course='main')]", "[show_menu(course='main')]", "Well.")
    chatting(policy, "What is there?\nOh?\nHello?\n", monkeypatch)
    words = ("--rollout.steps_per_turn", "2", "--rollout.turns", "2")
    assert rods("chat", *PROJECT, *ROOM, *words, monkeypatch=monkeypatch) == 0
    shown, said = capsys.readouterr()
    assert "There is no answer within rollout.steps_per_turn generations." in said
    assert "A budget is spent (turns); a new conversation begins." in said
    assert shown.count("agent: Well.") == 1 and shown.rstrip().endswith('"price": 11.0}]')


@pytest.mark.slow
@pytest.mark.usefixtures("project")
@pytest.mark.parametrize(
    ("words", "message"),
    [
        (("--task", "bistro_9"), "task 'bistro_9': ./tools.py:bistro has no such task"),
        (("--model.dialect", "torl"), "is inline"),
        (("--rollout.steps_per_turn", "1"), "no step is left to read a call's result"),
        (("tiny", "--model", "tiny"), "RUN_OR_MODEL and --model: each names the policy"),
        (("runs/nowhere",), "runs/nowhere"),
        (("tiny",), "pretrained with other tools"),
    ],
)
def test_what_cannot_be_talked_with_is_refused(
    words: tuple[str, ...],
    message: str,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    chatting(script("No."), "Hello.\n", monkeypatch)
    assert rods("chat", "--recipe", "recipe.toml", *words, monkeypatch=monkeypatch) == 2
    assert message in " ".join(capsys.readouterr().err.split())


@pytest.mark.slow
@pytest.mark.usefixtures("project")
def test_input_that_is_no_text_is_refused(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    chatting(script("No."), "", monkeypatch)
    monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(b"\xff\n"), encoding="utf-8"))
    assert rods("chat", *PROJECT, *ROOM, monkeypatch=monkeypatch) == 2
    assert "standard input: expected UTF-8" in capsys.readouterr().err


@pytest.mark.slow
def test_the_bundled_policy_talks_about_the_benchmark(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    message = (
        "I am alex. Check if the current directory is under my name and list all the visible and "
        "hidden contents in the current directory now, please."
    )
    monkeypatch.setattr(sys, "stdin", io.StringIO(f"{message}\n/quit\n"))
    words = ("tiny", "--task", "multi_turn_base_1", "--model.threads", "1")
    assert rods("chat", *words, monkeypatch=monkeypatch) == 0
    shown = capsys.readouterr().out
    assert shown.startswith(f"you: {message}\n") and "\nagent: " in shown
    assert "  ls(a=True)\n" in shown and '"current_directory_content": ["workspace"]' in shown


def test_what_several_descriptions_begin_with_is_printed_once() -> None:
    about = "These are files. Of a system, etc. What it does: "
    texts = {"ls": f"{about}List them.", "cd": f"{about}Go. Stay.", "pwd": "Go. Say where."}
    specs = [ToolSpec(name, text, {"type": "object"}) for name, text in texts.items()]
    assert [*_listed([*specs, replace(specs[1], name="mv")])] == [
        f"ls(): {texts['ls']}",
        "cd(): Go. Stay.",
        "pwd(): Say where.",
        f"mv(): {texts['cd']}",
    ]


@pytest.mark.slow
def test_ctrl_c_leaves_at_once() -> None:
    """Worlds have threads here, which must not hold the standard input."""
    words = ("chat", "tiny", "--rollout.worlds.processes", "1")
    pipes: dict[str, Any] = dict.fromkeys(("stdin", "stdout", "stderr"), subprocess.PIPE)
    with subprocess.Popen([sys.executable, "-m", "rods.cli.main", *words], **pipes) as chat:
        assert chat.stdin and chat.stdout
        chat.stdin.write(b"Hello.\n")
        chat.stdin.flush()
        while not chat.stdout.readline().startswith(b"agent: "):
            assert chat.poll() is None
        chat.send_signal(signal.SIGINT)
        _, said = chat.communicate(timeout=60)
    assert chat.returncode == 130
    assert b"Traceback" not in said and b"Fatal" not in said


def test_a_run_of_single_questions_is_refused_with_what_shows_it() -> None:
    config = load_config("torl")
    with pytest.raises(ConfigError, match=r"answers single questions.*rods view 'my run'"):
        conversing(config, Path("my run"))
    with pytest.raises(ConfigError, match="Use one of pythonic"):
        conversing(config, None)
    assert conversing(load_config("rods"), Path("my run"))
