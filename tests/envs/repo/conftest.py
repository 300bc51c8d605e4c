"""An environment of containers, for the tests of rows of SWE-Gym."""

from __future__ import annotations

import subprocess
from pathlib import Path

import pytest

from once import made_once
from rods.envs.repo.environment import RepoEnvironment
from swe_cases import CODE, IMAGE, engine, make_python


@pytest.fixture
def environment(tmp_path: Path, tmp_path_factory: pytest.TempPathFactory) -> RepoEnvironment:
    (tmp_path / "python").symlink_to(made_once(tmp_path_factory, "image_python", make_python))
    image = tmp_path / IMAGE
    image.mkdir(parents=True)
    (image / "code_of_it.py").write_text(CODE)
    (image / "test_it.py").write_text("x = 1\n")
    identity = ["-c", "user.name=a", "-c", "user.email=a@example.org"]
    for words in (["init", "-q"], ["add", "-A"], [*identity, "commit", "-qm", "base"]):
        subprocess.run(["git", *words], cwd=image, check=True)
    # A command of the agent starts several programs, each of which a busy machine holds up.
    return RepoEnvironment(container=str(engine(tmp_path)), seconds=300.0)
