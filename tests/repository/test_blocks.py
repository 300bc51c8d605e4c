"""Every block of code in README, docs and examples has a mark that says what tests do with it.

* `test NAME`: the test of this name runs it, maybe in small.
* `parsed`: programs, options, settings with their values, files and imports are looked up here.
* `shown`: output, or what another program is sent. A block of the language `text` needs no mark.
"""

from __future__ import annotations

import ast
import functools
import importlib
import importlib.util
import json
import re
import shlex
import tomllib
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from typer.main import get_command

from page_blocks import Block, blocks_of
from places import ROOT, SOURCE, TESTS
from rods.cli.common import overrides, profile_for, writer_overrides
from rods.cli.main import app
from rods.config import RunConfig, keys, load_config, profile_name
from rods.errors import RodsError

PAGES = [
    *(ROOT / name for name in ("README.md", "CONTRIBUTING.md", "CHANGELOG.md")),
    *sorted((ROOT / "docs").rglob("*.md")),
    *sorted((ROOT / "examples").rglob("*.md")),
    *sorted((SOURCE / "recipes").rglob("*.md")),
]
BLOCKS = [block for page in PAGES for block in blocks_of(page)]
FOREIGN = {"git", "ray", "ssh", "vllm", "jupyter", "cd", ".", "for", "done"}
"""Programs that are not ours, and words of the shell."""
PYTHON = re.compile(r"python3?(?:\.\d+)?$")
PLACEHOLDERS = {"recipe": "torl", "seed": "0"}
MADE = {"my_module.py", "rewards.py", "tasks.py"}
"""Files that the pages let the reader write."""


def place(block: Block) -> str:
    return f"{block.page.relative_to(ROOT)}:{block.line}"


def lines_of(text: str) -> Iterator[str]:
    """Yield commands of a script, with its variables put in."""
    values = dict(PLACEHOLDERS)
    for line in text.replace("\\\n", " ").splitlines():
        line = re.sub(r"\$(\w+)", lambda name: values.get(name[1], name[0]), line)
        line = re.sub(r"(?:^|\s)#.*$", "", line).strip()
        if named := re.fullmatch(r"([A-Z])=\"?([^\"]*)\"?", line):
            values[named[1]] = named[2]
            continue
        yield from filter(None, (part.strip() for part in line.split(" && ")))


def require_command(line: str) -> None:
    """Look up the program and the options of a line; fail if one is unknown."""
    words = shlex.split(line.partition(" > ")[0])
    while re.match(r"[A-Z_]+=", words[0]):  # of the process's environment
        words = words[1:]
    name, rest = words[0].rpartition("/")[2], words[1:]
    if name == "torchrun":
        name, rest = "python", rest[2:]
    if PYTHON.match(name):
        require_python(rest)
    elif name == "rods":
        require_verb(*rest)
    elif name == "pip":
        require_extras(rest)
    elif name == "make":
        assert re.search(rf"^{rest[0]}:", (ROOT / "Makefile").read_text("utf-8"), re.M), line
    else:
        assert name in FOREIGN, f"unknown program: {line}"


def require_python(words: list[str]) -> None:
    if words[:2] == ["-m", "rods.cli.main"]:
        require_verb(*words[2:])
    elif words[0] == "-m":
        assert words[1] in ("venv", "pytest", "verl.model_merger") or (
            importlib.util.find_spec(words[1])
        ), words[1]
    elif words[0] == "-c":
        compile(words[1], "python -c", "exec")
    elif words[0] not in MADE:
        text = (ROOT / words[0]).read_text(encoding="utf-8")
        asked = {word for word in words if word.startswith("--") and word[2:] not in keys()}
        assert not [o for o in asked if not re.search(rf"{o}\b", text)], words


def require_extras(words: list[str]) -> None:
    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    named = re.findall(r"\[([\w,-]+)\]", " ".join(words))
    assert {*",".join(named).split(",")} - {""} <= {*project["optional-dependencies"]}, words


@functools.cache
def program() -> Any:
    """The program's verbs, which take a while to make."""
    return get_command(app)


def require_verb(verb: str, *words: str) -> RunConfig:
    """Parse a command of ours, and return the settings that it names."""
    context = program().commands[verb].make_context(verb, list(words), resilient_parsing=False)
    args, asked = context.args, context.params
    if verb == "verl":  # its own keys are words without dashes, and verl checks them
        args = [word for word in args if not re.match(r"\w[\w.]*=", word)]
    if verb in ("eval", "chat") and args[:1] and not args[0].startswith("--"):
        args = args[1:]  # a model or a run
    given = overrides([word for word in args if not word.startswith("--trl.")])
    if asked.get("writer") and verb == "train":
        writer = [asked[name] for name in ("writer", "writer_url", "writer_model")]
        given = writer_overrides(args, *writer)
    if asked.get("curriculum"):
        given.append(f"curriculum={asked['curriculum']}")
    if asked.get("model"):
        given.append(f'model.name="{asked["model"]}"')
    recipe = asked.get("recipe") or "rods"
    profile = profile_for(asked.get("profile") or "", given if verb in TRAINING else [])
    return load_config(recipe, profile_name(recipe, profile), given)


