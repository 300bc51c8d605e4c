"""One meaning a word, and the field's word where it has one: the list of those that went."""

from __future__ import annotations

import ast
import io
import re
import tokenize
from collections.abc import Collection, Iterator
from itertools import chain
from pathlib import Path
from typing import Any

import pytest
import typer

from places import SOURCE
from rods.cli.main import app
from rods.config import RunConfig, StageSettings
from rods.config.base import Settings

BUNDLED = SOURCE / "envs" / "repo" / "repositories"
"""Programs with planted bugs, which speak as they like."""
FILES = [path for path in sorted(SOURCE.rglob("*.py")) if BUNDLED not in path.parents]

GONE = {
    "baton": "world lock",
    "workshop": "worker process",
    "maker": "generator, writer",
    "school": "SFT trainer, pretraining",
    "schooled": "SFT trainer, pretraining",
    "schooling": "pretraining",
    "trouble": "RequestError",
    "crew": "task group",
    "rig": "rollout context",
    "watched": "progress callback",
    "sieve": "filter",
    "tally": "metrics, counts",
    "giver": "producer",
    "taker": "consumer",
    "kin": "source turn",
    "mend": "fix",
    "play": "roll out, execute, run",
    "played": "rolled out, executed",
    "playing": "in flight",
    "player": "rollout runner",
    "players": "ranks",
    "told": "shown, result",
    "heard": "read, answer",
    "unheard": "unknown",
    "partner": "user simulator, donor",
    "partners": "user simulators, donors",
    "proposal": "candidate",
    "proposals": "candidates",
}
"""Parts of identifiers, and what is said instead."""
DEFINED = {
    **{"ask": "call request", "said": "literal", "meant": "reference"},
    **{
        "order": "request, unless it sorts",
        "layer": "wrapper, unless it is of a network or a chart",
    },
}
"""Words that name no class: elsewhere they are verbs."""
LAYERED = ("engines", "report", "trainers")
"""Packages with layers: of networks, and of bars in a chart."""
PHRASES = re.compile(
    r"(?<!there )\b(?:is|are) no (?:number|object|list|table|text|file|folder)\b"
    r"|\b[Mm]end(?:ed|s|ing)?\b|\brbar\b|\b[Pp](?:artner|roposal)s?\b"
)
SAID_TO_USERS = re.compile(r"words of people|\b(?:[Pp]lay(?:s|ed|ing)?|[Rr]ooms?|[Mm]eters)\b")
"""Human-written messages, roll out, package, metrics."""
PERSISTED = re.compile(r"rbar|.*\b(?:SELECT|CREATE TABLE|task_id)\b.*", re.S)
"""A column and a key of what runs have written."""


def parts(name: str) -> set[str]:
    return {part.lower() for part in re.findall(r"[A-Z]?[a-z]+|[A-Z]+", name)}


def names(path: Path) -> set[str]:
    text = io.StringIO(path.read_text(encoding="utf-8"))
    return {t.string for t in tokenize.generate_tokens(text.readline) if t.type == tokenize.NAME}


def files_with(gone: Collection[str]) -> Iterator[Path]:
    """Files some of whose words have such parts, in code or text: few are worth a tokenizer."""
    for path in FILES:
        words = set(re.findall(r"\w+", path.read_text(encoding="utf-8")))
        if any(parts(word) & set(gone) for word in words):
            yield path


@pytest.mark.slow
def test_no_identifier_says_what_the_field_says_otherwise() -> None:
    for path in files_with(GONE):
        found = {name: GONE[w] for name in names(path) for w in parts(name) & GONE.keys()}
        assert not found, f"{path}: {found}"


@pytest.mark.slow
def test_no_class_is_called_by_a_verb() -> None:
    for path in files_with(DEFINED):
        classes = {name for name in names(path) if re.match("_?[A-Z].*[a-z]", name)}
        gone = DEFINED.keys() - ({"layer"} if path.parent.name in LAYERED else set[str]())
        found = {name: DEFINED[w] for name in classes for w in parts(name) & gone}
        assert not found, f"{path}: {found}"


