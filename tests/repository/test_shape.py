"""The house: sizes of files and functions, who may import whom, docstrings, no loose ends."""

from __future__ import annotations

import ast
import functools
import re
import subprocess
import sys
import tomllib
from collections import Counter
from graphlib import CycleError, TopologicalSorter
from itertools import chain, pairwise
from pathlib import Path
from typing import NamedTuple

import pytest

import rods
from import_rows import PLUGINS, RANK, SEAMS
from places import SOURCE

FILES = sorted(SOURCE.rglob("*.py"))
FILE_LINES, FILE_MEDIAN, FUNCTION_LINES, LOOP_LINES, MODULES = 400, 150, 70, 290, 20
ADAPTER_LINES = 300
CASTS, UNTYPED = 118, 182
"""Most casts, and most parameters whose type has `Any` in it. The limits only fall."""
TOOL_LINES = 2_000

NAMED = re.compile(r"(rods(?:\.\w+)+)(?::\w+)?")
"""A module that a string names, to be imported by that name."""
BROAD = re.compile(r"^ *except(?: (?:Base)?Exception\b.*| *):.*$", re.M)


def room_of(module: str) -> str:
    return module.split(".")[1] if "." in module else ""


def module_of(path: Path) -> str:
    parts = path.relative_to(SOURCE.parent).with_suffix("").parts
    return ".".join(parts[:-1] if parts[-1] == "__init__" else parts)


class Facts(NamedTuple):
    """What a file says of itself, read once."""

    text: str
    docstring: str | None
    functions: list[tuple[str, int]]
    """Names and numbers of lines."""
    imports: set[str]
    classes: list[str]
    """Public classes at the top of the file."""


@functools.cache
def facts(path: Path) -> Facts:
    text = path.read_text()
    tree = ast.parse(text)
    functions: list[tuple[str, int]] = []
    found: set[str] = set()
    started: set[int] = set()
    for node in ast.walk(tree):  # what holds a node comes before it
        started |= {id(word) for word in _started(node)}
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
            functions.append((node.name, (node.end_lineno or 0) - node.lineno + 1))
        elif isinstance(node, ast.ImportFrom) and node.module:
            found |= {_module(f"{node.module}.{name.name}") for name in node.names}
        elif isinstance(node, ast.Import):
            found |= {name.name for name in node.names}
        elif isinstance(node, ast.Constant) and isinstance(node.value, str):
            named = NAMED.fullmatch(node.value)
            if named and id(node) not in started and _is_module(named[1]):
                found.add(named[1])
    ours = {name for name in found if name.split(".")[0] == "rods"}
    classes = [n.name for n in tree.body if isinstance(n, ast.ClassDef) and n.name[0] != "_"]
    return Facts(text, ast.get_docstring(tree), functions, ours, classes)


def _started(node: ast.AST) -> list[ast.expr]:
    """What follows `-m`: a program that is started, which is not an import."""
    words = node.elts if isinstance(node, ast.List | ast.Tuple) else []
    pairs = pairwise(words)
    return [after for word, after in pairs if isinstance(word, ast.Constant) and word.value == "-m"]


def _is_module(name: str) -> bool:
    place = SOURCE.parent.joinpath(*name.split("."))
    return place.with_suffix(".py").is_file() or (place / "__init__.py").is_file()


def _module(name: str) -> str:
    """The module of what is imported: itself, or where it stands."""
    return name if _is_module(name) else name.rpartition(".")[0]


@pytest.mark.slow
def test_sizes() -> None:
    for path in FILES:
        cap = LOOP_LINES if path.name == "loop.py" else FILE_LINES
        assert len(facts(path).text.splitlines()) <= cap, path
        for name, lines in facts(path).functions:
            assert lines <= FUNCTION_LINES, (path, name)


