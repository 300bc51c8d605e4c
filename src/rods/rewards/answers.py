r"""Final answers: found in a text, and judged against the reference.

Owns where an answer may stand (`\boxed{}`, `<answer>` tags, "the answer is"), which judge a task's
answer has, and what a judgement says. Never evaluates text as code and never reads what a tool
printed. When two answers are the same: `sameness.py`.

    final_answer(r"so we get \boxed{\frac{1}{2}}.")     # "\\frac{1}{2}"
    judge_answer(task, r"so we get \boxed{13}.").correct

A generated question wants its value (`6 + 7` is not 13). Other questions are judged as mathematics:
an answer that is copied from the question or not worked out is wrong, and what our own judge cannot
tell goes to math-verify, in a process of bounded time and memory. It must be installed (the extra
`math`), so that a reward never depends on what is. An answer that exceeds the bounds is wrong, and
counted apart (`judge_gave_up`).
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Literal, TypeAlias, cast, get_args

from rods.errors import RewardError
from rods.reward import Score
from rods.rewards.numbers import is_value
from rods.rewards.sameness import math_verdict, same_text, same_value
from rods.rewards.verifier import LONGEST, Verdict, require_math_verify
from rods.task import Task

Form = Literal["boxed", "tag", "phrase"]
"""Where an answer stands: `\\boxed{}`, `<answer>...</answer>`, "the answer is ..."."""

ANY: tuple[Form, ...] = ("boxed", "tag", "phrase")
BOXED: tuple[Form, ...] = ("boxed",)
TAGGED: tuple[Form, ...] = ("tag", "boxed", "phrase")
MARKED: tuple[Form, ...] = ("boxed", "tag")
"""Where the answer to a question of mathematics stands, unless a reward says otherwise."""

Judge = Literal["algebra", "value", "exact", "text"]
"""Way to compare: by math-verify, the value, the very same text, or normalized text."""

Algebra: TypeAlias = Callable[[str, str], Verdict]
"""What says whether an answer and a reference are the same mathematics."""

TAIL = 1 << 20
"""Characters at the end of a text in which its answer stands; no budget of tokens gives more."""
LENIENT = "lenient"
"""In a task's world: true where an answer may stand anywhere (`env.questions.lenient`)."""

_BOX = re.compile(r"\\(?:boxed|fbox)\s*(?=\{)")
_BARE_BOX = re.compile(
    r"\\(?:boxed|fbox)[ \t]*([+\u2212-]?(?:[€£¥]?\d[\d,]*(?:\.\d+)?(?:/\d+)?(?:\\?%|°)?|\.\d+"
    r"|\\[dt]?frac(?:\{[^{}]*\}|\d){2}|\\(?:sqrt|text|mathrm)\{[^{}]*\}|\\sqrt\d|\\pi"
    r"|\u221a\d+|\u03c0|\d*[\u00bc-\u00be\u2150-\u215e]"
    r"|(?<=[ \t])[A-Za-z]))(?=[\s$;:!?)*]|[.,](?!\d)|\\[)\]]|\Z)"
)
"""Without braces, which TeX allows: `\\boxed 5`."""
_BRACE = re.compile(r"\\[\\{}]|[{}]")
_TAG = re.compile(r"<answer>((?:(?!<answer>).)*?)</answer>", re.DOTALL)
_PHRASE = re.compile(r"\banswer\s*(?:is\b|:|=)\s*:?[ \t]*", re.IGNORECASE)


def last_boxed(text: str, bare: bool = True) -> str | None:
    """What the last complete `\\boxed{}` holds, inner braces included; None if there is none.

    An empty one that comes after others only mentions the form. `bare`: `\\boxed 5` is read, too.
    """
    text = text[-TAIL:]
    starts = [match.end() for match in _BOX.finditer(text)]
    closes = _pairs(text) if starts else {}
    spans = [(at + 1, closes[at]) for at in starts if at in closes]
    spans += [match.span(1) for match in _BARE_BOX.finditer(text) if bare]
    found = (text[start:end].strip().rstrip(",") for start, end in sorted(spans, reverse=True))
    return next(filter(None, found), "" if spans else None)


