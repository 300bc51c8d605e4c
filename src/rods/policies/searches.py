"""Demonstrations of search questions in the dialect `search_r1`, with what an index really finds.

Owns the mixture: which questions, how often an answer comes without a search, with the necessary
ones, with one more, after a useless one or one too early. Never trains and never judges.

An answer that nothing has shown is written down as if it were known (`known` is False). Nobody can
learn it, for names are made of syllables; so searching, and how often, is left to reinforcement.

    world = SearchQuestions(results=3)
    for made in search_demonstrations(world, SearchPlan(), seed=0, numbers=range(1000)):
        made.task_id, made.pieces       # "hops-2-8451-search_r1", [["Question: ...", False], ...]
"""

from __future__ import annotations

import random
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass

from rods.dialects.fences import SearchR1
from rods.envs.questions.families import HELD_OUT
from rods.envs.search.atlas import BY_KIND, BY_NAME
from rods.envs.search.documents import Retriever
from rods.envs.search.environment import RESULTS, SearchEnvironment
from rods.envs.search.hops import FAMILY, MOST_HOPS, HopQuestion, make_question
from rods.policies.demonstrations import SPREAD, Demonstration, Mixture

DIALECT = "search_r1"
MIXTURE = Mixture(one=0.25, several=0.30, failing=0.15, useless=0.10)


@dataclass(frozen=True)
class SearchPlan:
    """Plan of the demonstrations."""

    hops: Sequence[int] = tuple(range(1, MOST_HOPS + 1))
    """Each as often as it stands here."""
    mixture: Mixture = MIXTURE


class SearchQuestions:
    """Where questions come from, and what a search finds there: the corpus that `search` uses if
    none is named, and one side of its questions.
    """

    def __init__(
        self, results: int = RESULTS, held_out: bool = False, index: Retriever | None = None
    ) -> None:
        self._environment = SearchEnvironment(results=results, index=index)
        self._first = HELD_OUT if held_out else 0

    def draw(self, hops: int, rng: random.Random) -> tuple[str, HopQuestion]:
        """A question and its name."""
        place = self._first + rng.randrange(SPREAD)
        return f"{FAMILY}-{hops}-{place}", make_question(hops, place)

    def find(self, query: str) -> str:
        """Text that the policy reads of a search."""
        return self._environment.find(query).content


def search_demonstrations(
    world: SearchQuestions, plan: SearchPlan, seed: int, numbers: Iterable[int]
) -> Iterator[Demonstration]:
    """Demonstration `i` is a function of world, plan, seed and `i` alone.

    Raises:
        ConfigError: no question has so many hops.
    """
    dialect = SearchR1()
    for number in numbers:
        rng = random.Random(f"rods-searches-{seed}-{number}")
        name, question = world.draw(rng.choice(plan.hops), rng)
        queries = choose_queries(question, plan.mixture, rng)
        found = [world.find(query) for query in queries]
        response = dialect.demonstration(queries, found, question.answer)
        pieces = [(dialect.prompt(question.text), False), *response]
        known = question.programs[-1] in queries
        yield Demonstration(f"{name}-{DIALECT}", pieces, known=known)


def choose_queries(question: HopQuestion, mixture: Mixture, rng: random.Random) -> list[str]:
    """The queries of one demonstration, none for an answer without a search."""
    right = list(question.programs)
    extra = [*right, _one_more(question, rng)]
    useless = [BY_NAME[rng.choice(question.steps).relation].query, *right]
    return mixture.pick([right, extra, right[:-1], useless], rng)


def _one_more(question: HopQuestion, rng: random.Random) -> str:
    """The last query again, or one about another fact of the same subject."""
    last = question.steps[-1]
    others = [r for r in BY_KIND[BY_NAME[last.relation].of] if r.name != last.relation]
    if not others or rng.random() < 0.5:
        return question.programs[-1]
    return f"{last.subject} {rng.choice(others).query}"