def texts(path: Path) -> Iterator[str]:
    """Literals that are no docstrings: messages, mostly."""
    tree = ast.parse(path.read_text(encoding="utf-8"))
    alone = {id(node.value) for node in ast.walk(tree) if isinstance(node, ast.Expr)}
    for node in ast.walk(tree):
        if isinstance(node, ast.Constant) and isinstance(node.value, str) and id(node) not in alone:
            yield node.value


def prose(path: Path) -> str:
    """A guide without its code, in blocks and in lines, and without addresses of classes."""
    lines = path.read_text(encoding="utf-8").split("\n")
    text = "\n".join(line for line in lines if not line.startswith(("    ", ":::")))
    return re.sub(r"```.*?```|`[^`\n]*`", "", text, flags=re.DOTALL)


GUIDES = sorted((SOURCE.parents[1] / "docs").rglob("*.md"))
BOOKED = ("tools.md", "tasks.md", "tool-classes.md", "seed-tasks.md")
"""Their example books rooms."""


def test_reports_use_the_words_of_the_field() -> None:
    report = SOURCE / "report"
    said = {path: [*texts(path)] for path in report.glob("*.py")}
    files = [*report.glob("*.toml"), *(report / "templates").glob("*.j2")]
    said |= {path: [path.read_text(encoding="utf-8")] for path in files}
    assert len(said) > 15
    for path, words in said.items():
        found = [t for t in words if SAID_TO_USERS.search(t)]
        assert not found, f"{path}: {found}"


@pytest.mark.slow
def test_messages_say_it_in_usual_words() -> None:
    for path in FILES:
        found = [t for t in texts(path) if PHRASES.search(t) and not PERSISTED.fullmatch(t)]
        assert not found, f"{path}: {found}"


# -- plain English where users read --------------------------------------------------------------

ROOT = SOURCE.parents[1]
PAGES = [
    *(ROOT / name for name in ("README.md", "CHANGELOG.md")),
    *GUIDES,
    *sorted((SOURCE / "recipes").glob("*/README.md")),
    *sorted((ROOT / "examples").glob("*/README.md")),
]
MOST = 25
"""Words that a sentence may have, without code, numbers and the addresses of links."""
UNPLAIN = re.compile(
    r"\b(?:(?:[Gg]o(?:es|ing)?|[Gg]one|[Ww]ent) on (?:with|from|by)|[Ww]hoever|anew|[Uu]nsaid"
    r"|(?:is|are) said|turn(?:s|ed) down|gone on|[Mm]end(?:s|ed|ing)?"
    r"|first state|state at the start|start of the world|infrastructure broke)\b|…"
)
"""Resume or continue; again; state; reject; fix; initial state; a failure; a text that ends."""
OPENINGS = re.compile(r"(?:Those|The same|Of|As|That of|What|Whoever|Whether|How)\b")
"""First words of texts that cannot be read alone."""
LOOSE = re.compile(r"(?:Those|The same|Of|As|That of|Whoever|Who|Its?|Their|They|These)\b")
"""The worst of them, which no docstring of the package begins with, a field's neither."""
QUESTIONS = re.compile(r"(?:What|Whether|How)\b")
"""Openings that ask."""
ASKING, MOST_QUESTIONS = ("cli", "report", "rewards", "synthesis/structure", "view", "writers"), 159
"""Packages whose texts still open so, and how many of them: both only fall."""
PLAIN = [
    *SOURCE.glob("*.py"),
    *(p for n in ("cli", "config", "curriculum", "synthesis") for p in (SOURCE / n).rglob("*.py")),
]


def sentences(text: str) -> Iterator[str]:
    blocks = re.split(r"\n\s*\n|\n(?=\s*(?:[*-]|\d+\.) |[#|])", re.sub(r"\]\([^)]*\)", "]", text))
    for block in blocks:
        if not block.startswith(("#", "|")):
            yield from re.split(r"(?<=[.!?:])\**\s+", " ".join(block.split()))


def faults(text: str) -> list[str]:
    text = re.sub(r"`[^`\n]*`", "", text)
    long = [s for s in sentences(text) if sum(map(_is_word, s.split())) > MOST]
    return [*UNPLAIN.findall(text), *SAID_TO_USERS.findall(text), *long]


def _is_word(text: str) -> bool:
    return any(c.isalpha() for c in text)


