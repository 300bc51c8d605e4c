"""The complexity profile: edges of hand-made tasks, references across turns, figures of originals.

Figures of all 200 base tasks are in `benchmarks/profile_figures.py`; here are a few by name.
"""

from __future__ import annotations

import dataclasses

import pytest

from rods.synthesis.base import Base
from rods.synthesis.structure.profile import (
    Edge,
    MessageEdge,
    Profile,
    ablate,
    depth,
    distance,
)
from rods.synthesis.structure.sources import Shown
from rods.synthesis.structure.trace import trace
from rods.task import BASE, Provenance, Task, Turn
from rods.types import Json, ToolCall, Value
from synthesis_cases import ENVIRONMENT, named
from worlds import NotesEnvironment, notes_task


def call(name: str, **arguments: Value) -> ToolCall:
    return ToolCall(name, arguments)


def made(classes: list[str], config: dict[str, Json], *turns: tuple[str, list[ToolCall]]) -> Task:
    world: dict[str, Json] = {"classes": [*classes], "initial_config": config}
    return Task(
        "bfcl",
        BASE,
        tuple(Turn(user, tuple(calls)) for user, calls in turns),
        world,
        Provenance("made", "made"),
    )


def files(*turns: tuple[str, list[ToolCall]]) -> Task:
    root: Json = {"home": {"type": "directory", "contents": {}}}
    return made(["GorillaFileSystem"], {"GorillaFileSystem": {"root": root}}, *turns)


def car(*turns: tuple[str, list[ToolCall]]) -> Task:
    locked: dict[str, Json] = dict.fromkeys(
        ("driver", "passenger", "rear_left", "rear_right"), "locked"
    )
    config: dict[str, Json] = {"fuelLevel": 20.0, "doorStatus": locked, "engine_state": "stopped"}
    return made(["VehicleControlAPI"], {"VehicleControlAPI": config}, *turns)


def phi_of(task: Task) -> Profile:
    return dataclasses.replace(Base(ENVIRONMENT, task).profile, state=ablate(ENVIRONMENT, task))


def test_a_file_is_made_and_read() -> None:
    phi = phi_of(
        files(
            ("Make notes.txt.", [call("touch", file_name="notes.txt")]),
            ("Show that file to me.", [call("cat", file_name="notes.txt")]),
        )
    )
    assert phi.value_edges == frozenset()
    assert phi.message_edges == {MessageEdge(0, 1)}
    assert phi.state is not None
    assert phi.state.edges == {Edge(0, 1)}
    assert phi.state.final == {0}, "cat changes nothing"
    assert phi.state.idle == {1}
    assert (phi.depth, phi.state_depth) == (0, 1)
    assert phi.references == (0, 1)
    assert phi.across(phi.state.edges) == {Edge(0, 1)}


def test_the_brake_starts_the_engine() -> None:
    task = car(
        (
            "Press the brake pedal to 1.0 and start the engine.",
            [
                call("pressBrakePedal", pedalPosition=1.0),
                call("displayCarStatus", option="fuel"),
                call("startEngine", ignitionMode="START"),
            ],
        ),
    )
    phi = phi_of(task)
    assert phi.state is not None
    assert phi.state.edges == {Edge(0, 2)}
    assert phi.value_edges == frozenset(), "no value of the brake's result is an argument"
    assert phi.state.final == {0, 2}
    assert phi.across(phi.state.edges) == frozenset()


def test_results_of_earlier_turns_are_references() -> None:
    price = call("mean", numbers=[4, 8])
    phi = phi_of(
        made(
            ["MathAPI"],
            {},
            ("What is the mean of 4 and 8?", [price]),
            ("Round that up from 4 digits.", [call("square_root", number=6.0, precision=4)]),
            ("Add the mean of 4 and 8 to it.", [call("add", a=6.0, b=6.0)]),
        )
    )
    assert phi.value_edges == {Edge(0, 1), Edge(0, 2)}
    assert phi.depth == 1
    assert phi.references == (0, 1, 2)
    assert phi.cross_turn == 3
    assert phi.message_edges == frozenset()
    assert phi.state is not None
    assert phi.state.edges == phi.state.final == frozenset()


def test_an_edge_from_a_text_starts_at_the_latest_turn_that_says_it() -> None:
    phi = phi_of(
        files(
            ("Make the folder plans.", [call("mkdir", dir_name="plans")]),
            ("And plans.txt, too, for the plans", [call("touch", file_name="plans.txt")]),
            ("Thanks.", []),
            ("Go into the folder.", [call("cd", folder="plans")]),
        )
    )
    assert phi.message_edges == {MessageEdge(1, 2)}
    assert phi.calls == (1, 1, 0, 1)
    assert phi.references == (0, 0, 0, 1)
    assert phi.state is not None
    assert phi.state.edges == {Edge(0, 2)}


