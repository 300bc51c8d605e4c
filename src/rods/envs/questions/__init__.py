"""Questions with a verifiable answer: generated families, and files of data sets.

Owns nothing itself: `families.py` makes questions, `files.py` reads published data sets from disk.

    from rods.envs.questions.families import make_question, question_task
"""

from typing import Annotated

from pydantic import BeforeValidator, Field

from rods.config.base import Settings, Texts, one_or_many


class QuestionSettings(Settings):
    """Generated questions of `python_tool` and `search` without files in `env.tasks`."""

    families: Texts = ()
    """Families for `python_tool`: `add`, `multiply`, `expression`, `remainder`, `shopping`,
    `travel`; empty: all."""
    difficulty: Annotated[tuple[int, ...], BeforeValidator(one_or_many)] = (1, 2, 3)
    """Levels from 1 to 5; for `search` the number of hops, 1 to 3."""
    count: int = Field(default=400, ge=1)
    """Number of questions in both splits together."""
    lenient: bool = False
    """True: accept an answer in a box, in a tag or after "the answer is", also for questions of a
    file. False: accept it only in the form that the reward's system expects."""