def helps() -> Iterator[tuple[str, str]]:
    program: Any = typer.main.get_command(app)
    for name, verb in program.commands.items():
        yield name, verb.help
        yield from ((f"{name} {p.opts[0]}", p.help or "") for p in verb.params)


def settings(section: type[Settings], prefix: str = "") -> Iterator[tuple[str, str]]:
    for at, kind in chain(section.walk(prefix), [("stages.0.", StageSettings)]):
        for name, field in kind.model_fields.items():
            yield f"{at}{name}", field.description or ""


def docstrings(path: Path) -> Iterator[tuple[str, str]]:
    for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
        if isinstance(node, ast.Module | ast.ClassDef | ast.FunctionDef | ast.AsyncFunctionDef):
            name = getattr(node, "name", path.name)
            if not name.startswith("_") and (text := ast.get_docstring(node)):
                yield name, text


def explanations(path: Path) -> Iterator[str]:
    """Texts that stand alone: docstrings, also of private names, and those below a field."""
    for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
        if isinstance(node, ast.Expr) and isinstance(node.value, ast.Constant):
            yield str(node.value.value).strip()


@pytest.mark.slow
def test_pages_are_plain() -> None:
    for path in PAGES:
        found = faults(prose(path))
        booked = path.name in BOOKED
        assert not [word for word in found if not booked or "room" not in word.lower()], path


def test_the_results_of_the_readme_are_a_table_and_three_sentences() -> None:
    readme = (ROOT / "README.md").read_text(encoding="utf-8")
    section = readme.partition("\n## Results\n")[2].partition("\n## ")[0]
    assert section.count("\n| ") > 4 and len([*filter(None, sentences(section))]) == 3
    assert not faults(section)


PICTURES = [*(ROOT / "docs").rglob("*.svg"), *(SOURCE / "recipes").rglob("*.svg")]
UNACCEPTED = re.compile(
    r"(?:candidates?|variants?)(?: that| which)?(?: must)? pass(?:es|ed)?\b"
    r"|\bmust pass\b|\ball conversations\b"
)
"""Gates accept or reject a candidate; what a rollout leaves is a trajectory."""
SPOKEN_OF = re.compile(r"^#+ .*\b(?:say|says|said|tell|tells|told)\b.*$", re.M)
"""Headings: a page, a program or a person states or reports."""


def test_pages_and_pictures_have_accepted_variants_and_headings_that_state() -> None:
    texts = [prose(path) for path in PAGES]
    texts += [" ".join(re.findall(r">([^<>]+)<", p.read_text("utf-8"))) for p in PICTURES]
    assert len(PICTURES) > 10
    assert not [words for text in texts for words in UNACCEPTED.findall(text)]
    assert not [line for text in texts for line in SPOKEN_OF.findall(text)]
    assert UNACCEPTED.search("candidates that pass every check") and SPOKEN_OF.search(
        "## Who says?"
    )


def test_help_and_settings_are_plain() -> None:
    texts = [*helps(), *settings(RunConfig)]
    assert len(texts) > 250
    assert not {name: f for name, text in texts if (f := faults(text))}
    assert not [name for name, text in texts if OPENINGS.match(text)]


GENERATIONS = {"train.credit"}
"""Settings whose text counts steps; `tasks_per_step` and the like are names."""


def test_texts_of_settings_count_updates_and_optimizer_steps() -> None:
    bare = re.compile(r"(?<!optimizer )(?<!single )\bsteps?\b(?! of synthesis)")
    found = {name for name, text in settings(RunConfig) if bare.search(re.sub("`[^`]*`", "", text))}
    assert found == GENERATIONS


SPOKEN = {"say", "warning", "warn"}
"""Functions whose argument a user reads."""


def messages(path: Path) -> Iterator[str]:
    """Texts of errors and of lines that are printed; a value in them counts as one word."""
    for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
        if isinstance(node, ast.Call):
            name = getattr(node.func, "attr", getattr(node.func, "id", ""))
            if name in SPOKEN or name.endswith("Error"):
                yield from map(_joined, filter(_is_text, node.args))


def _is_text(node: ast.AST) -> bool:
    return isinstance(node, ast.JoinedStr) or isinstance(getattr(node, "value", None), str)


