"""Families of the package reasoning-gym: `reasoning_gym:<name>`.

Owns how a family's name, a difficulty and a key become one item of that package. It has no
programs for its items, so a question has none. The package is imported at first use.

    gym_question("chain_sum", difficulty=1, key="chain_sum-1-0").text

An answer is right if it is the item's own text. Families in which other answers are right too
(countdown, sudoku and most puzzles) are refused: the package judges them by code of its own, which
often evaluates what it is given, and some of which can be fooled.
"""

from __future__ import annotations

import importlib
import random
from functools import lru_cache
from typing import Any

from rods.envs.questions.question import HARDEST, Question
from rods.errors import ConfigError, PrerequisiteError
from rods.infra.install import install_line

# fmt: off
ONE_ANSWER = frozenset((
    "ab", "binary_matrix", "bitwise_arithmetic", "calendar_arithmetic", "chain_sum",
    "circuit_logic", "color_cube_rotation", "decimal_arithmetic", "decimal_chain_sum", "dice",
    "emoji_mystery", "family_relationships", "gsm_symbolic", "needle_haystack", "products",
    "rectangle_count", "self_reference", "spell_backward", "spiral_matrix", "string_insertion",
    "word_sorting", "zebra_puzzles",
))
# fmt: on
"""Families with a scorer of their own, which only forgives spellings or gives a part of the reward:
each item has one answer. Read in version 0.1.25."""


def gym_question(family: str, difficulty: int, key: str) -> Question:
    """The item of a key.

    Raises:
        ConfigError: there is no such family or difficulty.
        PrerequisiteError: the package is missing.
    """
    item = _dataset(family, difficulty, random.Random(key).randrange(2**31))[0]
    return Question(str(item["question"]).strip(), _answer(family, item["answer"]))


def _answer(family: str, answer: object) -> str:
    if not isinstance(answer, str) or not answer.strip():
        raise ConfigError(
            f"env.questions.families: reasoning_gym:{family} has items without one answer as "
            f"text (got {answer!r}), which cannot be judged. Take another family."
        )
    return answer.strip()


def _dataset(family: str, difficulty: int, seed: int) -> Any:
    factory = _factory()
    if family not in factory.DATASETS:
        raise ConfigError(
            f"env.questions.families: reasoning-gym has no family {family!r}; it has "
            f"{', '.join(sorted(factory.DATASETS))}."
        )
    # By the package's own word: its scorer is replaced where a single answer is not enough.
    plain: Any = importlib.import_module("reasoning_gym.dataset").ProceduralDataset
    replaced = factory.DATASETS[family][0].score_answer is not plain.score_answer
    if replaced and family not in ONE_ANSWER:
        raise ConfigError(
            f"env.questions.families: reasoning_gym:{family} has items with several right answers, "
            "or judges them by its own code, so a text cannot be compared with one answer. Take "
            "another family."
        )
    if not 1 <= difficulty <= HARDEST:
        raise ConfigError(
            f"env.questions.difficulty: reasoning_gym:{family} has no difficulty {difficulty}; "
            f"expected 1 to {HARDEST}."
        )
    fixed = {"seed": seed, "size": 1}
    if not factory.has_curriculum(family):
        return factory.create_dataset(family, **fixed)
    curriculum = factory.create_curriculum(family)
    curriculum.set_global_level(difficulty - 1)  # it stops at a family's last level
    made, _ = factory.DATASETS[family]
    return made(config=curriculum.generate_configuration(fixed))


@lru_cache(maxsize=1)
def _factory() -> Any:
    try:
        importlib.import_module("reasoning_gym")  # registers the families
        return importlib.import_module("reasoning_gym.factory")
    except ImportError as error:
        raise PrerequisiteError(
            "env.questions.families names a family of reasoning-gym, which is not installed. "
            f"{install_line('math')}"
        ) from error
