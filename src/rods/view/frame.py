"""What every page has: header, style, theme, charts, and content that follows a run in training.

Owns the look and the way in which pages are written: Jinja with escaping on, because trajectories
hold whatever a model wrote. Knows nothing of a page's content.
"""

from __future__ import annotations

import json
import re
from asyncio import to_thread
from collections.abc import Awaitable, Callable, Mapping, Sequence
from pathlib import Path
from typing import Any, TypeAlias
from urllib.parse import urlencode

from jinja2 import Environment, FileSystemLoader, StrictUndefined
from nicegui import ui

from rods.infra.text import encoded
from rods.report.build import TEMPLATES as REPORT
from rods.report.heldout import category_words
from rods.report.panels import Figure, words
from rods.report.viewer import stop_words
from rods.synthesis.rejection import reason_words
from rods.view.runs import RunView

Content: TypeAlias = Callable[[], Awaitable[None]]
OWN = Path(__file__).parent / "templates"
SECONDS = 2.0  # Between two looks at the folder of a run
PAGES = {
    "/": "Overview",
    "/boundary": "Boundary",
    "/trajectories": "Trajectories",
    "/synthesis": "Synthesis",
}
ICON = (
    '<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 16 16">'
    '<path d="M2 13 6 7l3 3 5-8" fill="none" stroke="#5f80ea" stroke-width="2"/></svg>'
)
PALETTE = {  # Colors of charts, readable on light and on dark
    "hard": "#e06a45", "boundary": "#5f80ea", "mastered": "#2fa883", "grey": "#8a93a2",
    "one": "#5f80ea", "two": "#7f90a8", "three": "#dfa62e", "four": "#a770cc",
    "ink": "#808896", "soft": "#808896", "band": "rgba(95,128,234,.13)",
}  # fmt: skip
THEMES = {"light": False, "dark": True}


def link(path: str, **query: object) -> str:
    """An address of a page; empty values are left out."""
    given = {key: value for key, value in query.items() if value not in ("", None)}
    return path + (f"?{urlencode(given)}" if given else "")


def json_for_people(value: object) -> str:
    """Indented JSON whose letters stand as they are; `tojson` escapes quotes, `<` and umlauts."""
    return encoded(json.dumps(value, indent=2, ensure_ascii=False)).decode()


_jinja = Environment(
    loader=FileSystemLoader(OWN), autoescape=True, undefined=StrictUndefined, trim_blocks=True
)
_jinja.filters |= {
    "category": category_words,
    "json": json_for_people,
    "words": words,
    "reason": reason_words,
    "stop": stop_words,
}


def html(template: str, **values: object) -> None:
    """Write a template into the page."""
    text = _jinja.get_template(f"{template}.html.j2").render({"link": link, **values})
    ui.html(text, sanitize=False).classes("block")


def head(runs: Sequence[RunView], run: RunView | None, here: str, theme: str) -> None:
    """Write style, script, theme and header."""
    style = [REPORT / "style.css", REPORT / "viewer.css", OWN / "view.css"]
    ui.add_css("\n".join(path.read_text(encoding="utf-8") for path in style))
    script = (OWN / "view.js").read_text(encoding="utf-8")
    theme = theme if theme in THEMES else ""  # another service of this machine may set cookies
    ui.add_head_html(f"<script>const THEME = {json.dumps(theme)};\n{script}</script>")
    ui.dark_mode(THEMES.get(theme))
    html("header", runs=runs, run=run, here=here, pages=PAGES)


async def live(runs: Sequence[RunView], content: Content) -> None:
    """Write content now, and again when a run has more."""

    async def versions() -> list[int]:
        return [await to_thread(run.refresh) for run in runs]

    seen = await versions()
    box = ui.element("div").classes("block")
    with box:
        await content()

    async def look() -> None:
        nonlocal seen
        if (now := await versions()) != seen:
            seen = now
            box.clear()
            with box:
                await content()

    ui.timer(SECONDS, look)


def draw(figure: Figure, height: int = 250) -> Any:
    """Write a chart with its title; returns the chart, or None where there are no data."""
    with ui.element("figure").classes("card chart"):
        html("figure", figure=figure, palette=PALETTE)
        if figure.chart is None:
            return None
        text = json.dumps(figure.chart)
        plot = json.loads(re.sub(r"var\(--(\w+)\)", lambda m: PALETTE.get(m[1], m[1]), text))
        plot["layout"] = _layout(plot["layout"], height)
        plot["config"] = {"displayModeBar": False, "responsive": True}
        return ui.plotly(plot).classes("plot").style(f"height: {plot['layout']['height']}px")


def _layout(given: Mapping[str, Any], height: int) -> dict[str, Any]:
    axis = {"gridcolor": "#8884", "zerolinecolor": "#8886", "automargin": True}
    axes = {name: axis | given.get(name, {}) for name in ("xaxis", "yaxis")}
    for one in axes.values():
        one.pop("unifiedhovertitle", None)
    base = {
        "height": height, "showlegend": False, "hovermode": "closest",
        "margin": {"l": 44, "r": 12, "t": 12, "b": 40},
        "font": {"size": 12, "color": PALETTE["soft"]}, "paper_bgcolor": "rgba(0,0,0,0)",
        "plot_bgcolor": "rgba(0,0,0,0)",
    }  # fmt: skip
    margin = base["margin"] | given.get("margin", {})
    return {**base, **given, **axes, "margin": margin}
