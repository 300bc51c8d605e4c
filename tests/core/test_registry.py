"""Names in settings: what a user brings by `module:attribute` works like ours, for every kind."""

from __future__ import annotations

import re
import sys
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from oracle import OraclePolicy
from places import SUPPORT
from rods.abilities import CallBound, ability
from rods.assemble.refusals import require_named
from rods.config import load_config
from rods.dialects import DIALECTS, get_dialect
from rods.envs import ENVIRONMENTS, make_environment
from rods.envs.remote.processes import ProcessEnvironment, local
from rods.errors import ConfigError
from rods.rewards import REWARDS, get_reward, rewards_of
from rods.synthesis.rejection import Rejection
from rods.synthesis.writer import WriterOptions
from rods.trajectory import Group
from rods.types import ToolCall
from rods.writers import WRITERS, make_writer
from rollout_cases import TEMPLATE, play
from worlds import NotesEnvironment, notes_task

TASK = notes_task([("Add 1.", [ToolCall("add", {"amount": 1})])])
MODULE = """
import random
from rods.dialects.pythonic import Pythonic
from rods.reward import Score
from rods.synthesis.rejection import ErrorClass, Rejection
from rods.synthesis.writer import Writer
from worlds import NotesEnvironment


class Shouting(Pythonic):
    def parse(self, text, offered, truncated):
        return super().parse(text.removesuffix("!"), offered, truncated)

    def write(self, calls):
        return super().write(calls) + "!"


class Shelf(NotesEnvironment):
    pass


def solved_twice(task, trajectory):
    return Score(2.0 * trajectory.solved)


class Paid:
    def __init__(self, each=3.0):
        self.each = each

    def __call__(self, task, trajectory):
        return Score(self.each)


class Lazy(Writer):
    name = "lazy"

    def __init__(self, pool, environment, options):
        self.options = options

    def propose(self, seed, rng, history=()):
        return Rejection("writer", ErrorClass.PIPELINE_EXCEPTION, "not today")


class Half:
    name = "half"

    def __init__(self, pool, environment):
        pass


NUMBER = 3
"""


