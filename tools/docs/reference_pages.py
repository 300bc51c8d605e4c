"""Write the pages that are made from the code: `python tools/docs/reference_pages.py`.

They are committed, so that a clone has them; `tests/repository/test_reference.py` fails if they
are not current.
"""

from __future__ import annotations

from functools import partial
from pathlib import Path

import api_page
import cli_page
import settings_page

REFERENCE = Path(__file__).parents[2] / "docs" / "reference"
PAGES = {
    "cli.md": cli_page.page,
    "settings.md": settings_page.page,
    "api/index.md": api_page.index,
    **{f"api/{name}.md": partial(api_page.page, name) for name in api_page.PURPOSES},
}
"""File of docs/reference and what makes its text."""


def main() -> None:
    """Write all pages."""
    for name, page in PAGES.items():
        (REFERENCE / name).write_text(page(), encoding="utf-8")


if __name__ == "__main__":
    main()