def _pairs(text: str) -> dict[int, int]:
    """Where each opening brace is closed, in one pass; escaped braces are letters."""
    opened: list[int] = []
    closes: dict[int, int] = {}
    for match in _BRACE.finditer(text):
        if match[0] == "{":
            opened.append(match.start())
        elif match[0] == "}" and opened:
            closes[opened.pop()] = match.start()
    return closes


def last_tagged(text: str) -> str | None:
    """What the last complete `<answer>` pair holds; an empty one only mentions the form."""
    found = [match[1].strip() for match in _TAG.finditer(text[-TAIL:])]
    return next(filter(None, reversed(found)), found[-1] if found else None)


def last_phrase(text: str) -> str | None:
    """What follows the last "answer is" or "answer:" in its line, up to the end of the sentence."""
    ends = [match.end() for match in _PHRASE.finditer(text)]
    if not ends:
        return None
    sentence = re.split(r"[.!?](?=\s|$)|\n", text[ends[-1] :], maxsplit=1)[0]
    return sentence.strip().strip("*\"'").strip() or None


def final_answer(text: str, forms: Sequence[Form] = ANY) -> str | None:
    """The answer in the first of these forms that the text has; None if it has none.

    A tag that holds a box gives what is in the box.
    """
    for form in forms:
        found = _FINDERS[form](text)
        if found is not None:
            return last_boxed(found) or found
    return None


_FINDERS = {"boxed": last_boxed, "tag": last_tagged, "phrase": last_phrase}


def references(task: Task) -> tuple[str, ...]:
    """The reference answer of a question task, and other ways to say it.

    A question task has one turn with the question, no ground-truth calls, and the answer as a
    string in `world["answer"]`; `world["aliases"]` may list more strings that are as right. That
    its ground truth is empty does not mean that the policy must abstain, as it does in BFCL.

    Raises:
        RewardError: the task has no such answer; the message names the task.
    """
    answer, aliases = task.world.get("answer"), task.world.get("aliases", [])
    if not isinstance(answer, str) or not answer.strip():
        raise RewardError(
            f"task {task.id} of env {task.env!r}: world['answer'] is {answer!r}, this reward "
            "expects a text. Use it for question tasks only, or write the answer there."
        )
    if not isinstance(aliases, list) or not all(isinstance(a, str) for a in aliases):
        raise RewardError(f"task {task.id}: world['aliases'] is {aliases!r}, expected texts.")
    return (answer, *cast("list[str]", aliases))


JUDGES: Mapping[str, Judge] = {"search": "text"}
"""Environments whose tasks name no judge, and who compares their answers."""


def judge_of(task: Task) -> Judge:
    """The judge that compares answers to this task.

    `world["judge"]` says so. Else: whom `JUDGES` has for the environment, the value for a generated
    question, mathematics for all others.

    Raises:
        RewardError: `world["judge"]` is not a judge.
    """
    named = task.world.get("judge")
    if named is None:
        named = JUDGES.get(task.env)
    if named is None:
        return "value" if isinstance(task.world.get("family"), str) else "algebra"
    if named not in get_args(Judge):
        raise RewardError(
            f"task {task.id}: world['judge'] is {named!r}, expected one of "
            f"{', '.join(get_args(Judge))}."
        )
    return cast("Judge", named)


def leniently(task: Task) -> Task:
    """The task, with an answer that may stand anywhere (`env.questions.lenient`)."""
    return replace(task, world={**task.world, LENIENT: True})


def as_strictly(task: Task, as_this: Task) -> Task:
    """The task, judged as leniently as another one."""
    return leniently(task) if as_this.world.get(LENIENT) is True else task


def require_judges(tasks: Iterable[Task]) -> None:
    """Refuse to start where an answer could not be judged as it must be.

    Raises:
        PrerequisiteError: a task needs math-verify, and it is not installed.
    """
    if any(judge_of(task) == "algebra" for task in tasks if "answer" in task.world):
        require_math_verify()


