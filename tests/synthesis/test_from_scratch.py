"""Seed tasks from nothing: stages, both writers, their gates, and what a review leaves out."""

from __future__ import annotations

import dataclasses
import json
import logging
import random
import re
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import pytest

from car_depot import depot
from one_outcome import synthesize
from places import ROOT
from rods.config import EnvSettings
from rods.env import Environment
from rods.envs.originals import own_tasks, tasks_of_files
from rods.envs.tool_classes import ToolClasses
from rods.errors import ConfigError, RodsError, TaskError
from rods.evaluation.check import check_tasks
from rods.synthesis.chat import LlmWriterSettings
from rods.synthesis.gates.keeper import SEED_GATES
from rods.synthesis.llm.writer import LlmWriter
from rods.synthesis.stages import stage_of, stages_of
from rods.task import REVIEWS, Task, Turn, read_tasks, write_tasks
from rods.types import Json, ToolCall, ToolSpec
from rods.writers.assembly import keeper_of
from rods.writers.graph.inventor import records_named
from rods.writers.graph.live import Live
from rods.writers.graph.writer import GraphWriter
from scripted_author import ScriptedAuthor
from scripted_chat import Reply
from sweeps import slow
from synthesis_cases import ENVIRONMENT, sides
from verbs import rods
from vet_clinic import clinic

SUPPORT = ROOT / "tests" / "support"
CLINIC = f"{SUPPORT / 'vet_clinic.py'}:clinic"
DEPOT = f"{SUPPORT / 'car_depot.py'}:depot"
STATES = SUPPORT / "car_depot.jsonl"
NOTES = f"{sys.executable} {ROOT / 'examples' / 'mcp_notes' / 'server.py'}"


def scratch(
    folder: Path, monkeypatch: pytest.MonkeyPatch, *words: str, number: int = 5
) -> list[Task]:
    out = folder / f"{len(list(folder.iterdir()))}.jsonl"
    given = ("--from-scratch", str(number), "--out", str(out), *words)
    assert rods("synth", *given, monkeypatch=monkeypatch) == 0
    return list(read_tasks(out))


