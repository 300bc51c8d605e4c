"""How many threads torch gets: measured once at the start, by kind of work."""

import asyncio
import os
import subprocess
import sys
import time
from itertools import count, cycle

import pytest
import torch

from rods.engines import threads
from rods.engines.hf import HFPolicy
from rods.engines.threads import DECODE, ROUNDS, UPDATE, quickest, set_threads, use_threads
from tiny_models import build
from trainer_cases import make_groups, make_model, make_scores, make_trainer

pytestmark = pytest.mark.usefixtures("one_thread")

ALONE = {1: 1.0, 2: 0.6, 4: 0.4, 6: 0.35}
BESIDE = {1: 1.2, 2: 6.0, 4: 9.0, 6: 12.0}
"""Seconds of the kernel by number of threads, on an idle machine and beside another process."""


def seconds_of(monkeypatch, table):
    measured = []

    def seconds(rows, number):
        measured.append((rows, number))
        return table[number]

    monkeypatch.setattr(threads, "kernel_seconds", seconds)
    return measured


@pytest.mark.parametrize(
    ("table", "most", "expected"),
    [
        (ALONE, 2, 2),
        (BESIDE, 2, 1),
        (ALONE, 6, 6),
        (BESIDE, 6, 1),
        ({1: 1.0, 2: 0.95}, 2, 1),  # two gain little
        (ALONE, 1, 1),
    ],
)
def test_the_quickest_number_is_taken(monkeypatch, table, most, expected):
    measured = seconds_of(monkeypatch, table)
    assert quickest(DECODE, most) == expected
    tried = {1: set(), 2: {1, 2}, 6: {1, 2, 4, 6}}[most]  # one core needs no measurement
    assert {number for _, number in measured} == tried
    assert len(measured) == ROUNDS * len(tried)


def test_a_busy_machine_ends_the_measurement_early(monkeypatch):
    """Beside nine processes two threads took a hundred times as long, and many take minutes."""
    monkeypatch.setattr(threads.time, "perf_counter", count(step=10.0).__next__)
    done = []
    monkeypatch.setattr(threads, "silu", lambda x: done.append(x) or x)
    assert threads.kernel_seconds(DECODE, 1) == 20 * 10.0, "one layer of twenty says how long"
    assert len(done) == 1
    measured = seconds_of(monkeypatch, BESIDE)
    assert quickest(DECODE, 6) == 1 and measured == [(DECODE, n) for n in (1, 2, 4, 6)]


def test_a_number_that_is_given_stays(monkeypatch):
    monkeypatch.setattr(threads, "kernel_seconds", lambda *_: pytest.fail("measured"))
    set_threads(3)
    use_threads(UPDATE)
    assert torch.get_num_threads() == 3


def test_no_more_than_the_process_may_use(monkeypatch):
    measured = seconds_of(monkeypatch, {n: 1 / n for n in range(1, 9)})
    monkeypatch.setattr("os.sched_getaffinity", lambda _: set(range(8)))
    monkeypatch.setattr("torch.cuda.is_available", lambda: False)
    monkeypatch.delenv("OMP_NUM_THREADS", raising=False)
    set_threads(0)
    assert max(number for _, number in measured) == 8 == torch.get_num_threads()
    monkeypatch.setenv("OMP_NUM_THREADS", "3")
    set_threads(0)
    assert torch.get_num_threads() == 3


def test_a_gpu_leaves_nothing_to_measure(monkeypatch):
    monkeypatch.setattr(threads, "kernel_seconds", lambda *_: pytest.fail("measured"))
    monkeypatch.setattr("torch.cuda.is_available", lambda: True)
    monkeypatch.setattr(threads, "most_threads", lambda: 3)
    set_threads(0)
    use_threads(UPDATE)
    assert torch.get_num_threads() == 3


def test_each_kind_of_work_has_its_own_number_measured_once(monkeypatch):
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
        use_threads(UPDATE)
        assert torch.get_num_threads() == 2
        use_threads(DECODE)
        assert torch.get_num_threads() == 1
    assert asked.count(UPDATE) == asked.count(DECODE) == 2 * ROUNDS


@pytest.mark.parametrize("who", ["engine", "trainer"])
def test_rollouts_and_updates_use_their_numbers(who, monkeypatch):
    torch.set_num_threads(1)
    monkeypatch.setattr(threads, "_measured", {DECODE: 2, UPDATE: 3})
    if who == "engine":
        session = HFPolicy(build("qwen3"), (), rows=1, max_context=32).open(0)
        asyncio.run(session.generate([1, 2], 2, 1.0))
    else:
        model = make_model()
        make_trainer(model).update(groups := make_groups(model), make_scores(groups))
    assert torch.get_num_threads() == {"engine": 2, "trainer": 3}[who]


@pytest.mark.parametrize(
    ("half", "pays"), [(0.5, True), (0.6, True), (0.7, False), (3.0, False), (9.0, False)]
)
def test_bfloat16_is_measured_beside_float32(half, pays, monkeypatch):
    bursts = cycle([5.0, 1.0, 1.0, 1.0, 1.0, 4.0])  # of load: the best of some rounds counts
    widths = []

    def seconds(rows, number, width, dtype):
        assert number == torch.get_num_threads()
        widths.append(width)
        return next(bursts) * (half if dtype is torch.bfloat16 else 1.0)

    monkeypatch.setattr(threads, "kernel_seconds", seconds)
    threads.bfloat16_pays.cache_clear()
    assert threads.bfloat16_pays(576) is pays
    assert threads.bfloat16_pays(576) is pays  # measured once
    threads.bfloat16_pays.cache_clear()
    # Without the hardware a wide product takes seconds, and one of a large model minutes.
    assert widths == [threads.NARROW] * 6 + [576] * 6 * (half < 4)


@pytest.mark.parametrize("rows", [DECODE, UPDATE])
def test_the_kernel_takes_milliseconds(rows):
    started = time.process_time()
    assert threads.kernel_seconds(rows, 1) > 0
    assert time.process_time() - started < 0.1


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
