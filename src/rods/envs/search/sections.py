"""Settings of `search`.

rods train --env.name search --env.search.results 5
"""

from pydantic import Field

from rods.config.base import Settings
from rods.envs.questions.settings import QuestionSettings


class SearchSettings(Settings):
    """`env.name = "search"`."""

    corpus: str = ""
    """JSON lines of documents, or the http address of a retriever with the interface of Search-R1;
    empty: the bundled, generated corpus."""
    results: int = Field(default=3, ge=1)
    """Documents that one search returns."""

    data_files = ("corpus",)


SECTIONS = {"search": SearchSettings, "questions": QuestionSettings}