def _joined(node: Any) -> str:
    parts = node.values if isinstance(node, ast.JoinedStr) else [node]
    return "".join(str(getattr(part, "value", "")) if _is_text(part) else "X" for part in parts)


@pytest.mark.slow
def test_messages_are_plain() -> None:
    """A room is what a context has left, in five of them."""
    found = [(path, text) for path in FILES for text in messages(path)]
    assert len(found) > 500
    for path, text in found:
        assert not [fault for fault in faults(text) if fault != "room"], f"{path}: {text}"


@pytest.mark.slow
def test_docstrings_can_be_read_alone() -> None:
    for path in PLAIN:
        assert not [name for name, text in docstrings(path) if OPENINGS.match(text)], path


@pytest.mark.slow
def test_no_docstring_begins_with_a_pronoun_and_few_with_a_question() -> None:
    found = [(path, text) for path in FILES for text in explanations(path)]
    assert len(found) > 4_000
    assert not [row for row in found if LOOSE.match(row[1])]
    asking = [path for path, text in found if QUESTIONS.match(text)]
    left = [path for path in asking if path.relative_to(SOURCE).as_posix().startswith(ASKING)]
    assert asking == left and len(left) <= MOST_QUESTIONS


@pytest.mark.parametrize(
    "text",
    ["It goes on with the run.", "Nothing is played.", "And so on, …", "word " * (MOST + 1) + "."],
)
def test_a_fault_is_found(text: str) -> None:
    assert faults(f"A plain sentence.\n\n* {text}\n") and not faults("A plain sentence. `a …`")


def test_a_fault_of_a_message_is_found(tmp_path: Path) -> None:
    file = tmp_path / "module.py"
    file.write_text('raise TaskError(f"{x}: it goes on with" " nothing")\nsay("fine")\n', "utf-8")
    assert [*messages(file)] == ["X: it goes on with nothing", "fine"]
    assert [bool(faults(text)) for text in messages(file)] == [True, False]


def test_an_opening_is_found(tmp_path: Path) -> None:
    file = tmp_path / "module.py"
    file.write_text('def public() -> None:\n    """The same is done."""\n', encoding="utf-8")
    assert [name for name, text in docstrings(file) if OPENINGS.match(text)] == ["public"]
    file.write_text('class _Row:\n    number: int\n    """Its place."""\n', encoding="utf-8")
    assert [text for text in explanations(file) if LOOSE.match(text)] == ["Its place."]


# -- what user pages leave to docs/research ------------------------------------------------------

USER_PAGES = [
    path for path in PAGES if not {"research", "developers"} & {*path.relative_to(ROOT).parts}
]
RANGE = re.compile(r"\| [\d.]+(?: %)? to [\d.]+(?: %)? (?=\|)")


def test_cells_of_tables_have_a_dash_for_a_range_and_an_arrow_for_a_change() -> None:
    assert RANGE.search("| 58 to 77 % |") and not RANGE.search("| 58 % | 0.34 → 1.93 |")
    assert not {str(p): c for p in USER_PAGES if (c := RANGE.findall(p.read_text("utf-8")))}


HISTORY = re.compile(
    r"\b(?=[0-9a-f]*\d)(?=[0-9a-f]*[a-f])[0-9a-f]{7,40}\b|\bcommit [0-9a-f]{7}"
    r"|\bload(?:ed machine| average| of \d)|\b\d[\d,]* tests\b|\b(?:all|our) tests? pass(?:ed)?\b"
    r"|\b(?:formerly|previously|used to (?:be|take|need)|before this change)\b"
)
"""Hashes of commits, loads of a machine, counts of tests, and how something was before."""


def test_user_pages_have_no_hashes_loads_tallies_or_former_figures() -> None:
    assert len(USER_PAGES) > 80
    found = {str(path): HISTORY.findall(prose(path)) for path in USER_PAGES}
    assert not {path: words for path, words in found.items() if words}


@pytest.mark.parametrize(
    "text", ["as of 93f0bfa7", "at a load of 3", "all 1,418 tests", "it used to take 90 s"]
)
def test_history_is_found(text: str) -> None:
    assert HISTORY.search(text) and not HISTORY.search("2 of 10 seeds took 72 s; defaced facade")