def test_a_repeated_call_alone_changes_nothing() -> None:
    twice = [call("mkdir", dir_name="plans"), call("cd", folder="plans"), call("pwd")]
    found = ablate(ENVIRONMENT, files(("Make plans, go there; where are we?", twice)))
    assert found.edges == {Edge(0, 1), Edge(0, 2), Edge(1, 2)}
    assert depth(3, found.edges) == 2
    assert found.idle == {2}
    assert found.runs == 4


def test_withheld_tools_and_gaps_make_no_state_edge() -> None:
    turns = [
        ("Add 2.", [call("add", amount=2)]),
        ("What is it?", []),
        ("", [call("total")]),
    ]
    task = notes_task(turns, withheld={0: ("total",), 1: ("total",)})
    found = ablate(NotesEnvironment(), task)
    assert found.edges == {Edge(0, 1)}
    assert found.final == {0}


def test_a_task_without_calls_has_a_profile() -> None:
    environment, task = NotesEnvironment(), notes_task([("Hello.", [])])
    phi = dataclasses.replace(Base(environment, task).profile, state=ablate(environment, task))
    assert (phi.depth, phi.state_depth, phi.cross_turn, phi.references) == (0, 0, 0, (0,))
    assert phi.state is not None and phi.state.runs == 1


def test_worlds_of_an_ablation_are_closed() -> None:
    environment = NotesEnvironment()
    ablate(environment, notes_task([("Add 2.", [call("add", amount=2), call("total")])]))
    assert [world.closed for world in environment.worlds] == [1, 1, 1]


def test_state_edges_do_not_count_in_the_distance() -> None:
    tasks = named("multi_turn_base_98"), named("multi_turn_base_0")
    a, b = (phi_of(task) for task in tasks)
    bare_a, bare_b = (Base(ENVIRONMENT, task).profile for task in tasks)
    assert bare_a.state is None and bare_a.state_depth is None
    assert distance(a, b) == distance(b, a) == distance(a, bare_b) == distance(bare_a, bare_b) > 0
    assert distance(a, a) == 0.0


@pytest.mark.parametrize(
    ("origin", "value", "state", "across", "cross_turn"),
    [
        ("multi_turn_base_3", (3, 1), (5, 2), 0, 4),
        ("multi_turn_base_98", (3, 1), (2, 1), 1, 0),
        ("multi_turn_miss_param_55", (2, 2), (5, 1), 2, 3),
    ],
)
def test_figures_of_originals(
    origin: str, value: tuple[int, int], state: tuple[int, int], across: int, cross_turn: int
) -> None:
    phi = phi_of(named(origin))
    assert phi.state is not None
    assert (len(phi.value_edges), phi.depth) == value
    assert (len(phi.state.edges), phi.state_depth) == state
    assert len(phi.across(phi.state.edges)) == across
    assert phi.cross_turn == cross_turn


@pytest.mark.parametrize("number", [74, 83])
def test_a_rounded_result_is_a_value_edge(number: int) -> None:
    phi = Base(ENVIRONMENT, named(f"multi_turn_base_{number}")).profile
    assert phi.topology[("liter_to_gallon", "fillFuelTank")] == 1
    assert phi.depth == 1


@pytest.mark.parametrize("number", [3, 7, 10, 28, 37])
def test_a_word_inside_a_result_is_a_value_edge(number: int) -> None:
    assert Base(ENVIRONMENT, named(f"multi_turn_base_{number}")).profile.depth == 1


def test_a_ticker_is_not_said_by_its_company() -> None:
    assert Base(ENVIRONMENT, named("multi_turn_base_116")).profile.depth == 1


@pytest.mark.parametrize(("number", "deep"), [(34, 2), (47, 1)])
def test_numbers_read_from_a_file_are_value_edges(number: int, deep: int) -> None:
    phi = Base(ENVIRONMENT, named(f"multi_turn_base_{number}")).profile
    assert phi.topology[("cat", "mean")] == 1
    assert phi.depth == deep


def test_numbers_of_a_text_are_read_whole_and_last() -> None:
    shown = Shown()
    step = trace(ENVIRONMENT, named("multi_turn_base_47")).steps[1]
    assert "John: 100 Jane: 95" in step.result.content
    shown.read(0, step)
    assert shown.within_result(95) == shown.within_result(95.0) == 0
    assert shown.within_result(10) is None, "a part of 100"
    assert shown.within_result(9) is None and shown.within_result(True) is None
    assert shown.within_result(95.5) is None
    padded = dataclasses.replace(
        step, result=dataclasses.replace(step.result, content=step.result.content + " " * 2000)
    )
    other = Shown()
    other.read(0, padded)
    assert other.within_result(95) is None
