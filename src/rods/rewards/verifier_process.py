"""The process in which math-verify judges: asked line by line.

    python verifier_process.py CPU_SECONDS WALL_SECONDS BYTES

Owns the bounds of one judgement: processor time, memory, and (far behind, because the machine may
be busy) wall-clock time. They are kept by the kernel, so that nothing that is judged can get round
them: a timer whose signal ends the process, and a limit of its address space. Never imports RODS,
never judges by itself.

Two processes: the first imports the package, which takes half a second, and forks the one that
judges; where that one ends it says why and forks another, which takes a millisecond.

    {"id": 1, "kind": "boxed", "gold": "x^2+x", "answer": "x(x+1)"}     # a line of standard input
    {"id": 1, "verdict": "right"}                                       # a line of standard output

`kind` says what stands around the two texts when they are read: `boxed`, a box; `bare`, nothing.
"""

from __future__ import annotations

import importlib
import json
import mmap
import os
import resource
import signal
import sys
from typing import Any, BinaryIO

WARM = (("\\frac{1}{2}", "2"), ("x^2+x", "x(x+1)"), ("x^2", "x(x+1)"), ("\\{1,2\\}", "(1,2)"))
"""Judged at the start, once for all: imports what is needed late, and fills the parser's tables."""


def judge(tool: Any, kind: str, texts: list[str]) -> str:
    """`right` or `wrong` for two texts, the gold one first."""
    if kind == "boxed":
        texts = [text if "\\boxed" in text else f"\\boxed{{{text}}}" for text in texts]
    # Its own deadline is a signal of Python, which a long multiplication does not let through.
    gold, answer = (tool.parse(text, parsing_timeout=None) for text in texts)
    right = tool.verify(gold, answer, timeout_seconds=None)
    if right and kind == "boxed":
        right = near(gold[0], answer[0])
    return "right" if right else "wrong"


def near(wanted: Any, given: Any) -> bool:
    """Whether constants, terms or intervals that the package calls equal are close, or exact.

    It rounds decimals to six places and takes a difference below 1e-15 for none.
    """
    both = (wanted, given)
    if all(getattr(one, "is_Interval", False) for one in both):
        return near(wanted.start, given.start) and near(wanted.end, given.end)
    read = (getattr(one, "is_Add", False) or getattr(one, "is_number", False) for one in both)
    if wanted == given or not all(read):  # infinities have no difference
        return True
    exact = not any(atom.is_Float for one in both for atom in one.atoms())
    if not (wanted.is_number and given.is_number):
        apart = (given - wanted).expand()
        return not (exact and apart.is_number and apart.evalf(50))
    apart, size = (abs(value.evalf(50)) for value in (given - wanted, wanted))
    return bool(apart <= size * (1e-40 if exact else 1e-4) if size else not given.evalf(50))


def serve(
    tool: object,
    asked_for: BinaryIO,
    answers: BinaryIO,
    current: mmap.mmap,
    bounds: tuple[float, float, int],
) -> None:
    """Judge until the input ends; bounds of one judgement are seconds of both kinds, and bytes."""
    cpu, wall, memory = bounds
    signal.signal(signal.SIGPROF, signal.SIG_DFL)
    signal.signal(signal.SIGALRM, signal.SIG_DFL)
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
    if sys.platform == "linux":  # elsewhere the limit is not kept, or refused
        resource.setrlimit(resource.RLIMIT_AS, (memory, memory))
    for line in iter(asked_for.readline, b""):
        asked = json.loads(line)
        current[:8] = int(asked["id"]).to_bytes(8, "little")
        kind, texts = asked["kind"], [asked["gold"], asked["answer"]]
        signal.setitimer(signal.ITIMER_PROF, cpu)
        signal.setitimer(signal.ITIMER_REAL, wall)
        try:
            verdict = judge(tool, kind, texts)
        except MemoryError:
            verdict = "memory"
        except Exception:  # noqa: BLE001 (what the package stumbles over is not an answer)
            verdict = "wrong"
        signal.setitimer(signal.ITIMER_PROF, 0)
        signal.setitimer(signal.ITIMER_REAL, 0)
        say(answers, asked["id"], verdict)


def say(answers: BinaryIO, number: int, verdict: str) -> None:
    """One line of the output."""
    answers.write(json.dumps({"id": number, "verdict": verdict}).encode() + b"\n")
    answers.flush()


def main() -> None:
    """Import, warm up, and keep one judging process alive until the input ends."""
    cpu, wall, memory = sys.argv[1:]
    bounds = float(cpu), float(wall), int(memory)
    # What the package prints (its parser does) must not stand among the verdicts.
    answers = os.fdopen(os.dup(1), "wb")
    silent = os.open(os.devnull, os.O_WRONLY)
    os.dup2(silent, 1)
    tool = importlib.import_module("math_verify")
    for gold, answer in WARM:
        judge(tool, "boxed", [gold, answer])
    os.dup2(silent, 2)
    asked_for = os.fdopen(0, "rb", buffering=0)  # a buffer would die with its process
    current = mmap.mmap(-1, 8)
    say(answers, 0, "ready")
    while True:
        child = os.fork()
        if child == 0:
            serve(tool, asked_for, answers, current, bounds)
            os._exit(0)
        _, status = os.waitpid(child, 0)
        if os.WIFEXITED(status) and os.WEXITSTATUS(status) == 0:
            return
        ended = os.WTERMSIG(status) if os.WIFSIGNALED(status) else 0
        slow = ended in (signal.SIGPROF, signal.SIGALRM)
        say(answers, int.from_bytes(current[:8], "little"), "time" if slow else "died")


if __name__ == "__main__":
    main()
