"""The public names of `rods`: complete, lazy, and with the signatures that users rely on."""

from __future__ import annotations

import inspect
import re
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

import rods
from places import ROOT
from rods.abilities import Bounded, StepRule, Wrapper, ability, in_process
from rods.envs.bfcl.tasks import load_tasks
from rods.errors import ConfigError, StoreError
from rods.integrations.trl import grpo_args
from rods.store import RunDirectory
from rods.task import read_tasks, write_tasks
from rods.trajectory_codec import read_parquet

SIGNATURES = {
    "evaluate": "(config, run=None, progress, *, environment=None, tasks=None)",
    "hosted": "(config, drift=False)",
    "load_config": "(recipe='rods', profile='small', overrides=())",
    "synthesize": "(config, n, seeds=None, seed=0, *, environment=None, tasks=None)",
    "train": "(config, folder='', resume=None, start=None, *, drift=False, environment=None, "
    "tasks=None)",
    "Task": "(env, category, turns, world, provenance, dialogue=())",
    "Turn": "(user, ground_truth=(), withheld=())",
    "ToolCall": "(name, arguments)",
    "Score": "(value, parts, valid=True, reason=None, turns=())",
    "OnlineCurriculum": "(config, originals, synthesis=None)",
}
"""Names and plain defaults of parameters; a change here belongs into CHANGELOG.md."""
METHODS = {
    "Environment.open": "(self, task)",
    "Environment.tasks": "(self, held_out)",
    "Environment.load": "(self, path)",
    "Environment.part": "(self, tasks, held_out)",
    "Environment.warm_up": "(self)",
    "Environment.close": "(self)",
    "World.begin_turn": "(self, index)",
    "World.offered": "(self)",
    "World.call": "(self, call)",
    "World.end_turn": "(self)",
    "World.snapshot": "(self)",
    "World.close": "(self)",
}
"""Methods that a user's own environment and world define."""


def shown(function: object) -> str:
    words: list[str] = []
    starred = False
    for parameter in inspect.signature(function).parameters.values():  # type: ignore[arg-type]
        if parameter.kind is parameter.KEYWORD_ONLY and not starred:
            words.append("*")
            starred = True
        plain = isinstance(parameter.default, str | int | float | tuple | type(None))
        default = f"={parameter.default!r}" if plain else ""
        words.append(parameter.name + default)
    return f"({', '.join(words)})"


@pytest.mark.parametrize("name", rods.__all__)
def test_every_public_name_is_there(name: str) -> None:
    assert getattr(rods, name) is getattr(rods, name)
    assert name in dir(rods)


def test_the_list_is_sorted_and_complete() -> None:
    assert rods.__all__ == sorted(rods.__all__)
    assert set(rods.__all__) == {*rods._HOMES, "__version__"}
    with pytest.raises(AttributeError, match="module 'rods' has no attribute 'trian'"):
        _ = rods.trian  # type: ignore[attr-defined]


@pytest.mark.parametrize("name", sorted(SIGNATURES))
def test_signatures(name: str) -> None:
    assert shown(getattr(rods, name)) == SIGNATURES[name]


def test_methods_that_users_define_keep_their_signatures() -> None:
    kinds = {kind.__name__: vars(kind) for kind in (rods.Environment, rods.World)}
    found = {
        f"{owner}.{name}": shown(method)
        for owner, members in kinds.items()
        for name, method in members.items()
        if inspect.isfunction(method) and not name.startswith("_")
    }
    assert found == METHODS


@pytest.mark.slow
def test_a_path_may_be_text(tmp_path: Path) -> None:
    tasks = load_tasks()[:3]
    assert write_tasks(f"{tmp_path}/tasks.jsonl", tasks) == 3
    assert list(read_tasks(f"{tmp_path}/tasks.jsonl")) == tasks
    assert rods.load_config(Path("rods")) == rods.load_config("rods")
    (tmp_path / "there").mkdir()
    with pytest.raises(StoreError, match="there is no manifest"):
        RunDirectory.open(f"{tmp_path}/there")
    with pytest.raises(StoreError, match="no such file"):
        list(read_parquet(f"{tmp_path}/none.parquet"))
    with rods.hosted(rods.load_config("rods", "small", ["curriculum=static"])) as run:
        run.open(f"{tmp_path}/mine")
        assert run.curriculum.draw(1)
    with pytest.raises(StoreError, match="nowhere"):
        rods.train(rods.load_config(), resume=f"{tmp_path}/nowhere")
    with pytest.raises(StoreError, match=r"tasks\.jsonl"):
        rods.train(rods.load_config(), tmp_path / "tasks.jsonl")


