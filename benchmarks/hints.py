"""What hints are worth to an agent that does nothing but read results.

Failing calls are made from the benchmark's ground truths, by slips in the name, in parameters, in
types and in values, and by calls made too early. A scripted agent mends each in at most `--calls`
further calls, once by the world's own errors and once under the layer of hints
(`rods.envs.hints`). It knows what it meant (of a wrong value: the wrong one) and no documentation:
every name, parameter, value and call that it tries stands in a result. Mended: the ground truth's
very call succeeded. Nothing here is learned.

    python benchmarks/hints.py --failures 2000
"""

from __future__ import annotations

import difflib
import re
from collections import Counter
from collections.abc import Iterator, Mapping

from shared import Options

from bfcl_failures import Failure, failures, world_before
from rods.env import World
from rods.envs.bfcl.tasks import load_tasks
from rods.envs.bfcl.world import BfclEnvironment
from rods.envs.hints import hinted
from rods.infra.pycall import CallSyntaxError, parse_python_calls
from rods.types import ToolCall, Value

WRITTEN = re.compile(r"\b\w+\([^()]*\)")
NAMES = re.compile(r"\b(\w+)\(")
QUOTED = re.compile(r"'([^'\n]+)'")
WORDS = re.compile(r"\w+")


def main() -> None:
    parser = Options(__doc__, {"failures": 20})
    parser.add_argument("--failures", type=int, default=2_000)
    parser.add_argument("--calls", type=int, default=4, help="after the failing one")
    parser.add_argument("--seed", type=int, default=0)
    options = parser.parse_args()
    environment = BfclEnvironment()
    seen: Counter[str] = Counter()
    mended: Counter[tuple[str, bool]] = Counter()
    for failure in failures(load_tasks(), options.failures, environment, options.seed):
        for kind in (failure.kind, "all"):
            seen[kind] += 1
        for layer in (False, True):
            world: World = world_before(failure, environment)
            right = mends(failure, hinted(world) if layer else world, options.calls)
            for kind in (failure.kind, "all"):
                mended[kind, layer] += right
    print(f"{'slip':<8} {'calls':>6} {'errors alone':>13} {'with hints':>11}")
    for kind, count in sorted(seen.items(), key=lambda item: (item[0] == "all", item[0])):
        plain, hints = (f"{mended[kind, layer] / count:.1%}" for layer in (False, True))
        print(f"{kind:<8} {count:>6} {plain:>13} {hints:>11}")


def mends(failure: Failure, world: World, calls: int) -> bool:
    """Whether the agent comes to the ground truth's call."""
    meant = failure.call if failure.kind == "value" else failure.right
    call, made = failure.call, [failure.call]
    result = world.call(call)
    read = result.content
    for _ in range(calls):
        helps, other = False, call  # a call that was told of went well: what failed, once more
        if result.failed:
            new = ((h, c) for h, c in repairs(call, meant.arguments, read) if c not in made)
            helps, other = next(new, (False, None))
        if other is None:
            return False
        made.append(other)
        result = world.call(other)
        read = f"{result.content}\n{read}"
        if not result.failed and (not helps or other == failure.right):
            return other == failure.right
        call = call if helps else other
    return False


def repairs(
    call: ToolCall, meant: Mapping[str, Value], read: str
) -> Iterator[tuple[bool, ToolCall]]:
    """What may be tried after a failed call, and whether it is a call of another kind that the
    results tell of; what they say most plainly first.
    """
    words = set(WORDS.findall(read))
    arguments = {key: value for key, value in call.arguments.items() if key in meant}
    arguments |= {key: value for key, value in meant.items() if key in words}
    if arguments != call.arguments:
        yield False, ToolCall(call.name, arguments)
    for text in WRITTEN.findall(read):
        try:
            (found,) = parse_python_calls(text)
        except CallSyntaxError:
            continue  # a signature, or words in brackets
        yield True, ToolCall(found.name, dict(found.keyword))
    for name in NAMES.findall(read) + WORDS.findall(read.partition("Did you mean")[2]):
        yield False, ToolCall(name, call.arguments)
    for value in QUOTED.findall(read):
        if texts := [key for key, own in call.arguments.items() if isinstance(own, str)]:
            near = max(texts, key=lambda key: likeness(value, str(call.arguments[key])))
            yield False, ToolCall(call.name, {**call.arguments, near: value})


def likeness(one: str, other: str) -> float:
    return difflib.SequenceMatcher(None, one, other).ratio()


if __name__ == "__main__":
    main()
