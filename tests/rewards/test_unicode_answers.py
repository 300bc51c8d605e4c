"""Mathematics in the characters of Unicode: read as its LaTeX, wherever an answer stands."""

# ruff: noqa: RUF001 - these characters are what is tested

from __future__ import annotations

import time
import unicodedata

import pytest

from rods.rewards.answers import judge_answer
from rods.rewards.latex import as_latex
from rods.rewards.sameness import math_verdict
from tir_cases import question

RIGHT = {
    "x^2": "x²  x^{2}  𝑥²  𝑥^2  ｘ²  ｘ＾２",
    "x^3": "x³  x·x²  x⋅x²  x×x²  x∙x²",
    "x^{10}": "x¹⁰",
    "x^{-2}": "x⁻²  1/x²  1∕x²  1⁄x²  1÷x²",
    "x^n": "xⁿ",
    "x_1": "x₁",
    "x^2+2x+1": "x²+2x+1  (x+1)²  x²＋2·x＋1  （x+1）²",
    "x^2-1": "x²−1  x²–1  (x−1)(x+1)  （x－1）（x＋1）",
    r"\pi r^2": "πr²  π·r²  r²π  𝜋r²",
    r"2\pi": "2π  2·π  2×π  2⋅π",
    r"\sqrt{2}": "√2  √(2)  √{2}  \\sqrt(2)",
    r"\sqrt{12}": "√12  √(12)  2√3  2·√3",
    r"\sqrt{x+1}": "√(x+1)  (x+1)^{½}",
    r"\sqrt{2(x+1)}": "√(2(x+1))  √(2x+2)  \\sqrt(2(x+1))",
    r"\frac{\sqrt{3}}{2}": "√3/2  (√3)/2  √3÷2  ½√3  √¾",
    r"\sqrt[3]{2}": "∛2  ∛(2)",
    r"\frac58": "⅝  5⁄8  5∕8  5÷8  ５/８",
    r"\frac12": "½  1÷2",
    r"1\frac{5}{8}": "1⅝",
    r"-\frac{1}{6}": "−⅙  –⅙  -⅙",
    r"\frac{x}{2}": "½x  x÷2",
    "-5": "−5  –5  －5  ﹣5  −５  ‑5",
    "13": "１３  １３．  １３．０  x＝13  𝟏𝟑  𝟭𝟯",
    "1300": "１，３００  13·10²  1.3×10³  ￥1300",
    "90": "90°  90º  90˚",
    r"x\le 3": "x≤3  x⩽3  3≥x",
    r"x\ge 3": "x≥3  x⩾3",
    r"x\neq 3": "x≠3",
    r"\infty": "∞",
    r"[0,\infty)": "[0,∞)  [0,+∞)  ［0,∞）  x∈[0,∞)",
    r"(-\infty,0)\cup(1,\infty)": "(−∞,0)∪(1,∞)",
    r"\mathbb{R}": "ℝ",
    "-3, 3": "±3  −3,3",
    r"1\pm\sqrt{2}": "1±√2",
    r"\alpha+\beta": "α+β  β+α",
    r"3\cdot10^{-5}": "3×10⁻⁵  3·10⁻⁵",
    "(1,2)": "（1，2）  (1，2)",
    r"\{1,2\}": "｛1,2｝",
    "A": "Ａ  （A）  𝐀",
}
WRONG = {
    "x^2": "x³  x₂  2x",
    "x^{10}": "x¹0",
    r"\sqrt{12}": "√1·2  √2",
    r"\sqrt{x+1}": "√x+1",
    "13": "１３0  １ ３  １０＋３  1³  ²⁶⁄₂  ∞",
    r"\frac12": "⅓",
    r"x\le 3": "x<3  x≥3",
    r"1\pm\sqrt{2}": "1+√2",
    r"[0,\infty)": "(0,∞)",
    "(1,2)": "（2，1）",
    r"\mathbb{R}": "ℤ",
    "252": "∑x  10∕2",
}


@pytest.mark.parametrize("reference", RIGHT)
def test_characters_that_people_write_are_read_as_latex(reference: str) -> None:
    answers = RIGHT[reference].split("  ")
    assert [a for a in answers if math_verdict(a, reference) != "right"] == []
    assert [a for a in answers if math_verdict(reference, a) != "right"] == []


@pytest.mark.parametrize("reference", WRONG)
def test_other_characters_mean_other_answers(reference: str) -> None:
    answers = WRONG[reference].split("  ")
    assert [a for a in answers if math_verdict(a, reference) != "wrong"] == []


@pytest.mark.parametrize("text", ["\\boxed{A}", "<answer>A</answer>", "The answer is A."])
def test_they_are_read_wherever_an_answer_stands(text: str) -> None:
    task = question(r"\frac{5}{8}", lenient=True)
    assert judge_answer(task, text.replace("A", "⅝")).correct
    assert not judge_answer(task, text.replace("A", "⅜")).correct
    assert judge_answer(
        question("13", family="add", lenient=True), text.replace("A", "１３")
    ).correct


def test_an_expression_of_the_question_in_unicode_is_a_copy() -> None:
    for asked in ("Simplify $√8$.", "Simplify √8.", r"Simplify $\sqrt{8}$."):
        for copy in ("√8", "√(8)", r"\sqrt{8}", r"\sqrt(8)", "√８"):
            assert math_verdict(copy, r"2\sqrt{2}", asked) == "wrong", (asked, copy)
        assert math_verdict("2√2", r"2\sqrt{2}", asked) == "right"


def test_what_is_no_mathematics_stays() -> None:
    for text in ("Zoë", "北京", "naïve café", "x^2", r"\sqrt{2}", "13\u200b0", "١٣", "€5"):
        assert as_latex(unicodedata.normalize("NFC", text)) == text


def test_floods_of_roots_and_powers_take_linear_time() -> None:
    for piece in ("√", "√(", "√((", "²", "½", "\\sqrt(", "x₁", "Ａ"):
        began = time.process_time()
        as_latex(piece * (100_000 // len(piece)))
        assert time.process_time() - began < 3, piece
