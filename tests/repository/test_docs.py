"""Guides say what is there: files that they name exist; tree and packages are those of the code."""

from __future__ import annotations

import ast
import functools
import re
import shlex
import tomllib
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from typer.main import get_command

from import_rows import RANK, ROWS
from page_blocks import blocks_of
from places import ROOT, SOURCE
from rods.cli.main import app
from rods.config import RunConfig, keys, load_config
from rods.registry import recipe_names
from rods.synthesis.rejection import ErrorClass, reasons
from rods.task import read_tasks
from rods.writers import WRITERS
from verbs import rods

PLACES = ("src", "tests", "docs", "benchmarks", "examples", "tools")
FILE = re.compile(r"(?<![\w./-])(?:[\w.-]+/)*[\w-]+\.(?:py|md|toml)\b")
SOURCES = [p for p in sorted(SOURCE.rglob("*.py")) if "repositories" not in p.parts]
EXAMPLES = {
    "FILE.py", "a.py", "desk.py", "./desk.py", "rewards.py",
    "my_writer.py", "my_engine.py", "./tools.py", "lifts.py",
    "convert_hf_to_gguf.py",
}  # fmt: skip
"""Names of files that only stand for any, and a file of llama.cpp."""
GUIDES = [
    *(ROOT / name for name in ("README.md", "CONTRIBUTING.md")),
    *sorted((ROOT / "docs").rglob("*.md")),
    *sorted((ROOT / "examples").rglob("*.md")),
    *sorted((SOURCE / "recipes").rglob("*.md")),
]


def is_there(name: str, folder: Path) -> bool:
    """Whether a file is called so, from here, the root or a package on; a bare name: anywhere."""
    found = any((start / name).exists() for start in (folder, ROOT, SOURCE, SOURCE / "synthesis"))
    return found or any(p.match(name) for place in PLACES for p in FILES[place])


FILES = {place: [p for p in (ROOT / place).rglob("*") if p.is_file()] for place in PLACES}


@pytest.mark.slow
def test_files_that_guides_name_exist() -> None:
    named = {guide: set(FILE.findall(guide.read_text(encoding="utf-8"))) for guide in GUIDES}
    lost = {
        (str(guide.relative_to(ROOT)), name)
        for guide, names in named.items()
        for name in names - EXAMPLES
        if not is_there(name, guide.parent)
    }
    assert not lost


@pytest.mark.slow
def test_guides_that_docstrings_cite_exist() -> None:
    lost: set[tuple[str, str]] = set()
    for path in SOURCES:
        text = path.read_text(encoding="utf-8")
        if ".md" not in text:
            continue  # the trees of all files take seconds
        nodes = [n for n in ast.walk(ast.parse(text)) if isinstance(n, ast.Expr)]
        texts = [n.value.value for n in nodes if isinstance(n.value, ast.Constant)]
        cited = {name for text in texts for name in re.findall(r"[\w/-]+\.md\b", str(text))}
        here = str(path.relative_to(SOURCE))
        lost |= {(here, n) for n in cited - {"policy.md"} if not (ROOT / n).is_file()}
    assert not lost


def tree() -> str:
    return (
        (ROOT / "docs" / "developers" / "architecture.md")
        .read_text(encoding="utf-8")
        .split("```")[1]
    )


@pytest.mark.slow
def test_the_tree_is_the_one_on_disk() -> None:
    folders = re.findall(r"(?<![\w/.])\.?[\w-]+(?:/[\w-]+)*/", tree())
    assert len(folders) > 40
    known = {path.relative_to(ROOT).as_posix() for path in ROOT.rglob("*") if path.is_dir()}
    lost = [f for f in folders if not any(f"/{path}/".endswith(f"/{f}") for path in known)]
    assert not lost


def test_writers_of_the_tree_are_those_that_need_no_model() -> None:
    row = tree().partition("writers without a model: ")[2].partition(";")[0]
    assert {name.strip("/") for name in row.split()} == {*WRITERS} - {"llm"}


def test_every_room_is_in_the_tree_and_among_the_rooms() -> None:
    rooms = {path.stem for path in SOURCE.iterdir() if path.is_dir() or path.suffix == ".py"}
    rooms -= {"__init__", "__pycache__", "experiments", "py"}
    guide = (ROOT / "docs" / "developers" / "architecture.md").read_text(encoding="utf-8")
    table = guide.split("## The packages")[1]
    told = re.findall(r"`(\w+)`", table.partition("Where this departs")[0])
    assert {*told} - {"tests"} >= rooms and {*told} <= set(RANK)
    assert [RANK[room] for room in told] == sorted(RANK[room] for room in told), ROWS
    assert not [room for room in rooms if not re.search(rf"\b{room}\b", tree())]


README = (ROOT / "README.md").read_text(encoding="utf-8")


