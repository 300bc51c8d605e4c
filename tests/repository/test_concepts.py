"""Words of the docs are in docs/start/concepts.md, and pages of the site show their meanings."""

from __future__ import annotations

import re

import pytest
from tooltips import COMMON, meanings, with_meanings

from places import ROOT, SOURCE

CONCEPTS = (ROOT / "docs" / "start" / "concepts.md").read_text(encoding="utf-8")
WORDS = {
    word
    for words in re.findall(r"^\| (?:the )?([a-z][a-z `,-]*) \| ", CONCEPTS, re.M)
    for word in words.replace("`", "").split(", ")
}
PAGES = [
    *(ROOT / name for name in ("README.md", "docs/index.md")),
    *(p for name in ("start", "guides", "recipes") for p in (ROOT / "docs" / name).glob("*.md")),
]
LOCAL = {"keeper"}
"""Words that only the page uses that defines them."""


def is_known(word: str) -> bool:
    """Whether it or its stem begins a word of the page, or it contains one."""
    stem = re.sub(r"(?:s|es|d)$", "", word.lower())
    return any(
        re.search(rf"\b{re.escape(stem)}", known) or re.search(rf"\b{re.escape(known)}\b", stem)
        for known in WORDS
    )


def test_words_that_a_page_defines_are_among_the_concepts() -> None:
    """A page emphasizes a word where it explains it."""
    found: set[str] = set()
    for page in PAGES:
        text = re.sub(
            r"```.*?```|`[^`\n]*`|^\*[^\n]*\*$", "", page.read_text("utf-8"), flags=re.S | re.M
        )
        found |= set(re.findall(r"(?<![*\w])\*([a-z][a-z -]+)\*(?!\*)", text))
    assert {"arm", "inline", "cold start", "policy", "inconclusive"} <= found
    assert not {word for word in found - LOCAL if not is_known(word)}


BESIDE = {"judgement", "injected", "entropy", "kl", "official verdict"}
"""Words of a report that docs/reference/metrics.md explains, or that no other page uses."""


def test_words_of_the_report_s_glossary_are_among_the_concepts() -> None:
    text = (SOURCE / "report" / "templates" / "glossary.html").read_text(encoding="utf-8")
    words = {word.lower() for word in re.findall(r"<dt>(.*?)</dt>", text)}
    known = words - BESIDE
    assert len(known) > 15 and not [word for word in known if not is_known(word)]
    plural = {word for one in words for word in (f"{one}s", f"{re.sub('y$', 'ie', one)}s")}
    assert not words & plural, "the page itself finds the plural of a word"


@pytest.mark.parametrize(
    "word", ["category", "withheld tool", "inline dialect", "arm", "row", "budget", "staleness"]
)
def test_a_word_that_many_pages_use_is_explained(word: str) -> None:
    assert word in WORDS


def test_the_first_use_of_a_word_gets_its_meaning_outside_of_links_and_code() -> None:
    words = {"seed task": "a task that variants are made from", "arm": "a way of training"}
    page = (
        "<h2>Seed tasks</h2><p><code>seed task</code> <a>a seed task</a>, "
        "alarm: Seed tasks, and a seed task. Two arms.</p>"
    )
    assert with_meanings(page, words) == (
        "<h2>Seed tasks</h2><p><code>seed task</code> <a>a seed task</a>, "
        'alarm: <abbr title="a task that variants are made from">Seed tasks</abbr>, '
        'and a seed task. Two <abbr title="a way of training">arms</abbr>.</p>'
    )


def test_meanings_are_the_first_sentences_of_the_page() -> None:
    found = meanings(CONCEPTS)
    assert found["ground truth"] == "the expected tool calls of a turn"
    assert found["mastered"].startswith("a task above the boundary is mastered (mean progress")
    assert set(found) <= WORDS and not set(found) & COMMON and len(found) > 30
    text = with_meanings("<p>Trajectories.</p>", found)
    assert (
        text.startswith('<p><abbr title="the record of a rollout') and "Trajectories</abbr>" in text
    )
