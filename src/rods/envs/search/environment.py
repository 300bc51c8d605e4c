"""`search`: questions that are answered with a search engine over a corpus.

Owns the tool, what it prints, and the limits of both. The answer is judged by
`rods.rewards.answers`. Never shows the reference answer, never raises for a bad query.

    environment = SearchEnvironment("wiki.jsonl")       # "": the bundled corpus
    world = environment.open(task)
    world.begin_turn(0)
    world.call(ToolCall("search", {"query": "river of Okdal"})).content
    # Doc 1 (Title: Okdal) Okdal is a town ...
"""

from __future__ import annotations

import threading
from collections.abc import Mapping, Sequence
from pathlib import Path

from pydantic import JsonValue

from rods.envs.questions import QuestionSettings
from rods.envs.questions.environment import QuestionEnvironment, QuestionWorld
from rods.envs.search.atlas import make_atlas
from rods.envs.search.documents import Hit, QueryRefused, Retriever
from rods.envs.search.hops import HopQuestion, question_of, question_task, search_tasks
from rods.envs.search.index import Bm25Index
from rods.envs.search.remote import RemoteRetriever
from rods.errors import ConfigError
from rods.registry import published
from rods.rewards.answers import judge_answer
from rods.rewards.reading import without_calls
from rods.task import Task
from rods.types import ToolResult, ToolSpec, Value

TOOL = "search"
RESULTS = 3  # Documents that one search shows
TEXT_CHARS = 1500
"""Characters of one document that are shown; about 250 words, more than a passage of Search-R1."""
QUERY_CHARS = 500  # A longer query is refused

SPEC = ToolSpec(
    TOOL,
    "Search the corpus for the documents that fit a query best.",
    {
        "type": "object",
        "properties": {"query": {"type": "string", "description": "Words to look for."}},
        "required": ["query"],
    },
)


class SearchEnvironment(QuestionEnvironment):
    """Question tasks with one tool, `search`.

    Args beside those of `SearchSettings`:
        questions: Settings of `env.questions`.
        index: What is searched, instead of `corpus`.
    """

    name = "search"
    blocking = True  # each world has a thread: a search takes milliseconds, a remote one longer

    def __init__(
        self,
        corpus: str = "",
        results: int = RESULTS,
        questions: Mapping[str, JsonValue] | None = None,
        index: Retriever | None = None,
    ) -> None:
        super().__init__(questions)
        if results < 1:
            raise ConfigError(f"env.search.results is {results}; it must be positive.")
        self._corpus, self._results, self._index = corpus, results, index
        self._lock = threading.Lock()
        if corpus and "://" not in corpus and not Path(corpus).is_file():
            what = f" (RODS does not ship it: {own})" if (own := published(corpus)) else ""
            raise ConfigError(
                f"env.search.corpus: {corpus}{what} is not a file; expected JSON lines of "
                "documents. Leave it empty for the bundled corpus, or give the address of a "
                "service, such as http://host:8000."
            )

    def warm_up(self) -> None:
        """Load the index, or build it, which may take long; else the first search does."""
        self._searched()

    def _searched(self) -> Retriever:
        with self._lock:
            if self._index is None:
                self._index = open_retriever(self._corpus)
            return self._index

    def world(self, task: Task) -> SearchWorld:
        """A fresh world."""
        return SearchWorld(task, self)

    def generate(self, settings: QuestionSettings, count: int, held_out: bool) -> Sequence[Task]:
        """Questions about the bundled corpus."""
        return search_tasks(settings.difficulty, count, held_out)

    def make(self, like: Task, seed: int) -> Task:
        """The question of another seed, of as many hops."""
        return question_task(int(str(like.world["difficulty"])), seed)

    def remake(self, task: Task) -> HopQuestion:
        """A generated question, made again: its chain of facts gives its answer."""
        return question_of(task)

    def generated(self, task: Task) -> bool:
        """True if it names a family; what it says beside that must then be right."""
        return task.world.get("family") is not None

    def calls_needed(self, task: Task) -> int | None:
        """Searches without which a generated question cannot be answered: a fact each."""
        return len(question_of(task).steps) if self.generated(task) else None

    def find(self, query: str) -> ToolResult:
        """Text of one search for the policy; raises `EnvError` where the retriever failed."""
        query = " ".join(query.split())
        if not query:
            return ToolResult("Error: the query is empty. Write the words to look for.", True)
        if len(query) > QUERY_CHARS:
            return ToolResult(
                f"Error: the query has {len(query)} characters, at most {QUERY_CHARS} are allowed. "
                "Write a shorter one.",
                True,
            )
        try:
            return ToolResult(shown(self._searched().search(query, self._results)))
        except QueryRefused:
            return ToolResult("Error: this query cannot be searched for. Write another one.", True)


def open_retriever(corpus: str) -> Retriever:
    """A retriever at an address, or an index of a corpus (empty: the bundled one)."""
    if "://" in corpus:
        return RemoteRetriever(corpus)
    if corpus:
        return Bm25Index.of_file(Path(corpus), shown=True)
    return Bm25Index.of(make_atlas().documents)


def shown(hits: Sequence[Hit]) -> str:
    """Results as lines: `Doc 1 (Title: ...) text`."""
    lines: list[str] = []
    for number, hit in enumerate(hits, 1):
        text = " ".join(hit.document.text.split())
        cut = text if len(text) <= TEXT_CHARS else text[:TEXT_CHARS].rstrip() + "..."
        lines.append(f"Doc {number} (Title: {hit.document.title}) {cut}")
    return "\n".join(lines) or "No document was found."


class SearchWorld(QuestionWorld):
    """One single-use world of one question."""

    spec = SPEC

    def __init__(self, task: Task, environment: SearchEnvironment):
        super().__init__(task)
        self._environment = environment

    def use(self, arguments: Mapping[str, Value]) -> ToolResult:
        """Search."""
        query = arguments.get("query")
        if not isinstance(query, str):
            return ToolResult(f"Error: query is {query!r}, expected a text.", failed=True)
        return self._environment.find(query)

    def judge_answer(self, text: str) -> bool:
        """True if the last tagged answer outside of queries is the reference in plain words."""
        return judge_answer(self._task, without_calls(text)).correct
