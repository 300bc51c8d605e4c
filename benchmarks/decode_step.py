"""Milliseconds of a decode step of the embedded engine, with what makes it quick and without.

A few updates of the main job run in this process, and every decode step takes the next of four
forms in turn, so that all of them meet the same work and the same neighbors: as it is, without
runs (all rows are read as wide as the longest), without packed matrices, and without both.

    python benchmarks/decode_step.py --updates 4
"""

from __future__ import annotations

import tempfile
import time
from collections.abc import Sequence
from itertools import cycle
from typing import Any
from unittest.mock import patch

import torch
from shared import SHORT, Options

import rods
from rods.engines import storage
from rods.engines.kv import RowCache

FORMS = {
    "as it is": (True, True),
    "without runs": (True, False),
    "without packing": (False, True),
    "without both": (False, False),
}
"""Whether matrices are packed, whether rows are split."""
_DECODE = RowCache.decode


class Meter:
    """Decodes in turns and adds up what each form took."""

    def __init__(self) -> None:
        self._turns = cycle(FORMS)
        self.steps = dict.fromkeys(FORMS, 0)
        self.spent = dict.fromkeys(FORMS, 0.0)
        self.cpu = dict.fromkeys(FORMS, 0.0)

    def decode(self, cache: Any, rows: Sequence[int], ids: Sequence[int]) -> torch.Tensor:
        form = next(self._turns)
        packs, parts = FORMS[form]
        weights = cache._w
        fused = [f for x in weights.layers for f in (x.qkv, x.out, x.gate_up, x.down)]
        kept = [(f, f._packed) for f in (*fused, weights.head)]
        for f, packed in kept:
            f._packed = packed if packs else None
        with patch.object(storage, "CALL", storage.CALL if parts else 2**40):
            started, began = time.perf_counter(), time.thread_time()
            logits = _DECODE(cache, rows, ids)
            self.cpu[form] += time.thread_time() - began
            self.spent[form] += time.perf_counter() - started
        for f, packed in kept:
            f._packed = packed
        self.steps[form] += 1
        return logits


def main() -> None:
    parser = Options(__doc__, {"updates": 1})
    parser.add_argument("--updates", type=int, default=4)
    parser.add_argument("--threads", type=int, default=1)
    arguments = parser.parse_args()
    meter = Meter()
    with (
        tempfile.TemporaryDirectory() as folder,
        patch.object(RowCache, "decode", lambda *given: meter.decode(*given)),
    ):
        settings = (
            f"updates={arguments.updates}",
            f"model.threads={arguments.threads}",
            "evaluation.tasks=1",
            "evaluation.variants=0",
            *(SHORT if arguments.quick else ()),
        )
        rods.train(rods.load_config("rods", "small", settings), f"{folder}/run")
    for form, steps in meter.steps.items():
        spent, cpu = 1e3 * meter.spent[form] / steps, 1e3 * meter.cpu[form] / steps
        print(f"{form}: {spent:.1f} ms, {cpu:.1f} processor ms of this thread ({steps} steps)")


if __name__ == "__main__":
    main()