def test_the_readme_is_short_and_keeps_its_two_commands() -> None:
    assert len(README.splitlines()) <= 130
    setup = "    python3 -m venv .venv && .venv/bin/pip install -e "
    assert f"{setup}'.[train]' && .venv/bin/rods train\n" in README
    assert f"{setup}'.[train,dev]' && .venv/bin/python -m pytest\n" in README


def test_a_version_of_the_changelog_fits_on_a_screen() -> None:
    text = (ROOT / "CHANGELOG.md").read_text(encoding="utf-8")
    versions = re.split(r"^## ", text, flags=re.M)[1:]
    assert versions and all(len(version.splitlines()) <= 40 for version in versions)


@functools.cache
def program() -> Any:
    """The program's verbs, which take a while to make."""
    return get_command(app)


def test_settings_within_sentences_exist() -> None:
    """Those of ours: `--trl.KEY` is TRL's, verifiers has `--env.taskset`; options are free."""
    named = {
        name
        for guide in GUIDES
        for name in re.findall(r"`--([a-z_]+(?:\.\w+)+)", guide.read_text(encoding="utf-8"))
        if not name.startswith(("trl.", "env.taskset.", "env.options.", "section.key"))
    }
    known = {*keys(), *(key.rpartition(".")[0] for key in keys())}
    assert len(named) > 50
    assert not {re.sub(r"^stages\.[\dN]+\b", "stages.0", name) for name in named} - known


INLINE = re.compile(r"`rods ([a-z-]+)([^`]*)`")
"""A command within a sentence."""


@pytest.mark.slow
def test_options_of_commands_within_sentences_exist() -> None:
    texts = [re.sub(r"\s*\n\s*", " ", guide.read_text(encoding="utf-8")) for guide in GUIDES]
    for verb, words in INLINE.findall("\n".join(texts)):
        params = program().commands[verb].params
        own = {o for param in params for o in (*param.opts, *param.secondary_opts)} | {"--help"}
        for option in set(re.findall(r"--[\w.-]+", words)) - own:
            key = re.sub(r"^stages\.\d", "stages", option[2:].replace("-", "_"))
            assert key in keys() or key.startswith("trl."), f"rods {verb} has no {option}"


def test_extras_of_the_install_page_are_those_of_the_package() -> None:
    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    text = (ROOT / "docs" / "start" / "install.md").read_text(encoding="utf-8")
    rows = re.findall(r"^\| (`.*`) \|", text, re.M)
    named = {name for row in rows for name in re.findall(r"`([^`]+)`", row)}
    assert named == {*project["optional-dependencies"]}


def test_verbs_of_the_readme_are_those_of_the_program() -> None:
    named = re.findall(r"`(\w[\w-]*)`", README.partition("## Commands")[2].partition("## More")[0])
    assert set(named) == set(program().commands)


def test_recipes_of_the_readme_are_those_of_the_program() -> None:
    table = README.partition("| recipe |")[2].partition("\n\n")[0]
    page = r"\[`(\w+)`\]\(src/rods/recipes/\1/README\.md\)"
    assert set(re.findall(r"`(\w+)`", table)) == {*recipe_names()} == set(re.findall(page, table))


def test_the_reader_s_run_is_never_the_baseline() -> None:
    """`rods compare` takes the first run as the baseline, and pages call the reader's `runs/A`."""
    texts = [guide.read_text(encoding="utf-8") for guide in GUIDES]
    pairs = [p for text in texts for p in re.findall(r"rods compare (\S+) ([^\s`]+)", text)]
    assert len(pairs) > 5 and "runs/A" not in {first for first, _ in pairs}


[ONE_LINE] = re.findall(r"`(rods\.train\(.*?\))`", README)
QUICK = (ROOT / "docs/start/quick-start.md").read_text(encoding="utf-8")


