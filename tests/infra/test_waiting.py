"""Lines about what takes long."""

from __future__ import annotations

import time
from collections.abc import Callable
from functools import partial
from pathlib import Path

import pytest
from rich.progress import Progress

from rods.cli.common import progress
from rods.infra.waiting import waiting
from verbs import rods
from waits import running, until


@pytest.fixture(autouse=True)
def quiet(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("rods.infra.waiting.QUIET", 0.05)


def shown_by(capsys: pytest.CaptureFixture[str]) -> Callable[[], str]:
    """What the standard error has shown so far."""
    parts: list[str] = []

    def said() -> str:
        parts.append(capsys.readouterr().err)
        return "".join(parts)

    return said


def test_what_takes_long_is_named_until_it_ends(capsys: pytest.CaptureFixture[str]) -> None:
    said = shown_by(capsys)
    with waiting("loading") as begin:
        until(lambda: said().startswith("loading, "))
        begin("starting")
        until(lambda: "\nstarting, " in said())
    until(lambda: not running("watch"))  # the end of the work ends it


def test_progress_without_a_terminal_is_never_silent(capsys: pytest.CaptureFixture[str]) -> None:
    said = shown_by(capsys)
    with progress("updates", None) as show:
        until(lambda: "updates, " in said() and " s so far" in said())
        show(3, total=8)
        until(lambda: "updates: 3 of 8" in said())
        show(8, total=8)
        assert "updates: 8 of 8" in said()


def test_the_time_left_is_known_where_each_step_takes_long(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    now = 0.0
    monkeypatch.setattr("rods.cli.common.Progress", partial(Progress, get_time=lambda: now))
    said = shown_by(capsys)
    with progress("updates", 6, 3) as show:  # a training that was resumed
        for step in (4, 5):
            now += 60
            show(step)
        until(lambda: "updates: 5 of 6; 1 min left" in said())
        now += 60
        show(6)
    assert "updates: 6 of 6\n" in said()


@pytest.mark.slow
def test_the_start_of_a_run_names_what_it_does(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def slow(*_: object) -> object:
        time.sleep(0.3)
        raise OSError("the end of this test")

    for name in ("assemble.engines.settle", "trainers.loading.load_model"):
        with monkeypatch.context() as patched, pytest.raises(OSError, match="end of this test"):
            patched.setattr(f"rods.{name}", slow)
            rods("train", "--out", str(tmp_path / name), monkeypatch=monkeypatch)
    said = capsys.readouterr().err
    assert "planning the memory, " in said and "loading the model tiny, " in said
