"""Pages say what the code has: metrics, exit codes, files, tasks, messages; their Python runs."""

from __future__ import annotations

import ast
import importlib.util
import itertools
import json
import re
import shlex
import sys
import tomllib
from dataclasses import replace
from inspect import isfunction, signature
from pathlib import Path
from types import ModuleType, SimpleNamespace
from typing import Any, get_args

import pytest
import torch
from api_page import PURPOSES, definition, entries, meanings
from reference_pages import PAGES
from settings_page import NAMED

import rods
from places import ROOT, SOURCE
from pool_cases import originals
from rods import errors
from rods.assemble import growth
from rods.config import RunConfig, load_config
from rods.config.checks import HostTrainer
from rods.curriculum.draws import Lease
from rods.dialects import DIALECTS
from rods.engines import ENGINES
from rods.envs import ENVIRONMENTS
from rods.envs.originals import split_tasks
from rods.evaluation.grid import (
    OFFLINE,
    _File,  # pyright: ignore[reportPrivateUsage]
)
from rods.evaluation.suite import row_of
from rods.evaluation.tool_metrics import step_metrics
from rods.infra.checkpoints import LATEST, MARK
from rods.infra.dotted import flat
from rods.infra.files import LineLog
from rods.integrations.trl.args import HOST as TRL
from rods.integrations.verl.checks import HOST as VERL
from rods.records import epoch_record, step_record
from rods.reward import Score, score
from rods.rewards import REWARDS
from rods.rewards.filters import FILTERS
from rods.store import MANIFEST, METRICS
from rods.task import Task, write_tasks
from rods.trainers.collect import Batch
from rods.trainers.hosted import Drawn
from rods.trainers.reports import UpdateSums, make_report
from rods.trajectory import Group
from rods.trajectory_codec import write_parquet
from rods.types import ToolCall
from rods.writers import WRITERS
from rollout_cases import play, script
from worlds import notes_task

REFERENCE = ROOT / "docs" / "reference"


def page(name: str) -> str:
    return (REFERENCE / f"{name}.md").read_text(encoding="utf-8")


def api() -> list[str]:
    """The pages of the Python API, without their index."""
    return [page(f"api/{name}") for name in PURPOSES]


def blocks(text: str) -> list[str]:
    """The Python of a page."""
    return re.findall(r"```python\n(.*?)```", text, re.S)


def first_cells(text: str) -> list[str]:
    """Names in code marks of the first column of all tables."""
    rows = re.findall(r"^\| (`[^|]*`) \|", text, re.M)
    return [name for row in rows for name in re.findall(r"`([^`]+)`", row)]


@pytest.mark.slow
@pytest.mark.parametrize("name", PAGES)
def test_pages_made_from_the_code_are_current(name: str) -> None:
    current = PAGES[name]() == (REFERENCE / name).read_text(encoding="utf-8")
    assert current, f"run `python tools/docs/reference_pages.py`: docs/reference/{name} is old"


@pytest.mark.parametrize("key", sorted(NAMED))
def test_a_setting_that_takes_a_name_lists_the_names(key: str) -> None:
    [row] = re.findall(rf'^\| <a id="{re.escape(key)}"></a>.*$', page("settings"), re.M)
    values = re.split(r"(?<!\\)\|", row)[3]
    known, beside = NAMED[key]
    assert {*known} <= set(re.findall(r"`([\w-]+)`", values)) and beside in values
    assert not values.strip().startswith("text") and len([*known]) > 2


def test_no_other_setting_of_a_registry_is_shown_as_text() -> None:
    """A registry names the setting that its names belong to."""
    kinds = (DIALECTS, ENGINES, ENVIRONMENTS, WRITERS, FILTERS, REWARDS)
    settings = {str(vars(kind)["_setting"]) for kind in kinds}
    assert settings <= {*NAMED}


def test_metrics_of_the_page_are_logged() -> None:
    """A name is a field of a report, or a literal where records are made."""
    places = ("records.py", "trainers/reports.py", "evaluation/tool_metrics.py")
    places += ("rollout/schedule.py", "curriculum/replay.py")
    files = [SOURCE / name for name in places]
    text = "\n".join(path.read_text(encoding="utf-8") for path in files)
    named = first_cells(page("metrics"))
    assert len(named) > 25
    assert not [n for n in named if not re.search(rf'"{n}"|^    {n}:|^    {n} =', text, re.M)]


