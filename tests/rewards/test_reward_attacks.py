"""Answers that were not worked out, or not given: none of them may pay, whatever is installed."""

from __future__ import annotations

import re
import time
from dataclasses import replace
from pathlib import Path

import pytest

from registered import registered
from rods.config import EnvSettings
from rods.env import TurnVerdict
from rods.envs.originals import original_tasks
from rods.envs.questions.families import FAMILIES, question_tasks
from rods.errors import RewardError
from rods.reward import score
from rods.rewards import REWARDS as EVERY
from rods.rewards import get_reward
from rods.rewards.answers import judge_answer, judge_of, leniently
from rods.task import Task, Turn
from rods.types import ToolCall
from tir_cases import play, question

REWARDS = registered(
    ["outcome", "torl", "retool", "zerotir", "otc_ppo", "otc_grpo", "artist_math"], EVERY
)
OTC = registered(["otc_ppo", "otc_grpo"], EVERY)
SUM = question("13", family="add")
"""What is 6 + 7?"""


def pays(name: str, task: Task, text: str) -> bool:
    return score(get_reward(name), task, play(text)).parts["correct"] > 0


def formed(answer: str) -> str:
    """An answer in the form of every recipe."""
    return rf"</think><answer>\boxed{{{answer}}}</answer>"


@pytest.mark.parametrize("name", REWARDS)
def test_the_answer_itself_pays(name: str) -> None:
    assert pays(name, SUM, formed("13"))


ATTACKS = [
    "6 + 7",
    "6+7",
    "(6 + 7)",
    "6 + 7 = 13",
    "26/2",
    r"\frac{26}{2}",
    r"\frac{6+20}{2}",
    "13^1",
    r"13 \cdot 1",
    r"\sqrt{169}",
    "1.3e1",
    r"1.3\times10^1",
    "1300%",
    "12.999999999999",
    r"13 \text{ or } 14",
    "12, 13, 14",
    r"\{12, 13, 14\}",
    "[12, 14]",
    "1 3",
    r"1\,3",
    "1~3",
    "$1$$3$",
    "x",
    r"x \in \mathbb{R}",
    r"\pm 13",
    "13 or 14",
    "thirteen",
    "0x0D",
    "1101",
    "\u0661\u0663",  # other digits
    "13\u200b0",
    "",
    " ",
    "?",
    "What is 6 + 7?",
    "print(6 + 7)",
    "[[13]]",
    "{13",
    "14}{13",
    r"\boxed{14}",
    "nan",
    "inf",
    "-13",
    "--13",
    r"\sum_{i=1}^{13} 1",
    r"\binom{13}{1}",
    "x=6+7",
    "9" * 100_000,
    "{" * 100_000 + "}" * 100_000,
]


@pytest.mark.slow
@pytest.mark.parametrize("name", REWARDS)
def test_what_was_not_worked_out_does_not_pay(name: str) -> None:
    assert [attack[:20] for attack in ATTACKS if pays(name, SUM, formed(attack))] == []


EVERYTHING = [
    "12, 13", "13, 12", r"\{12,13\}", "12 or 13", r"12 \text{ or } 13", "x=12, x=13", "12; 13",
    *(
        "[12,14]",
        "(12,14)",
        r"\mathbb{R}",
        r"12 \le x \le 14",
        "13 = 12",
        "13 13",
        "12 13",
        "12\n13",
    ),
    r"13\\12", r"\frac{13}{1}, 12", r"\pm 13", "x", r"13 \cup 12", "$12$ or $13$", "$12$ $13$",
    r"\begin{cases}12\\13\end{cases}", r"\begin{pmatrix}12&13\end{pmatrix}", "", "What is 6+7?",
    r"\text{13 or 12}", r"\boxed{13} \boxed{12}", r"x = 12 \text{ or } x = 13", "nan", "oo",
]  # fmt: skip


@pytest.mark.parametrize("attack", EVERYTHING)
def test_naming_every_answer_does_not_pay_as_mathematics(attack: str) -> None:
    judged = judge_answer(question("13"), rf"So \boxed{{{attack}}}")
    assert not judged.correct and not judged.gave_up


