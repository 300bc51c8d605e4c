"""Links of a page that leave its folder: to the page of the site, or to plain text.

Guides link each other, recipes and examples as files of the repository. The site has the same
pages at other places. A file of the repository that is no page keeps its words and loses its link.

    rewrite("[x](../../examples/library_loans)", "docs/guides/tools.md", pages)
"""

from __future__ import annotations

import posixpath
import re
from collections.abc import Mapping

LINK = re.compile(r"(?P<open>!?)\[(?P<text>[^\]]*)\]\((?P<target>[^)\s]+)\)")
CODE = re.compile(r"(```.*?```|^ {4}[^\n]*)", re.DOTALL | re.MULTILINE)


def rewrite(text: str, source: str, pages: Mapping[str, str]) -> str:
    """Return the page's text with each relative link as the site needs it.

    Args:
        text: Markdown.
        source: The page's path in the repository.
        pages: The site's path of each file of the repository that the site has.
    """
    parts = CODE.split(text)
    parts[::2] = [LINK.sub(lambda found: _link(found, source, pages), part) for part in parts[::2]]
    return "".join(parts)


def _link(found: re.Match[str], source: str, pages: Mapping[str, str]) -> str:
    path, _, anchor = found["target"].partition("#")
    if not path or ":" in path:
        return found[0]
    here = posixpath.dirname(source)
    file = posixpath.normpath(posixpath.join(here, path))
    page = pages.get(file) or pages.get(f"{file}/README.md")
    if page is None and file.startswith("docs/"):
        return found[0]  # a broken link: MkDocs reports it
    if page is None:
        return found["text"]
    link = posixpath.relpath(page, posixpath.dirname(pages[source]))
    anchor = f"#{anchor}" if anchor else ""
    return f"{found['open']}[{found['text']}]({link}{anchor})"
