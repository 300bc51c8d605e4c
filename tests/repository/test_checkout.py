"""A checkout: small files, tests in the folders of their packages, versions for CI, commands."""

from __future__ import annotations

import os
import re
import subprocess
import sys
import tomllib

import pytest
from packaging.requirements import Requirement
from packaging.utils import canonicalize_name

from places import ROOT, SOURCE, SUPPORT, TESTS

MEGABYTE = 1_000_000
FILE, CHECKOUT = 10 * MEGABYTE, 35 * MEGABYTE


def sizes() -> dict[str, int]:
    """Bytes of every tracked file."""
    done = subprocess.run(["git", "ls-files", "-z"], cwd=ROOT, capture_output=True, check=True)
    names = [name for name in done.stdout.decode().split("\0") if name]
    return {n: (ROOT / n).stat().st_size for n in names if (ROOT / n).is_file()}


def test_a_checkout_is_small() -> None:
    found = sizes()
    assert len(found) > 500, "a checkout by git"
    assert {name: size for name, size in found.items() if size > FILE} == {}
    assert sum(found.values()) <= CHECKOUT


def test_tests_lie_in_the_folders_of_their_packages() -> None:
    files = sorted(TESTS.rglob("test_*.py"))
    folders = {path.parent.relative_to(TESTS).as_posix() for path in files}
    others = {name for name in folders if not (SOURCE / name).is_dir()}
    assert others == {"core", "repository"} and "." not in folders
    names = [path.name for path in [*files, *SUPPORT.glob("*.py")]]
    assert len(names) == len(set(names)), "pytest imports a file by its name"


def test_no_test_file_imports_another() -> None:
    imported = re.compile(r"^\s*(?:from|import) (test_\w+)", re.M)
    for path in TESTS.rglob("*.py"):
        found = imported.findall(path.read_text(encoding="utf-8"))
        assert found == [], f"{path}: move what is shared into tests/support"


def pins() -> dict[str, str]:
    lines = (ROOT / ".ci" / "constraints.txt").read_text(encoding="utf-8").splitlines()
    rows = [line.split("==") for line in lines if not line.startswith("#")]
    return {canonicalize_name(name): version for name, version in rows}


def test_versions_for_ci_fit_what_the_package_asks_for() -> None:
    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    extras = project["optional-dependencies"]
    asked = map(Requirement, [*project["dependencies"], *extras["train"], *extras["dev"]])
    found = pins()
    for requirement in asked:
        if requirement.name != "pip":  # the one that installs
            version = found[canonicalize_name(requirement.name)]
            assert requirement.specifier.contains(version), f"bash .ci/lock: {requirement}"


def test_versions_for_ci_name_no_place() -> None:
    for name, version in pins().items():
        assert re.fullmatch(r"[\w.-]+", name) and re.fullmatch(r"[\w.]+", version), (name, version)


def test_ci_runs_what_a_contributor_runs() -> None:
    run = (ROOT / ".ci" / "run").read_text(encoding="utf-8")
    assert "-c .ci/constraints.txt" in run
    for name in (".github/workflows/ci.yml", "Makefile"):
        assert "bash .ci/run" in (ROOT / name).read_text(encoding="utf-8")
    workflow = (ROOT / ".github" / "workflows" / "ci.yml").read_text(encoding="utf-8")
    assert "bash .ci/hosts" in workflow, "the examples inside TRL run nowhere else"
    hooks = (ROOT / ".pre-commit-config.yaml").read_text(encoding="utf-8")
    for program in ("ruff check", "ruff format --check", "pyright --pythonpath"):
        assert program in run and program in hooks


def test_commands_of_a_contributor_are_in_the_guide() -> None:
    made = re.findall(r"^(\w+): ## ", (ROOT / "Makefile").read_text(encoding="utf-8"), re.M)
    assert len(made) == 6
    guide = (ROOT / "CONTRIBUTING.md").read_text(encoding="utf-8")
    assert [name for name in made if f"make {name}" not in guide] == []


@pytest.mark.slow
def test_processes_of_tests_keep_what_they_compile() -> None:
    """Else each of a run's hundreds of processes compiles the sources again."""
    shown = "import sys; print(sys.dont_write_bytecode, flush=True)"
    code = f"import conftest, subprocess; {shown}; "
    code += f"subprocess.run([sys.executable, '-c', {shown!r}])"
    forbidden = {**os.environ, "PYTHONDONTWRITEBYTECODE": "1"}
    words = [sys.executable, "-c", code]
    done = subprocess.run(words, cwd=TESTS, env=forbidden, capture_output=True, text=True)
    assert done.stdout.split() == ["False", "False"], done.stderr