@pytest.mark.slow
@pytest.mark.parametrize("name", REWARDS)
def test_floods_take_linear_time(name: str) -> None:
    pieces = ["\\boxed{", "<answer>", "</answer>", "answer ", "answer is ", "<code>", "```python"]
    pieces += [
        "\\boxed ",
        "{",
        "}",
        "\\{",
        " ",
        "<answer>\\boxed{1",
        "```",
        "<think>",
        "\ud800",
        "9",
    ]
    for piece in pieces:
        for task in (SUM, question("Okdal", "search")):
            began = time.process_time()
            assert not pays(name, task, piece * (50_000 // len(piece)))
            assert time.process_time() - began < 1, piece


@pytest.mark.parametrize("family", sorted(FAMILIES))
def test_copying_a_generated_question_never_pays(family: str) -> None:
    for task in question_tasks([family], [1, 2, 3, 4, 5], 10):
        asked = task.turns[0].user
        sums = re.findall(r"[\d(][\d +*()-]*[\d)]", asked)
        for copied in (asked, *sums, asked.removeprefix("What is ").rstrip("?")):
            if copied != task.world["answer"]:  # a number of the question may be the answer
                assert not judge_answer(task, formed(copied)).correct, (asked, copied)
        assert judge_answer(task, formed(str(task.world["answer"]))).correct


@pytest.mark.parametrize(
    "answer", ["13", " 13 ", "13.", "13.0", "+13", "$13$", r"\$13", "x = 13", "**13**", "013"]
)
def test_spellings_of_the_value_pay(answer: str) -> None:
    assert judge_answer(SUM, rf"\boxed{{{answer}}}").correct


@pytest.mark.parametrize("answer", ["1,234", "1{,}234", "1234", r"1\,234"])
def test_thousands_pay(answer: str) -> None:
    assert judge_answer(question("1234", family="add"), rf"\boxed{{{answer}}}").correct


CALLS = "<think>a</think>\n<tool_call>\n%s\n</tool_call>"
ODD = [
    "[" * 20_000, "\ud800", "\x00", " " * 100_000, "x " * 10_000, "9" * 20_000,
    "<think>" * 10_000, "</think>\n" * 10_000, "<tool_call>\n" * 10_000, "<python>" * 10_000,
    "</answer>" * 10_000, "```\n" * 10_000, "\\boxed{" * 10_000 + "}" * 10_000,
    *(CALLS % body for body in ("null", "true", '"f"', "[[]]", "[null]", "9" * 10_000, "\ud800")),
    *(
        CALLS % body
        for body in ("[" * 900 + "]" * 900, "[" * 10_000, '{"name":["f"],"arguments":{}}')
    ),
    *(
        CALLS % f'{{"name":"f","{key}":{value}}}'
        for key in ("arguments", "parameters")
        for value in (
            "null",
            "[1]",
            "NaN",
            "1e999",
            '{"a":' * 450 + "1" + "}" * 450,
            "[" * 2000 + "]" * 2000,
        )
    ),
]  # fmt: skip
"""Responses that say nothing that is wanted, and that a scorer could stumble over."""


OF_CALLS = (
    "progress", "accuracy", "format", "envtuning",
    "toolrl", "tool_n1", "artist_fc",
)  # fmt: skip
UNSOLVED = TurnVerdict(True, 0, False, False, False)


@pytest.mark.slow
@pytest.mark.parametrize("name", list(EVERY))
def test_odd_responses_are_scored_at_once_and_are_not_right(name: str) -> None:
    wanted = Task("function_call", "x", (Turn("Do it.", (ToolCall("f", {"a": 1}),)),), {})
    task = wanted if name.startswith(OF_CALLS) else SUM
    # paid by definition: thrift, and in ToolRL the right names
    most = 2.0 if name == "toolrl" else 1.0 if "additive" in name else 0.5
    for text in ODD:
        began = time.process_time()
        done = score(get_reward(name), task, replace(play(text), verdicts=(UNSOLVED,)))
        assert done.valid and time.process_time() - began < 1, text[:40]
        assert done.parts.get("correct", 0.0) == 0, text[:40]
        assert done.value <= most, text[:40]


# -- where the answer stands ---------------------------------------------------------------------

UNFORMED = ["The answer is 13.", "13", "Answer: 13", "# 13", "13 <answer>", "<answer>13"]


@pytest.mark.parametrize("name", REWARDS)
def test_an_answer_without_its_form_does_not_pay(name: str) -> None:
    assert [text for text in UNFORMED if pays(name, SUM, text)] == []


@pytest.mark.parametrize("name", OTC)
def test_otc_wants_a_box_in_torls_room_and_tags_in_the_search_room(name: str) -> None:
    assert pays(name, SUM, r"\boxed{13}")
    assert not pays(name, SUM, "<answer>13</answer>")
    found = question("Okdal", "search")
    assert pays(name, found, "<answer>Okdal</answer>")
    for text in (r"\boxed{Okdal}", "The answer is Okdal.", r"<answer>\boxed{Okdal}</answer>"):
        assert not pays(name, found, text)


@pytest.mark.parametrize("name", ["outcome", *OTC])
def test_lenience_is_a_switch(name: str) -> None:
    for task, answer in ((SUM, "13"), (question("Okdal", "search"), "Okdal")):
        for text in (f"The answer is {answer}.", f"<answer>{answer}</answer>"):
            assert pays(name, leniently(task), text)
        assert not pays(name, leniently(task), f"Surely {answer}.")


@pytest.mark.slow
@pytest.mark.parametrize("name", ["python_tool", "search"])
def test_the_switch_of_lenience_is_a_setting(name: str, tmp_path: Path) -> None:
    row = '{"question": "Where?", "golden_answers": ["42"]}\n'
    (tmp_path / "rows.jsonl").write_text(row)
    for tasks in ((), (str(tmp_path / "rows.jsonl"),)):
        for lenient in (False, True):
            made = {"count": 8, "lenient": lenient}
            settings = EnvSettings.model_validate({"name": name, "tasks": tasks, "questions": made})
            for task in original_tasks(settings):
                text = f"The answer is {task.world['answer']}."
                assert judge_answer(task, text).correct is lenient


# -- who judges ----------------------------------------------------------------------------------


def test_who_judges_a_task() -> None:
    assert judge_of(question("13", family="add")) == "value"
    assert judge_of(question("13", judge="exact")) == "exact"
    assert judge_of(question("13")) == "algebra"
    assert judge_of(question("13", "search", family="hops")) == "text"
    assert judge_of(question("13", judge="value")) == "value"
    with pytest.raises(RewardError, match=r"world\['judge'\] is 'me', expected one of algebra"):
        judge_of(question("13", judge="me"))
    with pytest.raises(RewardError, match="'Oslo' is not a number"):
        judge_answer(question("Oslo", judge="value"), r"\boxed{Oslo}")


def test_a_task_may_want_the_very_same_text() -> None:
    task = question("1 2 3", judge="exact")
    assert judge_answer(task, r"\boxed{ 1 2 3 }").correct
    for answer in ("123", "1 23", "1, 2, 3", "1+2 3"):
        assert not judge_answer(task, rf"\boxed{{{answer}}}").correct
