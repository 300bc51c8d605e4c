"""The site builds strictly, each of its links has a target, and no page asks another server."""

from __future__ import annotations

import json
import os
import re
import shutil
import subprocess
import sys
import threading
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, nullcontext
from functools import partial
from html.parser import HTMLParser
from http.server import SimpleHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any
from urllib.parse import unquote, urlsplit

import pytest
from links import rewrite

from once import made_once
from places import ROOT, SOURCE
from rods.config import keys
from rods.registry import recipe_names

ASKED = {("script", "src"), ("img", "src"), ("link", "href"), ("iframe", "src")}
"""Attributes whose address a browser asks for by itself."""
PAGES = {
    "docs/a/x.md": "a/x.md",
    "docs/b.md": "b.md",
    "src/rods/recipes/torl/README.md": "r/torl.md",
}


@pytest.mark.parametrize(
    ("text", "there"),
    [
        ("[w](../b.md#c)", "[w](../b.md#c)"),
        ("[w](../../src/rods/recipes/torl/README.md)", "[w](../r/torl.md)"),
        ("[w](../../src/rods/recipes/torl)", "[w](../r/torl.md)"),
        ("[w](../../LICENSE)", "w"),
        ("[w](../gone.md)", "[w](../gone.md)"),
        ("[w](#here)", "[w](#here)"),
        ("[w](https://example.org/a.md)", "[w](https://example.org/a.md)"),
        ("    [w](../../LICENSE)", "    [w](../../LICENSE)"),
        ("```\n[w](../../LICENSE)\n```", "```\n[w](../../LICENSE)\n```"),
    ],
)
def test_a_link_of_the_repository_becomes_one_of_the_site(text: str, there: str) -> None:
    assert rewrite(text, "docs/a/x.md", PAGES) == there


GUIDES = sorted((ROOT / "docs" / "guides").glob("*.md"))


def test_guides_are_few_and_have_one_title_in_the_navigation_and_on_the_page() -> None:
    """An entry without a title of its own has that of its page."""
    text = (ROOT / "mkdocs.yml").read_text(encoding="utf-8")
    part = text.partition("  - Guides:")[2].partition("  - Recipes:")[0]
    groups = re.findall(r"^      - ([A-Z][\w ]*):$", part, re.M)
    pages = re.findall(r"^          - guides/([\w-]+\.md)$", part, re.M)
    entries = [line for line in part.splitlines()[1:] if line.strip()]
    assert len(groups) <= 6 and len(pages) <= 30 and len(entries) == len(groups) + len(pages)
    assert sorted(pages) == [path.name for path in GUIDES]


QUESTIONS = [
    ("models", "model"), ("tools", "your own tools"), ("rewards", "your own reward"),
    ("evaluate", "evaluate"), ("resume", "resume and reproduce"), ("track", "track and compare"),
    ("llm-writer", "language model as writer"), ("trl", "inside TRL"), ("verl", "inside verl"),
    ("many-machines", "other machines"), ("troubleshooting", "troubleshoot"),
]  # fmt: skip
"""What readers look for in the list of guides, and words of the title that answers it."""


@pytest.mark.parametrize(("name", "words"), QUESTIONS)
def test_each_question_of_readers_has_a_guide_of_its_own(name: str, words: str) -> None:
    first = (ROOT / "docs/guides" / f"{name}.md").read_text(encoding="utf-8").partition("\n")[0]
    assert words.lower() in first.lower()


WHOLE = {"other-trainers"}
"""Two of its three parts are whole programs."""


@pytest.mark.parametrize("path", GUIDES, ids=lambda path: path.stem)
def test_a_guide_is_short_and_has_phrases_as_headings(path: Path) -> None:
    lines = path.read_text(encoding="utf-8").splitlines()
    text = re.sub(r"```.*?```", "", "\n".join(lines), flags=re.S)
    headings = re.findall(r"^#+ (.*)$", text, re.M)
    assert len(lines) <= 82 or path.stem in WHOLE
    assert headings and not [title for title in headings if title.endswith("?")]


TITLED = re.findall(
    r"^ +- ([^:\n]+): ((?:start|recipes|reference)/\S+\.md)$",
    (ROOT / "mkdocs.yml").read_text(encoding="utf-8"),
    re.M,
)


UNTITLED = re.compile(r"^ +- (?:research|developers)/[\w-]+\.md$", re.M)
"""Entries whose title is that of their page."""


def test_pages_of_research_and_developers_have_one_title() -> None:
    entries = (ROOT / "mkdocs.yml").read_text(encoding="utf-8").partition("  - Research:")[2]
    pages = [p for name in ("research", "developers") for p in (ROOT / "docs" / name).glob("*.md")]
    assert len(UNTITLED.findall(entries)) == len(pages)


@pytest.mark.parametrize(("title", "page"), TITLED)
def test_a_page_has_the_title_that_the_navigation_shows(title: str, page: str) -> None:
    first = (ROOT / "docs" / page).read_text(encoding="utf-8").partition("\n")[0]
    assert first == f"# {title}" and len(TITLED) > 15


