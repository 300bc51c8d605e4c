"""Milliseconds of a decode step of the embedded engine, with what makes it quick and without.

`packed` is the engine as it is; `plain` multiplies with matrices that are not packed for the CPU;
`one rectangle` reads all rows as wide as the longest. The cases are of the main job: few rows at a
step's end, all of them at its start, their own tokens of two lengths. Least of twelve medians.

    python benchmarks/decode_step.py --threads 1
"""

from __future__ import annotations

import argparse
import random
import statistics
import time
from contextlib import ExitStack
from pathlib import Path
from unittest.mock import patch

import torch
from transformers import AutoModelForCausalLM

import rods
from rods.engines.kv import RowCache

POLICY = Path(rods.__file__).parent / "policies" / "tiny"
CASES = ((4, 600, 700), (10, 600, 850), (27, 500, 650), (64, 300, 300))
"""Rows, tokens of the prompts that eight rows share, most tokens of a row's own."""
KINDS: dict[str, dict[str, int]] = {
    "packed": {},
    "plain": {"rods.engines.weights.PACKED": 0},
    "one rectangle": {"rods.engines.runs.CALL": 2**40},
}


def filled(model: torch.nn.Module, rows: int, prompt: int, longest: int) -> RowCache:
    """A cache as it is in the middle of a step: groups of eight, some much further than others."""
    draw = random.Random(0)

    def ids(count: int) -> list[int]:
        return [draw.randrange(5, 3000) for _ in range(count)]

    cache = RowCache(model, 64, 2048, torch.device("cpu"), torch.float32)
    for first in range(0, rows, 8):
        cache.prefill([first], [ids(prompt)])
        for row in range(first + 1, min(rows, first + 8)):
            cache.fork(first, row, prompt - 1)
    for row in range(rows):
        cache.prefill([row], [ids(longest if row // 4 % 2 else longest // 3)])
    return cache


def milliseconds(cache: RowCache, rows: int) -> float:
    """Of a step; the least of medians, since what else runs only ever adds."""
    lengths = list(cache.lengths)
    medians: list[float] = []
    for _ in range(12):
        times: list[float] = []
        for _ in range(12):
            cache.lengths[:] = lengths
            started = time.perf_counter()
            cache.decode(range(rows), [7] * rows)
            times.append(time.perf_counter() - started)
        medians.append(statistics.median(times))
    return 1e3 * min(medians)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--threads", type=int, default=1)
    torch.set_num_threads(parser.parse_args().threads)
    model = AutoModelForCausalLM.from_pretrained(POLICY, dtype=torch.float32)
    for rows, prompt, longest in CASES:
        found: list[str] = []
        for kind, settings in KINDS.items():
            with ExitStack() as stack:
                for name, value in settings.items():
                    stack.enter_context(patch(name, value))
                spent = milliseconds(filled(model, rows, prompt, longest), rows)
                found.append(f"{kind} {spent:.1f} ms")
        print(f"{rows} rows, prompt {prompt}, own {longest // 3} to {longest}: {', '.join(found)}")


if __name__ == "__main__":
    main()
