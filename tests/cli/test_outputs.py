"""What commands write: one process at a time for each name, and refused before the work."""

from __future__ import annotations

import errno
import json
import os
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import NamedTuple

import pytest

from rods.cli.hosts import Started
from rods.config import RunConfig, Start
from rods.errors import StoreError
from rods.infra import claims, files
from rods.infra.claims import claimed
from rods.infra.files import write_atomic
from rods.store import new_run_dir
from verbs import held, rods


class Writer(NamedTuple):
    """A command that writes what its last option names."""

    words: tuple[str, ...]
    ending: str
    work: str
    """The function that does what takes long."""
    there: str = ""
    """What may exist at its start."""


WRITERS = {
    "synth": Writer(("synth", "--n", "1", "--out"), ".jsonl", "rods.cli.synth._sources"),
    "synth, a folder": Writer(
        ("synth", "--n", "1", "--format", "datasets", "--out"), "", "rods.cli.synth._sources"
    ),
    "demonstrate": Writer(
        ("demonstrate", "--n", "3", "--out"), ".jsonl", "rods.cli.demonstrate._questions"
    ),
    "demonstrate, tasks": Writer(
        ("demonstrate", "--model", "tiny", "--out"), ".parquet", "rods.cli.demonstrate._tasks"
    ),
    "export": Writer(("export", "tiny", "--out"), "", "rods.assemble.exported.export_model"),
    "convert": Writer(
        ("convert", "--out"), ".jsonl", "rods.cli.convert.original_tasks", there="file"
    ),
    "convert, a run": Writer(
        ("convert", "--run", "run", "--format", "datasets", "--out"), "",
        "rods.integrations.formats.exports.export_run", there="folder",
    ),
    "sft": Writer(("sft", "rows.jsonl", "--model", "tiny", "--out"), "", "rods.cli.sft._open"),
    "eval": Writer(
        ("eval", "--suite", "bfcl-multi-turn", "--save"), ".parquet", "rods.cli.evaluate._suite"
    ),
    "observe": Writer(
        ("observe", "log.jsonl", "--out"), ".json",
        "rods.integrations.formats.logged.read_rewards",
    ),
    "compare": Writer(
        ("compare", "a", "b", "--page"), ".html", "rods.report.compare.compare_runs", there="file"
    ),
}  # fmt: skip
BUSY = "another process writes it. Wait for it, or choose another name; nothing was changed."


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "log.jsonl").write_text('{"task_id": "a", "reward": 1}\n' * 2)
    (tmp_path / "rows.jsonl").write_text('{"messages": []}\n')
    return tmp_path