@pytest.mark.parametrize(
    ("words", "environment"),
    [
        (["--env.name", CLINIC], clinic),
        *slow(
            (["--env.name", DEPOT, "--states", str(STATES)], depot),
            (["--env.name", "bfcl"], ENVIRONMENT),
        ),
    ],
    ids=["own-state", "states", "bfcl"],
)
def test_seed_tasks_of_every_kind_of_environment(
    words: list[str],
    environment: Environment,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    made = scratch(tmp_path, monkeypatch, *words)
    assert "have none" not in capsys.readouterr().err, "a stage is no seed task"
    assert len({task.id for task in made}) == 5
    assert check_tasks(made, environment).ok
    shapes = {tuple(tuple(c.name for c in t.ground_truth) for t in task.turns) for task in made}
    assert len(shapes) == 5, "no two of one structure"
    for task in made:
        origin = task.provenance
        assert task.is_original
        assert origin.recipe == "graph:walk+scratch"
        assert origin.review == ""
        assert sum(bool(turn.ground_truth) for turn in task.turns) > 1
        assert task.world["initial_config"], "a person who edits it sees the state"
    scenarios = {task.provenance.scenario for task in made}
    if environment is ENVIRONMENT:
        assert scenarios <= {task.provenance.scenario for task in sides().train}
        assert not scenarios & {task.provenance.scenario for task in sides().held_out}
    else:
        assert scenarios == {task.id for task in made}, "so that some can be held out"


def test_worlds_without_records_are_named_before_and_behind_the_candidates(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    assert rods("init", "mine", monkeypatch=monkeypatch) == 0
    given = ["--from-scratch", "1", "--env.name", "mine/tools.py:bistro", "--out", "seeds.jsonl"]
    assert rods("synth", *given, monkeypatch=monkeypatch) == 2
    said = " ".join(capsys.readouterr().err.split())
    first, _, last = said.partition("candidates was accepted;")
    assert "each class starts without records" in first and "--states FILE" in first
    assert "or too little that tasks could speak of. Give worlds with records: --states" in last
    assert "1 of 1 world with a yield" in said and "candidates of these worlds:" in said


def test_equal_seeds_give_equal_tasks_and_others_do_not(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    words = ("--env.name", CLINIC, "--seed")
    runs = [scratch(tmp_path, monkeypatch, *words, seed, number=3) for seed in ("1", "1", "2")]
    assert runs[0] == runs[1] != runs[2]


@pytest.mark.slow
def test_an_mcp_server_whose_state_is_given(tmp_path: Path) -> None:
    pytest.importorskip("mcp", reason="needs the extra [mcp]")
    from rods.envs.mcp.world import McpEnvironment

    notes = {"N-1": {"title": "Milk", "lines": ["two litres"], "pinned": False}}
    states = tmp_path / "states.jsonl"
    states.write_text(json.dumps({"reset": {"notes": notes}}), encoding="utf-8")
    environment = McpEnvironment(command=NOTES, state="all_notes", reset="reset")
    try:
        assert environment.own_world() == {}, "as the server starts"
        stages = stages_of(environment, states=states)
        writer, keeper = GraphWriter(stages, environment), keeper_of(environment, stages)
        outcomes = [synthesize(stages[0], writer, keeper, number, 3) for number in range(6)]
        made = [o.variant for o in outcomes if o.variant is not None]
        assert made
        assert check_tasks(made, environment).ok
    finally:
        environment.close()


@pytest.mark.parametrize(
    ("words", "why"),
    [
        (["--from-scratch", "2", "--tasks", "x.jsonl"], "--tasks: no effect with --from-scratch"),
        (["--from-scratch", "2", "--from-trajectories", "x"], "--from-trajectories: no effect"),
        (["--from-scratch", "2", "--writer", "resample"], "--writer graph or --writer llm"),
        (["--states", "x.jsonl"], "--states has no effect without --from-scratch"),
        (["--from-scratch", "2", "--states", "gone.jsonl"], "gone.jsonl"),
        (["--from-scratch", "2", "--writer", "llm"], "synthesis.llm.url"),
    ],
)
def test_what_contradicts_it_is_refused(
    words: list[str],
    why: str,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    out = tmp_path / "seeds.jsonl"
    given = ["--env.name", CLINIC, "--out", str(out), *words]
    assert rods("synth", *given, monkeypatch=monkeypatch) == 2
    assert why in capsys.readouterr().err
    assert not list(tmp_path.iterdir())


@pytest.mark.parametrize(
    ("line", "why"),
    [
        ("{", "2: not JSON"),
        ("[1]", "2: not an object"),
        ('{"classes": ["Depots"]}', "2: .*no class 'Depots'"),
        ('{"initial_config": {}}', "2: .*needs `classes`"),
    ],
)
def test_a_broken_state_is_named_by_its_line(line: str, why: str, tmp_path: Path) -> None:
    states = tmp_path / "states.jsonl"
    first = STATES.read_text(encoding="utf-8").split("\n")[0]
    states.write_text(f"{first}\n{line}\n", encoding="utf-8")
    with pytest.raises(TaskError, match=rf"states\.jsonl(:|, row ){why}"):
        stages_of(depot, states=states)


def test_an_environment_without_a_state_of_its_own_needs_one() -> None:
    class Bare(Environment):
        name = "bare"

        def open(self, task: Task) -> Any:
            raise AssertionError(task)

    with pytest.raises(ConfigError, match="Give initial states: --states FILE"):
        stages_of(Bare())


class Shelf:
    """Its constructor needs what it holds."""

    def __init__(self, books: dict[str, int], size: int = 3) -> None:
        self.books, self.size = books, size

    def lend(self, book: str) -> int:
        """Lend a book."""
        self.books[book] -= 1
        return self.books[book]


def test_a_class_that_needs_arguments_asks_for_states_with_a_line(tmp_path: Path) -> None:
    shelf = ToolClasses("shelf", [Shelf])
    with pytest.raises(ConfigError, match=r"Shelf cannot be made without .*--states") as no:
        stages_of(shelf)
    line = re.search(r"\{.*\}", str(no.value))
    assert line and json.loads(line[0])["initial_config"] == {"Shelf": {"books": "..."}}
    (tmp_path / "states.jsonl").write_text(line[0].replace('"..."', '{"B-1": 2}'))
    assert len(stages_of(shelf, states=tmp_path / "states.jsonl")) == 1


def test_worlds_come_from_the_training_tasks_where_there_are_some() -> None:
    stages = stages_of(ENVIRONMENT, sides().train)
    assert all(stage.is_stage for stage in stages)
    assert {s.provenance.scenario for s in stages} == {t.provenance.scenario for t in sides().train}


@pytest.mark.parametrize(
    ("name", "description", "tool", "table"),
    [
        ("car_id", "", "", "cars"),
        ("plate", "", "", "cars"),
        ("number", "licence number of the driver", "", "drivers"),
        ("source", "car to take from", "", "cars"),
        ("child_id", "Number of the child", "", "children"),
        ("note", "", "", None),
        ("station", "where the car was left", "", None),
        ("slug", "The driver's slug", "Greet somebody.", "drivers"),
        ("slug", "", "Send a driver to a car.", "drivers"),
        ("slug", "", "Greet somebody.", None),
        ("note", "", "Write to a driver.", None),
    ],
)
def test_what_a_parameter_refers_to(
    name: str, description: str, tool: str, table: str | None
) -> None:
    state: dict[str, Any] = {
        "cars": {"HH-1": {"station": "Harbour"}, "HH-2": {"station": "Mill"}},
        "drivers": {"D-1": {"name": "Ada"}},
        "trips": {"T-1": {"plate": "HH-1"}},
        "children": {"C-1": {"name": "Bo"}},
    }
    spec = ToolSpec("act", tool, {})
    found = records_named(name, {"description": description}, Live({"Depot": state}), spec)
    assert found == (state[table] if table else {})


PET, BOOK = (
    ToolCall("register_pet", {"owner_id": "O-11", "name": "Ivo", "species": "cat"}),
    ToolCall("get_pet", {"pet_id": "P-601"}),
)
REGISTER = "Register a cat called Ivo for owner O-11."


@pytest.mark.parametrize(
    ("turns", "gate"),
    [
        ([Turn(REGISTER, (PET,)), Turn("Show pet P-601.", (BOOK,))], None),
        (
            [Turn(f"{REGISTER} Then show pet P-601.", (PET, BOOK)), Turn("Show pet P-201.", ())],
            "foreseen",
        ),
        ([Turn(REGISTER, (PET,))], "form"),
    ],
    ids=["known", "foreseen", "one-turn"],
)
def test_nobody_says_what_only_a_result_brings_up(turns: Sequence[Turn], gate: str | None) -> None:
    stage = stage_of(clinic.name, clinic.own_world())
    if gate == "foreseen":
        show = ToolCall("get_pet", {"pet_id": "P-201"})
        turns = [turns[0], Turn("Show pet P-201.", (show,))]
    origin = dataclasses.replace(stage.provenance, recipe="test:scratch")
    task = dataclasses.replace(stage, turns=tuple(turns), provenance=origin)
    rejection = keeper_of(clinic, [stage]).check(stage, task).rejection
    assert (rejection.reason if rejection else None) == gate
    assert "distance" not in SEED_GATES


class ClinicChat:
    """A model that plans and fills in by rote; the author words."""

    PLAN = (("list_appointments",), ("reschedule_appointment",), ("get_balance",))
    ARGUMENTS: Mapping[str, Json] = {
        "list_appointments": {"day": "2026-03-02"},
        "reschedule_appointment": {"appointment_id": "A-502", "day": "2026-03-05", "time": "10:15"},
        "get_balance": {"owner_id": "O-12"},
    }

    def __init__(self, plan: Sequence[Sequence[str]] = PLAN) -> None:
        self.plan, self.prompts = plan, list[tuple[str, str]]()
        self._author = ScriptedAuthor([stage_of(clinic.name, clinic.own_world())], clinic)

    def ask(self, stage: str, messages: Sequence[Mapping[str, str]], **options: Any) -> Reply:
        prompt = messages[-1]["content"]
        self.prompts.append((stage, prompt))
        if stage == "plan":
            turns = [{"functions": list(names)} for names in self.plan]
            return Reply(json.dumps({"narrative": "A busy day.", "turns": turns}))
        if stage == "execute":
            tool = min((n for n in self.ARGUMENTS if n in prompt), key=prompt.index)
            return Reply(json.dumps({"arguments": self.ARGUMENTS[tool]}))
        return Reply(self._author({"messages": messages, "seed": options.get("seed", 0)}))


def test_the_writer_with_a_model_makes_them_too() -> None:
    stage = stage_of(clinic.name, clinic.own_world())
    chat: Any = ClinicChat()
    writer = LlmWriter(clinic, chat, LlmWriterSettings())
    outcome = synthesize(stage, writer, keeper_of(clinic, [stage]), 1, 3)
    assert outcome.variant is not None, outcome.rejections
    names = [tuple(c.name for c in turn.ground_truth) for turn in outcome.variant.turns]
    assert names == list(ClinicChat.PLAN)
    assert outcome.variant.provenance.recipe.startswith("llm:model@")
    assert outcome.variant.is_original
    assert check_tasks([outcome.variant], clinic).ok
    plan = next(text for stage, text in chat.prompts if stage == "plan")
    assert "The example calls" not in plan
    assert "Plan a conversation of 2 to 4 turns" in plan


@pytest.mark.parametrize("plan", [[["get_balance"]], [["get_balance"]] * 5, [["x"], ["y"]]])
def test_a_plan_of_another_form_is_refused(plan: Sequence[Sequence[str]]) -> None:
    stage = stage_of(clinic.name, clinic.own_world())
    chat: Any = ClinicChat(plan)
    made = LlmWriter(clinic, chat, LlmWriterSettings()).propose(stage, random.Random(1))
    assert not isinstance(made, Task)
    assert made.stage == "plan"


def seeds_of(
    environment: Environment, states: Path | None = None, training: Sequence[Task] = ()
) -> list[Task]:
    """Candidates of the writer `graph`, from nothing."""
    stages = stages_of(environment, training, states)
    writer = GraphWriter(stages, environment)
    made = [writer.propose(stages[n % len(stages)], random.Random(n)) for n in range(60)]
    return [task for task in made if isinstance(task, Task)]


def test_nobody_acts_on_what_is_done_with_or_ends_what_is_new() -> None:
    for task in seeds_of(depot, STATES):
        blocked: set[object] = set()
        signed_up = False
        for call in task.calls:
            given = set(call.arguments.values())
            if call.name in ("top_up", "start_trip"):
                assert not blocked & given, task
            if call.name == "block_driver":
                assert call.arguments["driver_id"] not in blocked, task
                assert not (signed_up and call.arguments["driver_id"] in ("D041", "D208")), task
                blocked.add(call.arguments["driver_id"])
            signed_up |= call.name == "sign_up"


def test_that_pet_is_none_of_a_list_and_a_new_one_has_its_name_beside_it() -> None:
    for task in seeds_of(clinic):
        for turn in task.turns:
            names = [call.name for call in turn.ground_truth]
            listed = names[:1] in (["find_pets"], ["list_appointments"])
            assert not (listed and re.search("(that|the same) pet", turn.user)), turn
            assert not re.search(r"owner (O-\d+ )?with the name", turn.user), turn


def test_numbers_of_bfcl_are_those_that_people_say() -> None:
    for task in seeds_of(ENVIRONMENT, training=sides().train):
        for call in task.calls:
            if call.name in ("withdraw_funds", "fund_account", "set_budget_limit"):
                assert all(v % 5 == 0 for v in call.arguments.values() if isinstance(v, float)), (
                    call
                )


def reviewed(path: Path, *verdicts: str) -> list[Task]:
    stage = stage_of(clinic.name, clinic.own_world())
    tasks = [
        dataclasses.replace(
            stage,
            turns=(Turn(f"Show how much owner O-{11 + n} owes.", (call,)),),
            provenance=dataclasses.replace(stage.provenance, review=verdict),
        )
        for n, verdict in enumerate(verdicts)
        for call in [ToolCall("get_balance", {"owner_id": f"O-{11 + n}"})]
    ]
    write_tasks(path, tasks)
    return tasks


@pytest.mark.parametrize("reader", ["own_tasks", "tasks_of_files"])
def test_rejected_tasks_are_left_out_and_counted(
    reader: str, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    path, settings = tmp_path / "seeds.jsonl", EnvSettings(name=CLINIC)

    def read() -> list[Task]:
        if reader == "own_tasks":
            return own_tasks(path, settings, clinic)
        return tasks_of_files(settings, [str(path)], "env.tasks")

    tasks = reviewed(path, *REVIEWS, "")
    with caplog.at_level(logging.WARNING):
        assert read() == [task for task in tasks if task.provenance.review != "rejected"]
    assert "1 of 4 tasks are rejected in a review" in caplog.text
    reviewed(path, "rejected", "rejected")
    with pytest.raises(RodsError, match="all 2 tasks are rejected"):
        read()


def test_a_review_survives_and_an_unknown_one_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "seeds.jsonl"
    tasks = reviewed(path, "accepted", "")
    found = list(read_tasks(path))
    assert [t.provenance for t in found] == [t.provenance for t in tasks]
    assert "review" not in tasks[1].to_json()["provenance"]  # type: ignore[operator]
    path.write_text(path.read_text(encoding="utf-8").replace('"accepted"', '"good"'), "utf-8")
    with pytest.raises(TaskError, match=r"seeds.jsonl:1: .*review must be one of"):
        list(read_tasks(path))
