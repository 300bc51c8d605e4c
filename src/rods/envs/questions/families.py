"""Families of generated questions with a dial of difficulty, and tasks made from them.

Owns which families there are (arithmetic and word problems) and the two splits. A question is fixed
by (family, difficulty, seed). Seeds from `HELD_OUT` on are the held-out split; the text itself
decides which side it may stand on, so no text stands on both, however few questions a family has.

    make_question("multiply", 3, seed=7).text       # "What is 609 * 38?"
    question_task("multiply", 3, seed=7)            # the same as a task of `python_tool`

Difficulty 1 has one-digit numbers and can be answered in the head; from 3 on a small model hardly
can.
"""

from __future__ import annotations

import random
import zlib
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import cast

from rods.errors import ConfigError, TaskError
from rods.infra.dotted import not_among
from rods.task import Provenance, Task, Turn

HARDEST = 5  # Difficulties of our own families are 1 to this
HELD_OUT = 1_000_000_000  # First seed of the held-out split


@dataclass(frozen=True)
class Question:
    """A question with one right answer."""

    text: str
    answer: str
    programs: tuple[str, ...] = ()
    """Python sources in order: the work step by step. Each runs by itself, because interpreters
    forget; the last does all the work and prints the answer. Empty: no program is known."""

    @property
    def program(self) -> str:
        """The one program that does all the work; empty if none is known."""
        return self.programs[-1] if self.programs else ""


def steps(*expressions: str) -> tuple[str, ...]:
    """Programs that print each expression; repeated ones once."""
    return tuple(f"print({expression})" for expression in dict.fromkeys(expressions))


def is_generated(task: Task) -> bool:
    """True if a task's world says which question it is."""
    world = task.world
    numbers = (world.get("difficulty"), world.get("seed"))
    return isinstance(world.get("family"), str) and all(type(n) is int for n in numbers)


def require_same(task: Task, question: Question, name: str) -> None:
    """Refuse a generated task whose question, made again, is another one; raises `TaskError`."""
    if (question.text, question.answer) != (task.turns[0].user, task.world.get("answer")):
        raise TaskError(
            f"task {task.id}: {name} is now {question.text!r} with answer {question.answer!r}, but "
            f"the task has {task.turns[0].user!r}. It was made by another version; generate the "
            "tasks again."
        )


NAMES = ("Ana", "Ben", "Cem", "Dora", "Eva", "Finn", "Gil", "Hana")
GOODS = ("pens", "books", "cups", "lamps", "bags", "caps", "keys", "nuts")
RIDES = ("train", "bus", "car", "ship")

COUNTS = {1: (2, 9), 2: (3, 12), 3: (11, 60), 4: (21, 99), 5: (101, 999)}
"""Pieces that are bought, or hours that are travelled."""
PRICES = {1: (2, 9), 2: (3, 12), 3: (101, 400), 4: (101, 999), 5: (101, 999)}
"""Coins for a piece, or kilometres in an hour."""
PARTS = {1: 1, 2: 2, 3: 2, 4: 3, 5: 3}  # Products that are added


def _pairs(difficulty: int, rng: random.Random) -> list[tuple[int, int]]:
    """Two factors for each part."""
    counts, prices = COUNTS[difficulty], PRICES[difficulty]
    parts = range(PARTS[difficulty])
    return [(rng.randint(*counts), rng.randint(*prices)) for _ in parts]


def _sum(pairs: list[tuple[int, int]]) -> str:
    return " + ".join(f"{a} * {b}" for a, b in pairs)


def _list(parts: list[str]) -> str:
    return parts[0] if len(parts) == 1 else f"{', '.join(parts[:-1])} and {parts[-1]}"


def shopping(difficulty: int, rng: random.Random) -> Question:
    """Ask what somebody pays; from difficulty 4 with a discount, at 5 the change."""
    pairs = _pairs(difficulty, rng)
    name, goods = rng.choice(NAMES), rng.sample(GOODS, len(pairs))
    bought = [f"{a} {what} for {b} coins each" for what, (a, b) in zip(goods, pairs, strict=True)]
    asks = [f"What does {name} pay?"] * 2 + [f"What does {name} get back?"]
    more = ("{} coins are taken off.", name + " gives {} coins.")
    return _story(f"{name} buys {_list(bought)}.", pairs, asks, more, difficulty, rng)


