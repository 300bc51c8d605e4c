"""What the bundled policy `tiny-search` is made from: its tokenizer and its supervised responses.

Owns the sizes of that model and what its card says. It trains nothing (`pretrain.py` does). Its
demonstrations are of another world than the bundled corpus, so it has seen no name and no fact of
what it is asked about later; it can only search and copy.

    tokenizer = search_tokenizer(world, seed=0)
    rows = search_conversations(tokenizer, world, PLAN, seed=0, numbers=range(10_000))
"""

from __future__ import annotations

import random
from collections.abc import Iterable
from dataclasses import replace

from transformers import PreTrainedTokenizerFast

from pretrain.conversations import Conversation
from pretrain.responses import encoded, tokenizer_of
from pretrain.teacher import SMALL
from rods.envs.search.atlas import make_atlas
from rods.envs.search.hops import HopQuestion, chain_question, chains_of
from rods.envs.search.index import Bm25Index
from rods.policies.demonstrations import Demonstration
from rods.policies.searches import SearchPlan, SearchQuestions, search_demonstrations
from rods.rollout.template import ChatTemplate

SETTINGS = replace(SMALL, tokens=2_800_000, context_weight=0.05)
"""With a little loss on questions and texts: their names, said again and again, teach copying."""
PLAN = SearchPlan(hops=(1, 2))
RESULTS = 1
"""Documents of a search, as in the profile that this policy is for."""
PROVINCES, WORLD = 160, 77
"""Of the world that is demonstrated: about 6,000 documents."""
DATA = (
    "Generated questions of one and two hops about a world of its own (160 provinces, seed 77; no "
    "name and no fact of the bundled corpus) in the dialect search_r1, with what its index "
    "finds, one document a search: the necessary searches, one more, one too few, a useless one "
    "first, none. Answers that no search has shown carry no loss."
)
LIMITS = (
    "It speaks the dialect search_r1 only, copies names from questions and results into queries "
    "and answers, and reads one document of the generated kind at a time. It exists so that the "
    "search recipes show their mechanism without a GPU; it is not a useful assistant."
)
OPEN = (
    "Whether to search, and how often: answers without a search, searches that add nothing and "
    "answers that come too early are as common as the necessary searches."
)
CORPUS = 1_500
"""Demonstrations whose texts train the tokenizer."""
TYPICAL = 265
"""Tokens of a demonstration, to know how many are needed for one pass."""
HELD_OUT_ROWS = 200
"""Demonstrations of the bundled corpus' held-out side that the card's loss is measured on."""
TAGS = r"</?(?:search|information|answer|think)>"
"""A tag is one token."""
WORDS = 150
"""Words that are joined to the blank before them."""


class OtherWorld(SearchQuestions):
    """A world of the same kind whose names and facts the bundled one does not have."""

    def __init__(self, provinces: int, seed: int, results: int):
        atlas = make_atlas(provinces, seed)
        self._provinces = atlas.provinces
        index = Bm25Index.of(atlas.documents)
        super().__init__(results, index=index)
        self._name = f"world{seed}"

    def draw(self, hops: int, rng: random.Random) -> tuple[str, HopQuestion]:
        """A question and its name."""
        province = rng.choice(self._provinces)
        chains = chains_of(province, hops)
        place = rng.randrange(len(chains))
        name = f"{self._name}-{hops}-{province.number}-{place}"
        return name, chain_question(chains[place], province.number)


def search_world() -> OtherWorld:
    """The world that is demonstrated."""
    return OtherWorld(PROVINCES, WORLD, RESULTS)


def search_tokenizer(
    world: SearchQuestions, seed: int, corpus: int = CORPUS
) -> PreTrainedTokenizerFast:
    """A tokenizer of about 1,024 entries: words and tags of the dialect, syllables of names."""
    made = search_demonstrations(world, PLAN, seed, range(corpus))
    return tokenizer_of(made, SETTINGS, WORDS, TAGS)


def search_conversations(
    tokenizer: PreTrainedTokenizerFast,
    world: SearchQuestions,
    plan: SearchPlan,
    seed: int,
    numbers: Iterable[int],
) -> list[Conversation]:
    """Demonstrations as ids with a mask, put together as a rollout does."""
    template = ChatTemplate(tokenizer)
    made = search_demonstrations(world, plan, seed, numbers)
    return [_conversation(row, template) for row in made]


def _conversation(row: Demonstration, template: ChatTemplate) -> Conversation:
    """An answer that nobody could know is noise, larger than all there is to learn: no loss."""
    made = encoded(row, template)
    if not row.known:
        # ids end in "<answer> NAME </answer>" and the end of the turn; only NAME loses its loss
        size = len(template.encode(row.pieces[-1][0]))
        tags = [len(template.encode(tag)) for tag in ("<answer> ", " </answer>")]
        for place in range(len(made.ids) - 1 - size + tags[0], len(made.ids) - 1 - tags[1]):
            made.mask[place] = 0
    return made
