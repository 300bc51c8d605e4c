"""Milliseconds of a decode step of the embedded engine, with what makes it quick and without.

A few updates of the main job run in this process, and every decode step takes the next form in
turn, so that all of them meet the same work and the same neighbors: as it is, without runs (all
rows are read as wide as the longest), without packed matrices, and without both. Where adapters are
apart (bfloat16), "in one sum" has only the layers' matrices packed, and oneDNN adds the adapters'
part inside the product.

    python benchmarks/decode_step.py --updates 4
    python benchmarks/decode_step.py --profile smollm2 --updates 1 rollout.tasks_per_step=2
"""

from __future__ import annotations

import tempfile
import time
from collections.abc import Sequence
from itertools import cycle
from typing import Any
from unittest.mock import patch

import torch
import torch.nn.functional as F
from shared import SHORT, Options

import rods
from rods.engines import storage
from rods.engines.kv import RowCache
from rods.engines.weights import Fused

FORMS = {
    "as it is": (True, True),
    "without runs": (True, False),
    "without packing": (False, True),
    "without both": (False, False),
    "in one sum": (True, True),
}
"""Whether matrices are packed, whether rows are split."""
_DECODE = RowCache.decode
_CALL = Fused.__call__
_MKLDNN: Any = torch.ops.mkldnn


def _in_one_sum(fused: Any, states: torch.Tensor) -> torch.Tensor:
    """The product with the adapters' part added by oneDNN, before its result is rounded."""
    if len(fused._packed) == 1:
        return _CALL(fused, states)
    added = F.linear(F.linear(states, fused._down), fused._up)
    return _MKLDNN._linear_pointwise(states, added, fused._packed[0], fused.bias, "add")


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
            f._packed = packed if packs else []
        with (
            patch.object(storage, "CALL", storage.CALL if parts else 2**40),
            patch.object(Fused, "__call__", _in_one_sum if form == "in one sum" else _CALL),
        ):
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
    parser.add_argument("--profile", default="small")
    parser.add_argument("settings", nargs="*", help="of the run, as KEY=VALUE")
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
            *arguments.settings,
        )
        rods.train(rods.load_config("rods", arguments.profile, settings), f"{folder}/run")
    for form, steps in meter.steps.items():
        spent, cpu = 1e3 * meter.spent[form] / steps, 1e3 * meter.cpu[form] / steps
        print(f"{form}: {spent:.1f} ms, {cpu:.1f} processor ms of this thread ({steps} steps)")


if __name__ == "__main__":
    main()
