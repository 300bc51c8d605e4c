"""Users without a home folder, as in containers: no HOME, and no entry among the system's users."""

from __future__ import annotations

import pwd
import re
from pathlib import Path

import pytest

from rods.envs.bfcl import assets, tasks
from rods.infra import wheels
from verbs import rods


@pytest.fixture(autouse=True)
def nobody(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    def unknown(_: object) -> None:
        raise KeyError("uid not found")

    for name in ("HOME", "RODS_CACHE", "XDG_CACHE_HOME", "USER", "LOGNAME"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setattr(pwd, "getpwuid", unknown)
    monkeypatch.setattr(pwd, "getpwnam", unknown)
    monkeypatch.chdir(tmp_path)
    assets.obtain.cache_clear()
    tasks._load_tasks.cache_clear()  # other tests of this process may have read them


@pytest.mark.slow
@pytest.mark.parametrize(
    ("line", "status", "said"),
    [
        ("doctor", 0, "bfcl: ~/.cache/rods: this user has no home folder.*Set RODS_CACHE"),
        ("check", 2, "~/.cache/rods: this user has no home folder.*Set RODS_CACHE"),
        (
            "inspect --structure --task multi_turn_base_3",
            2,
            "this user has no home folder.*Set RODS_CACHE",
        ),
        ("check --env.bfcl.wheel ~/w.whl", 2, "there is no file ~/w.whl"),
        ("check --model ~/model", 2, "there is no folder ~/model"),
        ("check --model ~anybody/model", 2, "there is no folder ~anybody/model"),
    ],
)
def test_every_verb_says_what_to_set(
    line: str,
    status: int,
    said: str,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    monkeypatch.setattr(assets, "_installed", lambda: None)
    assert rods(*line.split(), monkeypatch=monkeypatch) == status
    shown = capsys.readouterr()
    assert re.search(said, " ".join((shown.out + shown.err).split()))
    assert tmp_files() == []


@pytest.mark.slow
def test_a_service_whose_benchmark_has_no_place_prints_no_address(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(assets, "_installed", lambda: None)
    monkeypatch.setattr("rods.infra.listen.serve", lambda *_: None)
    assert rods("serve-env", "--port", "0", monkeypatch=monkeypatch) == 2
    said = capsys.readouterr().err
    assert "Set RODS_CACHE" in said and "http://" not in said


@pytest.mark.parametrize("name", ["RODS_CACHE", "XDG_CACHE_HOME"])
def test_a_folder_that_is_set_is_taken(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(name, "/somewhere")
    assert str(wheels.cache_folder()).startswith("/somewhere")


def tmp_files() -> list[Path]:
    """What was made in the working directory, such as a folder called `~`."""
    return list(Path.cwd().iterdir())
