"""A row of SWE-Gym and an environment whose container engine is `container_engine.py`."""

from __future__ import annotations

import json
import shutil
import subprocess
import sys
import venv
from importlib.metadata import distribution
from pathlib import Path

import pytest
from packaging.requirements import Requirement

CODE = "def half(n):\n    return n // 3\n"
TEST = "from code_of_it import half\n\ndef test_half():\n    assert half(4) == 2\n"
TEST_PATCH = (
    "diff --git a/test_it.py b/test_it.py\n--- a/test_it.py\n+++ b/test_it.py\n"
    "@@ -1,1 +1,4 @@\n-x = 1\n" + "".join(f"+{line}\n" for line in TEST.splitlines())
)
ROW = {
    "instance_id": "Some__repo-12",
    "repo": "some/repo",
    "problem_statement": "half(4) should be 2.",
    "test_patch": TEST_PATCH,
    "FAIL_TO_PASS": json.dumps(["test_it.py::test_half"]),
    "PASS_TO_PASS": [],
}
ENGINE = Path(__file__).with_name("container_engine.py")
APART = ["unshare", "--user", "--map-root-user", "--pid", "--fork", "--mount-proc", "true"]
needs_namespaces = pytest.mark.skipif(
    not shutil.which("unshare")
    or not shutil.which("nsenter")
    or subprocess.run(APART, capture_output=True, check=False).returncode != 0,
    reason="unshare makes no name spaces here",
)
IMAGE = "xingyaoww/sweb.eval.x86_64.some_s_repo-12"


def engine(folder: Path) -> Path:
    """A command that stands for docker; its containers run the Python of `folder`/python."""
    command = folder / "docker"
    command.write_text(f"#!{sys.executable} -S\n" + ENGINE.read_text())
    command.chmod(0o755)
    return command


def make_python(folder: Path) -> None:
    """Make a Python that has pytest and nothing else, as an image does, so that it starts fast."""
    venv.create(folder, symlinks=True)
    [site] = folder.glob("lib/python*/site-packages")
    names = ["pytest"]
    while names:
        package = distribution(names.pop())
        for top in {file.parts[0] for file in package.files or () if file.parts[0] != ".."}:
            if not (site / top).exists():
                (site / top).symlink_to(package.locate_file(top))
        needs = map(Requirement, package.requires or ())
        names += [n.name for n in needs if not n.marker or n.marker.evaluate({"extra": ""})]