TRAINING = ("train", "trl", "verl", "check")
"""Verbs whose profile is `full` if they name a model."""


def require_code(text: str) -> None:
    """Parse Python, and look up what it imports from us."""
    for node in ast.walk(ast.parse(text)):
        if isinstance(node, ast.ImportFrom) and str(node.module).partition(".")[0] == "rods":
            found = importlib.import_module(str(node.module))
            assert not [name.name for name in node.names if not hasattr(found, name.name)], text


def require_parsed(block: Block) -> None:
    first = block.text.split(maxsplit=1)[0]
    if block.language == "toml":
        tomllib.loads(block.text)
    elif block.language == "json":
        assert all(isinstance(json.loads(line), dict) for line in block.text.splitlines())
    elif block.language == "python" or first in ("from", "import", "with", "def", "class"):
        require_code(block.text)
    else:
        assert block.language in ("", "sh")
        for line in lines_of(block.text):
            require_command(line)


def test_invariant_11_each_block_has_a_mark() -> None:
    assert len(BLOCKS) > 200
    assert not [place(b) for b in BLOCKS if not b.mark and b.language != "text"]


def test_a_block_directly_below_a_mark_is_found(tmp_path: Path) -> None:
    page = tmp_path / "page.md"
    page.write_text("## Try it\n<!-- parsed -->\n    rods doctor\n\nText\n    that is no code.\n")
    assert [(block.text, block.mark) for block in blocks_of(page)] == [("rods doctor", "parsed")]


PARSED = [block for block in BLOCKS if block.mark == "parsed"]


@pytest.mark.slow
@pytest.mark.parametrize("block", PARSED, ids=place)
def test_a_parsed_block_names_what_is_there(block: Block, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(ROOT)
    require_parsed(block)


@pytest.mark.parametrize(
    "page", ["docs/guides/trl.md", "docs/guides/verl.md", "examples/verl/README.md"]
)
def test_commands_inside_other_trainers_make_variants_from_the_first_epoch(page: str) -> None:
    made: list[bool] = []
    for block in blocks_of(ROOT / page):
        for line in lines_of(block.text) if block.language in ("", "sh") else ():
            verb, *words = shlex.split(line)[1:] or [""]
            if verb in ("trl", "verl") and "--updates" in words and "rods" in words:
                made.append(require_verb(verb, *words).stages[0].expand)
    assert made and all(made)


SHOWN = ("docs/guides/search.md", "docs/reference/cli.md", "docs/start/quick-start.md")
"""Pages with output or usage; no page may hide a command there."""


def test_few_blocks_are_only_shown() -> None:
    shown = {place(b).rpartition(":")[0]: b for b in BLOCKS if b.mark == "shown"}
    assert sorted(shown) == sorted(SHOWN)
    commands = [b for b in BLOCKS if b.mark == "shown" and b.page.name != "cli.md"]
    assert not [b for b in commands if re.search(r"^(?:rods|python|pip) ", b.text, re.M)]


def test_each_test_that_a_block_names_reads_its_page() -> None:
    """Its file names the page, or the folder of a README."""
    files = [path.read_text(encoding="utf-8") for path in TESTS.rglob("test_*.py")]
    named = {(b.page, b.mark.partition(" ")[2]) for b in BLOCKS if b.mark.startswith("test ")}
    assert len(named) > 30
    for page, name in sorted(named):
        word = page.parent.name if page.stem == "README" and page.parent != ROOT else page.stem
        there = [text for text in files if re.search(rf"^(?:async )?def {name}\(", text, re.M)]
        assert len(there) == 1, f"{page}: {name}"
        known = rf"\b{re.escape(word)}\b" + ("|PURPOSES" if page.parent.name == "api" else "")
        assert re.search(known, there[0]), f"{name} does not read {page}"


@pytest.mark.parametrize(
    ("text", "error"),
    [
        ("rods trian", KeyError),
        ("rods train --train.lrr 1", RodsError),
        ("rods train --train.lr fast", RodsError),
        ("rods train --recipe nothing", RodsError),
        ("python examples/gone.py", FileNotFoundError),
        ("python benchmarks/recipes.py --gone 1", AssertionError),
        ("pip install -e '.[gone]'", AssertionError),
        ("make gone", AssertionError),
        ("tool --help", AssertionError),
        ("from rods import gone", AssertionError),
        ("from rods import", SyntaxError),
    ],
)
def test_a_fault_in_a_block_is_found(text: str, error: type[Exception]) -> None:
    with pytest.raises(error):
        require_parsed(Block(ROOT / "README.md", 1, "", text, "parsed"))