def travel(difficulty: int, rng: random.Random) -> Question:
    """Ask how far something goes; from difficulty 4 it goes back a part, at 5 what is left."""
    pairs = _pairs(difficulty, rng)
    ride = rng.choice(RIDES)
    legs = [f"{a} hours at {b} km per hour" for a, b in pairs]
    asks = ["How many km is that?", "How many km is it from its start?", "How many km are left?"]
    more = ("It goes back {} km.", "The way is {} km.")
    return _story(f"A {ride} goes {_list(legs)}.", pairs, asks, more, difficulty, rng)


def _story(
    text: str,
    pairs: list[tuple[int, int]],
    asks: list[str],
    more: tuple[str, str],
    difficulty: int,
    rng: random.Random,
) -> Question:
    """A sum of products, from difficulty 4 with something off, at 5 what is left of a whole."""
    whole, total = _sum(pairs), sum(a * b for a, b in pairs)
    if difficulty >= 4:
        off = rng.randint(100, 999)
        text, whole, total = f"{text} {more[0].format(off)}", f"{whole} - {off}", total - off
    if difficulty >= 5:
        given = total + rng.randint(1000, 99999)
        text, whole = f"{text} {more[1].format(given)}", f"{given} - ({whole})"
        total = given - total
    work = steps(*(f"{a} * {b}" for a, b in pairs), _sum(pairs), whole)
    return Question(f"{text} {asks[max(0, difficulty - 3)]}", str(total), work)


HELD_OUT_PART = 4  # One text in so many belongs to the held-out split
TRIES = 256  # Draws for one seed until a text of its side comes; more means that there is none
REPEATS = 400  # So many repeated texts one after another: the family has no more at this difficulty


def _add(difficulty: int, rng: random.Random) -> Question:
    count = {1: 2, 2: 2, 3: 4, 4: 5, 5: 6}[difficulty]
    numbers = [_number(difficulty, rng) for _ in range(count)]
    sums = [" + ".join(map(str, numbers[:n])) for n in range(2, count + 1)]
    return Question(f"What is {sums[-1]}?", str(sum(numbers)), steps(*sums))


def _multiply(difficulty: int, rng: random.Random) -> Question:
    a = _number(difficulty, rng)
    b = _number({1: 1, 2: 1, 3: 2, 4: 3, 5: 3}[difficulty], rng)
    return Question(f"What is {a} * {b}?", str(a * b), steps(f"{a} * {b}"))


def _remainder(difficulty: int, rng: random.Random) -> Question:
    a = _number(difficulty, rng)
    b = _number({1: 1, 2: 1, 3: 2, 4: 2, 5: 3}[difficulty], rng)
    if difficulty < HARDEST:
        text = f"What is the remainder of {a} divided by {b}?"
        return Question(text, str(a % b), steps(f"{a} % {b}"))
    c = _number(3, rng)
    text = f"What is the remainder of {a} * {c} divided by {b}?"
    return Question(text, str(a * c % b), steps(f"{a} * {c}", f"{a} * {c} % {b}"))


