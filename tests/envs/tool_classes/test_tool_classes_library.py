"""The worked example: sixteen seed tasks through check, split, synthesis without a model, verbs."""

from __future__ import annotations

import dataclasses
import json
import random
import sys
from collections import Counter
from pathlib import Path
from typing import Any

import pytest

from one_outcome import synthesize
from places import ROOT
from rods.config import EnvSettings
from rods.env import Environment
from rods.envs import make_environment
from rods.envs.originals import original_tasks, split_tasks
from rods.envs.tool_classes.world import ToolClasses
from rods.errors import ConfigError
from rods.evaluation.check import check_tasks
from rods.split import untrained_tools
from rods.synthesis.structure.domains import domains_of
from rods.task import Task, read_tasks
from rods.types import ToolSpec
from rods.writers import make_writer
from rods.writers.assembly import keeper_of
from rods.writers.graph.api_graph import ApiGraph
from rods.writers.graph.ground import Grounder
from rods.writers.graph.live import Live
from rods.writers.graph.writer import GraphWriter
from rods.writers.inference import domains_for, holder_of
from rods.writers.resample.assign import Materials
from rods.writers.templates.phrases import phrases_of
from rods.writers.templates.vocabulary import Vocabulary
from verbs import rods

NAME = "examples.library_loans.service:library"
FILE = ROOT / "examples" / "library_loans" / "tasks.jsonl"
SETTINGS = EnvSettings(name=NAME, tasks=(str(FILE),))


