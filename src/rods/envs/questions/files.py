"""Published data sets that a user has on disk, read as question tasks.

Owns which forms of a row there are and what is question and answer in each. Never fetches anything.

* a conversation (Open-Reasoner-Zero): `[{"value": question}, {"ground_truth": {"value": answer}}]`
* verl rows (DAPO-Math-17k, ToRL): `prompt` messages and `reward_model.ground_truth`
* `question` and `golden_answers` (NQ, HotpotQA as Search-R1 has them); the first is the answer
* `problem` or `question`, and `answer` (AIME, MATH) or `final_answer` (DeepMath)
* our own task rows

    tasks = load_question_tasks(Path("dapo-math-17k.parquet"), env="python_tool")

Files are JSON, JSON lines or Parquet (which needs the extra `train`). Keys are read without regard
to case. System messages and the fixed instruction around DAPO's questions are removed, because the
dialect brings its own; other wrappers are kept. A warning names what is left out. A question that
stands in the file several times with one answer is one task; its text names its scenario, so it
stands on one side of the split.
"""

from __future__ import annotations

import contextlib
import functools
import hashlib
import logging
import math
import re
from collections import Counter
from collections.abc import Mapping
from decimal import Decimal
from pathlib import Path
from typing import Any, NamedTuple

from rods.errors import TaskError
from rods.infra.rows import file_rows, listed, opened
from rods.infra.text import counted, require_whole
from rods.task import COLUMNS as COLUMNS_OF_OURS
from rods.task import Provenance, Task, Turn, carried, read_tasks
from rods.types import Json

COLUMNS = frozenset(  # Columns that are read of a Parquet file
    (
        "prompt", "reward_model", "question", "problem", "0", "1",
        "golden_answers", "answer", "final_answer", *COLUMNS_OF_OURS,
    )
)  # fmt: skip
_ASKED = ("prompt", "question", "problem", "0")
_note = functools.cache(logging.getLogger(__name__).warning)  # files are read more than once

_DAPO = re.compile(
    r"\A\s*Solve the following math problem step by step\. The last line of your response should "
    r"be of the form Answer:[^\n]{0,80} where \$Answer is the answer to the problem\.\s+"
    r"(?P<question>.*?)"
    r"(?:\s+Remember to put your answer on its own line after \"Answer:\"\.?)?\s*\Z",
    re.DOTALL,
)

FORMS = (
    "a conversation with ground_truth (ORZ), prompt and reward_model (verl: DAPO, ToRL), question "
    "and golden_answers (NQ, HotpotQA), problem and answer (AIME) or final_answer "
    "(DeepMath), or a task row of RODS"
)


class QuestionRow(NamedTuple):
    """Question of a row."""

    question: str
    answers: tuple[str, ...]
    """The reference, and other ways to say it."""


def load_question_tasks(path: Path, env: str) -> list[Task]:
    """Tasks of a file in any of the forms above, in the file's order.

    Args:
        path: .json, .jsonl or .parquet.
        env: `python_tool` (answers are mathematics) or `search` (answers are text).

    Raises:
        TaskError: the file or a row of it cannot be read; the message names both.
        PrerequisiteError: a Parquet file, and pyarrow is missing.
    """
    tasks: dict[QuestionRow, Task] = {}
    left = Counter[str]()
    for number, where, value in file_rows(path, "questions", TaskError, COLUMNS):
        if not tasks and carried(value, where):
            return list(read_tasks(path))
        row = read_row(value, where)
        require_whole(row, where, TaskError)  # a text may hold JSON again
        left.update(_roles_left_out(value))
        if row not in tasks:
            tasks[row] = _task(row, env, f"{path.stem}-{number}")
    if left:
        what = " and ".join(f"{role} ({counted(n, 'row')})" for role, n in sorted(left.items()))
        _note(
            f"{path}: messages of these roles were left out: {what}. A question has the user's "
            "messages only, and the dialect writes its own system message. Put what the model must "
            "know into the user's message."
        )
    return list(tasks.values())


def read_row(value: object, where: str) -> QuestionRow:
    """Question and answers of one row.

    Raises:
        TaskError: it has none of the forms, or a part of it is missing; `where` begins the message.
    """
    try:
        question, answers = _parts(value)
    except (KeyError, TypeError, ValueError) as error:
        what = f"key {error} is missing" if isinstance(error, KeyError) else str(error)
        raise TaskError(f"{where}: {what}. Expected {FORMS}.") from error
    if not question.strip() or not answers:
        missing = "answer" if question.strip() else "question"
        raise TaskError(f"{where}: the {missing} is blank. Fill it in, or remove the row.")
    return QuestionRow(question.strip(), answers)


