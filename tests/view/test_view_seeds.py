"""`rods view --tasks`: a person accepts, edits and rejects seed tasks, and loses nothing."""

from __future__ import annotations

import errno
import json
import re
import shutil
import subprocess
import sys
from collections.abc import Callable
from contextlib import ExitStack
from html import unescape
from pathlib import Path
from typing import Any

import pyarrow
import pyarrow.parquet
import pytest

from places import ROOT
from rods.errors import StoreError, TaskError
from rods.synthesis.stages import stage_of
from rods.task import Task, Turn, read_tasks, write_tasks
from rods.types import ToolCall
from verbs import rods as program
from vet_clinic import clinic

pytest.importorskip("duckdb", reason="needs the extra [view]")
pytest.importorskip("nicegui", reason="needs the extra [view]")

from rods.view.frame import _jinja, json_for_people
from rods.view.seeds import SeedFile

CHROMIUM = shutil.which("chromium") or shutil.which("chromium-browser")
ADDRESS = f"{ROOT / 'tests' / 'support' / 'vet_clinic.py'}:clinic"


def seed(number: int) -> Task:
    world = clinic.own_world()
    calls = (
        ToolCall("get_balance", {"owner_id": f"O-{number}"}),
        ToolCall("cancel_appointment", {"appointment_id": f"A-5{number - 10:02d}"}),
    )
    turns = (
        Turn(f"How much does owner O-{number} owe?", calls[:1]),
        Turn(f"Cancel appointment A-5{number - 10:02d}.", calls[1:]),
    )
    return Task(clinic.name, "base", turns, {**world})


@pytest.fixture
def file(tmp_path: Path) -> Path:
    path = tmp_path / "seeds.jsonl"
    write_tasks(path, [seed(number) for number in (11, 12, 13)])
    return path


def reviews(path: Path) -> list[str]:
    return [task.provenance.review for task in read_tasks(path)]


def edited(task: Task, change: Callable[[dict[str, Any]], object]) -> str:
    row: Any = task.to_json()
    change(row["turns"][0])
    return json.dumps(row)


def test_a_verdict_is_written_beside_the_task_and_changes_no_id(file: Path) -> None:
    before = list(read_tasks(file))
    found = SeedFile(file, clinic)
    found.review(before[1].id, "rejected")
    found.review(before[0].id, "accepted")
    assert reviews(file) == ["accepted", "rejected", ""]
    assert list(read_tasks(file)) == before
    found.review(before[1].id, "accepted")
    assert reviews(file) == ["accepted", "accepted", ""], "a verdict can be taken back"


@pytest.mark.parametrize(
    ("text", "why"),
    [
        ("{", "not JSON"),
        ("[]", "not a task row"),
        (edited(seed(11), lambda t: t["ground_truth"][0].update(name="get_money")), "get_money"),
        (
            edited(seed(11), lambda t: t["ground_truth"][0]["arguments"].update(owner_id="O-99")),
            "no owner O-99",
        ),
        (json.dumps(seed(12).to_json()), "stands in it already"),
        (json.dumps(stage_of(clinic.name, {"classes": ["Nobody"]}).to_json()), "no class"),
    ],
    ids=["json", "row", "tool", "value", "twice", "world"],
)
def test_an_edit_that_cannot_be_trained_on_changes_nothing(file: Path, text: str, why: str) -> None:
    before = file.read_bytes()
    with pytest.raises(TaskError, match=re.escape(why)):
        SeedFile(file, clinic).review(seed(11).id, "edited", text)
    assert file.read_bytes() == before


def test_a_file_that_changed_meanwhile_is_read_again(file: Path) -> None:
    found = SeedFile(file, clinic)
    write_tasks(file, [seed(12), seed(13)])
    with pytest.raises(TaskError, match="somebody changed the file"):
        found.review(seed(11).id, "accepted")
    found.review(seed(13).id, "accepted")
    assert [task.id for task in read_tasks(file)] == [seed(12).id, seed(13).id]
    file.write_text(file.read_text(encoding="utf-8") + "{half", encoding="utf-8")
    with pytest.raises(TaskError, match=r"seeds\.jsonl:3: not JSON"):
        found.review(seed(12).id, "rejected")
    assert "{half" in file.read_text(encoding="utf-8")


def as_table(path: Path) -> Path:
    texts = [{k: json.dumps(v) for k, v in seed(n).to_json().items()} for n in (11, 12)]
    rows = [{**row, "mine": "note", "env": clinic.name, "category": "base"} for row in texts]
    pyarrow.parquet.write_table(pyarrow.Table.from_pylist(rows), path.with_suffix(".parquet"))
    return path.with_suffix(".parquet")


def as_prompts(path: Path) -> Path:
    row = {"prompt": "u", "mine": "note", "task": json.dumps(seed(11).to_json())}
    path.write_text(json.dumps(row) + "\n", encoding="utf-8")
    return path


def as_folder(path: Path) -> Path:
    (path.parent / "train").mkdir()
    path.rename(path.parent / "train" / path.name)
    return path.parent


@pytest.mark.parametrize("made", [as_table, as_prompts, as_folder])
def test_a_file_of_another_form_is_left_as_it_is(made: Callable[[Path], Path], file: Path) -> None:
    """A verdict would write JSON lines in its place, and lose the other columns."""
    path = made(file)
    before = {p: p.read_bytes() for p in file.parent.rglob("*.*") if p.is_file()}
    assert [*read_tasks(path)]
    with pytest.raises(
        TaskError, match=r"expected JSON lines of tasks alone.*rods convert --tasks"
    ):
        SeedFile(path, clinic).review(seed(11).id, "accepted")
    assert {p: p.read_bytes() for p in file.parent.rglob("*.*") if p.is_file()} == before


