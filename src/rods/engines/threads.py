"""CPU threads of torch: as many as a measurement at the start says.

Threads that work on one product wait for each other at its end. Where another process takes a core,
one of them waits for that process, and two threads become several times slower than one. So the
number is not that of the cores: kernels as long as those of the work are timed with few and with
many threads, once. Owns torch's number of threads, which is one for the whole process.

    set_threads(0)          # measured; any other number is taken as it is
    use_threads(UPDATE)     # before work of this kind

The number changes the order of sums, hence the last digits: set it to repeat runs bit by bit.
"""

from __future__ import annotations

import os
import time
from functools import cache

import torch
from torch.nn.functional import silu

MARGIN = 1.1
"""The least number of threads within this factor of the quickest is taken."""
DECODE, UPDATE = 64, 2048
"""Rows of the products of a decode step and of an update, which another process disturbs less: its
threads meet less often."""
GAIN = 1.5
"""Times as fast as float32 that bfloat16 has to be on a CPU, before it is taken unasked."""
NARROW = 256
"""Hidden size of a small decoder."""
ROUNDS = 3
"""Times that each number is measured, in turns, so that a burst of load meets all of them."""
LONGEST = 1.0
"""Seconds after which no layer of a kernel and no round begins: beside many processes two threads
take a hundred times as long, which one layer shows."""

_measured: dict[int, int] = {}
"""Number of threads by the rows of the work; empty: one number was given for all work."""


def set_threads(threads: int) -> None:
    """Set torch's CPU threads; 0: as a measurement says, at most as many as the process may use.

    It may use the cores of its affinity, and no more than `OMP_NUM_THREADS`, where that is set.
    With a GPU, which leaves little to the CPU, all of them, unmeasured.
    """
    _measured.clear()
    if threads or torch.cuda.is_available():
        torch.set_num_threads(threads or most_threads())
    else:
        _measured.update({rows: quickest(rows, most_threads()) for rows in (DECODE, UPDATE)})
        use_threads(DECODE)


def use_threads(rows: int) -> None:
    """Set the number that was measured for work of so many rows, `DECODE` or `UPDATE`."""
    if _measured and torch.get_num_threads() != _measured[rows]:
        torch.set_num_threads(_measured[rows])


def quickest(rows: int, most: int) -> int:
    """The number among 1, 2, 4, ... and `most` that does work of so many rows quickest."""
    numbers = [n for n in (2**i for i in range(most.bit_length())) if n < most] + [most]
    spent = dict.fromkeys(numbers, 0.0)
    started = time.perf_counter()
    for n in range(ROUNDS if len(numbers) > 1 else 0):
        if n and time.perf_counter() - started > LONGEST:
            break
        for number in numbers:
            spent[number] += kernel_seconds(rows, number)
    bound = MARGIN * min(spent.values())
    return next(n for n in numbers if spent[n] <= bound)


def most_threads() -> int:
    """Cores that this process may use, and no more than `OMP_NUM_THREADS`."""
    affinity = getattr(os, "sched_getaffinity", None)  # Linux only
    cores = len(affinity(0)) if affinity else os.cpu_count() or 1
    asked = os.environ.get("OMP_NUM_THREADS", "")
    return min(cores, int(asked)) if asked.isdecimal() and int(asked) else cores


@cache
def bfloat16_pays(width: int) -> bool:
    """Measure, once, whether this CPU computes models with so wide a hidden state faster so."""

    def gain(width: int) -> float:
        kinds, rows, threads = (torch.float32, torch.bfloat16), UPDATE // 4, torch.get_num_threads()
        rounds = [[kernel_seconds(rows, threads, width, k) for k in kinds] for _ in range(ROUNDS)]
        exact, half = (min(seconds) for seconds in zip(*rounds, strict=True))
        return exact / half

    # Narrow products first: without the hardware they take over ten times as long as float32,
    # and wide ones would take minutes.
    return gain(NARROW) > 0.25 and gain(width) >= GAIN


def kernel_seconds(
    rows: int, threads: int, width: int = NARROW, dtype: torch.dtype = torch.float32
) -> float:
    """Seconds of a few layers of a small decoder over so many rows; sets the number of threads."""
    torch.set_num_threads(threads)
    layers, done, spent = max(1, 20 * DECODE // rows), 0, 0.0
    with torch.inference_mode():
        hidden = torch.ones(rows, width, dtype=dtype)
        weight = torch.full((4 * width, width), 1e-3, dtype=dtype)
        started = time.perf_counter()
        while done < layers and spent < LONGEST:
            wide = silu(hidden @ weight.T)
            hidden = (wide @ weight).softmax(-1)
            done, spent = done + 1, time.perf_counter() - started
    return spent * layers / done
