"""How many threads torch gets: measured, and measured again."""

import asyncio
import os
import subprocess
import sys
import time

import pytest
import torch

from rods.engines import threads
from rods.engines.hf import HFPolicy
from rods.engines.threads import DECODE, EVERY, ROUNDS, UPDATE, Tuner, retune, set_threads
from tiny_models import build
from trainer_cases import make_groups, make_model, make_scores, make_trainer

pytestmark = pytest.mark.usefixtures("one_thread")


class Machine:
    """Seconds of the kernel by number of threads, and a clock."""

    def __init__(self, **seconds):
        self.alone = {1: 1.0, 2: 0.6, 4: 0.4, 6: 0.35}
        self.beside = {1: 1.2, 2: 6.0, 4: 9.0, 6: 12.0}
        self.seconds, self.now, self.measured = self.alone, 0.0, []

    def measure(self, number):
        self.measured.append(number)
        return self.seconds[number]

    def tuner(self, most):
        return Tuner(most, self.measure, lambda: self.now)


def test_all_cores_where_that_is_quickest():
    machine = Machine()
    assert machine.tuner(2).threads == 2 == torch.get_num_threads()
    machine.seconds = machine.beside
    assert machine.tuner(2).threads == 1 == torch.get_num_threads()


def test_a_busy_machine_is_noticed_and_forgotten():
    machine = Machine()
    tuner = machine.tuner(2)
    machine.seconds, machine.now = machine.beside, EVERY - 0.1
    tuner.tick()
    assert tuner.threads == 2
    machine.now = EVERY
    tuner.tick()
    assert tuner.threads == 1 == torch.get_num_threads()
    count = len(machine.measured)
    tuner.tick()
    assert len(machine.measured) == count
    machine.seconds, machine.now = machine.alone, 2 * EVERY
    tuner.tick()
    assert tuner.threads == 2 == torch.get_num_threads()


def test_many_cores_are_tried_by_doubling_and_later_by_neighbours():
    machine = Machine()
    tuner = machine.tuner(6)
    assert set(machine.measured) == {1, 2, 4, 6} and tuner.threads == 6
    machine.seconds, machine.now = machine.beside, EVERY
    machine.measured.clear()
    tuner.tick()
    assert set(machine.measured) == {4, 6} and tuner.threads == 4


def test_few_threads_are_taken_if_many_gain_little():
    machine = Machine()
    machine.alone[2] = 0.95
    assert machine.tuner(2).threads == 1


def test_one_core_needs_no_measurement():
    machine = Machine()
    assert machine.tuner(1).threads == 1 and not machine.measured


def test_a_number_that_is_set_stays(monkeypatch):
    monkeypatch.setattr(threads, "kernel_seconds", lambda *_: pytest.fail("measured"))
    set_threads(3)
    retune()
    assert torch.get_num_threads() == 3


def test_no_more_than_the_process_may_use(monkeypatch):
    seen = []
    monkeypatch.setattr(threads, "kernel_seconds", lambda _, n: seen.append(n) or 1 / n)
    monkeypatch.setattr("os.sched_getaffinity", lambda _: set(range(8)))
    monkeypatch.setattr("torch.cuda.is_available", lambda: False)
    monkeypatch.delenv("OMP_NUM_THREADS", raising=False)
    set_threads(0)
    assert max(seen) == 8 == torch.get_num_threads()
    monkeypatch.setenv("OMP_NUM_THREADS", "3")
    set_threads(0)
    assert torch.get_num_threads() == 3


def test_a_gpu_leaves_nothing_to_measure(monkeypatch):
    monkeypatch.setattr(threads, "kernel_seconds", lambda *_: pytest.fail("measured"))
    monkeypatch.setattr("torch.cuda.is_available", lambda: True)
    monkeypatch.setattr(threads, "most_threads", lambda: 3)
    set_threads(0)
    retune()
    assert torch.get_num_threads() == 3


@pytest.mark.parametrize("who", ["engine", "trainer"])
def test_rollouts_and_updates_measure_again(who, monkeypatch):
    machine = Machine()
    rows = {"engine": DECODE, "trainer": UPDATE}[who]
    monkeypatch.setattr(threads, "_tuners", {rows: machine.tuner(2)})
    machine.seconds, machine.now = machine.beside, EVERY
    if who == "engine":
        session = HFPolicy(build("qwen3"), (), rows=1, max_context=32).open(0)
        asyncio.run(session.generate([1, 2], 2, 1.0))
    else:
        model = make_model()
        make_trainer(model).update(groups := make_groups(model), make_scores(groups))
    assert torch.get_num_threads() == 1


def test_each_kind_of_work_keeps_its_own_number(monkeypatch):
    asked = []

    def seconds(rows, number):
        asked.append(rows)
        return 1 / number if rows == UPDATE else 1.0

    monkeypatch.setattr(threads, "kernel_seconds", seconds)
    monkeypatch.setattr(threads, "most_threads", lambda: 2)
    monkeypatch.setattr("torch.cuda.is_available", lambda: False)
    set_threads(0)
    assert torch.get_num_threads() == 1
    for _ in range(2):
        retune(UPDATE)
        assert torch.get_num_threads() == 2
        retune()
        assert torch.get_num_threads() == 1
    assert asked.count(UPDATE) == asked.count(DECODE) == 2 * ROUNDS


@pytest.mark.parametrize("rows", [DECODE, UPDATE])
def test_the_kernel_takes_milliseconds(rows):
    started = time.process_time()
    assert threads.kernel_seconds(rows, 1) > 0
    assert time.process_time() - started < 0.1


def test_measurements_that_take_long_become_rare():
    machine = Machine()

    def slow(number):
        machine.now += 0.25
        return machine.measure(number)

    tuner = Tuner(2, slow, lambda: machine.now)
    ended, count = machine.now, len(machine.measured)
    machine.now = ended + 49.0
    tuner.tick()
    assert len(machine.measured) == count
    machine.now = ended + 50.0
    tuner.tick()
    assert len(machine.measured) == 2 * count


@pytest.mark.slow
def test_the_program_does_not_let_threads_spin():
    code = (
        "import os, importlib, rods.cli.main as program; print(os.environ['OMP_WAIT_POLICY']); "
        "os.environ['OMP_WAIT_POLICY'] = 'ACTIVE'; importlib.reload(program); "
        "print(os.environ['OMP_WAIT_POLICY'])"
    )
    bare = {k: v for k, v in os.environ.items() if k != "OMP_WAIT_POLICY"}
    done = subprocess.run([sys.executable, "-c", code], env=bare, capture_output=True)
    assert done.stdout.decode().split() == ["PASSIVE", "ACTIVE"], done.stderr