def test_each_metric_of_the_page_has_a_normal_range() -> None:
    """Each table has the column, and no cell of it is empty."""
    rows = [
        line.strip("| ").split(" | ") for line in page("metrics").splitlines() if line[:1] == "|"
    ]
    heads = [row for row in rows if row[0].startswith("metric")]
    values = [row for row in rows if row[0].startswith("`")]
    assert len(heads) == 4 and {row[-1] for row in heads} == {"what is normal"}
    assert len(values) > 55 and not [row for row in values if len(row) != 3 or len(row[2]) < 1]


def test_each_curve_of_the_report_is_explained() -> None:
    curves = tomllib.loads((SOURCE / "report" / "curves.toml").read_text(encoding="utf-8"))
    charts = [chart for name in ("learning", "tool", "schedule") for chart in curves[name]]
    keys = {curve[0] for chart in charts for curve in chart["curves"]}
    named = set(re.findall(r"`(\w+)`", page("metrics")))
    assert len(keys) > 20 and {key.removeprefix("schedule.") for key in keys} <= named


def test_counts_of_the_pool_are_logged() -> None:
    """The table has a row for each key of `curriculum.metrics()`, and for nothing else."""
    config = load_config("rods", "small", ["curriculum=static"])
    curriculum = rods.OnlineCurriculum(config, split_tasks(config.env).train)
    curriculum.draw(1)
    text = page("metrics").partition("metric in `buffer`")[2]
    assert sorted(first_cells(text)) == sorted(curriculum.metrics())


def test_every_field_of_update_and_epoch_rows_is_explained() -> None:
    """Keys of real records; the objects inside have tables of their own."""
    config = load_config("rods", "small", ["curriculum=static"])
    curriculum = rods.OnlineCurriculum(config, split_tasks(config.env).train)
    epoch = curriculum.start_epoch()
    task = notes_task([("Add two.", [ToolCall("add", {"amount": 2})])])
    groups = [Group(task, [play(task, script("[add(amount=2)]", "Done."))], 0)]
    scores = [[Score(1.0, {"correct": 1.0})]]
    parts: Any = SimpleNamespace(
        trainer=SimpleNamespace(step=1), synthesis=None, metrics=lambda g, s: step_metrics(g, s)
    )
    drawn = [SimpleNamespace(drawn=SimpleNamespace(epoch=0, wrapper=None))]
    rolled: Any = SimpleNamespace(
        groups=groups, scores=scores, scored=drawn, seconds=1.0, metrics={}
    )
    report = make_report(Batch(1, 0, 1, 0), UpdateSums(), step=1, version=1, lr=0.1, seconds=1.0)
    keys = {*step_record(parts, curriculum, rolled, [], report)}
    keys |= {*epoch_record(parts, curriculum, epoch)}
    assert len(keys) > 60
    assert sorted(keys - set(re.findall(r"`(\w+)`", page("metrics")))) == []


def test_exit_codes_name_every_error() -> None:
    classes = [v for v in vars(errors).values() if isinstance(v, type)]
    known = {c.__name__ for c in classes if issubclass(c, errors.RodsError)} - {"RodsError"}
    assert {n for n in first_cells(page("exit-codes")) if n.endswith(("Error", "ted"))} == known


def test_exit_codes_are_those_of_the_program() -> None:
    text = "\n".join(p.read_text(encoding="utf-8") for p in (SOURCE / "cli").glob("*.py"))
    found = set(re.findall(r"(?:sys\.exit|typer\.Exit)\((\d+)\)", text))
    assert found == set(re.findall(r"^\| (\d+)[ ,|]", page("exit-codes"), re.M)) - {"0"}


def test_files_of_a_run_are_those_that_are_written(tmp_path: Path) -> None:
    text = page("run-folder")
    assert {MANIFEST, METRICS, f"checkpoint/{LATEST}", "report.html"} <= set(first_cells(text))
    loop = (SOURCE / "loop.py").read_text(encoding="utf-8")
    saved = [MARK, *re.findall(r'folder / "([\w.]+)"', loop)]
    assert len(saved) > 2 and not [name for name in saved if not re.search(rf"`[^`]*{name}", text)]
    kinds = set(re.findall(r"^\* `(\w+)`:", text, re.M))
    sources = (SOURCE / "records.py", SOURCE / "loop.py")
    logged = "\n".join(path.read_text(encoding="utf-8") for path in sources)
    assert kinds == set(re.findall(r'"kind": "(\w+)"', logged))
    (tmp_path / MANIFEST).write_text('{"rods": "0.1.0", "digest": "", "config": {}}')
    log = LineLog(tmp_path / METRICS)
    log.append({"kind": "step", "reward_mean": 0.5})
    names: dict[str, Any] = {}
    [block] = re.findall(r"```python\n(.*?)```", text, re.S)
    exec(block, names)
    assert names["rewards"](str(tmp_path)) == [0.5]


