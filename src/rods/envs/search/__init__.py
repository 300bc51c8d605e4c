"""Question answering with a search engine: a corpus, its index, the tool, and questions over it.

Owns nothing itself: `documents.py` reads a corpus, `index.py` ranks it, `remote.py` asks another
machine instead, `environment.py` is the tool; `atlas.py` and `hops.py` make a world with its texts
and questions.

    environment = SearchEnvironment("wiki.jsonl")       # env.name = "search", env.search.corpus
"""

from rods.envs.search.environment import SearchEnvironment, SearchWorld
from rods.envs.search.hops import question_task, search_tasks

__all__ = ["SearchEnvironment", "SearchWorld", "question_task", "search_tasks"]
