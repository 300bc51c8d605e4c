"""The bounded process in which math-verify judges: bounds, restarts, threads, a missing package."""

from __future__ import annotations

import os
import sys
import threading
from collections.abc import Iterator
from pathlib import Path

import pytest

from registered import registered
from rods.config import EnvSettings
from rods.envs.originals import original_tasks
from rods.envs.python_tool.environment import PythonToolEnvironment
from rods.errors import EnvError, PrerequisiteError
from rods.reward import score
from rods.rewards import REWARDS, get_reward, verifier
from rods.rewards.answers import judge_answer
from rods.rewards.sameness import math_verdict
from rods.rewards.verifier import ask
from tir_cases import play, question
from waits import until


@pytest.fixture
def hasty(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """Processes of this test give up after half a second."""
    verifier.close()
    monkeypatch.setattr(verifier, "SECONDS", 0.5)
    math_verdict.cache_clear()
    yield
    verifier.close()
    math_verdict.cache_clear()


SLOW = [
    r"\binom{999999}{500000}",
    "(x+y+z+w)^{999}",
    "9^{9^9}",
    "2^{2^{30}}",
    "10^{10^{8}}",
    "9999999!!",
    r"\frac{1}{" * 40 + "2" + "}" * 40,
    "x^" * 400 + "x",
    "(" * 300 + "1" + ")" * 300,
]
"""What takes the package minutes, or all memory."""


@pytest.mark.slow
@pytest.mark.usefixtures("hasty", "many_files")
def test_a_process_with_many_open_files_judges() -> None:
    assert ask("x^2+x", "x(x+1)") == "right"


@pytest.mark.slow
@pytest.mark.usefixtures("hasty")
def test_a_slow_answer_is_given_up_and_the_next_one_judged() -> None:
    for bomb in SLOW:
        assert ask("1", bomb) in ("time", "memory", "died"), bomb
        assert ask("x^2+x", "x(x+1)") == "right", bomb


@pytest.mark.usefixtures("hasty")
@pytest.mark.slow
def test_giving_up_is_counted_apart_from_being_wrong() -> None:
    cases = [("outcome", "x+1", "9^{9^9}"), ("torl", "1", "9**9**9"), ("otc_ppo", "x+1", "9^{9^9}")]
    for name, reference, bomb in cases:
        if not registered([name], REWARDS):
            continue
        done = score(get_reward(name), question(reference), play(rf"\boxed{{{bomb}}}"))
        assert done.valid and done.parts["judge_gave_up"] == 1.0, name
        wrong = score(get_reward(name), question(reference), play(r"\boxed{x}"))
        assert done.value == wrong.value and wrong.parts["judge_gave_up"] == 0.0, name


def test_long_answers_are_not_read() -> None:
    assert ask("1", "1+" * 500 + "1") == "length"
    assert ask("1+" * 501, "1") == "length"
    judged = judge_answer(question("1"), r"\boxed{" + "1+" * 100_000 + "1}")
    assert (judged.correct, judged.gave_up) == (False, True)


@pytest.mark.parametrize("odd", ["\ud800", "\x00", "\\" * 900, "🧮", "\n" * 900, "{", "}", "", "$"])
def test_what_cannot_be_read_is_wrong(odd: str) -> None:
    assert ask("1", odd) == "wrong"


@pytest.mark.slow
def test_threads_get_their_own_verdicts() -> None:
    wrong: list[int] = []

    def some(number: int) -> None:
        for term in range(5):
            same = ask(f"x+{number}", f"{number - term}+x+{term}")
            other = ask(f"x+{number}", f"{number + 1}+x")
            if (same, other) != ("right", "wrong"):
                wrong.append(number)

    threads = [threading.Thread(target=some, args=(n,)) for n in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert not wrong
    assert len(verifier._idle) <= verifier.SIZE


@pytest.mark.slow
def test_a_process_that_was_killed_is_replaced() -> None:
    assert ask("x^2", "x*x") == "right"
    for process in verifier._idle:
        os.killpg(process._popen.pid, 9)
        process._popen.wait()
    assert {ask("x^2", "x*x") for _ in range(verifier.SIZE + 1)} == {"right"}


@pytest.mark.slow
@pytest.mark.parametrize(
    ("replies", "verdict"), [(["died", "right"], "right"), (["died", "died", "right"], "died")]
)
def test_a_judge_that_dies_is_asked_again_once(
    replies: list[str], verdict: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The system may have killed it for memory; a question that kills a judge does so twice."""
    verdicts = iter(replies)
    monkeypatch.setattr(verifier._Process, "ask", lambda *_: next(verdicts))
    assert ask("x^2", "x*x") == verdict


def test_judges_that_end_before_they_read_a_question_end_the_asking(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """As many as waited may be lost at once, and no question is at fault; then none starts."""
    asked: list[str] = []

    class Judge:
        alive = False

        def ask(self, *_: str) -> str | None:
            asked.append("")
            return "right" if len(asked) == last else None

    monkeypatch.setattr(verifier, "_Process", Judge)
    monkeypatch.setattr(verifier, "_idle", [])
    last = verifier.SIZE + 1
    assert ask("x^2", "x*x") == "right"
    last = 100
    with pytest.raises(EnvError, match="judge answers end before they read"):
        ask("x^2", "x*x")
    assert len(asked) < 30


@pytest.mark.slow
def test_a_judge_that_died_between_two_questions_does_not_shift_the_answers() -> None:
    verifier.close()
    assert ask("x^2", "x*x") == "right"
    (process,) = verifier._idle
    children = Path(f"/proc/{process._popen.pid}/task/{process._popen.pid}/children")
    child = children.read_text().split()[0]
    os.kill(int(child), 9)
    until(lambda: child not in children.read_text().split())
    assert ask("x^2", "x+x") == "wrong" and ask("x^2", "x*x") == "right"


@pytest.mark.slow
def test_a_process_that_forks_starts_its_own() -> None:
    assert ask("x^2", "x*x") == "right"
    child = os.fork()
    if child == 0:
        os._exit(0 if not verifier._idle and ask("x^2", "x*x") == "right" else 1)
    assert os.waitpid(child, 0)[1] == 0
    assert ask("x^3", "x*x*x") == "right"


FAKE = """
import os, time
def parse(text, parsing_timeout):
    assert parsing_timeout is None
    if "spin" in text:
        while True: pass
    if "sleep" in text: time.sleep(60)
    if "eat" in text: bytearray(2 << 30)
    if "exit" in text: os._exit(0)
    if "crash" in text: os.kill(os.getpid(), 11)
    if "raise" in text: raise RecursionError
    print("line 1:0 token recognition error", flush=True)
    return text
def verify(gold, answer, timeout_seconds):
    assert timeout_seconds is None
    return gold == answer
"""
"""Stands in for the package: does at once what it does with some answer."""


@pytest.mark.parametrize(
    ("text", "verdict"),
    [
        ("spin", "time"),
        ("sleep", "time"),
        ("eat", "memory"),
        ("crash", "died"),
        ("exit", "died"),
        ("raise", "wrong"),
        ("else", "wrong"),
    ],
)
@pytest.mark.slow
def test_time_and_memory_are_bounded(
    text: str, verdict: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "math_verify.py").write_text(FAKE)
    monkeypatch.setenv("PYTHONPATH", str(tmp_path))
    monkeypatch.setattr(verifier, "SECONDS", 0.1)
    monkeypatch.setattr(verifier, "WALL_SECONDS", 0.5)
    verifier.close()
    try:
        assert ask("gold", "gold") == "right"
        assert ask("gold", text) == verdict
        assert ask("gold", "gold") == "right"
    finally:
        verifier.close()


@pytest.mark.slow
def test_a_question_that_is_incomplete_is_not_judged() -> None:
    process = verifier._Process()
    try:
        assert process._popen.stdin is not None
        process._popen.stdin.write(b'{"id": 1, "gold": "1", "answer": "1"}\n')
        assert process._reply(1, 60) == "died"
        assert process.ask("1", "1", "boxed") == "right"
    finally:
        process.end()


@pytest.mark.slow
def test_a_process_that_does_not_start_says_why(monkeypatch: pytest.MonkeyPatch) -> None:
    verifier.close()
    monkeypatch.setattr(verifier, "MEMORY", "much")
    with pytest.raises(EnvError, match=r"did not start: ValueError: invalid literal .*'much'"):
        ask("1", "x")


# -- a missing package ---------------------------------------------------------------------------


@pytest.fixture
def missing(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    verifier.require_math_verify.cache_clear()
    monkeypatch.setitem(sys.modules, "math_verify", None)
    yield
    verifier.require_math_verify.cache_clear()


@pytest.mark.usefixtures("missing")
def test_without_the_package_questions_of_mathematics_are_refused() -> None:
    for text in (r"\boxed{42}", r"\boxed{x}", "no answer"):
        with pytest.raises(PrerequisiteError, match=r"math-verify.*pip install .*\[math\]"):
            judge_answer(question("42"), text)


@pytest.mark.usefixtures("missing")
def test_without_the_package_a_run_on_such_questions_does_not_start(
    tmp_path: os.PathLike[str],
) -> None:
    rows = os.path.join(tmp_path, "aime.jsonl")
    with open(rows, "w") as file:
        file.write('{"problem": "6 * 7?", "answer": "42"}\n')
    with pytest.raises(PrerequisiteError, match=r"pip install .*\[math\]"):
        original_tasks(EnvSettings(name="python_tool", tasks=rows))


@pytest.mark.usefixtures("missing")
def test_generated_questions_need_no_package() -> None:
    for task in original_tasks(EnvSettings(name="python_tool"))[:20]:
        world = PythonToolEnvironment().open(task)
        assert world.judge_answer(rf"\boxed{{{task.world['answer']}}}")
        assert not world.judge_answer(rf"\boxed{{{task.world['answer']}1}}")
