r"""ToRL's released scorer: which box its code reads, and what it calls equal.

Owns where it looks for the box and how it compares. Never shapes a reward. Written from ToRL's
math_verifier.py (April 2025).

    torl_box(r"... \boxed {42}")                # None: that is another spelling
    torl_verdict("0.5", r"\frac{1}{2}")         # "right"

Where we differ, by class:

* A box in a program, or in what a tool printed, is not an answer; the released code reads both.
* A task may have more than one reference (`world["aliases"]`).
* Judging is bounded by processor time and memory, not by a signal of five seconds.
* The verdicts are those of the math-verify that we require (0.9; theirs was not pinned). It is
  asked with the bare texts, as there, so `2\pi` is read as 2 and a set without numbers not at all.
* The released code falls back on comparing texts where math-verify raises an error; ours says
  wrong.
"""

from __future__ import annotations

import re
from functools import lru_cache

from rods.rewards.verifier import Verdict, ask

BOX = "\\boxed{"
NESTED = 3  # Braces within the box's own that its pattern follows

_TOKEN = re.compile(r"\\[{}]|[{}]")


def torl_box(response: str) -> str | None:
    """Text of the last box that closes; boxes within a box are part of it."""
    found, at = None, response.find(BOX)
    while at >= 0:
        start = at + len(BOX)
        end = _closes(response, start, escapes=False)
        end = _closes(response, start, escapes=True) if end is None else end
        if end is not None:
            found, start = response[start:end], end + 1
        at = response.find(BOX, start)
    return found


def _closes(text: str, start: int, escapes: bool) -> int | None:
    """Where the brace before `start` is closed; escaped braces are letters if `escapes`."""
    depth = 0
    for token in _TOKEN.finditer(text, start):
        if len(token[0]) == 2 and escapes:
            continue
        if token[0][-1] == "{":
            depth += 1
            if depth > NESTED:
                return None
        elif depth == 0:
            return token.end() - 1
        else:
            depth -= 1
    return None


@lru_cache(maxsize=4096)
def torl_verdict(answer: str, reference: str) -> Verdict:
    """True if ToRL takes an answer: equal but for case, or so after normalizing by math-verify.

    Raises:
        PrerequisiteError: math-verify has to be asked, and is not installed.
        EnvError: its process cannot be started.
    """
    if answer.strip().lower() == reference.strip().lower():
        return "right"
    return ask(minerva(answer), minerva(reference), "bare")  # the answer stands first, as there


def minerva(text: str) -> str:
    """One spelling for many: appendix D of Lewkowycz et al. (2022), as ToRL has changed it."""
    text = _undelimited(text.strip())
    for old, new in _REPLACED:
        text = text.replace(old, new)
    for old in _REMOVED:
        text = text.replace(old, "")
    for command in ("text", "textbf", "overline"):
        text = re.sub(rf"\\{command}\{{(.*?)\}}", r"\1", text)
    text = re.sub(r"\\boxed\{(.*)\}", r"\1", text)
    text = re.sub(r"frac([^{])(.)", r"frac{\1}{\2}", text)
    text = re.sub(r"sqrt([^{])", r"sqrt{\1}", text)
    digits = text.replace(",", "")
    return _undelimited(digits if digits.isdigit() else text).strip()


def _undelimited(text: str) -> str:
    """Without \\( \\) or \\[ \\] around it; each side by itself."""
    text = text[2:] if text.startswith(("\\(", "\\[")) else text
    return text[:-2] if text.endswith(("\\)", "\\]")) else text


_REPLACED = (
    ("an ", ""), (".$", "$"), ("\\$", ""), ("\\ ", ""), (" ", ""), ("mbox", "text"),
    (",\\text{and}", ","), ("\\text{and}", ","), ("\\text{m}", "\\text{}"),
    ("\\left", ""), ("\\right", ""), ("\u2236", ":"), ("\uff0c", ","), ("$", ""),
    ("\\approx", "="), ("\\simeq", "="), ("\\sim", "="), ("^\\prime", "'"),
    ("^{\\prime}", "'"), ("\\dfrac", "\\frac"), ("\\tfrac", "\\frac"), ("^\\circ", ""),
    ("%", ""), ("\u221a", "\\sqrt"), ("\u221e", "\\infty"), ("\u222a", "\\cup"),
)  # fmt: skip
_REMOVED = (
    "square", "ways", "integers", "dollars", "mph", "inches", "hours", "km", "units",
    "\\ldots", "sue", "points", "feet", "minutes", "digits", "cents", "degrees", "cm", "gm",
    "pounds", "meters", "meals", "edges", "students", "childrentickets", "multiples",
    "\\text{s}", "\\text{.}", "\\text{\ns}", "\\text{}^2", "\\text{}^3", "\\text{\n}",
    "\\text{}", "\\mathrm{th}", "^\\circ", "^{\\circ}", "\\;", ",\\!", "{,}", '"', "\\dots",
)  # fmt: skip
