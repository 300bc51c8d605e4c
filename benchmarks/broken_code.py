"""Does a test notice when a fix is taken away? Breaks the code as listed, and runs the tests.

Each file `broken_code/NAME.toml` lists breaks: the point, a file (its path from `src/rods`), a text
that occurs once in it, the broken text, and the tests that must fail. The command works on a copy
of the repository. First all named tests must pass there; then each break alone must fail one of
them. A test that cannot be collected counts for nothing. `--quick` only checks the lists.
"""

from __future__ import annotations

import argparse
import os
import re
import shutil
import subprocess
import sys
import tempfile
import time
import tomllib
from pathlib import Path
from typing import NamedTuple

import shared  # noqa: F401 (puts tests/support on the path)

import forked

ROOT = Path(__file__).parents[1]
LISTS = Path(__file__).with_suffix("")
WARM = """
import sys
sys.path.insert(0, {src!r})
import pytest, hypothesis, numpy, pandas, pyarrow.parquet
import pydantic, typer, rich.live, jinja2, openai
import torch, peft, transformers.models.qwen2.modeling_qwen2, transformers.models.llama
"""
"""What takes long to import. No module of RODS: those are of the copy, as a break has them."""
SECONDS = 600
"""Within which a test must end."""
COPIED = (
    "src", "tests", "docs", "tools", "examples", "benchmarks", "pyproject.toml", "Makefile",
    "README.md", "CONTRIBUTING.md", "CHANGELOG.md",
)  # fmt: skip


class Break(NamedTuple):
    """A regression of one file, and the tests that must notice it."""

    section: str
    point: str
    file: str
    old: str
    new: str
    tests: list[str]

    def fault(self) -> str:
        """Return what is wrong with the entry itself, or nothing."""
        path = ROOT / "src" / "rods" / self.file
        if not path.is_file():
            return f"{self.file} does not exist"
        if (count := path.read_text(encoding="utf-8").count(self.old)) != 1:
            return f"`old` occurs {count} times in {self.file}, expected once"
        if self.old == self.new or not self.tests:
            return "the break changes nothing, or names no test"
        return next((found for test in self.tests if (found := _missing(test))), "")


def main() -> None:
    """Read the lists, break the code, and print a table by break and a summary by section."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("sections", nargs="*", help="names of lists; default: all")
    parser.add_argument("--only", default="", help="breaks whose point contains this text")
    parser.add_argument("--quick", action="store_true", help="check the lists, run nothing")
    chosen = parser.parse_args()
    breaks = [one for one in read(chosen.sections) if chosen.only in one.point]
    faults = [f"{one.section}: {one.point}: {one.fault()}" for one in breaks if one.fault()]
    if faults or not breaks:
        sys.exit("\n".join(faults) or "no break has this name")
    if chosen.quick:
        print(f"{len(breaks)} breaks can be applied")
        return
    with tempfile.TemporaryDirectory() as folder:
        unnoticed = run(breaks, copied(Path(folder)))
    summarize(breaks, unnoticed)
    sys.exit(1 if unnoticed else 0)


def read(sections: list[str]) -> list[Break]:
    """Read the lists of these names, or all of them."""
    return [
        Break(path.stem, **entry)
        for path in sorted(LISTS.glob("*.toml"))
        if not sections or path.stem in sections
        for entry in tomllib.loads(path.read_text(encoding="utf-8"))["break"]
    ]


def copied(folder: Path) -> Path:
    """Copy the repository without its history, and make sure that Python imports the copy."""
    for name in COPIED:
        source = ROOT / name
        copy = shutil.copytree if source.is_dir() else shutil.copy2
        copy(source, folder / name)
    words = [sys.executable, "-c", "import rods; print(rods.__file__)"]
    found = subprocess.run(words, env=_env(folder), capture_output=True, text=True, check=True)
    if not Path(found.stdout.strip()).is_relative_to(folder):
        sys.exit(f"Python imports {found.stdout.strip()}, not the copy in {folder}")
    return folder


def run(breaks: list[Break], folder: Path) -> list[Break]:
    """Run the tests unbroken, then beside each break, and return the breaks that none notices."""
    every = sorted({test for one in breaks for test in one.tests})
    passed, output = tested(every, folder)
    if not passed:
        sys.exit(f"the tests fail without a break:\n{output[-4000:]}")
    unnoticed: list[Break] = []
    for number, one in enumerate(breaks, 1):
        path, began = folder / "src" / "rods" / one.file, time.monotonic()
        sound = path.read_text(encoding="utf-8")
        path.write_text(sound.replace(one.old, one.new), encoding="utf-8")
        _, output = tested(one.tests, folder)
        path.write_text(sound, encoding="utf-8")
        failed = re.search(r"\d+ failed|KeyboardInterrupt$", output, re.MULTILINE)
        if failed is None or re.search(r"\d+ errors?\b", output):
            unnoticed.append(one)
        verdict = failed[0] if failed else f"NOT NOTICED: {output.strip()[-200:]}"
        seconds = time.monotonic() - began
        print(f"{number}/{len(breaks)} {one.point}: {verdict}, {seconds:.0f} s", flush=True)
    return unnoticed


def tested(tests: list[str], folder: Path) -> tuple[bool, str]:
    """Run tests of the copy, and return whether all passed, with their output."""
    words = ["-m", "pytest", "-n", "0", "-q", "--no-header", "--tb=no", "-p", "no:cacheprovider"]
    words += ["-o", "addopts=", "-W", "ignore::pytest.PytestAssertRewriteWarning", *tests]
    os.environ |= _env(folder)
    try:
        seconds = SECONDS * len(tests)
        done = forked.run(words, folder, seconds, WARM.format(src=str(folder / "src")))
    except subprocess.TimeoutExpired:
        return False, "the tests do not end"
    return done.returncode == 0, done.stdout + done.stderr


def summarize(breaks: list[Break], unnoticed: list[Break]) -> None:
    """Print rows of a Markdown table: breaks and noticed ones by section."""
    for section in dict.fromkeys(one.section for one in breaks):
        every = sum(one.section == section for one in breaks)
        missed = sum(one.section == section for one in unnoticed)
        print(f"| {section} | {every} | {every - missed} |")


def _env(folder: Path) -> dict[str, str]:
    return {**os.environ, "PYTHONPATH": str(folder / "src"), "PYTHONDONTWRITEBYTECODE": "1"}


def _missing(test: str) -> str:
    file, _, name = test.partition("::")
    path = ROOT / file
    name = name.rpartition("::")[2].partition("[")[0]
    if not path.is_file():
        return f"{file} does not exist"
    known = not name or re.search(rf"def {name}\(", path.read_text(encoding="utf-8"))
    return "" if known else f"{file} has no test {name}"


if __name__ == "__main__":
    main()
