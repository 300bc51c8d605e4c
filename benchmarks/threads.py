"""What threads gain on products of a decode step and of an update, alone and beside a process.

Milliseconds of the kernels by which `rods.engines.threads` chooses, medians of `--repeats`.

    python benchmarks/threads.py
"""

from __future__ import annotations

import statistics

from shared import Options
from whole_step import busy

from rods.engines.threads import DECODE, UPDATE, kernel_seconds, most_threads


def main() -> None:
    parser = Options(__doc__, {"repeats": 1})
    parser.add_argument("--repeats", type=int, default=15)
    repeats = parser.parse_args().repeats
    for beside in (False, True):
        with busy(beside):
            for rows in (DECODE, UPDATE):
                for threads in (1, most_threads()):
                    times = [kernel_seconds(rows, threads) for _ in range(repeats)]
                    where = "beside a busy process" if beside else "alone"
                    found = 1000 * statistics.median(times)
                    print(f"{where}: {rows} rows, {threads} threads: {found:.1f} ms")


if __name__ == "__main__":
    main()
