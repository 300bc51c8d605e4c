"""What makes the worlds fast changes no state, no verdict and no character."""

import json
import random
from collections import defaultdict
from typing import Any

import pytest

from rods.envs.bfcl import assets
from rods.envs.bfcl.apis import Apis, Function, json_text, prototype_of
from rods.envs.bfcl.tasks import load_tasks, specs
from rods.envs.bfcl.world import BfclEnvironment
from rods.types import ToolCall, Value

ENVIRONMENT = BfclEnvironment()
BY_TYPE: dict[str, Value] = {
    "string": "a",
    "integer": 1,
    "number": 1.0,
    "boolean": True,
    "array": ["a"],
}


def functions() -> dict[str, Function]:
    return dict(prototype_of(assets.CLASS_NAMES, {}, long_context=False).functions)


def seen_values() -> dict[tuple[str, str], list[Value]]:
    """Arguments of all ground truths, by function and parameter."""
    seen: dict[tuple[str, str], list[Value]] = defaultdict(list)
    for task in load_tasks():
        for turn in task.turns:
            for call in turn.ground_truth:
                for name, value in call.arguments.items():
                    seen[call.name, name].append(value)
    return seen


@pytest.mark.slow
def test_reading_functions_leave_every_public_attribute_as_it_is():
    """In the state after each of many ground truths, each with arguments that occur or fit."""
    seen, rng = seen_values(), random.Random(0)
    asked: set[str] = set()
    for task in load_tasks()[::8]:
        prepared = ENVIRONMENT.prepare(task)
        apis = Apis(prepared.prototype)
        for turn in task.turns:
            for call in turn.ground_truth:
                apis.run(call)
        states = {name: apis.copy_state(name) for name in prepared.prototype.types}
        for name, spec in prepared.specs.items():
            function = prepared.prototype.functions[name]
            if not function.reads:
                continue
            asked.add(name)
            for _ in range(3):
                arguments = {
                    key: rng.choice([*seen[name, key], BY_TYPE[str(schema["type"])]])
                    for key, schema in spec.properties.items()
                    if key in spec.required or rng.random() < 0.5
                }
                apis.run(ToolCall(name, arguments))
                assert apis.unchanged(function.owner, states[function.owner]), (name, arguments)
    declared = specs(assets.CLASS_NAMES)
    assert asked == {name for name, f in functions().items() if f.reads and name in declared}
    assert len(asked) > 50


@pytest.mark.slow
def test_functions_that_change_something_are_not_taken_for_readers():
    changed: set[str] = set()
    for task in load_tasks()[::4]:
        apis = Apis(ENVIRONMENT.prepare(task).prototype)
        for turn in task.turns:
            for call in turn.ground_truth:
                owner = apis.prototype.functions[call.name].owner
                before = apis.copy_state(owner)
                apis.run(call)
                if not apis.unchanged(owner, before):
                    changed.add(call.name)
    assert len(changed) > 25
    assert not any(functions()[name].reads for name in changed)


def test_a_fresh_object_has_the_random_state_of_the_scenario():
    config = {"TravelAPI": {"random_seed": 7}}
    prototype = prototype_of(["TravelAPI"], config, long_context=False)
    one, other = prototype.open("TravelAPI"), prototype.open("TravelAPI")
    expected = random.Random(7)
    assert [one._random.random() for _ in range(3)] == [expected.random() for _ in range(3)]
    assert one._random.gauss(0, 1) == expected.gauss(0, 1)
    assert other._random.getstate() == random.Random(7).getstate()


@pytest.mark.parametrize("count", [0, 199, 200, 201])
@pytest.mark.parametrize("key", ["a", "é\n", 1, None])
def test_text_is_what_json_writes(key: object, count: int):
    for item in (1, 1.0, True, -0.0, 0, "1", 'é"', None, [1, {"a": False}], {"b": [2.5]}):
        value = {"x": "y", key: [item] * count}
        assert json_text(value) == json.dumps(value)


class Odd(str):
    __slots__ = ()


@pytest.mark.parametrize("item", [{1, 2}, b"x", object, Odd("x"), (1, 2), {(1, 2): 3}, 1j])
@pytest.mark.parametrize("count", [1, 300])
def test_what_json_cannot_write_is_written_by_str(item: object, count: int):
    value = {"a": [item] * count, "b": 1}
    try:
        expected = json.dumps(value)
    except TypeError:
        expected = str(value)
    assert json_text(value) == expected


def test_a_value_that_holds_itself_ends():
    value: dict[str, Any] = {"a": 1}
    value["self"] = value
    assert json_text(value) == str(value)
    endless: list[Any] = [1] * 300
    endless.append(endless)
    assert json_text({"a": endless}) == str({"a": endless})
