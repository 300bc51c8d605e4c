"""CPU threads of torch: as many as a measurement says, and the measurement is repeated.

Threads that work on one product wait for each other at its end. As soon as another process takes a
core, one of them waits for that process, and two threads become several times slower than one. So
the number is not that of the cores: a kernel as long as those of the work is timed with few and
with many threads, at the start and every few seconds. Owns torch's number of threads, which is one
for the whole process.

    set_threads(0)      # measured; any other number is kept
    retune(UPDATE)      # within a loop; nearly always it only looks at the clock

The number changes the order of sums, hence the last digits: runs that are to repeat bit by bit set
it.
"""

from __future__ import annotations

import os
import time
from collections.abc import Callable
from functools import partial

import torch
from torch.nn.functional import silu

EVERY = 5.0
"""Seconds between measurements, which take about 0.1 on an idle machine."""
SHARE = 0.02
"""Largest share of the time that measurements take; on a busy machine they become rare."""
MARGIN = 1.1
"""The least number of threads within this factor of the quickest is taken."""
DECODE, UPDATE = 64, 2048
"""Rows of the products of a decode step and of an update, which another process disturbs less: its
threads meet less often."""
ROUNDS = 2
"""Times that each number is measured, in turns, so that a burst of load meets all of them."""


class Tuner:
    """Chooses among 1, 2, 4, ... threads."""

    def __init__(
        self,
        most: int,
        measure: Callable[[int], float],
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        """Measure and set for the first time.

        Args:
            most: threads at most.
            measure: seconds that a kernel takes with so many threads.
            clock: seconds.
        """
        self._numbers = [n for n in (2**i for i in range(most.bit_length())) if n < most] + [most]
        self._measure, self._clock = measure, clock
        self.threads = most
        """The number chosen last."""
        self._choose(self._numbers)

    def tick(self) -> None:
        """Set the number; measure again if the last measurement is old."""
        if self._clock() >= self._due:
            place = self._numbers.index(self.threads)
            self._choose(self._numbers[max(0, place - 1) : place + 2])
        elif torch.get_num_threads() != self.threads:
            torch.set_num_threads(self.threads)

    def _choose(self, numbers: list[int]) -> None:
        """Take the best of some numbers; set it."""
        started = self._clock()
        spent = dict.fromkeys(numbers, 0.0)
        for _ in range(ROUNDS if len(numbers) > 1 else 0):
            for number in numbers:
                spent[number] += self._measure(number)
        bound = MARGIN * min(spent.values())
        self.threads = next(n for n in numbers if spent[n] <= bound)
        torch.set_num_threads(self.threads)
        ended = self._clock()
        self._due = ended + max(EVERY, (ended - started) / SHARE)


_tuners: dict[int, Tuner] | None = None
"""By the rows of the work; None: a number was told."""


def set_threads(threads: int) -> None:
    """Set torch's CPU threads; 0: as a measurement says, at most as many as the process may use.

    It may use the cores of its affinity, and no more than `OMP_NUM_THREADS`, where that is set.
    With a GPU, which leaves little to the CPU, all of them, unmeasured.
    """
    global _tuners
    _tuners = None
    if threads or torch.cuda.is_available():
        torch.set_num_threads(threads or most_threads())
    else:
        _tuners = {}
        retune()


def retune(rows: int = DECODE) -> None:
    """Set the number that work of so many rows wants, if numbers are measured ones.

    Each kind of work has its own, measured when it is first asked for and from time to time.
    """
    if _tuners is None:
        return
    if rows not in _tuners:
        _tuners[rows] = Tuner(most_threads(), partial(kernel_seconds, rows))
    _tuners[rows].tick()


def most_threads() -> int:
    """Cores that this process may use, and no more than `OMP_NUM_THREADS`."""
    affinity = getattr(os, "sched_getaffinity", None)  # Linux only
    cores = len(affinity(0)) if affinity else os.cpu_count() or 1
    asked = os.environ.get("OMP_NUM_THREADS", "")
    return min(cores, int(asked)) if asked.isdecimal() and int(asked) else cores


def kernel_seconds(rows: int, threads: int) -> float:
    """Seconds of a few layers of a small decoder over so many rows; sets the number of threads."""
    torch.set_num_threads(threads)
    with torch.inference_mode():
        hidden, weight = torch.ones(rows, 256), torch.full((1024, 256), 1e-3)
        started = time.perf_counter()
        for _ in range(max(1, 20 * DECODE // rows)):
            wide = silu(hidden @ weight.T)
            hidden = (wide @ weight).softmax(-1)
        return time.perf_counter() - started