@pytest.fixture
def mine(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """A user's module `mine` in the working directory."""
    (tmp_path / "mine.py").write_text(MODULE)
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(sys, "path", [*sys.path])
    yield
    sys.modules.pop("mine", None)


@pytest.mark.usefixtures("mine")
def test_a_users_dialect_plays() -> None:
    chosen = load_config("rods", "small", ["model.dialect=mine:Shouting"]).model.dialect
    played = play(TASK, OraclePolicy(TASK, get_dialect(chosen), TEMPLATE), dialect=chosen)
    assert played.solved
    assert "[add(amount=1)]!" in [step.text for step in played.steps]


@pytest.mark.usefixtures("mine")
def test_a_users_environment_reward_and_writer_work() -> None:
    environment = make_environment("mine:Shelf")
    assert isinstance(environment, NotesEnvironment) and ability(environment, CallBound) is None
    writer = make_writer("mine:Lazy", [TASK], environment, 0.5)
    assert writer.name == "lazy+resample" and writer.usage() == {}
    alone = make_writer("mine:Lazy", [TASK], environment)
    assert isinstance(alone.options, WriterOptions)  # type: ignore[attr-defined]
    assert isinstance(alone.propose(TASK, None), Rejection)  # type: ignore[arg-type]
    played = play(TASK, OraclePolicy(TASK, get_dialect("pythonic"), TEMPLATE))
    group = Group(TASK, [played], 0)
    assert [s.value for s in rewards_of().score_group("mine:solved_twice", group)] == [2.0]
    [paid] = rewards_of({"mine:Paid": {"each": 5.0}}).score_group("mine:Paid", group)
    assert paid.value == 5.0


@pytest.mark.usefixtures("mine")
@pytest.mark.parametrize(
    ("find", "name", "said"),
    [
        (get_dialect, "hermis", r"model\.dialect: .* Did you mean 'hermes'\? Known: pythonic"),
        (make_environment, "serch", r"env\.name: .* Did you mean 'search'\?"),
        (get_reward, "acuracy", r"stages\.N\.reward: .* Did you mean 'accuracy'\?"),
        (lambda name: make_writer(name, [], NotesEnvironment()), "grap", "Did you mean 'graph'"),
        (
            lambda name: make_writer(name, [], NotesEnvironment()),
            "graph,resample",
            r"To mix two: --writer graph --synthesis\.resample\.share 0\.5\. Known",
        ),
        (get_dialect, "mine:Nothing", "has no 'Nothing'"),
        (get_dialect, "mine:Paid", r"has no 'answer', .*parse.* Derive it from rods\.dialects"),
        (get_reward, "mine:NUMBER", "is a int; expected a function or a class"),
        (make_environment, "nowhere:Shelf", "No module named 'nowhere'"),
        (lambda name: make_writer(name, [], NotesEnvironment()), "mine:Half", "has no .*propose"),
    ],
)
def test_what_is_not_there_is_refused_by_name(
    find: Callable[[str], object], name: str, said: str
) -> None:
    with pytest.raises(ConfigError, match=said):
        find(name)


@pytest.mark.usefixtures("mine")
@pytest.mark.parametrize("file", ["./mine.py", "mine.py", "{folder}/mine.py", "deep/er/other.py"])
def test_a_file_is_named_by_its_path(file: str, tmp_path: Path) -> None:
    (tmp_path / "deep" / "er").mkdir(parents=True)
    (tmp_path / "deep" / "er" / "beside.py").write_text("HEIGHT = 3\n")
    (tmp_path / "deep" / "er" / "other.py").write_text(f"from beside import HEIGHT\n{MODULE}")
    name = file.format(folder=tmp_path)
    environment = make_environment(f"{name}:Shelf")
    assert isinstance(environment, NotesEnvironment)
    assert type(environment) is ENVIRONMENTS.find(f"{name}:Shelf"), "loaded once"
    assert make_writer(f"{name}:Lazy", [TASK], environment).name == "lazy"
    assert get_dialect(f"{name}:Shouting").write([ToolCall("add")]).endswith("!")
    played = play(TASK, OraclePolicy(TASK, get_dialect("pythonic"), TEMPLATE))
    [paid] = rewards_of().score_group(f"{name}:Paid", Group(TASK, [played], 0))
    assert paid.value == 3.0
    assert "mine" not in sys.modules or not file.startswith("deep")


UNHINTED = """
from rods.envs.tool_classes import ToolClasses
class Desk:
    def book(self, room): ...
x = ToolClasses("desk", [Desk])
"""


@pytest.mark.usefixtures("mine")
@pytest.mark.parametrize(
    ("content", "said"),
    [
        (None, " cannot be imported: there is no file .*broken.py. Modules are looked for"),
        ("from . import other", ": ImportError at broken.py:1: attempted relative import .*"),
        ("x = (", r": SyntaxError: .*was never closed \(broken.py, line 1\): x = \(\.$"),
        ("import nowhere", r": ModuleNotFoundError at broken.py:1: No .* 'nowhere'\.$"),
        ("\nclass Desk:\n  x: int = Nothing", r": NameError at broken.py:3: .*'Nothing'"),
        ("def f():\n  return 1 / 0\nf()", r": ZeroDivisionError at broken.py:2: division"),
        ("import json\njson.loads(3)", r": TypeError at broken.py:2: the JSON object"),
        ("raise SystemExit(2)", r": SystemExit at broken.py:1: 2\.$"),
        ("import os\nrooms = 3", r": ./broken\.py has no 'x'\. It has 'rooms'\.$"),
        ("from __future__ import annotations\nx_s = 3", r".*It has 'x_s'\.$"),
        ("xs = 3", r": ./broken\.py has no 'x'\. It has 'xs'\.$"),
        ("", r": ./broken\.py has no 'x'\. It has no names\.$"),
        ("raise ValueError('odd.')", r": ValueError at broken.py:1: odd\.$"),
        (UNHINTED, r": class Desk, method book, parameter room: .*"),
    ],
)
@pytest.mark.parametrize("find", [make_environment, get_dialect, get_reward, WRITERS.find])
def test_a_file_that_cannot_be_loaded_is_named(
    find: Callable[[str], object], content: str | None, said: str, tmp_path: Path
) -> None:
    if content is not None:
        (tmp_path / "broken.py").write_text(content)
    with pytest.raises(ConfigError, match=rf"'./broken.py:x'{said}") as caught:
        find("./broken.py:x")
    assert content is None or "Modules are" not in str(caught.value)
    way = "or FILE\\.py:attribute of your own" if content is None else "is a file\\. Add the name"
    with pytest.raises(ConfigError, match=way):
        find("./broken.py")


@pytest.mark.parametrize("module", ["./mine", "./deep", "../mine", "deep/mine", "mine.py:", "my-m"])
@pytest.mark.parametrize("find", [make_environment, get_dialect, get_reward, WRITERS.find])
def test_what_is_neither_a_module_nor_a_file_is_named(
    find: Callable[[str], object], module: str
) -> None:
    said = f"'{module}:x' cannot be imported: '{module}' is neither a module nor a .py file."
    with pytest.raises(ConfigError, match=f"{re.escape(said)} .*FILE\\.py:attribute"):
        find(f"{module}:x")


def test_a_file_that_was_corrected_is_loaded(tmp_path: Path) -> None:
    """In a notebook, the process goes on after the mistake."""
    file = tmp_path / "own.py"
    file.write_text(f"{MODULE}\nraise ValueError('odd')")
    with pytest.raises(ConfigError, match=r"ValueError at own\.py:\d+: odd"):
        make_environment(f"{file}:Shelf")
    file.write_text(f"{MODULE}\nCORRECTED = 1\n")
    assert make_environment(f"{file}:Shelf").name == "notes"
    assert ENVIRONMENTS.find(f"{file}:CORRECTED") == 1


@pytest.mark.slow
@pytest.mark.usefixtures("mine")
def test_processes_of_worlds_find_a_file(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PYTHONPATH", str(SUPPORT))
    name = "./mine.py:Shelf"
    environment = ProcessEnvironment(make_environment(name), local(name, {}), 1, 20.0)
    try:
        world = environment.open(TASK)
        world.begin_turn(0)
        assert world.call(ToolCall("add", {"amount": 1})).content == "1"
        world.close()
    finally:
        environment.close()


@pytest.mark.parametrize(
    ("overrides", "said"),
    [
        (
            ["env.name=__main__:hub"],
            "env.name = '__main__:hub': .*synthesis worker is another process.*FILE.py:hub",
        ),
        (
            ["env.name=__main__:hub", "curriculum=static", "rollout.worlds.processes=2"],
            "env.name = '__main__:hub': .*each process of worlds is another process.*FILE.py:hub",
        ),
        (["synthesis.writer=__main__:mine"], "synthesis.writer = '__main__:mine': .*FILE.py:mine"),
        (
            ["env.name=function_call", "env.function_call.environment=__main__:hub"],
            "env.name = '__main__:hub'",
        ),
    ],
)
def test_what_a_notebook_holds_is_refused_before_another_process_needs_it(
    overrides: list[str], said: str
) -> None:
    with pytest.raises(ConfigError, match=said):
        require_named(load_config("rods", "small", overrides))


def test_a_notebooks_environment_trains_where_no_other_process_needs_it() -> None:
    require_named(load_config("rods", "small", ["env.name=__main__:hub", "curriculum=static"]))


def test_every_short_name_means_something() -> None:
    for registry in (DIALECTS, ENVIRONMENTS, REWARDS, WRITERS):
        assert all(callable(registry.find(name)) for name in registry)


def test_a_name_that_no_file_can_have_is_refused_as_unknown() -> None:
    with pytest.raises(ConfigError, match="there is no environment 'xxx"):
        make_environment("x" * 300)
