"""The line that gets what is missing: it must work where it is printed."""

from __future__ import annotations

import re
import tomllib
from pathlib import Path

import pytest

from places import ROOT
from rods.infra import install


def test_the_distribution_is_ours_and_the_program_keeps_its_name() -> None:
    project = tomllib.loads((install.ROOT / "pyproject.toml").read_text())["project"]
    assert project["name"] == install.DISTRIBUTION != "rods"
    assert project["version"] == install.VERSION
    assert project["scripts"] == {"rods": "rods.cli.main:main"}


def test_a_checkout_is_installed_from_itself(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(install.ROOT)
    assert install.install_line("train") == "pip install -e '.[train]'"
    assert install.install_line("train", "math") == "pip install -e '.[train,math]'"
    monkeypatch.chdir(tmp_path)
    assert install.install_line("train") == f"pip install -e '{install.ROOT}[train]'"


def test_without_a_checkout_a_clone_is_asked_for_because_no_index_has_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    rows = ["numpy>=1.26", 'torch<3; extra == "train"', "bm25s; extra == 'search'"]
    monkeypatch.setattr(install, "ROOT", tmp_path)
    monkeypatch.setattr(install, "requires", lambda name: rows if name == "rods-rl" else None)
    line = "in a clone of the repository, pip install -e '.[search]'"
    assert install.install_line("search") == line
    found = {"core": ("numpy",), "train": ("torch",), "search": ("bm25s",)}
    assert install.extras() == found


TEXTS = [
    *(path for place in ("src", "examples") for path in (ROOT / place).rglob("*.py")),
    *(path for place in ("docs", "examples") for path in (ROOT / place).rglob("*.md")),
    *(ROOT / name for name in ("README.md", "CONTRIBUTING.md")),
]


def test_nothing_recommends_a_distribution_that_no_index_has() -> None:
    wrong = re.compile(r"pip install (?:-\w+ )*['\"]?rods(?:-rl)?\b")
    found = [str(path) for path in TEXTS if wrong.search(path.read_text(encoding="utf-8"))]
    assert not found


def test_every_extra_of_the_project_is_known() -> None:
    project = tomllib.loads((install.ROOT / "pyproject.toml").read_text())["project"]
    assert install.extras().keys() == {"core", *project["optional-dependencies"]}
