"""Variants of questions: the writer `family`, the gates of question tasks, the worker, the pool."""

from __future__ import annotations

import dataclasses
import random
from collections.abc import Iterator
from pathlib import Path

import pytest

from one_outcome import synthesize
from pool_cases import config, group
from rods.abilities import QuestionSource, ability
from rods.config import SynthesisSettings
from rods.curriculum.online import OnlineCurriculum
from rods.env import Environment, World
from rods.envs import ENVIRONMENTS, make_environment
from rods.envs.python_tool.environment import PythonToolEnvironment
from rods.envs.questions.families import FAMILIES, HELD_OUT, question_task, question_tasks
from rods.envs.remote.processes import ProcessEnvironment, local
from rods.envs.search.environment import SearchEnvironment
from rods.envs.search.hops import search_tasks
from rods.errors import ConfigError
from rods.synthesis.gates.keeper import GATES, QUESTION_GATES, Gatekeeper, is_question
from rods.synthesis.gates.overlap import prints
from rods.synthesis.rejection import Rejection
from rods.synthesis.worker.client import SynthesisWorker
from rods.synthesis.worker.settings import WorkerSettings
from rods.task import Provenance, Task, Turn
from rods.types import ToolCall
from rods.writers import make_writer
from rods.writers.assembly import PIPELINE, keeper_of
from rods.writers.family import FamilyWriter

KINDS = tuple(FAMILIES)
TRAIN = question_tasks(KINDS, (1, 2, 3), 36)
HELD = question_tasks(KINDS, (1, 2, 3), 18, held_out=True)
SEED = TRAIN[7]
LOADED = Task("python_tool", "aime", (Turn("Find n."),), {"answer": "5"}, Provenance("a-1", "a"))


@pytest.fixture(scope="module")
def environment() -> Iterator[PythonToolEnvironment]:
    made = PythonToolEnvironment(size=1, preload=())
    yield made
    made.close()


@pytest.fixture(scope="module")
def keeper(environment: PythonToolEnvironment) -> Gatekeeper:
    return keeper_of(environment, TRAIN, HELD)


def variant_of(seed: Task, environment: PythonToolEnvironment, noise: int = 0) -> Task:
    made = FamilyWriter(TRAIN, environment).propose(seed, random.Random(noise))
    assert isinstance(made, Task)
    return made


@pytest.mark.parametrize("seed", TRAIN[:18], ids=lambda task: task.provenance.origin)
def test_every_family_has_variants_that_pass(seed: Task, keeper: Gatekeeper) -> None:
    writer = make_writer("family", TRAIN, keeper.environment)
    outcome = synthesize(seed, writer, keeper, 3, attempts=3)
    made = outcome.variant
    assert made is not None and outcome.distance == 0.0
    assert made.turns[0].user not in {task.turns[0].user for task in [*TRAIN, *HELD]}
    assert (made.category, made.world["difficulty"]) == (seed.category, seed.world["difficulty"])
    assert made.provenance.ancestors == (seed.id,)
    assert made.provenance.scenario == seed.provenance.scenario
    assert made.provenance.recipe == f"family:{seed.category}"
    assert synthesize(seed, writer, keeper, 3, attempts=3) == outcome


def test_held_out_seeds_give_held_out_variants(environment: PythonToolEnvironment) -> None:
    keeper = keeper_of(environment, HELD, TRAIN)
    writer = make_writer("graph", HELD, environment)
    made = synthesize(HELD[3], writer, keeper, 0, attempts=3).variant
    assert made is not None and int(str(made.world["seed"])) >= HELD_OUT


def changed(task: Task, *, text: str = "", **world: object) -> Task:
    turns = (Turn(text or task.turns[0].user),)
    return dataclasses.replace(task, turns=turns, world={**task.world, **world})  # type: ignore[dict-item]


def test_each_gate_turns_down_its_fault(
    environment: PythonToolEnvironment, keeper: Gatekeeper
) -> None:
    good = variant_of(SEED, environment)
    origin = good.provenance
    away = dataclasses.replace(origin, scenario=HELD[0].provenance.scenario)
    other = question_task("travel", 1, 5)
    harder = question_task(SEED.category, 3, 12345)
    held = question_task(SEED.category, 2, HELD_OUT + 12345)
    faults = {
        "ancestry": dataclasses.replace(good, provenance=SEED.provenance),
        "held_out_scenario": dataclasses.replace(good, provenance=away),
        "question_form": dataclasses.replace(other, provenance=origin),
        "question_kind": dataclasses.replace(harder, provenance=origin),
        "question_new": changed(good, text=TRAIN[1].turns[0].user),
        "question_side": dataclasses.replace(held, provenance=origin),
        "question_replay": changed(good, answer="5"),
    }
    assert list(faults) == list(QUESTION_GATES)
    for name, fault in faults.items():
        rejection = keeper.check(SEED, fault).rejection
        assert rejection is not None and rejection.reason == name, (name, rejection)
    assert keeper.check(SEED, good).rejection is None
    case = keeper.case(SEED, good)
    assert [name for name, gate in QUESTION_GATES.items() if gate(case)] == []


@pytest.mark.parametrize(
    "turns",
    [
        (Turn("What is 1 + 1?"), Turn("And 2 + 2?")),
        (Turn("What is 1 + 1?", (ToolCall("code_interpreter", {"code": "1"}),)),),
        (Turn(" "),),
    ],
)
def test_what_is_no_question_is_turned_down(
    turns: tuple[Turn, ...], environment: PythonToolEnvironment, keeper: Gatekeeper
) -> None:
    fault = dataclasses.replace(variant_of(SEED, environment), turns=turns)
    rejection = keeper.check(SEED, fault).rejection
    assert rejection is not None and rejection.reason == "question_form"