def test_most_files_fit_on_a_few_pages() -> None:
    lengths = sorted(len(facts(path).text.splitlines()) for path in FILES)
    assert lengths[len(lengths) // 2] <= FILE_MEDIAN


def test_folders_are_small() -> None:
    sizes = Counter(path.parent for path in FILES if path.name != "__init__.py")
    assert {str(room): size for room, size in sizes.items() if size > MODULES} == {}


def test_no_two_classes_have_one_name() -> None:
    """A search for a class finds one place."""
    places: dict[str, list[str]] = {}
    for path in FILES:
        for name in facts(path).classes:
            places.setdefault(name, []).append(module_of(path))
    assert {name: found for name, found in places.items() if len(found) > 1} == {}


def test_layers() -> None:
    for path in FILES:
        mine = room_of(module_of(path))
        assert mine in RANK, f"{mine} has no row: say who may import it"
        for name in facts(path).imports:
            theirs = room_of(name)
            assert RANK[theirs] <= RANK[mine], f"{path}: {mine} must not import {theirs}"
            boundary = theirs != "curriculum" or name == "rods.curriculum.boundary"
            assert mine != "synthesis" or boundary, f"{path}: of the curriculum only the boundary"


def test_the_core_meets_plug_ins_where_it_is_put_together() -> None:
    """Nothing below `assemble` imports one; the commands are the plug-ins' users."""
    found: dict[str, set[str]] = {}
    for path in FILES:
        mine = room_of(module_of(path))
        theirs = {name for name in facts(path).imports if room_of(name) in PLUGINS}
        if theirs and mine not in PLUGINS:
            found.setdefault(mine, set()).update(theirs)
    assert found.keys() == {"assemble", "cli", "policies"}  # the last makes tasks of two plug-ins
    assert found["assemble"] == {f"rods.{name}" for name in SEAMS.split()}


def _names_engine(node: ast.expr) -> bool:
    """Whether an expression is `engine.name`, of any object, or a setting of this key."""
    if isinstance(node, ast.Subscript):
        node = node.slice
        return isinstance(node, ast.Constant) and node.value == "engine.name"
    if not (isinstance(node, ast.Attribute) and node.attr == "name"):
        return False
    owner = node.value
    return getattr(owner, "attr", getattr(owner, "id", "")) == "engine"


def _compares_engines(tree: ast.AST) -> list[int]:
    return [
        node.lineno
        for node in ast.walk(tree)
        if (
            isinstance(node, ast.Compare)
            and any(map(_names_engine, [node.left, *node.comparators]))
        )
        or (isinstance(node, ast.Match) and _names_engine(node.subject))
    ]


@pytest.mark.slow
def test_only_engines_are_told_apart_by_name() -> None:
    """Everybody else asks for a capability: `config.engine.traits`, `engine.capabilities`."""
    for text in ('config.engine.name == "hf"', '"hf" != engine.name', 'v["engine.name"] in ("a",)'):
        assert _compares_engines(ast.parse(text)), text
    assert not _compares_engines(ast.parse("environment.name == task.env"))
    for path in FILES:
        text = path.read_text(encoding="utf-8")
        if room_of(module_of(path)) != "engines" and "engine" in text:
            found = _compares_engines(ast.parse(text))
            assert not found, f"{path}, lines {found}: ask for a capability of the engine"


def test_nobody_imports_a_recipe() -> None:
    """Folders of `recipes/` can be deleted: the registries find them, and one knows no other."""
    for path in FILES:
        mine = module_of(path).split(".")
        found = [name for name in facts(path).imports if room_of(name) == "recipes"]
        others = [name for name in found if name.split(".")[:3] != mine[:3]]
        assert not others, f"{path}: {others}"


def closure(module: str) -> set[str]:
    """A module with all that it imports, late, by string or through others, and their packages.

    Not the face of `rods`: its names are looked up when somebody asks for them.
    """
    known = {module_of(path): path for path in FILES}
    found: set[str] = set()
    waiting = [module]
    while waiting:
        name = waiting.pop()
        if name not in found and name in known and name != "rods":
            found.add(name)
            waiting += [*facts(known[name]).imports, name.rpartition(".")[0]]
    return found


def test_the_papers_writer_stands_on_no_other() -> None:
    """Nor do the gates, the pipeline and the worker: who assembles hands the offline part over."""
    met = closure("rods.synthesis.llm.writer")
    assert {"rods.synthesis.llm.plan", "rods.synthesis.base", "rods.env", "rods.synthesis"} <= met
    for path in FILES:
        if room_of(module_of(path)) == "synthesis":
            met |= closure(module_of(path))
    assert "rods.synthesis.worker.process" in met
    assert not [name for name in met if room_of(name) == "writers"]
    assert "rods.writers.templates.phrases" in closure("rods.writers.graph.writer")


def test_no_circle() -> None:
    """Late imports and modules that strings name are imports too."""
    graph = {module_of(p): facts(p).imports - {module_of(p)} for p in FILES}
    try:
        list(TopologicalSorter(graph).static_order())
    except CycleError as circle:
        raise AssertionError(" <- ".join(circle.args[1])) from None


SYNTHESIS = (
    "rejection", "structure", "base", "planned", "gates", "chat", "llm",
    "pipeline", "worker", "collect",
)  # fmt: skip
"""The way of a variant: each room of synthesis knows those before it alone."""


def test_a_variant_meets_each_room_of_synthesis_once() -> None:
    def place(module: str) -> int:
        rest = module.removeprefix("rods.synthesis.")
        found = [room for room in SYNTHESIS if rest == room or rest.startswith(f"{room}.")]
        return SYNTHESIS.index(max(found, key=len)) if found else -1

    for path in FILES:
        mine = place(module_of(path))
        for name in facts(path).imports:
            assert mine < 0 or place(name) <= mine, f"{path} must not know {name}"


_ENGLISH = (
    "a activate add amount b balance base comment content contents description distance"
    " divide door echo exponent find folder gallon id keyword lines liter location logarithm logout"
    " mean mention mentions message messages mode multiply name number numbers option orders"
    " part password path pattern percentage power precision price priority resolution root"
    " sector sort source speed status subtract symbol tags tail temperature threshold title"
    " touch unit unlock updates user username value volume whole"
)
"""Names of the benchmark's tools, parameters and fields that are words of everybody's."""
ENGLISH = frozenset(_ENGLISH.split())
SAID_OF = ("with", "named", "open", "nouns", "drop")
"""What a file of phrases says by parameter."""
OURS = frozenset({"first_name", "file_name", "order_id", "mkdir", "city"})
"""Others that are ours: lists of first names and cities, names of files, orders, folders."""


def benchmark_names() -> set[str]:
    """The benchmark's name, its classes, their tools, parameters and fields."""
    folder = SOURCE / "envs" / "bfcl"
    found = {"bfcl", "gorilla", "passport", "twitter", "tweet"}
    for path in (folder / "phrases").glob("*.toml"):
        data = tomllib.loads(path.read_text(encoding="utf-8"))
        tools = {name: row for name, row in data.items() if isinstance(row, dict)}
        found |= {path.stem, *(tools.keys() - {"default"})}
        for row in tools.values():
            found.update(*(row.get(part, {}) for part in SAID_OF))
            found.update(*(re.findall(r"\{(\w+)\}", clause) for clause in row.get("say", ())))
    domains = tomllib.loads((folder / "domains.toml").read_text(encoding="utf-8"))
    for part in ("parameters", "configuration", "keys", "fields", "fresh"):
        found.update(*(name.split(".") for name in domains[part]))
    return found


def test_synthesis_knows_no_benchmark() -> None:
    """Whatever is known of one environment's values comes with it (`rods.abilities.Knowing`)."""
    names = benchmark_names()
    assert {"TradingBot", "fillFuelTank", "book_flight", "cd", "retweet", "card_number"} <= names
    assert names >= ENGLISH | OURS, "no longer names of the benchmark"
    known = {name.lower() for name in names} - ENGLISH - OURS
    places = [(SOURCE / room).rglob("*") for room in ("synthesis", "writers")]
    texts = [path for path in chain(*places) if path.suffix not in ("", ".pyc")]
    assert len(texts) > 50
    for path in texts:
        text = path.read_text(encoding="utf-8").lower()
        words = set(re.findall(r"\w+", text))
        found = [name for name in known if name in (words if len(name) < 5 else text)]
        assert not found, f"{path}: {found} belong to their environment"


def test_synthesis_reads_no_world_data() -> None:
    """A task's world data is its environment's; `rods.abilities.StateAccess` reads and changes it.

    Of questions the family, the answer and the like are read, whose form `rods.rewards` sets.
    """
    keys = re.compile(r"""["'](initial_config|classes|involved_classes|long_context)["']""")
    for path in FILES:
        mine = room_of(module_of(path))
        if mine in ("synthesis", "writers", "evaluation", "curriculum", "rollout"):
            text = facts(path).text
            assert "initial_config" not in text and not keys.search(text), path


def test_only_the_registry_knows_the_benchmark() -> None:
    """Verbs and reports go through `Environment`, as for anybody's own tools."""
    for path in FILES:
        mine, folder = module_of(path), "rods.envs.bfcl"
        if mine not in ("rods.envs", "rods.suites") and not f"{mine}.".startswith(f"{folder}."):
            found = [name for name in facts(path).imports if f"{name}.".startswith(f"{folder}.")]
            assert not found, f"{path}: {found}"


def test_docstrings_and_marks() -> None:
    for path in FILES:
        assert facts(path).docstring, f"{path}: every module opens with what it owns"
        for mark in ("TODO", "FIXME", "XXX", "NotImplementedError"):
            assert mark not in facts(path).text, path


def test_what_catches_everything_says_why() -> None:
    handlers = [(path, line) for path in FILES for line in BROAD.findall(facts(path).text)]
    assert len(handlers) > 20
    for path, line in handlers:
        reason = line.partition("#")[2].replace("noqa: BLE001", "")
        assert len(re.findall(r"\w+", reason)) >= 3, f"{path}: {line.strip()}"


def loose_types(tree: ast.AST) -> tuple[int, int]:
    """Casts, and parameters whose type has `Any` in it; those of `*args` are others' signatures."""
    casts = untyped = 0
    for node in ast.walk(tree):
        if isinstance(node, ast.Call):
            casts += getattr(node.func, "attr", getattr(node.func, "id", "")) == "cast"
        elif isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
            given = [*node.args.posonlyargs, *node.args.args, *node.args.kwonlyargs]
            types = [ast.unparse(one.annotation) for one in given if one.annotation]
            untyped += sum(bool(re.search(r"\bAny\b", kind)) for kind in types)
    return casts, untyped


@pytest.mark.slow
def test_casts_and_untyped_parameters_become_fewer() -> None:
    code = "def f(a: Any, *b: Any, c: list[Any], d: AnyDialect): return cast(int, t.cast(str, a))"
    assert loose_types(ast.parse(code)) == (2, 2)
    found = [loose_types(ast.parse(facts(path).text)) for path in FILES]
    assert (sum(casts for casts, _ in found), sum(n for _, n in found)) == (CASTS, UNTYPED)


def test_functions_are_small() -> None:
    lengths = sorted(lines for path in FILES for _, lines in facts(path).functions)
    assert lengths[len(lengths) // 2] <= 12
    assert lengths[int(len(lengths) * 0.9)] <= 40


def test_public_names() -> None:
    assert rods.__all__ == sorted(rods.__all__)
    assert all(getattr(rods, name) for name in rods.__all__)
    with pytest.raises(AttributeError, match="'nothing'"):
        _ = rods.nothing


@pytest.mark.slow
def test_import_is_light() -> None:
    code = (
        "import sys, time; start = time.process_time(); import rods, rods.config, rods.task;"
        "heavy = [m for m in ('torch', 'transformers', 'pyarrow') if m in sys.modules];"
        "assert not heavy, heavy; spent = time.process_time() - start; assert spent < 1.0, spent;"
        "import rods.cli.synth, rods.cli.inspect, rods.synthesis.collect,"
        " rods.integrations.observe, rods.integrations.formats.exports,"
        " rods.synthesis.worker.client, rods.envs.originals;"
        "assert 'torch' not in sys.modules, 'synthesis needs none'"
    )
    subprocess.run([sys.executable, "-c", code], check=True, timeout=120)


@pytest.mark.parametrize("host", ["trl", "verl"])
def test_adapters_are_under_300_lines_a_file(host: str) -> None:
    lines = {
        path.name: len(path.read_text().splitlines())
        for path in (SOURCE / "integrations" / host).glob("*.py")
    }
    assert lines and {name: n for name, n in lines.items() if n >= ADAPTER_LINES} == {}


def test_what_makes_the_bundled_policies_is_small_and_outside_of_the_package() -> None:
    files = sorted((SOURCE.parents[1] / "tools" / "pretrain").glob("*.py"))
    assert files and sum(len(facts(path).text.splitlines()) for path in files) <= TOOL_LINES
    for path in files:
        assert facts(path).docstring, path
        assert all(lines <= FUNCTION_LINES for _, lines in facts(path).functions), path
