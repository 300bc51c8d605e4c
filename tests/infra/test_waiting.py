"""Lines about what takes long."""

from __future__ import annotations

import time
from pathlib import Path

import pytest

from rods.cli.common import progress
from rods.infra.waiting import waiting
from verbs import rods


@pytest.fixture(autouse=True)
def quiet(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("rods.infra.waiting.QUIET", 0.05)


def test_what_takes_long_is_named_until_it_ends(capsys: pytest.CaptureFixture[str]) -> None:
    with waiting("loading") as begin:
        time.sleep(0.2)
        begin("starting")
        time.sleep(0.2)
    time.sleep(0.1)
    lines = capsys.readouterr().err.splitlines()
    assert lines[0] == "loading, 0 s so far" and lines[-1].startswith("starting, ")
    time.sleep(0.2)
    assert not capsys.readouterr().err, "the end of the work ends it"


def test_progress_without_a_terminal_is_never_silent(capsys: pytest.CaptureFixture[str]) -> None:
    with progress("updates", None) as show:
        time.sleep(0.2)
        assert "updates, 0 s so far" in capsys.readouterr().err
        show(3, total=8)
        time.sleep(0.2)
        assert "updates: 3 of 8" in capsys.readouterr().err
        show(8, total=8)
        assert "updates: 8 of 8" in capsys.readouterr().err


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