@dataclass(frozen=True, slots=True)
class JudgedAnswer:
    """A final answer and whether it is right."""

    answer: str | None
    """None: none was found."""
    verdict: Verdict

    @property
    def correct(self) -> bool:
        """Whether it is right."""
        return self.verdict == "right"

    @property
    def gave_up(self) -> bool:
        """Whether it is wrong because judging it took too much time or memory, or is too long."""
        return self.verdict not in ("right", "wrong")


def judge_answer(task: Task, text: str, forms: Sequence[Form] | None = None) -> JudgedAnswer:
    """Find the final answer and compare it with the task's reference.

    Args:
        task: a question task, see `references` and `judge_of`.
        text: what the policy wrote.
        forms: where the answer may stand; None: in a box or a tag, for text in a tag only. A
            lenient task takes it anywhere.

    Raises:
        RewardError: the task has no reference answer.
        PrerequisiteError: math-verify is needed, and not installed.
    """
    references(task)  # a task without one is refused, whatever was written
    judge = judge_of(task)
    if judge == "algebra":
        require_math_verify()
    if task.world.get(LENIENT) is True:
        answer = final_answer(text, TAGGED if judge == "text" else ANY)
    elif judge == "text" and forms is None:
        answer = last_tagged(text)
    else:
        answer = final_answer(text, forms or MARKED)
    return JudgedAnswer(None, "wrong") if answer is None else compare(task, answer)


def compare(task: Task, answer: str, algebra: Algebra | None = None) -> JudgedAnswer:
    """Compare a final answer with the references of a question task.

    `algebra` is asked about mathematics; None: `math_verdict`, which knows the question.

    Raises:
        RewardError: the task has no reference answer, or its judge cannot compare with it.
        PrerequisiteError: math-verify is needed, and not installed.
    """
    verdict: Verdict = "wrong"
    judge = judge_of(task)
    if judge == "algebra":
        require_math_verify()  # also for answers that our own judge knows
    for reference in references(task):
        if judge == "value" and not is_value(reference):
            raise RewardError(
                f"task {task.id}: the answer {reference!r} is not a number, so it cannot be judged "
                "as a value. Write world['judge'] = 'exact' or 'text'."
            )
        if judge == "algebra":
            now = _mathematics(task, answer, reference, algebra)
        else:
            now = "right" if _SAME[judge](answer, reference) else "wrong"
        if now == "right":
            return JudgedAnswer(answer, now)
        verdict = now if verdict == "wrong" else verdict
    return JudgedAnswer(answer, verdict)


READ = 10 * LONGEST
"""Characters of an answer to mathematics that is looked at; a longer one can only be the very text
of the reference. Scorers that shorten a text are asked about more than math-verify is."""


def _mathematics(task: Task, answer: str, reference: str, algebra: Algebra | None) -> Verdict:
    if len(answer) > READ:
        return "right" if answer.strip() == reference.strip() else "length"
    if algebra is not None:
        return algebra(answer, reference)
    return math_verdict(answer, reference, "\n".join(turn.user for turn in task.turns))


_SAME: Mapping[str, Callable[[str, str], bool]] = {
    "value": same_value,
    "text": same_text,
    "exact": lambda answer, reference: answer.strip() == reference.strip(),
}


def judged_parts(judged: JudgedAnswer) -> Mapping[str, float]:
    """What every reward of answers logs: right or not, given or not, and whether we gave up."""
    return {
        "correct": float(judged.correct),
        "answered": float(judged.answer is not None),
        "judge_gave_up": float(judged.gave_up),
    }


def accuracy_of(score: Score) -> float:
    """The part `correct` of a score.

    Raises:
        RewardError: the reward does not log one.
    """
    if "correct" not in score.parts:
        raise RewardError(
            f"a score with the parts {sorted(score.parts)} has no part 'correct'. Filters and "
            "metrics of answers need a reward that logs one, such as outcome, torl or zerotir."
        )
    return score.parts["correct"]
