"""Every block of code in README, docs and examples has a mark that says what tests do with it.

* `test NAME`: the test of this name runs it, maybe in small.
* `parsed`: programs, options, settings with their values, files and imports are looked up here, and
  our commands run without training: as `--dry-run`, or in small.
* `shown`: output, or what another program is sent. A block of the language `text` needs no mark.
"""

from __future__ import annotations

import ast
import functools
import importlib
import importlib.util
import io
import json
import re
import shutil
import subprocess
import sys
import tomllib
from collections.abc import Sequence
from itertools import dropwhile, pairwise, takewhile
from pathlib import Path
from typing import Any

import pytest
from typer.main import get_command

from once import made_once
from page_blocks import Block, blocks_of
from page_inputs import bring, make_inputs
from page_shell import commands_of
from places import ROOT, SOURCE, TESTS
from rods.cli.common import overrides, profile_for, writer_overrides
from rods.cli.main import app
from rods.config import RunConfig, keys, load_config, profile_name
from rods.config.bundled import SMOLLM2_BFCL
from rods.errors import RodsError
from rods.store import RunDirectory
from verbs import rods

PAGES = [
    *(ROOT / name for name in ("README.md", "CONTRIBUTING.md", "CHANGELOG.md")),
    *sorted((ROOT / "docs").rglob("*.md")),
    *sorted((ROOT / "examples").rglob("*.md")),
    *sorted((SOURCE / "recipes").rglob("*.md")),
]
BLOCKS = [block for page in PAGES for block in blocks_of(page)]
FOREIGN = {
    "git": "fetches",
    "pip": "installs",
    "make": "test_checkout.py runs what it names",
    "ray": "needs a cluster",
    "ssh": "needs another machine",
    "vllm": "needs a GPU",
    "llama-server": "a program of llama.cpp",
    "cd": "into a folder that another program made",
    ".": "an environment that another program made",
}
"""Programs and words of the shell that are only looked up, and why."""
PYTHON = re.compile(r"python3?(?:\.\d+)?$")
VARIABLE = re.compile(r"[A-Z_]+=")
"""Of a process's environment."""
PLACEHOLDERS = {"recipe": "torl", "seed": "0"}
MADE = {"my_module.py", "rewards.py", "tasks.py"}
"""Files that the pages let the reader write."""
FETCHED = {"convert_hf_to_gguf.py"}
"""Files of other repositories, in a folder that the reader enters."""
CODE = ("from", "import", "with", "def", "class")
"""First words of Python."""


def place(block: Block) -> str:
    return f"{block.page.relative_to(ROOT)}:{block.line}"


def commands(block: Block) -> list[list[str]]:
    """The commands of a block in the language of the shell; of another one, none."""
    first = block.text.split(maxsplit=1)[0]
    shell = block.language in ("", "sh") and first not in CODE and first[0] not in "{#"
    return commands_of(block.text, **PLACEHOLDERS) if shell else []


def require_command(words: Sequence[str]) -> None:
    """Look up the program and the options of a command; fail if one is unknown."""
    line = " ".join(words)
    words = list(takewhile(lambda word: word != ">", words))
    name, *rest = dropwhile(VARIABLE.match, words)
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
    elif words[0] not in MADE | FETCHED:
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
    if block.language == "toml":
        tomllib.loads(block.text)
    elif block.language == "json":
        assert all(isinstance(json.loads(line), dict) for line in block.text.splitlines())
    elif found := commands(block):
        for words in found:
            require_command(words)
    else:
        require_code(block.text)


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


GPU = "141"
"""GiB of the device that dry runs plan for, where the command names none."""
LESS = {
    "train": {"--dry-run": "", "--memory": GPU},
    "trl": {"--dry-run": "", "--memory": GPU},
    "verl": {"--dry-run": ""},
    "experiment": {"--dry-run": ""},
    "view": {"--port": "0"},
    "serve-env": {"--port": "0"},
    "synth": {"--n": "2"},
    "demonstrate": {"--n": "2"},
    "eval": {
        "--evaluation.tasks": "1", "--evaluation.variants": "0", "--evaluation.samples": "0",
        "--evaluation.suite.tasks": "1", "--rollout.generated_tokens": "4",
    },
}  # fmt: skip
"""Options by which a command trains nothing and takes a second, in the place of its own."""
NO_WEIGHTS, NO_SERVER = "it cannot be loaded", "it cannot be reached"
REFUSED = {
    "rods train --model Qwen/Qwen3-4B-Instruct-2507 --memory 80 --dry-run": "at least 82.1 GiB",
    "rods eval --suite bfcl-multi-turn --profile full --model.name Qwen/Qwen3-4B": NO_WEIGHTS,
    "rods eval --suite bfcl-multi-turn --profile full --model.name Qwen/Qwen3-8B": NO_SERVER,
    "rods eval --profile full --model.name Qwen/Qwen3-8B --engine.name openai": NO_SERVER,
    "rods eval --suite tau2-retail": "needs a checkout of sierra-research/tau2-bench",
    "rods eval runs/trl/checkpoint-200": NO_WEIGHTS,
    "rods eval --recipe torl --profile full --model.name merged": NO_WEIGHTS,
    "rods experiment bfcl --out runs/compare --show": "no run of the experiment 'bfcl' is finished",
    "rods convert --tasks hf:openai/gsm8k/main": "Couldn't reach 'openai/gsm8k' on the Hub",
    "rods train --recipe skyrl_v0 --profile full": "the ground truth of none of 4 tasks replays",
    "rods train --env.name remote": "the environment's service failed: worlds.example:8010",
    "rods synth --out variants.jsonl --n 20 --writer llm": "the connection failed",
    "rods train --track wandb": "needs a package that is not installed",
}
"""Commands that cannot run here, by how they begin, and what they are refused with."""
AGAINST = ("is a rate for all weights", "may fit better")
"""Advice of the program against a command that it runs."""