@pytest.mark.parametrize(
    ("code", "updates"),
    [
        (f"import rods\n{ONE_LINE}", 40),
        (QUICK.partition("```python\n")[2].partition("```")[0], 10),
    ],
    ids=["README", "quick-start"],
)
def test_python_of_the_first_pages_works_and_keeps_the_profile_s_rate(
    code: str, updates: int, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    configs: list[RunConfig] = []

    def train(config: RunConfig) -> SimpleNamespace:
        configs.append(config)
        return SimpleNamespace(path=tmp_path)

    monkeypatch.setattr("rods.assemble.train", train)
    exec(code, {})
    assert [config.updates for config in configs] == [updates]
    assert configs[0].train.lr == load_config("torl").train.lr


DESK = next(b.text for b in blocks_of(ROOT / "README.md") if "class Desk" in b.text)
"""README's class."""


@pytest.mark.slow
def test_the_readme_s_class_and_task_pass_the_check(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "desk.py").write_text(DESK)
    row, other = re.findall(r"^    (\{.*\})$", README, re.M)
    (tmp_path / "tasks.jsonl").write_text(f"{row}\n{other}\n")
    [command] = re.findall(r"^    rods (check --env.name .*)$", README, re.M)
    monkeypatch.chdir(tmp_path)
    assert rods(*shlex.split(command, comments=True), monkeypatch=monkeypatch) == 0
    shown = " ".join(capsys.readouterr().out.split())
    assert "2 tasks, 2 calls, replayed twice" in shown and " s: no fault." in shown
    (tmp_path / "tasks.jsonl").write_text(row)
    assert rods(*shlex.split(command, comments=True), monkeypatch=monkeypatch) == 0
    shown = capsys.readouterr()
    assert "1 task, 1 call, replayed twice" in " ".join(shown.out.split())
    assert "at least 2 are needed" in shown.err, "what training would say"


@pytest.mark.slow
def test_the_readme_s_project_is_that_of_rods_init(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """Those that train are of its own page, whose commands tests/cli/test_init.py runs."""
    mark = "test test_the_readme_s_project_is_that_of_rods_init"
    [block] = [b.text for b in blocks_of(ROOT / "README.md") if b.mark == mark]
    make, *others = block.splitlines()
    assert make == "rods init my_agent && cd my_agent"
    page = (SOURCE / "cli" / "project" / "README.md").read_text(encoding="utf-8")
    assert [line.strip() for line in page.splitlines() if line.strip() in others] == others
    monkeypatch.chdir(tmp_path)
    assert rods("init", "my_agent", monkeypatch=monkeypatch) == 0
    monkeypatch.chdir(tmp_path / "my_agent")
    check, synth, *training = others
    for line in (check, synth.replace("--n 40", "--n 3")):
        assert rods(*line.split()[1:], monkeypatch=monkeypatch) == 0
    assert len(list(read_tasks(Path("variants.jsonl")))) == 3 and len(training) == 3
    assert "8 tasks" in capsys.readouterr().out and "eight tasks" in README


def test_ids_in_docstrings_are_those_of_no_task() -> None:
    """As `docs/guides/tasks.md` advises: a value in a description counts as known."""
    guides, project = ROOT / "docs" / "guides", SOURCE / "cli" / "project"
    for code, tasks in (
        (DESK, README.partition("Write one per line of")[2]),
        ((guides / "tools.md").read_text("utf-8"), (guides / "tasks.md").read_text("utf-8")),
        (
            (project / "tools.py.tpl").read_text("utf-8"),
            (project / "tasks.jsonl").read_text("utf-8"),
        ),
    ):
        named = re.findall(r"such as ([A-Z]+-\d+)\.", code)
        assert named and not [name for name in named if re.search(rf"\b{name}\b", tasks)]


@pytest.mark.slow
def test_eight_tasks_as_the_readme_writes_them_can_be_varied_and_trained_on(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """They have no provenance: each is its own scenario."""
    (tmp_path / "desk.py").write_text(DESK)
    row, _ = re.findall(r"^    (\{.*\})$", README, re.M)
    rooms = ", ".join(f'"R-{number}": {{}}' for number in range(3, 11))
    world = row.replace('"rooms": {"R-3": {}}', f'"rooms": {{{rooms}}}')
    rows = [world.replace('R-3 for', f"R-{n} for").replace('"R-3", "h', f'"R-{n}", "h')
            for n in range(3, 11)]  # fmt: skip
    (tmp_path / "tasks.jsonl").write_text("\n".join(rows))
    monkeypatch.chdir(tmp_path)
    words = ["--env.name", "./desk.py:desk", "--env.tasks", "tasks.jsonl"]
    writer = ["--synthesis.writer", "graph"]
    assert rods("synth", *words, *writer, "--n", "2", "--out", "v", monkeypatch=monkeypatch) == 0
    made = list(read_tasks(tmp_path / "v"))
    named = {task.id for task in read_tasks(tmp_path / "tasks.jsonl")}
    assert len(made) == 2 and {task.provenance.scenario for task in made} <= named
    asked = [*words, *writer, "--model.name", "no/model", "--dry-run"]
    rods("train", *asked, monkeypatch=monkeypatch)  # there is no such model
    assert "split empty" not in capsys.readouterr().err


def test_reasons_of_writing_are_explained_in_the_words_that_commands_print() -> None:
    page = (ROOT / "docs" / "reference" / "gates.md").read_text(encoding="utf-8")
    section = page.partition("## Why candidates are rejected")[2]
    explained = re.findall(r"`([^`]+)`", "".join(re.findall(r"^\| (`.*?) \|", section, re.M)))
    assert len(explained) > 5 and not {*explained} - {*reasons().values()}
    of_models = {"duplicate_func", "pipeline_exception", "no_prompts"}
    of_models |= {"query_verify_failed", "query_verify_no_tag"}
    assert {reasons()[name] for name in {*ErrorClass} - of_models} == {*explained}
