"""The last line of a page names the next one, and these lines lead to an end."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path

import pytest

from places import ROOT

DOCS = ROOT / "docs"
LAST = {"docs/guides/use-the-model.md", "docs/research/reproduce.md"}
"""Pages that end a path: of a user, and of the research. Developers end at CONTRIBUTING.md."""
FOLDERS = ("start", "guides", "recipes", "examples", "research", "developers")
"""Folders whose pages are read in order. Reference pages are looked up, so theirs is optional."""
PAGES = [DOCS / "index.md", *(p for name in FOLDERS for p in sorted((DOCS / name).glob("*.md")))]
OWN_TOOLS = [
    "tools", "tasks", "variants", "cold-start", "first-settings", "evaluate", "use-the-model",
]  # fmt: skip
"""Guides, in the order in which somebody with tools of their own needs them."""


def name_of(page: Path) -> str:
    return page.relative_to(ROOT).as_posix()


def next_pages(page: Path) -> list[str]:
    """Pages that the last line of a page names, the main one first."""
    last = page.read_text(encoding="utf-8").rstrip().rpartition("\n")[2]
    links = re.findall(r"\]\(([^)#]+)[^)]*\)", last) if last.startswith("Next: [") else []
    return [name_of((page.parent / link).resolve()) for link in links]


STEPS = {name_of(page): next_pages(page) for page in sorted(DOCS.rglob("*.md"))}


def cycles(steps: Mapping[str, Sequence[str]]) -> Iterator[list[str]]:
    """Yield, for each page that next steps lead back to, one way around."""
    for start in steps:
        ways = [[start, after] for after in steps[start]]
        seen: set[str] = set()
        while ways:
            way = ways.pop()
            if way[-1] == start:
                yield way
                break
            if way[-1] not in seen:
                seen.add(way[-1])
                ways += [[*way, after] for after in steps.get(way[-1], ())]


def test_no_next_step_leads_back() -> None:
    assert not [" -> ".join(way) for way in cycles(STEPS)]


def test_each_page_names_the_next_one_and_the_last_ones_name_none() -> None:
    without = {name_of(page) for page in PAGES if not STEPS[name_of(page)]}
    assert len(PAGES) > 75 and without == LAST


def test_next_steps_exist() -> None:
    lost = {(page, after) for page, steps in STEPS.items() for after in steps}
    assert not [pair for pair in lost if not (ROOT / pair[1]).is_file()]


def follow(page: str) -> list[str]:
    """The pages from one on, by the first link of each."""
    way = [page]
    while STEPS.get(way[-1]):
        way.append(STEPS[way[-1]][0])
    return way


def test_the_path_from_the_first_page_to_the_use_of_an_agent_is_that_of_own_tools() -> None:
    way = follow("docs/index.md")
    start = ["docs/index.md", *(f"docs/start/{n}.md" for n in ("install", "quick-start"))]
    assert way[:3] == start
    assert way[-len(OWN_TOOLS) :] == [f"docs/guides/{name}.md" for name in OWN_TOOLS]


@pytest.mark.parametrize(
    "names",
    [
        ["models", "memory", "cold-start"],
        ["other-trainers", "serve-environments", "data-formats", "evaluate"],
        ["mcp", "evaluate"],
    ],
    ids=lambda names: names[0],
)
def test_guides_of_one_subject_follow_each_other(names: list[str]) -> None:
    way = follow(f"docs/guides/{names[0]}.md")
    assert way[: len(names)] == [f"docs/guides/{name}.md" for name in names]


def test_the_research_is_one_path_through_all_its_results() -> None:
    """The navigation has the same order; what strangers reported belongs to the developers."""
    text = (ROOT / "mkdocs.yml").read_text(encoding="utf-8").partition("  - Research:")[2]
    part = text.partition("  - Developers:")[0]
    pages = [f"docs/{name}" for name in re.findall(r"research/[\w-]+\.md", part)]
    assert follow("docs/research/results.md") == pages


@pytest.mark.parametrize("page", sorted((DOCS / "developers").glob("*.md")), ids=lambda p: p.stem)
def test_developers_arrive_at_the_rules_for_contributors(page: Path) -> None:
    assert follow(name_of(page))[-1] == "CONTRIBUTING.md"


def test_a_cycle_is_found() -> None:
    steps = {"a": ["b"], "b": ["c", "a"], "c": []}
    assert [*cycles(steps)] == [["a", "b", "a"], ["b", "a", "b"]]
    assert not [*cycles({"a": ["b", "c"], "b": ["c"], "c": []})]
