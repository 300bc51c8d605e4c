"""Share of the machine's matrix rate that rollouts and updates of the main job reach on one thread.

The rate is that of a float32 product of 1,024 x 1,024. What counts of a prefill and of a decode
step are the products of the layers and, for logits, of the head; of an update all products that
torch ran. Attention, norms and activations are time without credit. Processor time of one thread.

    python benchmarks/matrix_share.py --updates 3
"""

from __future__ import annotations

import statistics
import tempfile
import time
from collections.abc import Callable, Sequence
from typing import Any
from unittest.mock import patch

import torch
from shared import SHORT, Options
from torch.profiler import ProfilerActivity, profile

import rods
from rods.engines.kv import RowCache
from rods.trainers.local import LocalTrainer

_PREFILL, _DECODE, _UPDATE = RowCache.prefill, RowCache.decode, LocalTrainer.update


class Meter:
    """Operations and processor seconds of each part."""

    def __init__(self) -> None:
        self.operations = dict.fromkeys(("prefill", "decode step", "update"), 0.0)
        self.seconds = dict.fromkeys(self.operations, 0.0)
        self.rates: list[float] = []

    def prefill(self, cache: Any, rows: Sequence[int], chunks: Sequence[Sequence[int]]) -> Any:
        tokens = sum(map(len, chunks))
        return self._timed(
            "prefill", cache, tokens, len(rows), lambda: _PREFILL(cache, rows, chunks)
        )

    def decode(self, cache: Any, rows: Sequence[int], ids: Sequence[int]) -> Any:
        return self._timed(
            "decode step", cache, len(rows), len(rows), lambda: _DECODE(cache, rows, ids)
        )

    def update(self, trainer: Any, *given: Any) -> Any:
        self.rates.append(matrix_rate())
        with profile(activities=[ProfilerActivity.CPU], with_flops=True) as seen:
            started = time.thread_time()
            report = _UPDATE(trainer, *given)
            self.seconds["update"] += time.thread_time() - started
        self.operations["update"] += sum(
            event.flops for event in seen.key_averages() if event.key == "aten::mm"
        )
        return report

    def _timed(
        self, part: str, cache: Any, tokens: int, logits: int, work: Callable[[], Any]
    ) -> Any:
        w = cache._w
        layers = sum(f.weight.numel() for x in w.layers for f in (x.qkv, x.out, x.gate_up, x.down))
        self.operations[part] += 2 * (tokens * layers + logits * w.head.weight.numel())
        started = time.thread_time()
        done = work()
        self.seconds[part] += time.thread_time() - started
        return done


def matrix_rate() -> float:
    """Operations a processor second of a product of 1,024 x 1,024."""
    a = torch.ones(1024, 1024)
    started = time.thread_time()
    for _ in range(20):
        a @ a
    return 20 * 2 * 1024**3 / (time.thread_time() - started)


def main() -> None:
    parser = Options(__doc__, {"updates": 1})
    parser.add_argument("--updates", type=int, default=3)
    options, meter = parser.parse_args(), Meter()
    settings = (
        f"updates={options.updates}",
        "model.threads=1", "evaluation.tasks=1", "evaluation.variants=0",
        *(SHORT if options.quick else ()),
    )  # fmt: skip
    with (
        tempfile.TemporaryDirectory() as folder,
        patch.object(RowCache, "prefill", lambda *given: meter.prefill(*given)),
        patch.object(RowCache, "decode", lambda *given: meter.decode(*given)),
        patch.object(LocalTrainer, "update", lambda *given: meter.update(*given)),
    ):
        rods.train(rods.load_config("rods", "small", settings), f"{folder}/run")
    rate = statistics.median(meter.rates)
    print(f"product of 1,024 x 1,024: {rate / 1e9:.0f} Gop a processor second")
    for part, seconds in meter.seconds.items():
        reached = meter.operations[part] / seconds
        print(f"{part}: {seconds:.1f} s, {reached / 1e9:.0f} Gop/s, {reached / rate:.0%} of it")


if __name__ == "__main__":
    main()