def test_a_text_of_the_held_out_side_is_turned_down(
    environment: PythonToolEnvironment, keeper: Gatekeeper
) -> None:
    held = next(task for task in HELD if task.category == SEED.category)
    fault = changed(variant_of(SEED, environment), text=held.turns[0].user)
    case = keeper.case(SEED, fault)
    assert QUESTION_GATES["question_side"](case) == "a held-out task has this text"


def test_variants_of_one_request_differ_by_text_not_by_words(
    environment: PythonToolEnvironment, keeper: Gatekeeper
) -> None:
    good = variant_of(SEED, environment)
    again = keeper.check(SEED, good, [prints(good)]).rejection
    assert again is not None and again.detail == "an earlier variant has this text"
    other = changed(good, text=good.turns[0].user.replace("*", "+"))
    assert prints(other).triples == prints(good).triples and prints(other) != prints(good)
    assert keeper.check(SEED, good, [prints(other)]).rejection is None


def test_other_tasks_keep_their_gates() -> None:
    assert not set(GATES) & {name for name in QUESTION_GATES if "question" in name}
    assert is_question(SEED) and is_question(LOADED)
    plain = Task("toy", "base", (Turn("?"),), {}, Provenance("x", "x"))
    assert not is_question(plain)


def test_a_task_of_a_file_has_no_variants(
    environment: PythonToolEnvironment, keeper: Gatekeeper
) -> None:
    made = FamilyWriter([LOADED], environment).propose(LOADED, random.Random(0))
    assert isinstance(made, Rejection) and made.stage == "write" and made.reason == "no_pattern"
    outcome = synthesize(LOADED, FamilyWriter([LOADED], environment), keeper, 0, attempts=2)
    assert outcome.variant is None and outcome.tried == 2


@pytest.mark.parametrize("name", ["family", "resample", "graph"])
def test_questions_are_varied_by_family(name: str, environment: PythonToolEnvironment) -> None:
    assert isinstance(make_writer(name, TRAIN, environment, resample_share=0.5), FamilyWriter)


def test_the_writer_needs_an_environment_that_makes_questions() -> None:
    class Toy(Environment):
        name = "toy"

        def open(self, task: Task) -> World:
            raise AssertionError("no world is opened")

    with pytest.raises(ConfigError, match="'family' makes questions, but"):
        FamilyWriter(TRAIN, Toy())


def test_questions_of_search_have_variants() -> None:
    environment = SearchEnvironment()
    train, held = search_tasks((1, 2), 12), search_tasks((1, 2), 6, held_out=True)
    keeper = keeper_of(environment, train, held)
    made = synthesize(train[1], make_writer("family", train, environment), keeper, 0, 3).variant
    assert made is not None and made.env == "search"
    assert made.world["difficulty"] == train[1].world["difficulty"]
    wrong = changed(made, answer="nowhere")
    rejection = keeper.check(train[1], wrong).rejection
    assert rejection is not None and rejection.reason == "question_replay"


# -- the worker and the pool ---------------------------------------------------------------------

FAMILY = SynthesisSettings(writer="family")
SETTINGS = WorkerSettings(
    TRAIN,
    HELD,
    environment=ENVIRONMENTS.address("python_tool"),
    pipeline=PIPELINE,
    synthesis=FAMILY,
    niceness=0,
)


@pytest.mark.slow
@pytest.mark.usefixtures("worker_thread")
def test_the_worker_makes_them(tmp_path: Path) -> None:
    with SynthesisWorker(tmp_path / "queue.sqlite", SETTINGS) as worker:
        worker.submit("a", SEED, 0, 3, priority=1.0, epoch=0)
        assert worker.drain(["a"], 60.0)
        made = [task for _, _, task, _ in worker.results(["a"])]
    assert len({task.turns[0].user for task in made}) == 3
    assert all(task.provenance.ancestors == (SEED.id,) for task in made)


@pytest.mark.slow
def test_a_curriculum_with_the_worker_in_its_process(tmp_path: Path) -> None:
    grow = [{"name": "grow", "epochs": 3, "expand": True}]
    settings = config(stages=grow, synthesis={"drain_seconds": 120.0, "writer": "family"})
    with SynthesisWorker(tmp_path / "queue.sqlite", SETTINGS) as worker:
        pool = OnlineCurriculum(settings, TRAIN, worker)
        drawn: list[Task] = []
        while not pool.done:
            pool.start_epoch()
            while tasks := [lease.task for lease in pool.lease(4)]:
                drawn += tasks
                for task in tasks:
                    pool.observe(*group(task, [1.0, 1.0, 0.0, 0.0]))
        metrics = pool.metrics()
        assert worker.state()["alive"] and not worker.suspended
    variants = [task for task in drawn if not task.is_original]
    assert variants and metrics["active"] > 0
    environment = make_environment("python_tool")
    assert all(environment.replay(task) is None for task in variants)  # type: ignore[attr-defined]
    environment.close()  # type: ignore[attr-defined]


def test_questions_are_made_here_where_their_worlds_are_elsewhere() -> None:
    inner = make_environment("search")
    elsewhere = ProcessEnvironment(inner, local("search", {}), processes=1, seconds=1.0)
    assert ability(elsewhere, QuestionSource) is ability(inner, QuestionSource) is inner
