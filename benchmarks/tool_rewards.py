"""ToolRL's and Tool-N1's rewards beside the released scorers, on drawn and hostile responses.

    python benchmarks/tool_rewards.py --toolrl ToolRL/verl/utils/reward_score/rlla.py \
        --tool-n1 Tool-N1/verl/verl/utils/reward_score/toolcall.py

The two files are those of their repositories, from checkouts of yours; they are imported.
Prints how many scores were compared, how many differ, and what makes the released code crash.
"""

from __future__ import annotations

import contextlib
import importlib.util
import io
import json
import os
import random
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from shared import Options

from calls_cases import Call, draw, says, single
from rods.reward import Score, score
from rods.rewards import get_reward

GRAINS = {"jaccard": "", "refined": "REFINEDREWARD", "intermediate": "INTERMEDIATEREWARD"}
GRAINS |= {"coarse": "COARSEREWARD"}
SCALES = {"fixed": "", "equal": "CORRECTMAX1", "two_stage": "MAX1STEP30MAX3"}
SCALES |= {"scheduled": "SCHEDULEREWARD"}
LENGTHS = {"none": "", "fixed": "WITHLENGTH", "scheduled": "WITHLENGTH SCHEDULELENGTH"}
FORMS = {"tool_n1": "v0", "tool_n1_names": "v4"}
HEADER = "<|im_start|>assistant\n"


def main() -> None:
    parser = Options(__doc__, {"samples": 5})
    parser.add_argument("--toolrl", type=Path, help="ToolRL's rlla.py.")
    parser.add_argument("--tool-n1", type=Path, help="Tool-N1's toolcall.py.")
    parser.add_argument("--samples", type=int, default=400, help="Of each variant.")
    options = parser.parse_args()
    if not (options.toolrl or options.tool_n1):
        parser.error("name a released file")
    if options.toolrl:
        compare_toolrl(module(options.toolrl), options.samples)
    if options.tool_n1:
        compare_tool_n1(module(options.tool_n1), options.samples)


def module(path: Path) -> Any:
    """A Python file as a module."""
    spec = importlib.util.spec_from_file_location(path.stem, path)
    assert spec and spec.loader, path
    made = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(made)
    return made


def compare_toolrl(theirs: Any, samples: int) -> None:
    """All 48 variants, at drawn steps."""
    found: Counter[str] = Counter()
    os.environ["EXPERIMENT_NAME"] = "qwen"
    for grain, scale, length in ((g, s, n) for g in GRAINS for s in SCALES for n in LENGTHS):
        flags = " ".join((GRAINS[grain], SCALES[scale], LENGTHS[length])).split()
        os.environ.update(dict.fromkeys(flags, "1"))
        reward = get_reward("toolrl", {"grain": grain, "scale": scale, "length": length})
        for truth, words, text, version in drawn(
            f"{grain}-{scale}-{length}", "parameters", samples
        ):
            if "<" in json.dumps(truth):
                continue  # a tag within the ground truth: theirs cuts it there
            with contextlib.redirect_stdout(io.StringIO()):
                wanted = theirs.compute_score(
                    f"{HEADER}{text}<|im_end|>", output(truth, words), step=version + 1
                )
            ours = score(reward, single(*truth, response=words), says(text, version))
            cut = "cut at their end token" if "<|im_end|>" in text else "differ"
            found["equal" if whole(ours) == tuple(wanted) else cut] += 1
        for flag in flags:
            del os.environ[flag]
    print(f"ToolRL: {dict(found)}")


def whole(ours: Score) -> tuple[float, ...]:
    return (ours.value, *(ours.parts[name] for name in ("format", "correctness", "length")))


def output(truth: list[Call], words: bool) -> str:
    """A ground truth as rlla writes it."""
    lines = "\n".join(json.dumps({"name": n, "parameters": a}) for n, a in truth)
    calls = f"\n<tool_call>\n{lines}\n</tool_call>" if truth else ""
    return f"<think> x </think>{calls}" + ("\n<response> y </response>" if words else "")


def compare_tool_n1(theirs: Any, samples: int) -> None:
    """Both forms."""
    found: Counter[str] = Counter()
    for name, form in FORMS.items():
        for truth, _, text, _ in drawn(name, "arguments", samples):
            wanted = json.dumps([{"name": n, "arguments": a} for n, a in truth])
            ours = score(get_reward(name), single(*truth), says(text)).value
            try:
                with contextlib.redirect_stdout(io.StringIO()):
                    given = getattr(theirs, f"compute_score_{form}")(HEADER + text, wanted)
            except (TypeError, ValueError, RecursionError) as error:
                found[f"theirs crashes: {type(error).__name__}"] += 1
                continue
            found["equal" if abs(ours - given) < 1e-12 else "differ"] += 1
    print(f"Tool-N1: {dict(found)}")


def drawn(seed: str, key: str, samples: int) -> Iterator[tuple[list[Call], bool, str, int]]:
    rng = random.Random(seed)
    for _ in range(samples):
        truth, words, text = draw(rng, key)
        yield truth, words, text, rng.randrange(300)


if __name__ == "__main__":
    main()
