"""Hook of MkDocs: pages outside docs/, and links between files of the repository.

Owns which file of the repository is which page. It writes nothing into the repository.
`mkdocs.yml` names this file.
"""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

from api_page import for_the_site
from links import rewrite
from mkdocs.config.defaults import MkDocsConfig
from mkdocs.structure.files import File, Files
from mkdocs.structure.pages import Page
from tooltips import meanings, with_meanings

ROOT = Path(__file__).parents[2]
RECIPES, EXAMPLES = ROOT / "src" / "rods" / "recipes", ROOT / "examples"
OTHERS = {"CONTRIBUTING.md": "developers/contributing.md", "CHANGELOG.md": "developers/changes.md"}
INTERNAL = re.compile(
    r"<li>(?:(?!</li>).)*?__pydantic_extra__.*?</li>|<p>Validators:</p>\s*<ul>.*?</ul>", re.DOTALL
)
CONCEPTS = ROOT / "docs" / "start" / "concepts.md"
UNMARKED = {"start/concepts.md", "reference/settings.md", "reference/cli.md"}
"""Pages whose words get no meaning on hover: the words' own page, and tables of names."""
HOME = {"README.md": "index.md"}
"""The site's home answers what the README answers."""


def on_files(files: Files, config: MkDocsConfig) -> Files:
    """Add the pages of recipes and of examples."""
    for source, name in _elsewhere().items():
        files.append(File.generated(config, name, abs_src_path=str(ROOT / source)))
    _complete(config.nav, list(_elsewhere().values()))
    return files


def on_page_markdown(markdown: str, page: Page, config: MkDocsConfig, files: Files) -> str:
    """Turn links between files into links between pages, and entries of the API into directives."""
    pages = {f"docs/{file.src_uri}": file.src_uri for file in files} | _elsewhere()
    sources = {name: source for source, name in pages.items()}
    return rewrite(for_the_site(markdown), sources[page.file.src_uri], pages | HOME)


def on_page_content(html: str, page: Page, config: MkDocsConfig, files: Files) -> str:
    """Explain words; leave out what only pydantic calls: the field of extra keys, validators."""
    html = INTERNAL.sub("", html)
    if page.file.src_uri in UNMARKED or page.file.src_uri.startswith("reference/api/"):
        return html
    return with_meanings(html, meanings(CONCEPTS.read_text(encoding="utf-8")))


def _elsewhere() -> dict[str, str]:
    """Return pages and pictures of the site by their file, where that is not in docs/."""
    found = [*RECIPES.glob("*/README.md"), *EXAMPLES.glob("*/README.md"), *RECIPES.glob("*/*.svg")]
    return OTHERS | {path.relative_to(ROOT).as_posix(): _name(path) for path in sorted(found)}


def _name(path: Path) -> str:
    kind = "examples" if EXAMPLES in path.parents else "recipes"
    return f"{kind}/{path.parent.name}.md" if path.suffix == ".md" else f"{kind}/{path.name}"


def _complete(nav: Any, names: list[str]) -> None:
    """Put pages behind the index of their folder in the navigation."""
    for entry in nav:
        for pages in entry.values():
            if isinstance(pages, list) and pages[0] in ("recipes/index.md", "examples/index.md"):
                folder = pages[0].partition("/")[0]
                pages += [n for n in names if n.startswith(f"{folder}/") and n.endswith(".md")]