def refused(
    writer: Writer, out: str, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> str:
    """What a command says that exits with 2 before it does any work."""
    with monkeypatch.context() as without:
        without.setattr(writer.work, lambda *_, **__: pytest.fail("it works"))
        assert rods(*writer.words, out, monkeypatch=without) == 2
    said = capsys.readouterr().err.splitlines()[-1]
    assert said.startswith("rods: ")
    return said


@pytest.mark.parametrize("name", WRITERS)
def test_a_second_process_is_refused_before_its_work(
    name: str, folder: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    writer = WRITERS[name]
    with held(folder / f"x{writer.ending}"):
        before = {p: p.stat().st_mtime_ns for p in folder.rglob("*")}
        said = refused(writer, f"x{writer.ending}", monkeypatch, capsys)
        assert said == f"rods: x{writer.ending}: {BUSY}"
        assert {p: p.stat().st_mtime_ns for p in folder.rglob("*")} == before
    assert not (folder / f".x{writer.ending}.lock").exists()


@pytest.mark.parametrize("other", ["y.jsonl", "x.jsonl.jsonl", "x", "sub/x.jsonl"])
def test_names_in_one_folder_do_not_block_each_other(
    other: str, folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with held(folder / other):
        out = ("--out", "x.jsonl")
        assert rods("demonstrate", "--n", "3", *out, monkeypatch=monkeypatch) == 0
    assert len((folder / "x.jsonl").read_text().splitlines()) == 3


@pytest.mark.slow
@pytest.mark.parametrize(
    ("words", "number"), [(("demonstrate", "--n", "400"), 400), (("convert",), 800)]
)
def test_of_two_that_start_at_once_one_writes_everything(
    words: Sequence[str], number: int, folder: Path
) -> None:
    command = [sys.executable, "-m", "rods.cli.main", *words, "--out", "out.jsonl"]
    both = [subprocess.Popen(command, stderr=subprocess.PIPE, text=True) for _ in range(2)]
    said = [process.communicate(timeout=300)[1] for process in both]
    codes = [process.returncode for process in both]
    # The second may have begun when the first was done: then what exists is the same.
    assert 0 in codes and set(codes) <= {0, 2}, said
    for code, text in zip(codes, said, strict=True):
        assert code == 0 or BUSY in text or "exists" in text, said
    rows = [json.loads(line) for line in (folder / "out.jsonl").read_text().splitlines()]
    assert len(rows) == number
    assert not [p.name for p in folder.iterdir() if p.name.endswith((".part", ".lock"))]


def test_a_process_that_was_killed_holds_nothing(folder: Path) -> None:
    path = folder / "x.jsonl"
    with held(path) as process:
        process.kill()
        process.wait()
    assert (folder / ".x.jsonl.lock").exists(), "nobody could remove it"
    (folder / "x.jsonl.1.part").mkdir()  # of a format that is a folder
    (folder / "x.jsonl.1.part" / "README.md").write_text("torn")
    left = [f"x.jsonl.{process.pid}.part", f"x.jsonl.jsonl.{process.pid}.part", "x.jsonl.y.part"]
    for name in left:
        (folder / name).write_text("torn")
    with claimed(path):
        write_atomic(path, "whole\n")
    names = {p.name for p in folder.iterdir()} - {"log.jsonl", "rows.jsonl"}
    assert names == {"x.jsonl", *left[1:]}, "the parts of other names are no business of this one"


def test_a_lock_that_its_holder_has_removed_holds_nobody(
    folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It was opened before it was removed: another process would make a new one, and hold that."""
    real, opened = claims.locked, list[Path]()

    def late(path: Path, busy: str) -> int:
        handle = real(path, busy)
        opened.append(path)
        if len(opened) == 1:
            path.unlink()
        return handle

    monkeypatch.setattr(claims, "locked", late)
    with claimed(folder / "x"):
        assert len(opened) == 2 and (folder / ".x.lock").exists()


@pytest.mark.parametrize("code", [errno.ENOLCK, errno.ENOSYS])
def test_a_file_system_without_locks_is_no_other_process(
    folder: Path, monkeypatch: pytest.MonkeyPatch, code: int
) -> None:
    def none(*_: object) -> None:
        raise OSError(code, os.strerror(code))

    for name in ("fcntl.lockf", "os.lockf"):
        monkeypatch.setattr(name, none)
    how = rf"cannot lock it: {os.strerror(code)}\. Choose a folder on a file system that locks"
    with pytest.raises(StoreError, match=how), claimed(folder / "x"):
        pytest.fail("it may be written")
    assert not files.is_locked(folder / "log.jsonl"), "nobody is at work there"


def test_what_was_written_meanwhile_is_not_overwritten(
    folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    real = claims.locked

    def slow(path: Path, busy: str) -> int:
        (folder / "x").write_text("the other's")
        return real(path, busy)

    monkeypatch.setattr(claims, "locked", slow)
    with pytest.raises(StoreError, match="exists"), claimed(folder / "x"):
        pytest.fail("it may be written")
    assert (folder / "x").read_text() == "the other's"
    assert not (folder / ".x.lock").exists()


@pytest.mark.slow
def test_two_processes_that_replace_a_file_mix_nothing(folder: Path) -> None:
    """Pages and manifests are replaced without a claim: the last one stays, whole."""
    program = (
        "import sys; from pathlib import Path; from rods.infra.files import write_atomic\n"
        "for _ in range(150): write_atomic(Path('page'), sys.argv[1] * 400_000)"
    )
    both = [subprocess.Popen([sys.executable, "-c", program, letter]) for letter in "ab"]
    seen = set[str]()
    while any(process.poll() is None for process in both):
        if (folder / "page").exists():
            text = (folder / "page").read_text()
            assert len(text) == 400_000 and len(set(text)) == 1
            seen.add(text[0])
    assert [process.returncode for process in both] == [0, 0] and seen
    assert sorted(p.name for p in folder.iterdir()) == ["log.jsonl", "page", "rows.jsonl"]


def test_a_page_has_a_part_of_its_own_in_each_process(folder: Path) -> None:
    with files.replacing(folder / "x") as part:
        part.write_text("x")
        assert part.name == f"x.{os.getpid()}.part"


# -- where it is written -------------------------------------------------------------------------


@pytest.mark.parametrize("name", WRITERS)
@pytest.mark.parametrize(
    ("out", "words"),
    [
        (".", "exists. Choose another name; nothing was written."),
        ("log.jsonl/x", "log.jsonl: making it failed: log.jsonl is a file; expected a folder."),
        ("log.jsonl/sub/x", "log.jsonl is a file; expected a folder."),
        ("there", "exists. Choose another name; nothing was written."),
    ],
)
def test_a_wrong_place_is_refused_before_the_work(
    name: str,
    out: str,
    words: str,
    folder: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    """A folder where a file is expected, a file where a folder is, a folder that is a file."""
    writer = WRITERS[name]
    if out == "there" and writer.there == "folder":
        (folder / f"there{writer.ending}").write_text("a file")
    else:
        (folder / f"there{writer.ending}").mkdir()
        (folder / f"there{writer.ending}" / "mine").write_text("mine")
    before = sorted(folder.rglob("*"))
    said = refused(writer, out if out == "." else f"{out}{writer.ending}", monkeypatch, capsys)
    # An ending comes first; of a folder for a model, what is in it.
    ending = out == "." and name == "observe"
    model = name == "sft" and out == "there"
    assert (
        ending or words in said or (model and "not a run of rods" in said) or "that exists" in said
    )
    assert sorted(folder.rglob("*")) == before


@pytest.mark.parametrize("name", WRITERS)
def test_a_missing_folder_is_made_before_the_work_and_does_not_stay_empty(
    name: str, folder: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    writer, seen = WRITERS[name], list[bool]()

    def work(*_: object, **__: object) -> None:
        seen.append((folder / "new" / "deep").is_dir())
        raise StoreError("it fails")

    monkeypatch.setattr(writer.work, work)
    out = f"new/deep/x{writer.ending}"
    assert rods(*writer.words, out, monkeypatch=monkeypatch) == 2
    assert seen == [True] and capsys.readouterr().err.endswith("rods: it fails\n")
    assert not (folder / "new").exists()


@pytest.mark.parametrize("name", ["demonstrate", "observe"])
def test_a_missing_folder_is_made(name: str, folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    writer = WRITERS[name]
    out = f"new/deep/x{writer.ending}"
    assert rods(*writer.words, out, monkeypatch=monkeypatch) == 0
    assert [p.name for p in (folder / "new" / "deep").iterdir()] == [f"x{writer.ending}"]


@pytest.mark.parametrize("out", ["log.jsonl", "log.jsonl/sub"])
def test_a_file_in_the_place_of_a_folder_of_runs_is_one_message(
    out: str, folder: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr("rods.cli.experiment._one", lambda *_: pytest.fail("it trains"))
    assert rods("experiment", "--out", out, monkeypatch=monkeypatch) == 2
    assert "log.jsonl is a file; expected a folder." in capsys.readouterr().err
    with pytest.raises(StoreError, match=r"log\.jsonl is a file; expected a folder"):
        Started(RunConfig(), [], Start("rods", "", [])).write(out)
    with pytest.raises(StoreError, match=r"(log\.jsonl is a file; expected|exists already)"):
        new_run_dir(Path(out).parent, Path(out).name)