@pytest.mark.parametrize(
    ("call", "said"),
    [
        (lambda c: rods.train("torl"), "expected what rods.load_config(...) returns."),
        (lambda c: rods.evaluate({"updates": 1}), "config: {'updates': 1}; expected what"),
        (
            lambda c: rods.synthesize(Path("a.toml"), 1),
            "expected what rods.load_config(...) returns.",
        ),
        (lambda c: rods.hosted("rods"), "expected what rods.load_config(...) returns."),
        (lambda c: rods.OnlineCurriculum("rods", []), "config: 'rods'; expected"),
        (lambda c: grpo_args("rods", "out"), "config: 'rods'; expected"),
        (lambda c: rods.train(c, tasks="a.jsonl"), "tasks: 'a.jsonl'; expected a list of"),
        (lambda c: rods.evaluate(c, tasks=[{}]), "list(rods.task.read_tasks(FILE))."),
        (lambda c: rods.synthesize(c, 1, Path("a")), "seeds: PosixPath('a'); expected"),
        (lambda c: rods.train(c, environment="bfcl"), "'bfcl'; a name goes into env.name."),
    ],
)
def test_an_argument_of_another_type_is_refused_in_words(
    call: Callable[[rods.RunConfig], object], said: str
) -> None:
    with pytest.raises(ConfigError, match=re.escape(said)):
        call(rods.load_config())


def test_public_functions_take_paths_as_text_too() -> None:
    """No parameter of the API pages is a `Path` alone, but where RODS calls your method."""
    pages = "".join(p.read_text() for p in sorted((ROOT / "docs/reference/api").glob("*.md")))
    typed = re.findall(r"(?:^|[(, ])(\w+): (Path\b[^,)]*)", pages, re.MULTILINE)
    assert [f"{name}: {kind}" for name, kind in typed] == ["path: Path"], "Environment.load"


def test_an_environment_has_at_most_eight_members() -> None:
    kind = rods.Environment
    members = {n for n in {**vars(kind), **kind.__annotations__} if not n.startswith("_")}
    assert members == {"name", "blocking", "open", "tasks", "load", "part", "warm_up", "close"}
    with pytest.raises(TypeError, match=r"abstract method '?open"):
        kind()  # type: ignore[abstract]


def test_an_ability_is_found_through_wrappers_and_nowhere_else() -> None:
    class Knows(rods.Environment):
        name = "knows"
        gives_up = True

        def open(self, task: rods.Task) -> rods.World:
            raise AssertionError("no world is opened")

    class Around(rods.Environment, Wrapper[rods.Environment]):
        name = "around"
        capacity = 3

        def open(self, task: rods.Task) -> rods.World:
            return self.inner.open(task)

    inner = Knows()
    outer = Around(Around(inner))
    assert ability(outer, StepRule) is ability(inner, StepRule) is inner
    assert ability(outer, Bounded) is outer and ability(inner, Bounded) is None
    assert in_process(outer) is in_process(inner) is inner


def test_importing_rods_imports_nothing_heavy() -> None:
    code = (
        "import sys, rods; print([m for m in ('torch', 'pydantic', 'numpy') if m in sys.modules])"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "[]"


def test_the_package_says_that_it_is_typed() -> None:
    assert (Path(rods.__file__).parent / "py.typed").is_file()


@pytest.mark.slow
def test_variants_are_synthesized_from_python() -> None:
    config = rods.load_config()
    made = rods.synthesize(config, 3, seed=5)
    assert len(made) == 3 and all(not task.is_original for task in made)
    assert rods.synthesize(config, 3, seed=5) == made


@pytest.mark.slow
def test_a_model_is_evaluated_from_python() -> None:
    small = ["evaluation.tasks=1", "evaluation.variants=0", "evaluation.samples=1"]
    rows = rods.evaluate(rods.load_config("rods", "small", small))
    assert len(rows) == 1 and rows[0]["task_id"]
