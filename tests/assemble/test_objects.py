"""An environment and tasks as objects of a Python program."""

from __future__ import annotations

import importlib
import shutil
import subprocess
import sys
from collections.abc import Callable
from contextlib import nullcontext
from pathlib import Path
from typing import Any

import pytest
from examples.library_loans.service import Library, library

import forked
import rods
from notebook_cell import in_cell
from places import ROOT
from rods.assemble.tasks import with_objects
from rods.config.bundled import BUNDLED
from rods.envs.tool_classes import ToolClasses
from rods.errors import ConfigError, StoreError
from rods.task import Provenance, Task, Turn, read_tasks, write_tasks
from rods.trainers.hosted import HostedRun
from rods.trajectory_codec import read_parquet
from rods.types import ToolCall

TASKS = list(read_tasks(ROOT / "examples" / "library_loans" / "tasks.jsonl"))
SCRIPT = """
import sys

sys.path.insert(0, {root!r})
import rods
from examples.library_loans.service import Library
from rods.envs.tool_classes import ToolClasses
from rods.task import read_tasks

desk = ToolClasses("library", [Library])

def main():
    config = rods.load_config("rods", "small", ["synthesis.writer=graph"])
    tasks = list(read_tasks({tasks!r}))
    made = rods.synthesize(config, 3, seed=5, environment=desk, tasks=tasks)
    print(len(made), {{task.env for task in made}})
{guard}main()
"""
CAR = """
from rods.envs.tool_classes import ToolClasses


class Car:
    def __init__(self, fuel: float = 0.0):
        self.fuel = fuel

    def fillFuelTank(self, fuelAmount: float) -> dict[str, float]:
        '''Fill the tank.

        Args:
            fuelAmount: gallons
        '''
        self.fuel += fuelAmount
        return {"fuelLevel": self.fuel}


class Counted(ToolClasses):
    opened = 0

    def open(self, task):
        self.opened += 1
        return super().open(task)


car = Counted("car", [Car])
"""
"""A module of the user: an environment with state of its own, and a tool that `tiny` calls."""


def test_a_file_in_the_place_of_a_folder_is_one_message(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    Path("runs").touch()
    config = rods.load_config("rods", "small", ["curriculum=static"])
    with pytest.raises(StoreError, match="runs is a file; expected a folder"):
        with_objects(config, None, TASKS)
    run = HostedRun(config, lambda _: Any, [], lambda _: nullcontext(), Any)
    with run, pytest.raises(StoreError, match="runs is a file; expected a folder"):
        run.open("runs/mine")


def test_an_object_becomes_the_name_of_what_it_is(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    config = rods.load_config()
    assert with_objects(config, None, None) is config
    named = with_objects(config, library, TASKS)
    assert named.env.name == "examples.library_loans.service:library"
    (file,) = named.env.tasks
    assert list(read_tasks(file)) == TASKS and Path(file).parent == Path("runs")
    assert with_objects(config, None, TASKS).env.tasks == (file,)
    assert with_objects(config, None, TASKS[:5]).env.tasks != (file,)
    assert with_objects(config, None, TASKS).env.name == config.env.name


def test_a_module_beside_the_program_is_named_by_its_file(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Another process starts elsewhere and has another search path."""
    file = tmp_path / "desk_of_objects.py"
    file.write_text(
        "from examples.library_loans.service import Library\n"
        "from rods.envs.tool_classes import ToolClasses\n"
        'desk = ToolClasses("library", [Library])\n'
    )
    monkeypatch.syspath_prepend(tmp_path)
    import desk_of_objects  # pyright: ignore[reportMissingImports]

    assert with_objects(rods.load_config(), desk_of_objects.desk, None).env.name == f"{file}:desk"


def test_what_no_module_holds_is_refused() -> None:
    with pytest.raises(ConfigError, match=r"not at the top of a module.*Assign it"):
        with_objects(rods.load_config(), ToolClasses("library", [Library]), None)


@pytest.mark.slow
def test_a_script_synthesizes_with_its_own_environment(tmp_path: Path) -> None:
    tasks = str(tmp_path / "tasks.jsonl")
    write_tasks(tasks, TASKS)

    def run(guard: str) -> subprocess.CompletedProcess[str]:
        script = tmp_path / "script.py"
        script.write_text(SCRIPT.format(root=str(ROOT), tasks=tasks, guard=guard))
        return forked.run([str(script)], tmp_path)

    done = run('if __name__ == "__main__":\n    ')
    assert done.stdout == "3 {'library'}\n", done.stderr
    refused = run("")
    assert refused.returncode and 'Put the call under: if __name__ == "__main__":' in refused.stderr


def fill(gallons: float) -> Task:
    turn = Turn(
        f"Please fill the fuel tank of the car with {gallons:g} gallons.",
        (ToolCall("fillFuelTank", {"fuelAmount": gallons}),),
    )
    world = {"classes": ["Car"], "initial_config": {"Car": {"fuel": gallons / 2}}}
    return Task("car", "base", (turn,), world, Provenance(turn.user, turn.user))


@pytest.mark.slow
@pytest.mark.usefixtures("worker_thread")
@pytest.mark.parametrize("place", [lambda work: work(), in_cell], ids=["script", "notebook"])
def test_a_program_trains_evaluates_and_synthesizes_with_its_own_objects(
    place: Callable[..., Any], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The policy is a copy of `tiny`: as a model of one's own, it may meet any tools."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.syspath_prepend(str(tmp_path))
    (tmp_path / "car_of_objects.py").write_text(CAR)
    car = importlib.import_module("car_of_objects").car
    monkeypatch.setattr(sys.modules["__main__"], "car", car, raising=False)  # from ... import car
    shutil.copytree(BUNDLED["tiny"], "own")
    small = ["model.name=own", "model.threads=1", "engine.name=hf", "synthesis.writer=graph"]
    small += ["updates=1", "rollout.k=2", "rollout.tasks_per_step=2", "rollout.step_tokens=32"]
    small += ["rollout.generated_tokens=32", "rollout.temperature=0.2"]
    small += ["evaluation.tasks=2", "evaluation.variants=0"]
    config = rods.load_config("rods", "small", [*small, "evaluation.samples=0"])
    given: dict[str, Any] = {"environment": car, "tasks": [fill(float(n)) for n in range(10, 18)]}

    run = place(lambda: rods.train(config, "run", **given))
    checkpoint = run.latest_checkpoint()
    assert checkpoint and checkpoint.step == 1
    rolled_out = [*read_parquet(run.trajectories / "step-000001.parquet")]
    assert len(rolled_out) == 4
    assert any(call.name == "fillFuelTank" for t in rolled_out for s in t.steps for call in s.calls)
    trained = car.opened
    assert trained >= 4 + 2 * 2, "all rollouts are of this object: an update, two evaluations"

    rows = place(lambda: rods.evaluate(config, run.path, **given))
    assert len(rows) == 2 and car.opened >= trained + 2
    assert rows == [r for r in run.metrics() if r["kind"] == "eval"][-1]["rows"]

    variants = place(lambda: rods.synthesize(config, 2, **given))
    assert len(variants) == 2 and all(v.provenance.ancestors for v in variants)