def _expression(difficulty: int, rng: random.Random) -> Question:
    """Terms in brackets; every operator of a longer one is a step of the work."""
    operators = {1: 2, 2: 2, 3: 3, 4: 4, 5: 6}[difficulty]
    chosen = [rng.choice("+-") for _ in range(operators)]
    if difficulty > 1:
        for place in rng.sample(range(operators), 1 + operators // 4):
            chosen[place] = "*"
    most = {1: 9, 2: 20, 3: 200, 4: 999, 5: 999}[difficulty]
    terms = [(str(n), n) for n in (rng.randint(2, most) for _ in range(operators + 1))]
    work: list[str] = []
    while chosen:
        place = rng.randrange(len(chosen))
        (left, a), (right, b), sign = terms[place], terms[place + 1], chosen.pop(place)
        value = a * b if sign == "*" else a + b if sign == "+" else a - b
        work.append(f"{left} {sign} {right}")
        terms[place : place + 2] = [(f"({work[-1]})", value)]
    return Question(f"Compute {work[-1]}.", str(terms[0][1]), steps(*work))


def _number(digits: int, rng: random.Random) -> int:
    """A number of so many digits; of one digit: 2 to 9."""
    return rng.randint(2, 9) if digits == 1 else rng.randint(10 ** (digits - 1), 10**digits - 1)


FAMILIES: dict[str, Callable[[int, random.Random], Question]] = {
    "add": _add, "multiply": _multiply, "expression": _expression, "remainder": _remainder,
    "shopping": shopping, "travel": travel,
}  # fmt: skip
"""Families by name: difficulty (1 to `HARDEST`) and a source of chance give a question."""


def make_question(family: str, difficulty: int, seed: int) -> Question:
    """The question of a seed.

    Raises:
        ConfigError: there is no such family or difficulty, or no question of the seed's side.
    """
    if seed < 0:
        raise ConfigError(f"{family}: seed is {seed}, expected 0 or more.")
    if family not in FAMILIES:
        raise ConfigError(not_among("env.questions.families", family, FAMILIES))
    if not 1 <= difficulty <= HARDEST:
        raise ConfigError(
            f"env.questions.difficulty: {family} has no difficulty {difficulty}; expected "
            f"1 to {HARDEST}."
        )
    held_out = seed >= HELD_OUT
    for attempt in range(TRIES):
        rng = random.Random(f"{family}-{difficulty}-{seed}-{attempt}")
        question = FAMILIES[family](difficulty, rng)
        if is_held_out(question.text) is held_out:
            return question
    side = "held-out" if held_out else "training"
    raise ConfigError(
        f"{family} at difficulty {difficulty} has no question for the {side} side ({TRIES} draws). "
        "Name another family or difficulty (env.questions.families, env.questions.difficulty)."
    )


def is_held_out(text: str) -> bool:
    """Which side a question's text belongs to, by its hash."""
    return zlib.crc32(text.encode()) % HELD_OUT_PART == 0


def question_task(family: str, difficulty: int, seed: int, env: str = "python_tool") -> Task:
    """The question of a seed as a task; `question_of` makes the question again."""
    question = make_question(family, difficulty, seed)
    name = f"{family}-{difficulty}-{seed}"
    return Task(
        env,
        family,
        (Turn(question.text),),
        {"answer": question.answer, "family": family, "difficulty": difficulty, "seed": seed},
        Provenance(name, name),
    )


def question_of(task: Task) -> Question:
    """A generated question, made again; raises `TaskError` where it is not what the task has."""
    if not is_generated(task):
        raise TaskError(
            f"task {task.id}: not a generated question; its world must have family, difficulty "
            "and seed."
        )
    world = task.world
    family, difficulty, seed = world["family"], world["difficulty"], world["seed"]
    question = make_question(cast("str", family), cast("int", difficulty), cast("int", seed))
    require_same(task, question, f"{family}-{difficulty}-{seed}")
    return question


def question_tasks(
    families: Sequence[str],
    difficulties: Sequence[int],
    count: int,
    held_out: bool = False,
    env: str = "python_tool",
) -> list[Task]:
    """Different questions of one side, the same in every run.

    Families and difficulties take turns; one that has no more questions drops out.

    Raises:
        ConfigError: all together have no `count` questions.
    """
    places = {(f, d): HELD_OUT if held_out else 0 for d in difficulties for f in families}
    texts: set[str] = set()
    tasks: list[Task] = []
    while places and len(tasks) < count:
        for pair, first in list(places.items()):
            if len(tasks) == count:
                break
            for seed in range(first, first + REPEATS):
                task = question_task(*pair, seed, env)
                if task.turns[0].user not in texts:
                    texts.add(task.turns[0].user)
                    tasks.append(task)
                    places[pair] = seed + 1
                    break
            else:
                del places[pair]
    if len(tasks) < count:
        raise ConfigError(
            f"env.questions: families {list(families)} at difficulty {list(difficulties)} have "
            f"only {len(tasks)} different questions in the "
            f"{'held-out' if held_out else 'training'} split, but {count} are asked for. "
            "Name more, or lower env.questions.count."
        )
    return tasks