class Links(HTMLParser):
    """Ids of a page, addresses that a reader may follow, and those that a browser asks for."""

    def __init__(self, page: Path):
        super().__init__()
        self.ids, self.links, self.asked = set[str](), list[str](), list[str]()
        self.feed(page.read_text(encoding="utf-8"))

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        for name, value in attrs:
            if name == "id" and value:
                self.ids.add(value)
            if (tag, name) in ASKED and value and ("rel", "canonical") not in attrs:
                self.asked.append(value)
            if (tag, name) == ("a", "href") and value:
                self.links.append(value)


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> Path:
    pytest.importorskip("material")
    pytest.importorskip("mkdocstrings")
    pytest.importorskip("griffe_pydantic")
    return made_once(tmp_path_factory, "site", build)


def build(folder: Path) -> None:
    """Write the site; a warning is an error."""
    done = subprocess.run(
        [sys.executable, "-m", "mkdocs", "build", "--strict", "--site-dir", str(folder)],
        cwd=ROOT,
        env={**os.environ, "NO_MKDOCS_2_WARNING": "1", "PYTHONPATH": str(SOURCE.parent)},
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr


def broken(page: Path, pages: Mapping[Path, Links]) -> list[str]:
    """Links of a page whose file or anchor is missing."""
    found: list[str] = []
    for link in pages[page].links + pages[page].asked:
        parts = urlsplit(link)
        if parts.scheme or link.startswith("//"):
            continue
        path = (page.parent / unquote(parts.path)).resolve() if parts.path else page
        path = path / "index.html" if path.is_dir() else path
        anchor = unquote(parts.fragment)
        missing = path in pages and anchor not in {"", "__codelineno", *pages[path].ids}
        if not path.exists() or (missing and not anchor.startswith("__")):
            found.append(link)
    return found


@pytest.mark.slow
def test_links_have_targets_and_no_page_asks_another_server(site: Path) -> None:
    files = [path for path in site.rglob("*.html") if path.name != "404.html"]
    assert len(files) > 60
    pages = {path: Links(path) for path in files}
    assert not {str(path): found for path in pages if (found := broken(path, pages))}
    foreign = {
        a for page in pages.values() for a in page.asked if urlsplit(a).scheme not in ("", "data")
    }
    assert not foreign
    assert not [
        path for path in site.rglob("*.css") if "fonts.googleapis" in path.read_text("utf-8")
    ]


@pytest.mark.slow
def test_every_setting_verb_and_recipe_has_its_place(site: Path) -> None:
    settings = Links(site / "reference" / "settings.html").ids
    assert {key.replace("stages.0.", "stages.N.") for key in keys()} - {"stages"} <= settings
    commands = Links(site / "reference" / "cli.html").ids
    api = (site / "reference" / "api" / "train.html").read_text(encoding="utf-8")
    assert "SynthesisSettings" in api and "__pydantic_extra__" not in api
    assert {"rods-train", "rods-eval", "rods-doctor", "rods-serve-env"} <= commands
    assert all((site / "recipes" / f"{name}.html").is_file() for name in recipe_names())


@pytest.mark.slow
def test_the_search_knows_the_pages(site: Path) -> None:
    index: Any = json.loads((site / "search" / "search_index.json").read_text(encoding="utf-8"))
    found = [row["location"] for row in index["docs"] if "train.correction.method" in row["text"]]
    assert any(place.startswith("guides/engines.html") for place in found)


RESEARCH = sorted((ROOT / "docs" / "research").glob("*.md"))
LONG = {"language-model.md", "synthesis-quality.md"}
"""Pages that are still too long; none may be added."""


@pytest.mark.parametrize("path", RESEARCH, ids=lambda path: path.stem)
def test_a_page_of_research_answers_one_question_in_short(path: Path) -> None:
    lines = path.read_text(encoding="utf-8").splitlines()
    assert len(lines) <= 80 or path.name in LONG


class Quiet(SimpleHTTPRequestHandler):
    """Serves files and logs nothing."""

    def log_message(self, format: str, *args: object) -> None: ...


@contextmanager
def served(site: Path) -> Iterator[str]:
    with ThreadingHTTPServer(("127.0.0.1", 0), partial(Quiet, directory=str(site))) as server:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        yield f"http://127.0.0.1:{server.server_address[1]}"
        server.shutdown()


@pytest.mark.slow
@pytest.mark.parametrize("opened", ["from a server", "as a file"])
def test_the_search_finds_a_word_and_its_results_lead_to_pages(site: Path, opened: str) -> None:
    chromium = shutil.which("chromium") or shutil.which("chromium-browser")
    if chromium is None:
        pytest.skip("chromium is not installed")
    playwright = pytest.importorskip("playwright.sync_api", reason="needs playwright")
    place = nullcontext(site.as_uri()) if opened == "as a file" else served(site)
    with place as address, playwright.sync_playwright() as driver:
        browser = driver.chromium.launch(executable_path=chromium, args=["--no-sandbox"])
        page = browser.new_page()
        page.goto(f"{address}/index.html")
        box = page.locator("input.md-search__input")
        box.click()
        box.type("retirement")
        page.wait_for_selector(".md-search-result__item mark")
        page.locator(".md-search-result__link").first.click()
        page.wait_for_url(lambda url: "index.html" not in url.partition("?")[0])
        assert "retire" in page.locator("main").inner_text().lower()
        browser.close()