def test_a_verdict_on_a_link_stands_in_its_file(file: Path) -> None:
    link = file.with_name("link.jsonl")
    link.symlink_to(file.name)
    SeedFile(link, clinic).review(seed(12).id, "rejected")
    assert link.is_symlink() and reviews(file) == ["", "rejected", ""]


def test_a_full_disk_is_one_message_and_loses_nothing(
    file: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def full(*_: object) -> None:
        raise OSError(errno.ENOSPC, "No space left on device")

    before = file.read_bytes()
    monkeypatch.setattr(Path, "replace", full)
    with pytest.raises(StoreError, match=r"seeds\.jsonl: the disk is full"):
        SeedFile(file, clinic).review(seed(11).id, "accepted")
    assert file.read_bytes() == before
    assert [p.name for p in file.parent.iterdir()] == [file.name]


def test_what_is_shown_names_results_and_the_gate(file: Path) -> None:
    found = SeedFile(file, clinic)
    assert '"due": 85.0' in found.shown(seed(12))["steps"][0].result.content
    alone = Task(clinic.name, "base", (seed(12).turns[0],), seed(12).world)
    assert found.shown(alone)["problem"].startswith("form: ")


def test_data_of_a_world_are_shown_as_they_are_written() -> None:
    task = Task("notes", "base", (Turn("Öffne"),), {"note": "Köln's < 5 & \ud800"})
    values: dict[str, Any] = {"steps": (), "problem": ""}
    page = _jinja.get_template("seed.html.j2").render(task=task, **values)
    assert '"note": "Köln\'s < 5 & \\ud800"' in unescape(page), "no escapes of JSON"
    assert json.loads(json_for_people(task.to_json())) == task.to_json()


@pytest.mark.parametrize(
    ("words", "why"),
    [
        (["--env.name", ADDRESS], "--env.name has no effect without --tasks"),
        (["--tasks", "FILE", "run", "--env.name", ADDRESS], "Leave out one of them"),
        (["--tasks", "FILE"], "has a task of the environment 'vet_clinic'"),
        (["--tasks", "FILE", "--env.name", ADDRESS, "--train.lr", "1"], "--train.lr has no effect"),
    ],
)
def test_the_command_line_is_checked(
    file: Path,
    words: list[str],
    why: str,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    given = [str(file) if word == "FILE" else word for word in words]
    assert program("view", *given, monkeypatch=monkeypatch) == 2
    assert why in capsys.readouterr().err


@pytest.mark.slow
def test_in_a_browser(file: Path) -> None:
    if CHROMIUM is None:
        pytest.skip("chromium is not installed")
    playwright = pytest.importorskip("playwright.sync_api", reason="needs playwright")
    words = ["view", "--tasks", str(file), "--env.name", ADDRESS, "--port", "0"]
    command = [sys.executable, "-m", "rods.cli.main", *words]
    faults: list[str] = []
    with (
        subprocess.Popen(command, stderr=subprocess.PIPE, text=True) as service,
        ExitStack() as stack,
    ):
        assert service.stderr is not None
        found = re.search(r"http://127\.0\.0\.1:\d+/\?token=\S+", service.stderr.readline())
        assert found
        stack.callback(service.terminate)  # also where an assertion fails
        with playwright.sync_playwright() as driver:
            browser = driver.chromium.launch(executable_path=CHROMIUM, args=["--no-sandbox"])
            for width, scheme in ((1280, "light"), (400, "dark")):
                view = {"width": width, "height": 900}
                page = browser.new_page(viewport=view, color_scheme=scheme)
                page.set_default_timeout(180_000)  # a busy machine takes minutes for all of it
                page.on("console", lambda m: faults.append(m.text) if m.type == "error" else None)
                page.on("pageerror", lambda error: faults.append(str(error)))
                page.goto(found[0])
                page.wait_for_selector("text=How much does owner O-12 owe?")
                assert page.evaluate("document.documentElement.scrollWidth <= innerWidth")
            cards = page.locator(".seed")
            cards.nth(0).get_by_text("Reject", exact=True).click()
            page.wait_for_selector("text=1 rejected")
            cards.nth(1).get_by_text("Accept", exact=True).click()
            page.wait_for_selector("text=1 accepted")
            assert reviews(file) == ["rejected", "accepted", ""]
            last = cards.nth(2)
            last.get_by_text("Edit", exact=True).click()
            box = last.locator("textarea")
            whole = box.input_value()
            box.fill(whole.replace('"owner_id": "O-13"', '"owner_id": "O-99"'))
            last.get_by_text("Save", exact=True).click()
            page.wait_for_selector("text=no owner O-99")
            assert reviews(file) == ["rejected", "accepted", ""]
            assert "O-99" in box.input_value(), "a refused edit stays in the page"
            box.fill(whole.replace("Cancel appointment A-503.", "Please call off A-503."))
            last.get_by_text("Save", exact=True).click()
            page.wait_for_selector("text=Please call off A-503.")
            assert reviews(file) == ["rejected", "accepted", "edited"]
            browser.close()
        service.terminate()
        rest = service.stderr.read()
    assert "Traceback" not in rest, rest
    assert faults == []