def test_the_task_of_the_page_is_read_and_each_key_is_explained() -> None:
    [block] = re.findall(r"```json\n(.*?)```", page("task-format"), re.S)
    task = Task.from_json(json.loads(block))
    assert task.provenance.origin == "desk_1"
    row: Any = task.to_json()
    keys = {key for key in row if key not in ("turns", "provenance")} | {"dialogue"}
    keys |= {f"turns[].{key}" for key in row["turns"][0]}
    keys |= {f"provenance.{key}" for key in (*row["provenance"], "review")}
    assert set(first_cells(page("task-format"))) == keys


def test_the_index_says_where_guides_import_names_from() -> None:
    (stated,) = re.findall(r"from a module: (.*?)\. Both paths", page("api/index"), re.S)
    for place, home in re.findall(r"(`[^.]+?`) from `(rods\.\w+)`", " ".join(stated.split())):
        for name in re.findall(r"`(\w+)`", place):
            assert getattr(rods, name) is getattr(importlib.import_module(home), name)
    homes = ("rods.task", "rods.types", "rods.reward", "rods.env")
    names = {name for name, home in rods._HOMES.items() if home in homes}  # pyright: ignore
    assert set(re.findall(r"`(\w+)`", stated)) == names


def test_the_python_of_the_api_pages_runs(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """Blocks of a page share their names; the calls that take minutes return at once."""
    monkeypatch.chdir(tmp_path)
    world = notes_task([("Add two.", [ToolCall("add", {"amount": 2})])])
    short, none = (
        play(world, script(*texts)) for texts in (("[add(amount=2)]", "Done."), ("No.",))
    )
    rows = [row_of(Group(world, [tried], 0), None) for tried in (short, none)]
    monkeypatch.setattr("rods.assemble.train", lambda config: SimpleNamespace(path=tmp_path))
    monkeypatch.setattr("rods.assemble.library.evaluate", lambda config, path: rows)
    monkeypatch.setattr("rods.assemble.library.synthesize", lambda config, n: [])
    names: dict[str, Any] = {}
    for text in api():
        own: dict[str, Any] = {"__name__": "__main__"}
        for block in blocks(text):
            exec(block, own)
        names |= own
    task = names["task"]
    assert names["progress"] == 0.5 and len(names["solved"]) == 1 and names["config"].updates == 10
    shown = capsys.readouterr().out.splitlines()
    called = '{"room_id": "R-3", "hours": 2} True'
    rooms = "{'rooms': {'R-3': {}}}"
    written = names["dialect"].write([names["book"]]).splitlines()
    types = ["calls (book_room(room_id='R-3'),)", "0 ('Desk',) True no call"]
    first = [f"['{task.id}']", called, "1 True", rooms, "True 1.0", "ok 42", *written]
    assert shown == [*first, *types]
    assert "book_room" in shown[-4]
    faults = {"malformed": 0, "cut": 0, "failed": 0, "unfinished": 0}
    assert names["faults"](short) == faults
    assert names["sampled_tokens"](short) == sum(step.tokens for step in short.steps)
    judged = [SimpleNamespace(task_id=name, phi=phi) for name, phi in (("a", 0.2), ("b", 1.0))]
    assert names["by_priority"](judged) == ["b", "a"]
    assert names["epochs"]([Lease(task, 2), Drawn(task, 3, 0, False)]) == {2, 3}
    assert names["trained_tokens"](Batch(1, 0, 2, 0)) == 0
    (tmp_path / MANIFEST).write_text('{"rods": "0.1.0", "digest": "", "config": {}}')
    LineLog(tmp_path / METRICS).append({"kind": "step", "reward_mean": 0.25})
    assert names["last_reward"](str(tmp_path)) == 0.25
    long = play(world, script("[total()]", "[add(amount=2)]", "Done."))
    assert names["progress_and_length"](world, short).value == 0.98
    assert names["progress_and_length"](world, none).value == 0.0, "the boundary refuses less"
    scores = names["ShortestSolution"]().score_group(Group(world, [short, none, long], 0))
    assert [score.value for score in scores] == [1.0, 0.0, 0.5]
    prompt, completion = names["prompt_and_completion"](short)
    assert prompt + completion == short.ledger.ids[: len(prompt) + len(completion)]
    (tmp_path / "trajectories").mkdir()
    write_parquet(tmp_path / "trajectories" / "step-000001.parquet", [short, none])
    assert names["share_solved"](str(tmp_path)) == 0.5
    outcome = names["Bookings"]().score(world, short)
    assert outcome.right and names["Bookings"]().tasks() == [task]


@pytest.mark.slow
@pytest.mark.usefixtures("worker_thread")
def test_the_loop_of_the_api_page_judges_tasks(tmp_path: Path) -> None:
    [block] = [code for code in blocks(page("api/loops")) if "def judge_four_tasks" in code]
    names: dict[str, Any] = {}
    exec(block, names)
    state = names["judge_four_tasks"](str(tmp_path / "run"))
    assert json.loads(json.dumps(state)) == state


@pytest.mark.slow
@pytest.mark.usefixtures("worker_thread")
def test_the_examples_of_another_loop_draw_and_return_tasks(tmp_path: Path) -> None:
    tree = ast.parse("\n".join(blocks(page("api/loops"))))
    wanted = ("first_task", "give_back")
    code = [node for node in tree.body if isinstance(node, ast.FunctionDef) and node.name in wanted]
    names: dict[str, Any] = {"rods": rods, "Path": Path}
    exec("\n".join(map(ast.unparse, code)), names)
    assert names["first_task"](str(tmp_path / "run")).env == "bfcl"
    with rods.hosted(load_config("rods", "small", ["updates=2"])) as run:
        run.open(tmp_path / "again")
        names["give_back"](run.curriculum, 3)
        first = [lease.task.id for lease in run.curriculum.draw(3)]
        assert len(set(first)) == 3


def test_each_entry_of_an_api_page_is_in_an_example_of_the_page() -> None:
    for text in api():
        code = "\n".join(blocks(text))
        for name, _ in entries(text):
            word = name.rpartition(".")[2]
            assert re.search(rf"\b{word}\b", code), f"{name} has no example"


@pytest.mark.parametrize("name", sorted(n for n in rods.__all__ if n.islower() and n[0] != "_"))
def test_each_argument_of_a_public_function_has_a_meaning(name: str) -> None:
    named = set(signature(getattr(rods, name)).parameters)
    assert named == set(meanings(definition(f"rods.{name}")))


def found(name: str) -> Any:
    """The object at a dotted name."""
    module, _, attribute = name.rpartition(".")
    kind = module.rpartition(".")[2][:1].isupper()
    return getattr(found(module) if kind else importlib.import_module(module), attribute)


def test_the_index_has_a_line_for_each_name_and_begins_with_those_of_the_package() -> None:
    index = re.findall(r"^\| \[`([\w.]+)`\]\((\w+)\.md#\1\) \| \w", page("api/index"), re.M)
    there = [
        (name, where)
        for where, text in zip(PURPOSES, api(), strict=True)
        for name, _ in entries(text)
    ]
    assert sorted(index) == sorted(there)
    public = {f"rods.{name}" for name in rods.__all__} - {"rods.__version__"}
    assert {name for name, _ in index[: len(public)]} == public


WITHOUT_ENTRY = {
    "ABC", "Any", "False", "Iterable", "Iterator", "Literal", "Mapping", "None",
    "Path", "Protocol", "Self", "Sequence", "StrEnum", "True",
    "Bools", "Floats", "Ints", "Json", "Limit", "Progress", "Region", "Role", "Status",
    "Value", "Wrap", "MIB", "Estimates", "RolloutSettings", "Start",
    "ChatTemplate", "Policy", "SynthesisQueue", "ToolWorld", "Weights", "Ledger",
    "Interrupted", "NDArray",
}  # fmt: skip
"""Names of Python; aliases and constants; settings; what RODS makes and a caller only passes on."""


DEFINED = (ast.FunctionDef, ast.AsyncFunctionDef, ast.ClassDef)
LISTED = re.compile(r"^(?:\|| *\*) `(?:await )?(\w+)", re.M)
"""Arguments, fields and members of entries."""
KINDS = re.compile(r"^\| `\w+` \| `(.*?)` \||^\*\*Returns:\*\* `(.*?)`|^\* `(\w.*?)`:", re.M)
"""Types of arguments, of results and of methods."""


def test_entries_name_nothing_of_their_module_that_no_page_has() -> None:
    """`observe` once stood in an entry, and readers looked for it in vain."""
    there = WITHOUT_ENTRY | {n.rpartition(".")[2] for text in api() for n, _ in entries(text)}
    there |= {name for text in api() for name in LISTED.findall(text)}
    entered = [entry for text in api() for entry in SHOWN.findall(text)]
    assert len(entered) > 50
    for name, _, words in entered:
        home, _, last = name.rpartition(".")
        home = rods._HOMES[last] if home == "rods" else home  # pyright: ignore
        spec = importlib.util.find_spec(re.sub(r"\.[A-Z]\w*$", "", home))  # of a method's class
        assert spec and spec.origin, home
        tree = ast.parse(Path(spec.origin).read_text(encoding="utf-8"))
        known = {node.name for node in ast.walk(tree) if isinstance(node, DEFINED)}
        known |= {n.id for n in ast.walk(tree) if isinstance(n, ast.Name) and n.id.isupper()}
        lost = set(re.findall(r"`(\w+)(?:\(\))?`", words)) & known - there
        assert not lost, f"{name}: {lost}"


def test_types_in_signatures_have_an_entry() -> None:
    entered = {name.rpartition(".")[2] for text in api() for name, _ in entries(text)}
    shown = ["".join(row) for text in api() for row in KINDS.findall(text)]
    shown += [entry for text in api() for _, entry, _ in SHOWN.findall(text)]
    named = set(re.findall(r"\b[A-Z][A-Za-z]+\b(?<!Error)", "\n".join(shown)))
    assert len(named & entered) > 20 and named - entered <= WITHOUT_ENTRY


def test_short_names_of_types_are_those_of_the_code() -> None:
    table = page("api/types").partition("## Short names of types")[2]
    rows = re.findall(r"^\| (`.+`) \| `([\w.]+)` \| (.+) \|$", table, re.M)
    assert len(rows) > 10
    for names, module, meaning in rows:
        for name in re.findall(r"\w+", names):
            values = get_args(getattr(importlib.import_module(module), name))
            if values and isinstance(values[0], str):
                assert re.findall(r"`(\w+)`", meaning) == [v for v in values if v]


def test_a_page_of_the_api_is_short() -> None:
    assert max(len(text.splitlines()) for text in [page("api/index"), *api()]) < 350


def test_names_of_the_api_pages_exist_and_cover_the_public_ones() -> None:
    named = [name for text in api() for name, _ in entries(text)]
    assert len(named) == len({*named})
    for name in named:
        assert ast.get_docstring(definition(name)), name
        if name != "rods.integrations.trl.CurriculumGRPOTrainer":  # that one needs TRL
            assert found(name).__doc__, name
    public = {*rods.__all__} - {"__version__"}
    assert public <= {name.rpartition(".")[2] for name in named}


SHOWN = re.compile(
    r"^## <a id=\"[^\"]+\"></a>`(\S+)`\n\n```text\n(.*?)```(.*?)<!-- end", re.M | re.S
)
"""An entry of an API page: name, signature, and the text behind it."""


EXAMPLE = re.compile(
    r"<!-- ::: rods\.(\w+)\n((?!<!-- end).)*?<!-- end of the entry -->\n\n\*\*Example", re.S
)


def test_each_public_name_has_an_example_of_its_own() -> None:
    shown = {found[1] for text in api() for found in EXAMPLE.finditer(text)}
    assert shown == {*rods.__all__} - {"__version__"}


def test_the_api_pages_have_every_argument_with_type_and_default() -> None:
    """`inspect` reads the imported code; the pages are made from the source's text."""
    shown = [entry for text in api() for entry in SHOWN.findall(text)]
    assert len(shown) > 30 and shown[0][0] == "rods.train" and "…" not in "".join(api())
    for name, entry, text in shown:
        if name == "rods.integrations.trl.CurriculumGRPOTrainer":  # that one needs TRL
            continue
        if not isfunction(found(name)) or found(name).__qualname__ != found(name).__name__:
            continue
        for argument in signature(found(name)).parameters.values():
            written = re.search(rf"{argument.name}: ([^=\n]+?)(?: = (.+?))?(?:,\n|, |\))", entry)
            assert written, (name, argument)
            kind = written[1].replace("|", "\\|")
            row = re.search(rf"^\| `{argument.name}` \| `(.+?)` \| .+ \| \w.+ \|$", text, re.M)
            assert row and row[1] == kind, (name, argument)
            default = argument.default
            assert (written[2] is None) == (default is argument.empty), (name, argument)
            if isinstance(default, str | int | float | bool | None):
                assert written[2] == repr(default), (name, argument)


# -- code and messages of guides -----------------------------------------------------------------

DOCS = ROOT / "docs"


def names_of(name: str) -> dict[str, Any]:
    """What the Python of a page defines."""
    text = (DOCS / name).read_text(encoding="utf-8")
    names: dict[str, Any] = {}
    for block in re.findall(r"```python\n(.*?)```", text, re.S):
        exec(block, names)
    return names


def test_the_reward_of_the_guide_gives_a_score() -> None:
    names: dict[str, Any] = {}
    exec(blocks((DOCS / "guides" / "rewards.md").read_text(encoding="utf-8"))[0], names)
    thrifty = names["thrifty"]
    task = notes_task([("Add two.", [ToolCall("add", {"amount": 2})])])
    right = score(thrifty, task, play(task, script("[add(amount=2)]", "Done.")))
    extra = score(thrifty, task, play(task, script("[add(amount=2), total()]", "Done.")))
    assert (right.value, extra.value) == (1.0, 0.95) and extra.parts["extra_calls"] == 1
    wrong = score(thrifty, task, play(task, script("[total()]", "[total()]", "Done.")))
    assert wrong.value == 0.0, "the boundary takes rewards between 0 and 1 alone"


def test_the_scores_of_the_guide_are_printed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    reward, again = blocks((DOCS / "guides" / "rewards.md").read_text(encoding="utf-8"))
    task = notes_task([("Add two.", [ToolCall("add", {"amount": 2})])])
    lost = notes_task([("A variant.", [ToolCall("add", {"amount": 9})])])
    tried = [play(task, script(*texts)) for texts in (("No.",), ("[add(amount=2)]", "Done."))]
    failed = replace(tried[0], steps=(), verdicts=(), failure="the world did not start")
    folder = tmp_path / "runs" / "A" / "trajectories"
    folder.mkdir(parents=True)
    write_parquet(folder / "step-000001.parquet", [*tried, failed, play(lost, script("No."))])
    write_tasks(tmp_path / "tasks.jsonl", [task])
    module = ModuleType("rewards")
    exec(reward, vars(module))
    monkeypatch.setitem(sys.modules, "rewards", module)
    monkeypatch.chdir(tmp_path)
    exec(again, {})
    first, second = capsys.readouterr().out.splitlines()
    assert first.startswith("1.00 {'progress': 1.0, 'extra_calls': 0.0} Done.")
    assert second.startswith("0.00 {'progress': 0.0, 'extra_calls': 0.0} No.")


@pytest.mark.slow
@pytest.mark.usefixtures("worker_thread")
def test_the_loop_of_the_guide_trains(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The whole script in small: an update of two groups, and a state to continue from."""
    monkeypatch.chdir(tmp_path)
    text = (DOCS / "guides" / "other-trainers.md").read_text(encoding="utf-8")
    [block, _] = re.findall(r"```python\n(.*?)```", text, re.S)
    small = ["updates=1", "rollout.tasks_per_step=2", "rollout.k=4", "rollout.generated_tokens=48"]
    names: dict[str, Any] = {"__name__": "__main__"}
    exec(block.replace('"updates=5"', ", ".join(f'"{word}"' for word in small)), names)
    moved = names["optimizer"].state
    assert names["update"] == 0 and len(names["groups"]) == 2
    assert moved and all(state["step"] >= 1 for state in moved.values())
    state = torch.load(tmp_path / "runs" / "mine" / "state.pt", weights_only=True)
    names["config"] = load_config("rods", "small", [*small, "model.threads=1"])
    with rods.hosted(names["config"]) as run:
        run.open(tmp_path / "again", state)
        assert run.curriculum.epoch == 0


@pytest.mark.parametrize(
    "name", ["guides/rewards.md", "guides/stages.md", "reference/host-settings.md"]
)
def test_pages_name_an_own_reward_for_every_stage(name: str) -> None:
    """A reader who copies one option would train the other stages on something else."""
    text = (DOCS / name).read_text(encoding="utf-8")
    lines = [line for line in text.split("\n") if re.search(r"--stages\S* .*rewards\.py:", line)]
    assert lines
    for line in lines:
        given = re.findall(r"--(stages\.\d\.reward) (\w+\.py:\w+)", line)
        given += re.findall(r"--(stages) '(\[.*?\])'", line)
        config = load_config("rods", "small", [f"{key}={value}" for key, value in given])
        [reward] = {stage.reward for stage in config.stages}
        assert reward.startswith("rewards.py:")


@pytest.mark.parametrize(
    ("name", "start"),
    [("trl", "    rods trl"), ("trl", "    torchrun"), ("tools", "`--model.lora")],
)
def test_pages_for_a_project_s_four_tasks_let_variants_enter(name: str, start: str) -> None:
    """Of the eight tasks of `rods init` half are held out, and a fifth of four is none."""
    text = (DOCS / "guides" / f"{name}.md").read_text(encoding="utf-8")
    lines = [line.strip(" `") for line in text.split("\n") if line.startswith(start)]
    [line] = [line for line in lines if "--updates" in line]
    words = shlex.split(line.partition(" # ")[0])
    pairs = [(k, v) for k, v in itertools.pairwise(words) if k.startswith("--")]
    keys = {*RunConfig.model_fields, *RunConfig.sections()} - {"env"}
    given = [f"{k[2:]}={v}" for k, v in pairs if k[2:].partition(".")[0] in keys]
    given = [text for text in given if not text.startswith("model=")]
    config = load_config("rods", "full", given)
    assert "No variant is drawn before update" in growth(config, originals(4, ["base"]), True)


HOST_ROW = re.compile(r"^\| (`.+) \| (.*?) \| (.*) \| (.*?) \|$", re.M)
"""A row of the page on hosts: their setting, their default, ours, our default."""


def host_rows(heading: str) -> list[tuple[str, ...]]:
    part = page("host-settings").partition(f"## {heading}")[2].partition("\n## ")[0]
    return HOST_ROW.findall(part)


def test_our_defaults_beside_those_of_hosts_are_those_of_the_settings() -> None:
    table = re.findall(r'^\| <a id="(.+?)"></a>`.+?` \| (.+?) \|', page("settings"), re.M)
    defaults = dict(table)
    shown = [row for name in ("Arguments of TRL", "Keys of verl") for row in host_rows(name)]
    compared = 0
    for theirs, _, ours, default in shown:
        [*keys] = filter(defaults.__contains__, re.findall(r"--([\w.]+)", ours))
        if len(keys) == 1 and default.startswith("`"):
            assert default == defaults[keys[0]], theirs
            compared += 1
    assert compared > 40


def source_of(package: str, file: str) -> str:
    """Text of a file of an installed package, which is not imported."""
    spec = importlib.util.find_spec(package)
    if spec is None or spec.origin is None:
        pytest.skip(f"{package} is not installed")
    return (Path(spec.origin).parent / file).read_text(encoding="utf-8")


REFUSED_BY_NEED = {
    "critic": '`train.advantage = "gae"`', "kl in rewards": '`train.kl_in = "reward"`',
    "kl in rewards of groups": '`train.kl_in = "reward"` without `gae`',
    "loss of inserted tokens": "`train.mask_env_tokens = false`",
    "perplexity": "`train.filtering.max_perplexity`", "further draws": "`train.filtering.redraw`",
    "filter of a critic": '`train.filter` with `train.advantage = "gae"`',
    "truncated weights": '`train.correction.method = "truncated"`',
    "truncated weights in a nucleus": "`rollout.top_p` below 1",
    "aggregation of gspo": '`train.loss = "gspo"` unless `train.aggregation',
    "credit of gspo": '`train.credit` by turn or call with `train.loss = "gspo"`',
    "pipeline": "`pipelined`", "synchronous turns": "synchronous",
    "fixed weights": '`engine.weights = "fixed"`', "our engines": "`engine.name` other than",
    "all weights for a server": '`engine.name = "vllm"` without `model.lora_rank`',
    "limit of trajectories": "`trajectories`", "evaluation on the way": "`evaluation.every`",
}  # fmt: skip
"""First cells of the page on refusals."""


@pytest.mark.parametrize("host", [TRL, VERL], ids=["trl", "verl"])
def test_every_setting_that_a_host_lacks_is_on_the_page(host: HostTrainer) -> None:
    of_trl, _, of_verl = page("host-refusals").partition("## What does `rods verl` refuse?")
    shown = of_trl if host is TRL else of_verl
    cells = re.findall(r"^\| (.+?) \|", shown, re.M)
    for need in host.lacks:
        assert any(REFUSED_BY_NEED[need] in cell for cell in cells), need


@pytest.mark.hosts
def test_defaults_of_trl_are_those_of_its_arguments() -> None:
    tree = ast.parse(source_of("trl", "trainer/grpo_config.py"))
    fields = [node for node in ast.walk(tree) if isinstance(node, ast.AnnAssign)]
    calls = {ast.unparse(f.target): f.value for f in fields if isinstance(f.value, ast.Call)}
    compared = 0
    for theirs, default, _, _ in host_rows("Arguments of TRL"):
        name = re.findall(r"\w+", theirs)[0]
        shown = re.match(r"`([^`]+)`", default)
        if name in calls and shown:
            [value] = [k.value for k in calls[name].keywords if k.arg == "default"]
            assert ast.literal_eval(shown[1]) == ast.literal_eval(value), name
            compared += 1
    assert compared > 12


@pytest.mark.hosts
def test_defaults_of_verl_are_those_of_its_keys() -> None:
    text = source_of("verl", "trainer/config/_generated_ppo_trainer.yaml")
    values = flat(pytest.importorskip("yaml").safe_load(text))
    compared = 0
    for theirs, default, _, _ in host_rows("Keys of verl"):
        key = re.findall(r"[\w.]+", theirs)[0]
        shown = re.match(r"`([^`]+)`", default)
        if key in values and shown:
            assert json.loads(shown[1]) == values[key], key
            compared += 1
    assert compared > 20


def test_the_stages_of_the_guide_are_those_of_the_recipe() -> None:
    text = (DOCS / "guides" / "stages.md").read_text(encoding="utf-8")
    rows = re.findall(
        r"^\| `stages\.\d`, (\w+) \| `(\w+)`.* \| (\d+) \| (\d+) \| (\w+)", text, re.M
    )
    full, small = (load_config("rods", profile).stages for profile in ("full", "small"))
    assert rows == [
        (a.name, a.reward, str(a.epochs), str(b.epochs), "yes" if a.expand else "no")
        for a, b in zip(full, small, strict=True)
    ]


TEN = ("small", "smollm2", "full")
"""Profiles of the page on ten settings."""


def test_the_ten_settings_of_the_guide_have_the_values_of_the_profiles() -> None:
    text = (DOCS / "guides" / "first-settings.md").read_text(encoding="utf-8")
    cell = r"([^ |]+)(?: \([^|]+\))?"
    rows = re.findall(rf"^\| `([\w.]+)`<br>[^|]+ \| {cell} \| {cell} \| {cell} \|", text, re.M)
    [head] = re.findall(r"^\| setting and meaning \| (.*) \|$", text, re.M)
    assert re.findall(r"`(\w+)`", head) == [*TEN]
    changed = re.findall(r"^\| `([\w.]+)` \| ", text.partition("## When")[2], re.M)
    assert {*changed} | {"synthesis.writer"} == {name for name, *_ in rows}
    profiles = [flat(load_config("rods", p).model_dump(mode="json")) for p in TEN]
    assert len(rows) == 10
    for name, *values in rows:
        assert [value.strip("`") for value in values] == [str(p[name]) for p in profiles], name


def test_the_ten_settings_name_charts_and_sections_of_the_report() -> None:
    text = (DOCS / "guides" / "first-settings.md").read_text(encoding="utf-8")
    report = SOURCE / "report"
    files = ("curves.toml", "panels.py", "templates/report.html.j2")
    shown = "".join((report / name).read_text(encoding="utf-8") for name in files)
    named = set(re.findall(r'"([A-Z][^"]+)"', text))
    assert len(named) > 5 and not [title for title in named if title not in shown]


def test_grid_files_of_the_page_have_the_keys_of_the_reader() -> None:
    named = first_cells(page("grid-files"))
    keys = {name.strip("[]").partition(".")[0] for name in named}
    assert keys == {*_File.model_fields, OFFLINE}
    defaults = {name: field.default for name, field in _File.model_fields.items()}
    text = page("grid-files")
    for name in ("recipe", "profile", "seeds"):
        value = json.dumps(list(defaults[name]) if name == "seeds" else defaults[name])
        assert f"| `{name}` | `{value}` |" in text


def test_messages_of_the_guide_are_those_of_the_program() -> None:
    files = [path for path in SOURCE.rglob("*.py") if "repositories" not in path.parts]
    text = "\n".join(path.read_text(encoding="utf-8") for path in files)
    text = re.sub(r"""['\"]\n\s*f?['\"]""", "", text)
    troubles = (DOCS / "guides" / "troubleshooting.md").read_text(encoding="utf-8")
    messages = first_cells(troubles)
    assert len(messages) >= 5
    assert not [message for message in messages if message not in text]
