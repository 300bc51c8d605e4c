"""Guides say what is there: files that they name exist; tree and rooms are those of the code."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from test_shape import RANK, ROWS

ROOT = Path(__file__).parents[1]
SOURCE = ROOT / "src" / "rods"
PLACES = ("src", "tests", "docs", "benchmarks", "examples")
FILE = re.compile(r"(?<![\w./-])(?:[\w.-]+/)*[\w-]+\.(?:py|md|toml)\b")
EXAMPLES = {"a.py", "desk.py", "./desk.py"}
"""Names of files that only stand for any."""
GUIDES = [
    *(ROOT / name for name in ("README.md", "CONTRIBUTING.md")),
    *sorted((ROOT / "docs").rglob("*.md")),
    *sorted((ROOT / "examples").rglob("*.md")),
]


def is_there(name: str, folder: Path) -> bool:
    """Whether a file is called so, from here, the root or a package on; a bare name: anywhere."""
    found = any((start / name).exists() for start in (folder, ROOT, SOURCE, SOURCE / "synthesis"))
    return found or any(p.match(name) for place in PLACES for p in FILES[place])


FILES = {place: [p for p in (ROOT / place).rglob("*") if p.is_file()] for place in PLACES}


@pytest.mark.parametrize("guide", GUIDES, ids=lambda path: path.stem)
def test_files_that_a_guide_names_exist(guide: Path) -> None:
    named = set(FILE.findall(guide.read_text(encoding="utf-8"))) - EXAMPLES
    assert not [name for name in sorted(named) if not is_there(name, guide.parent)]


def tree() -> str:
    text = (ROOT / "README.md").read_text(encoding="utf-8")
    return text.partition("## Where things are")[2].split("```")[1]


def test_the_tree_in_readme_is_the_one_on_disk() -> None:
    folders = re.findall(r"(?<![\w/.])\.?[\w-]+(?:/[\w-]+)*/", tree())
    assert len(folders) > 40
    known = {path.relative_to(ROOT).as_posix() for path in ROOT.rglob("*") if path.is_dir()}
    lost = [f for f in folders if not any(f"/{path}/".endswith(f"/{f}") for path in known)]
    assert not lost


def test_every_room_is_in_the_tree_and_among_the_rooms() -> None:
    rooms = {path.stem for path in SOURCE.iterdir() if path.is_dir() or path.suffix == ".py"}
    rooms -= {"__init__", "__pycache__", "recipes", "experiments", "py"}
    table = (ROOT / "docs" / "how-it-works.md").read_text(encoding="utf-8").split("## The rooms")[1]
    told = re.findall(r"`(\w+)`", table.partition("Where this departs")[0])
    assert {*told} - {"tests"} >= rooms and {*told} <= set(RANK)
    assert [RANK[room] for room in told] == sorted(RANK[room] for room in told), ROWS
    assert not [room for room in rooms if not re.search(rf"\b{room}\b", tree())]
