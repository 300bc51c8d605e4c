"""The line that gets what is missing: it must work where it is printed."""

from __future__ import annotations

import tomllib
from pathlib import Path

import pytest

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


def test_without_a_checkout_the_distribution_is_named(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    rows = ["numpy>=1.26", 'torch<3; extra == "train"', "bm25s; extra == 'search'"]
    monkeypatch.setattr(install, "ROOT", tmp_path)
    monkeypatch.setattr(install, "requires", lambda name: rows if name == "rods-rl" else None)
    assert install.install_line("search") == "pip install 'rods-rl[search]'"
    found = {"core": ("numpy",), "train": ("torch",), "search": ("bm25s",)}
    assert install.extras() == found


def test_every_extra_of_the_project_is_known() -> None:
    project = tomllib.loads((install.ROOT / "pyproject.toml").read_text())["project"]
    assert install.extras().keys() == {"core", *project["optional-dependencies"]}