def _parts(value: object) -> tuple[str, tuple[str, ...]]:
    if isinstance(value, list):
        messages: list[Any] = value
        if len(messages) < 2:
            raise ValueError(f"it is a list of {len(messages)}, a conversation has two messages")
        return _question(messages), _texts(_table(messages[1], "message 2")["ground_truth"])
    row = {str(key).lower(): item for key, item in _table(value, "it").items()}
    if row.get("golden_answers") is not None:
        return _question(row["question"]), _texts(opened(row["golden_answers"], "golden_answers"))
    if row.get("reward_model") is not None:
        question = row.get("question") or _DAPO.sub(r"\g<question>", _question(row["prompt"]))
        truth = _table(row["reward_model"], "reward_model")["ground_truth"]
        return _question(question), _texts(truth)
    if row.get("0") is not None and row.get("1") is not None:  # a conversation from a table
        return _question([row["0"]]), _texts(_table(row["1"], "column 1")["ground_truth"])
    asked = _first(row, "problem", "question", "prompt")
    answer = _first(row, "answer", "final_answer")
    if asked is None or answer is None:
        empty = [name for name in row if row[name] is None]
        nulls = f", of which {empty} are null" if empty else ""
        raise ValueError(f"question or answer is missing among its keys {sorted(row)}{nulls}")
    return _question(asked), _texts(answer)


def _first(row: Mapping[str, object], *names: str) -> Any:
    return next((row[name] for name in names if row.get(name) is not None), None)


def _table(value: object, what: str) -> Mapping[str, Any]:
    value = opened(value, what)
    if not isinstance(value, dict):
        raise TypeError(f"{what} is {_kind(value)}, expected an object")
    return value


def _kind(value: object) -> str:
    return "null" if value is None else f"{value!r:.60} ({type(value).__name__})"


def _question(messages: object) -> str:
    """A text, or the user's messages of a conversation (`content` or `value`), maybe as JSON."""
    if isinstance(messages, str):
        found = _conversation(messages)
        if found is None:
            return messages
        messages = found
    if not isinstance(messages, list | dict):
        raise TypeError(f"the question is {_kind(messages)}, expected a text or messages")
    mine: list[str] = []
    for number, message in enumerate(listed(messages, "the question", object), 1):
        table = _table(message, f"message {number}")
        if table.get("role", table.get("from", "user")) in ("user", "human"):
            text = table["content"] if "content" in table else table["value"]
            if not isinstance(text, str):
                raise TypeError(f"message {number} says {_kind(text)}, expected a text")
            mine.append(text)
    return "\n".join(mine)


def _roles_left_out(value: Any) -> set[str]:
    """Roles of a row's messages, beside the user's, that say something which no task gets."""
    row = {"prompt": value} if isinstance(value, list) else value
    roles = set[str]()
    for asked in (item for key, item in row.items() if str(key).lower() in _ASKED):
        found = _conversation(asked) if isinstance(asked, str) else asked
        if isinstance(found, dict) and isinstance(found.get("from", found.get("role")), str):
            found = [found]  # a column for each message
        for entry in listed(found, "messages", object) if found else ():
            message = opened(entry, "a message")
            said = message.get("content") or message.get("value")
            roles |= {str(message.get("role", message.get("from", "user")))} if said else set()
    return roles - {"user", "human"}


def _conversation(text: str) -> list[Any] | None:
    """Messages that a text holds as JSON; None: it is words, such as a list of numbers."""
    try:
        found = opened(text, "a conversation")
    except ValueError:
        return None
    rows: list[Any] = found if isinstance(found, list) else []
    fits = all(isinstance(row, dict) and row.keys() & {"role", "from"} for row in rows)
    return rows if rows and fits else None


def _texts(answers: object) -> tuple[str, ...]:
    """An answer, a list of them, or either in `value` or `target`, also as JSON text."""
    found = answers
    with contextlib.suppress(ValueError):
        found = opened(answers, "an answer")
    if isinstance(found, dict) and (found is answers or found.keys() & {"target", "value"}):
        inner: dict[str, Any] = found
        return _texts(inner["value"] if "value" in inner else inner["target"])
    many = answers if isinstance(answers, list) else [answers]
    return tuple(dict.fromkeys(text for text in map(_answer, many) if text))


def _answer(answer: object) -> str:
    """A text as it is; a number with all of its digits and without an exponent."""
    if isinstance(answer, bool) or not isinstance(answer, str | int | float):
        raise TypeError(f"the answer is {_kind(answer)}, expected a text or a number")
    if not isinstance(answer, float):
        return str(answer).strip()
    if not math.isfinite(answer):
        raise ValueError(f"the answer is {answer}, which is not a number")
    return f"{Decimal(int(answer)) if answer.is_integer() else Decimal(repr(answer)):f}"


def _task(row: QuestionRow, env: str, origin: str) -> Task:
    world: dict[str, Json] = {"answer": row.answers[0], "source": origin}
    if row.answers[1:]:
        world["aliases"] = list(row.answers[1:])
    scenario = "question-" + hashlib.sha256(row.question.encode()).hexdigest()[:16]
    category = origin.rpartition("-")[0]
    return Task(env, category, (Turn(row.question),), world, Provenance(origin, scenario))