@pytest.fixture(autouse=True)
def _in_the_repository(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.syspath_prepend(str(ROOT))


@pytest.fixture
def library() -> Environment:
    return make_environment(NAME)


@pytest.fixture
def seeds() -> list[Task]:
    return list(read_tasks(FILE))


def test_the_file_is_what_the_script_writes(seeds: list[Task]) -> None:
    from examples.library_loans import tasks

    assert [t.to_json() for t in tasks.seeds()] == [t.to_json() for t in seeds]
    assert Counter(t.category for t in seeds) == {"base": 9, "miss_func": 3, "miss_param": 4}


@pytest.mark.slow
def test_the_tasks_that_judge_are_what_the_script_writes_and_none_is_trained_on() -> None:
    from examples.library_loans import held_out

    written = list(read_tasks(held_out.PATH))
    assert [t.to_json() for t in held_out.tasks()] == [t.to_json() for t in written]
    assert Counter(t.category for t in written) == {"base": 19, "miss_func": 7, "miss_param": 6}
    half = split_tasks(SETTINGS.model_copy(update={"held_out": 0.5}))
    assert {t.id for t in half.held_out} == {t.id for t in written} & {
        t.id for t in read_tasks(FILE)
    }
    split = split_tasks(SETTINGS.model_copy(update={"held_out": 0.5}), (str(held_out.PATH),))
    assert split.train == half.train
    assert check_tasks(written, make_environment(NAME)).rows == ()


@pytest.mark.slow
def test_every_seed_replays_and_nothing_has_to_be_guessed(
    library: Environment, seeds: list[Task]
) -> None:
    report = check_tasks(seeds, library)
    assert report.rows == ()
    assert report.calls > 40


def test_scenarios_are_parted_by_a_seeded_rule() -> None:
    split = split_tasks(SETTINGS)
    assert (len(split.train), len(split.held_out)) == (12, 4)
    assert split == split_tasks(SETTINGS)
    half = split_tasks(SETTINGS.model_copy(update={"held_out": 0.5}))
    assert (len(half.train), len(half.held_out)) == (8, 8)


@pytest.mark.slow
def test_few_words_for_many_calls_make_no_message_a_rework(
    library: Environment, seeds: list[Task]
) -> None:
    """Reserving a book for a member and lending it share most words; that is no contradiction.

    Another gate (`worded`) turns down `It is B-62.`, which the writer may say for a book.
    """
    writer, keeper = make_writer("graph", seeds, library), keeper_of(library, seeds)
    turned_down = [
        f"{seed.provenance.origin} {number}: {rejection.reason}"
        for number in range(6)
        for seed in seeds[4:]
        for rejection in synthesize(seed, writer, keeper, number, attempts=1).rejections
        if rejection.stage == "gate"
    ]
    assert [text for text in turned_down if not text.endswith(": worded")] == []
    assert len(turned_down) <= 1


@pytest.mark.parametrize("name", ["graph", "resample"])
@pytest.mark.slow
def test_the_seed_tasks_yield_variants_without_a_model(
    name: str, library: Environment, seeds: list[Task]
) -> None:
    writer, keeper = make_writer(name, seeds, library), keeper_of(library, seeds)
    made = [
        synthesize(seed, writer, keeper, number, attempts=3).variant
        for number in range(2)
        for seed in seeds
    ]
    accepted = [task for task in made if task is not None]
    assert len(accepted) >= 28
    assert len({task.id for task in accepted}) == len(accepted)
    assert {t.provenance.origin for t in accepted} == {s.provenance.origin for s in seeds}
    assert check_tasks(accepted, library).ok
    calls = [str(c) for t in accepted for turn in t.turns for c in turn.ground_truth]
    known = {str(c) for t in seeds for turn in t.turns for c in turn.ground_truth}
    assert sum(call in known for call in calls) < 0.3 * len(calls)
    again = synthesize(seeds[0], make_writer(name, seeds, library), keeper, 0, attempts=3).variant
    assert again == made[0]


def test_kinds_are_inferred_from_names_and_states(library: Environment, seeds: list[Task]) -> None:
    domains = domains_for(library, seeds)
    assert domains.inferred
    assert domains.parameter("lend", "member_id") == "ident"
    assert domains.key("Library", "members") == "ident"
    assert domains.leaf("Library", "book_id") == "ident", "in a loan"
    assert domains.parameter("register_member", "name") == "person"
    assert domains.parameter("find_books", "section") == ""
    assert domains.leaf("Library", "title") == ""


@pytest.mark.slow
def test_an_environment_brings_what_it_knows_of_its_values(
    seeds: list[Task], tmp_path: Path
) -> None:
    (tmp_path / "domains.toml").write_text('[parameters]\nmember_id = "ident"\n', encoding="utf-8")
    (tmp_path / "phrases").mkdir()
    (tmp_path / "phrases" / "Library.toml").write_text(
        '[lend]\nsay = ["hand {book_id} over to {member_id}"]\n', encoding="utf-8"
    )
    from examples.library_loans.service import Library

    library = ToolClasses("library", [Library], knowledge=tmp_path)
    domains = domains_for(library, seeds)
    assert domains is domains_of(library) and not domains.inferred
    assert domains.parameter("lend", "member_id") == "ident"
    assert not domains.numbers, "sections that a file leaves out are empty"
    planner = GraphWriter(seeds, library).planner
    assert (planner.domains, planner.phrases) == (domains, phrases_of(library))
    assert planner.phrases.wordings.keys() == {"lend"}


@pytest.mark.parametrize(
    ("parameter", "keys", "holder"),
    [
        ("member_id", {"members": {"M-1"}}, "members"),
        ("memberId", {"members": {"M-1"}}, "members"),
        ("book_ids", {"books": {"B-1"}}, "books"),
        ("city_code", {"cities": {"X1"}}, "cities"),
        ("box", {"boxes": {"7"}}, "boxes"),
        ("section_id", {"sections": {"travel"}}, ""),
        ("member_id", {"books": {"B-1"}}, ""),
    ],
)
def test_the_mapping_that_a_parameter_points_into(parameter: str, keys: Any, holder: str) -> None:
    assert holder_of(parameter, keys) == holder


def test_values_come_from_the_live_state(library: Environment, seeds: list[Task]) -> None:
    domains = domains_for(library, seeds)
    state: dict[str, Any] = {"members": {"M-9": {"name": "Ada Park"}}, "books": {"B-5": {}}}
    live = Live({"Library": state})
    live.look(domains)
    properties: dict[str, Any] = {"member_id": {"type": "string"}, "days": {"type": "integer"}}
    spec = ToolSpec("renew", "", {"properties": properties, "required": ["member_id", "days"]})
    graph = ApiGraph(exemplars={("lend", "days"): [20]})
    grounder = Grounder(domains, {"renew": spec}, graph, Materials(Vocabulary(), {}))
    calls = [grounder.fill("renew", live, random.Random(n)) for n in range(40)]
    arguments = [call.arguments for call in calls if call is not None]
    assert len(arguments) == 40
    assert {row["member_id"] for row in arguments} == {"M-9"}, "no book, no invented one"
    days = {row["days"] for row in arguments}
    assert len(days) > 5
    assert all(isinstance(day, int) and 10 <= day <= 40 for day in days)


@pytest.mark.parametrize(
    ("name", "said"),
    [
        ("bfcle", "there is no environment 'bfcle'. Did you mean 'bfcl'"),
        (__file__, "is a file. Add the name of the environment in it"),
        ("examples.nowhere:library", "No module named"),
        ("examples.library_loans.service:libary", "has no 'libary'. It has 'library"),
        ("examples.library_loans.tasks:MEMBERS", "expected an environment or a function"),
        (
            "examples.library_loans.tasks:seeds",
            "has no .*open.* Derive it from rods.env",
        ),
    ],
)
def test_a_name_that_is_no_environment(name: str, said: str) -> None:
    with pytest.raises(ConfigError, match=said):
        make_environment(name)


@pytest.mark.parametrize(
    ("name", "what"),
    [("Bikes", "a class"), ("Shop", "a class"), ("shop", "a Shop"), ("make", "a Shop")],
)
def test_a_class_of_tools_in_place_of_an_environment_is_to_be_wrapped(
    name: str, what: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Also one that cannot be made without arguments, an object, or what a function makes."""
    monkeypatch.setattr(sys, "path", [*sys.path])
    file = tmp_path / "bikes.py"
    file.write_text(
        "class Bikes:\n    def rent(self, bike: str): ...\n"
        "class Shop:\n    def __init__(self, bikes: dict): ...\n    def open(self): ...\n"
        "shop = Shop({})\ndef make(): return shop\n"
    )
    kind = "Bikes" if name == "Bikes" else "Shop"
    with pytest.raises(ConfigError) as caught:
        make_environment(f"{file}:{name}")
    assert f"{file}:{name}' is {what}, not an environment." in str(caught.value)
    assert f'NAME = ToolClasses("name", [{kind}])' in str(caught.value)


def test_tasks_that_do_not_fit_the_settings(tmp_path: Path, seeds: list[Task]) -> None:
    with pytest.raises(ConfigError, match="brings no tasks"):
        original_tasks(EnvSettings(name=NAME))
    one = tmp_path / "one.jsonl"
    one.write_text(json.dumps(seeds[0].to_json()) + "\n")
    with pytest.raises(ConfigError, match="you have 1 scenario; at least 2 are needed"):
        split_tasks(EnvSettings(name=NAME, tasks=(str(one),)))
    one.write_text(json.dumps(dataclasses.replace(seeds[0], env="shop").to_json()) + "\n")
    with pytest.raises(ConfigError, match=r"environment 'shop'.*is called 'library'"):
        original_tasks(EnvSettings(name=NAME, tasks=(str(one),)))
    one.write_text("\n")
    with pytest.raises(ConfigError, match="holds no task"):
        original_tasks(EnvSettings(name=NAME, tasks=(str(one),)))


@pytest.mark.slow
@pytest.mark.usefixtures("worker_thread")
def test_check_and_synth_take_it_by_settings(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    words = ["--env.name", NAME, "--env.tasks", str(FILE)]
    assert rods("check", *words, "--json", monkeypatch=monkeypatch) == 0
    shown = json.loads(capsys.readouterr().out)
    assert (shown["tasks"], shown["unreachable"], shown["ambiguous"]) == (16, 0, 0)
    target = tmp_path / "variants.jsonl"
    asked = ["synth", *words, "--synthesis.writer", "graph", "--n", "6", "--out", str(target)]
    assert rods(*asked, monkeypatch=monkeypatch) == 0
    made = list(read_tasks(target))
    assert len(made) == 6
    held_out = {task.provenance.scenario for task in split_tasks(SETTINGS).held_out}
    assert not held_out & {task.provenance.scenario for task in made}
    assert check_tasks(made, make_environment(NAME)).ok


def test_check_names_tasks_by_number_and_tools_that_are_not_trained(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    rows = [json.loads(line) for line in FILE.read_text(encoding="utf-8").splitlines()]
    for row in rows:
        del row["provenance"]["origin"]
    call = {"name": "lend_nothing", "arguments": {}}
    rows[1]["turns"][0]["ground_truth"].append(call)
    rows[0]["provenance"]["review"] = "rejected"  # left out, but its line counts
    (tmp_path / "tasks.jsonl").write_text("\n".join(map(json.dumps, rows)))
    words = ["--env.name", NAME, "--env.tasks", str(tmp_path / "tasks.jsonl")]
    assert rods("check", *words, monkeypatch=monkeypatch) == 1
    printed = capsys.readouterr()
    assert "task 2" in printed.out and "task 1 " not in printed.out


def test_tools_that_only_held_out_tasks_call_are_named(seeds: list[Task]) -> None:
    first = {call.name for turn in seeds[0].turns for call in turn.ground_truth}
    others = {c.name for task in seeds[1:] for turn in task.turns for c in turn.ground_truth}
    assert untrained_tools(seeds, seeds[:1]) == ""
    assert untrained_tools(seeds[:1], seeds[1:]) == (
        f"Only held-out tasks call {', '.join(sorted(others - first))}: add training tasks that do."
    )
    left_out = untrained_tools(seeds[:1], seeds[1:], faults=True)
    assert left_out.startswith("Of the tasks without a fault, only held-out ones call ")
    assert untrained_tools(seeds, seeds[:1], faults=True) == ""


def test_a_broken_class_is_one_message(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    (tmp_path / "till.py").write_text(
        "from rods.envs.tool_classes import ToolClasses\n"
        "class Till:\n    def put(self, coin): ...\n"
        "def till(): return ToolClasses('till', [Till])\n"
    )
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(sys, "path", [p for p in sys.path if p])
    words = ["--env.name", "till:till", "--env.tasks", str(FILE)]
    assert rods("check", *words, monkeypatch=monkeypatch) == 2
    said = capsys.readouterr().err
    assert "class Till, method put, parameter coin: it has no type hint" in said
    assert "Traceback" not in said
