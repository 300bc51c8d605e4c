"""Milliseconds of an update's attention on a CPU: two passes of torch's kernel, and by blocks.

One layer of SmolLM2-135M (9 heads, 3 of keys, of 64 numbers each), forwards and backwards, in turn:
samples of `--tokens` tokens after a shared prefix of `--past`. Also says how far each gradient is
from the exact one.

    python benchmarks/attention.py --threads 1
"""

from __future__ import annotations

import statistics
import time
from collections.abc import Callable

import torch
from shared import Options
from torch import Tensor

from rods.engines.attention import after
from rods.trainers.batches.tree_attention import attend

HEADS, GROUPS, WIDTH = 9, 3, 64
SCALE = WIDTH**-0.5


def two_passes(query: Tensor, keys: Tensor, values: Tensor) -> Tensor:
    past = keys.shape[2] - query.shape[2]
    parts = [t[:, :, some] for some in (slice(past), slice(past, None)) for t in (keys, values)]
    return after(query, *parts, SCALE)


def blocks(query: Tensor, keys: Tensor, values: Tensor) -> Tensor:
    return attend(query, keys, values, SCALE)


FORMS: dict[str, Callable[..., Tensor]] = {"two passes": two_passes, "blocks": blocks}


def gradients(form: Callable[..., Tensor], inputs: list[Tensor], slope: Tensor) -> list[Tensor]:
    return list(torch.autograd.grad(form(*inputs), inputs, slope))


def main() -> None:
    parser = Options(__doc__, {"repeats": 1, "tokens": 40, "past": 20})
    for name, value in {"threads": 2, "repeats": 15, "tokens": 600, "past": 320}.items():
        parser.add_argument(f"--{name}", type=int, default=value)
    options = parser.parse_args()
    torch.set_num_threads(options.threads)
    generator = torch.Generator().manual_seed(0)
    lengths = (options.tokens, *[options.past + options.tokens] * 2)
    shapes = [(1, h, n, WIDTH) for h, n in zip((HEADS, GROUPS, GROUPS), lengths, strict=True)]
    numbers = [1.5 * torch.randn(shape, generator=generator) for shape in shapes]
    slope = torch.randn(shapes[0], generator=generator).bfloat16()
    halves = [t.bfloat16().requires_grad_() for t in numbers]
    exact = [t.detach().double().requires_grad_() for t in halves]
    right = gradients(two_passes, exact, slope.double())
    spent: dict[str, list[float]] = {name: [] for name in FORMS}
    for turn in range(options.repeats + 1):
        for name, form in FORMS.items():
            started = time.perf_counter()
            found = gradients(form, halves, slope)
            spent[name].append(1e3 * (time.perf_counter() - started))
            if not turn:
                pairs = zip(found, right, strict=True)
                errors = [float((a - b).norm() / b.norm()) for a, b in pairs]
                print(f"{name}: error of queries, keys, values {errors}")
    for name, times in spent.items():
        print(f"{name}: {statistics.median(times[1:]):.1f} ms, median of {options.repeats}")


if __name__ == "__main__":
    main()
