"""Question answering with a search engine: a corpus, its index, the tool, and questions over it.

Owns nothing itself: `documents.py` reads a corpus, `index.py` ranks it, `remote.py` asks another
machine instead, `environment.py` is the tool; `atlas.py` and `hops.py` make a world with its texts
and questions.

    environment = SearchEnvironment("wiki.jsonl")       # env.name = "search", env.search.corpus
"""

from pydantic import Field

from rods.config.base import Settings
from rods.envs.questions import QuestionSettings


class SearchSettings(Settings):
    """`env.name = "search"`."""

    corpus: str = ""
    """JSON lines of documents, or the http address of a retriever with the interface of Search-R1;
    empty: the bundled, generated corpus."""
    results: int = Field(default=3, ge=1)
    """Documents that one search returns."""

    data_files = ("corpus",)


SECTIONS = {"search": SearchSettings, "questions": QuestionSettings}