def quick(verb: str, *words: str) -> list[str]:
    """Return a command of ours with options of `LESS` in the place of its own."""
    less = dict(LESS.get(verb, {}))
    if "--show" in words or "--memory" in words:
        less.pop("--dry-run" if "--show" in words else "--memory", None)
    if "--from-scratch" in words:
        less = {"--from-scratch": "20"}
    pairs = pairwise(["", *words])
    rest = [word for before, word in pairs if word not in less and not less.get(before)]
    return [verb, *rest, *(word for pair in less.items() for word in pair if word)]


def learned(run: RunDirectory, *given: Any) -> None:
    """Put a model that has had a cold start where `rods sft` would write its own."""
    shutil.copytree(SMOLLM2_BFCL, run.path, dirs_exist_ok=True)


def viewed(add: Any, *given: Any) -> None:
    """Close the runs that `rods view` has opened."""
    for run in add.args[0]:
        run.close()


@pytest.fixture
def inputs(
    tmp_path_factory: pytest.TempPathFactory, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> Path:
    """What commands read; the working folder is a new one, which looks like the repository.

    Training ends where the first update would begin, and a service where it would wait.
    """
    found = made_once(tmp_path_factory, "page_inputs", make_inputs)
    for path in (ROOT / name for name in ("benchmarks", "examples", "experiments", "tests")):
        (tmp_path / path.name).symlink_to(path)
    for path in (found / "hub" / name for name in ("Qwen", "models")):
        (tmp_path / path.name).symlink_to(path)
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(sys, "path", [str(tmp_path), *sys.path])
    monkeypatch.setattr(sys, "stdin", io.StringIO("/quit\n"))
    monkeypatch.setattr("rods.cli.sft._learn", learned)
    monkeypatch.setattr("rods.infra.listen.serve", lambda *given: None)
    monkeypatch.setattr("rods.view.server.serve_view", viewed)
    return found


MEASURED = ROOT / "docs" / "research", "rods eval"
"""Pages whose blocks measure a real model, by this command: only looked up, as it takes long."""
OURS = [
    block
    for block in PARSED
    if re.search(r"\brods [a-z]", block.text)
    and not (MEASURED[0] in block.page.parents and MEASURED[1] in block.text)
]
"""Blocks with commands of ours that run here."""


@pytest.mark.slow
@pytest.mark.usefixtures("worker_thread")
@pytest.mark.parametrize("block", OURS, ids=place)
def test_the_commands_of_a_parsed_block_run_without_training(
    block: Block,
    inputs: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    for words in commands(block):
        given = [*takewhile(VARIABLE.match, words)]
        for variable in given:
            monkeypatch.setenv(*variable.split("="))
        name, *rest = words[len(given) :]
        if name == "torchrun" and "rods.cli.main" in rest:
            name, rest = "rods", rest[rest.index("rods.cli.main") + 1 :]
        if (name, *rest[:1]) == ("python", "-c"):
            subprocess.run([sys.executable, *rest], check=True)
        elif name == "rods":
            require_run([name, *rest], inputs, monkeypatch, capsys)


def require_run(
    words: list[str],
    inputs: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    """Run a command of ours; fail unless it ends well, or as `REFUSED` says."""
    line, ours = " ".join(words), [*takewhile(lambda word: word != ">", words)]
    bring(inputs, words, Path())
    capsys.readouterr()
    status = rods(*quick(*ours[1:]), monkeypatch=monkeypatch)
    shown = capsys.readouterr()
    why = [reason for start, reason in REFUSED.items() if line.startswith(start)]
    assert status == (2 if why else 0), f"{line}\n{shown.out[-2000:]}\n{shown.err[-2000:]}"
    said = " ".join(shown.err.split())
    assert all(reason in said for reason in why), f"{line}\n{said}"
    assert why or not [advice for advice in AGAINST if advice in said], f"{line}\n{said}"
    if ours != words:
        Path(words[-1]).write_text(shown.out, encoding="utf-8")


def test_commands_that_cannot_run_here_are_those_of_pages() -> None:
    found = (dropwhile(VARIABLE.match, words) for block in PARSED for words in commands(block))
    lines = [" ".join(words) for words in found]
    assert not [start for start in REFUSED if not any(line.startswith(start) for line in lines)]
    ours = re.compile(r"rods|python|torchrun")
    assert FOREIGN.keys() == {line.split()[0] for line in lines if not ours.match(line)}


@pytest.mark.slow
def test_the_grid_file_of_the_guide_has_arms(inputs: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """With the recipe that it names, which `rods init` writes."""
    [grid] = [block.text for block in PARSED if block.language == "toml"]
    shutil.copytree(inputs / "tools", Path(), dirs_exist_ok=True)
    Path("grid.toml").write_text(grid, encoding="utf-8")
    words = ["experiment", "grid.toml", "--out", "runs/grid", "--dry-run"]
    assert rods(*words, monkeypatch=monkeypatch) == 0


@pytest.mark.parametrize(
    "page", ["docs/guides/trl.md", "docs/guides/verl.md", "examples/verl/README.md"]
)
def test_commands_inside_other_trainers_make_variants_from_the_first_epoch(page: str) -> None:
    made: list[bool] = []
    for block in blocks_of(ROOT / page):
        for _, verb, *words in (found for found in commands(block) if len(found) > 1):
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
