"""The API graph of one task as a self-contained SVG picture.

Owns layout and marks: turns from top to bottom, each with what the user says (left) and its calls
as boxes (right of it). Value edges run to the right of the boxes (solid), state edges to their left
(dashed), and edges from an earlier turn's text start at that text. Every edge has a lane and two
ports of its own. Never executes anything: it draws a profile.

    picture = graph_svg(task, arguments, profile)               # profile: profile(..., state=True)
    Path("graph.svg").write_text(picture)
"""

from __future__ import annotations

import textwrap
from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import NamedTuple

from markupsafe import Markup, escape

from rods.synthesis.structure.ablation import flattened, turns_of
from rods.synthesis.structure.profile import Profile
from rods.synthesis.structure.sources import Argument, Source
from rods.task import Task
from rods.types import ToolCall

MARGIN, CARD, BOX, LANE, PORT, LINE = 20, 270, 330, 12, 9, 15
"""Widths of margin, message and call; distances of lanes, of ports and of lines of text."""
GAP, HEAD, STUB = 14, 66, 16
"""Between boxes; above the first turn; from a box to its nearest lane."""
CARD_CHARS, BOX_CHARS, CARD_LINES, ARGUMENTS = 42, 50, 7, 5
"""Longest lines, and how many are shown."""

CLASSES = {"value": "value edge: a result shows the argument", "state": "state edge: without the "
           "first call the second's result changes", "message": "an earlier turn's text says the "
           "argument"}  # fmt: skip
SOURCES = {
    Source.TURN: "this turn",
    Source.EARLIER_TURN: "turn",
    Source.RESULT: "result of call",
    Source.DOCUMENTATION: "documentation",
    Source.CONFIGURATION: "initial state",
    Source.DERIVED: "derived",
}
"""How a source is called where people read it."""

STYLE = """
text{font:11px ui-monospace,Menlo,Consolas,'DejaVu Sans Mono',monospace;fill:#24292f}
.page{fill:#fff}.band{fill:#f3f5f8}.title{font-size:14px;font-weight:bold}
.small{font-size:10px;fill:#59636e}.name{font-weight:bold}
.card{fill:#fff;stroke:#c7cdd4}.call{fill:#fff;stroke:#59636e}.final{stroke-width:2.6}
.edge{fill:none;stroke-width:1.5}
.value{stroke:#0b62c4}.state{stroke:#b4540a;stroke-dasharray:5 3}.message{stroke:#2d7a3a}
.tip-value{fill:#0b62c4}.tip-state{fill:#b4540a}.tip-message{fill:#2d7a3a}
"""


@dataclass
class Box:
    """A rectangle with lines of text; ports are handed out from top to bottom on each side."""

    key: str
    lines: list[str]
    x: float
    width: float
    y: float = 0.0
    ports: dict[str, int] = field(default_factory=lambda: {"left": 0, "right": 0})
    taken: dict[str, int] = field(default_factory=lambda: {"left": 0, "right": 0})

    @property
    def height(self) -> float:
        """As high as its text and its ports need."""
        return max(LINE * len(self.lines) + 12, PORT * (max(self.ports.values()) + 1))

    def port(self, side: str) -> tuple[float, float]:
        """The next free point on a side."""
        self.taken[side] += 1
        step = self.height / (self.ports[side] + 1)
        return self.x + (self.width if side == "right" else 0), self.y + step * self.taken[side]


class Link(NamedTuple):
    """An edge before it is drawn."""

    kind: str
    producer: Box
    consumer: Box
    lane: int


def graph_svg(task: Task, arguments: Sequence[Argument], profile: Profile) -> str:
    """Draw a task, its arguments in the boxes; state edges appear where the profile has them."""
    cards = [Box(f"turn {i}", _message(i, turn.user, not turn.ground_truth), MARGIN, CARD)
             for i, turn in enumerate(task.turns)]  # fmt: skip
    by_call: defaultdict[int, list[Argument]] = defaultdict(list)
    for argument in arguments:
        by_call[argument.step].append(argument)
    boxes = [Box(f"call {i}", _call(i, call, by_call[i]), 0, BOX)
             for i, call in enumerate(flattened(task))]  # fmt: skip
    links = _links(cards, boxes, profile)
    for link in links:
        link.producer.ports[_sides(link.kind)[0]] += 1
        link.consumer.ports[_sides(link.kind)[1]] += 1
    left = 1 + max((n.lane for n in links if n.kind != "value"), default=0)
    right = 1 + max((n.lane for n in links if n.kind == "value"), default=0)
    for box in boxes:
        box.x = MARGIN + CARD + 2 * STUB + LANE * left
    width = MARGIN + CARD + 2 * STUB + LANE * (left + right) + BOX + STUB + MARGIN
    bands, bottom = _place(cards, boxes, profile, width)
    final = profile.state.final if profile.state else frozenset[int]()
    drawn = [
        *bands,
        *(_boxed(card, "card") for card in cards),
        *(_boxed(b, "call final" if i in final else "call") for i, b in enumerate(boxes)),
        *_edges(links),
        *_legend(profile, bottom),
    ]
    height = bottom + 24 + LINE * 4
    title = task.provenance.origin or task.id
    return _page(
        width, height, f"{title} ({task.category}, id {task.id})", _figures(profile), drawn
    )


def _message(index: int, user: str, gap: bool) -> list[str]:
    lines = textwrap.wrap(user, CARD_CHARS) or ["(no text: withheld tools are offered now)"]
    if len(lines) > CARD_LINES:
        lines = [*lines[: CARD_LINES - 1], lines[CARD_LINES - 1][: CARD_CHARS - 2] + " …"]
    return [f"turn {index}, no call expected" if gap else f"turn {index}", *lines]


def _call(index: int, call: ToolCall, arguments: Sequence[Argument]) -> list[str]:
    lines = [f"{index} {call.name}"]
    lines.extend(
        shorten(f"  {describe(a, BOX_CHARS - 2)}", BOX_CHARS) for a in arguments[:ARGUMENTS]
    )
    more = len(arguments) - ARGUMENTS
    return [*lines, f"  and {more} more"] if more > 0 else lines


def describe(argument: Argument, most: int = 90) -> str:
    """`name = value <- source`; the value is shortened so that the whole fits, if it can."""
    path = "".join(f".{part}" for part in argument.path if part != "$call")
    where = SOURCES[argument.source]
    if argument.feeder is not None:
        where += f" {argument.feeder}"
    elif argument.source is Source.EARLIER_TURN:
        where += f" {argument.said}"
    room = most - len(argument.name + path + where) - len(" =  ← ")
    return f"{argument.name}{path} = {shorten(repr(argument.value), max(room, 8))} ← {where}"


def shorten(text: str, most: int) -> str:
    """At most so many characters; a cut is marked."""
    return text if len(text) <= most else text[: most - 1] + "…"


def _sides(kind: str) -> tuple[str, str]:
    """Where an edge leaves its producer and enters its consumer."""
    return {"value": ("right", "right"), "state": ("left", "left"), "message": ("right", "left")}[
        kind
    ]


def _links(cards: Sequence[Box], boxes: Sequence[Box], profile: Profile) -> list[Link]:
    """All edges with their lanes."""
    turns = turns_of(profile.calls)
    values = [(e.producer, e.consumer) for e in sorted(profile.value_edges)]
    states = [
        (e.producer, e.consumer) for e in sorted(profile.state.edges if profile.state else ())
    ]
    messages = [(edge.turn, edge.consumer) for edge in sorted(profile.message_edges)]
    # A message starts beside the first call from its turn on; its lanes lie outside state lanes.
    spans = [(next(i for i, t in enumerate(turns) if t >= turn), to) for turn, to in messages]
    outer, inner, beyond = lanes(values), lanes(states), lanes(spans)
    far = max(inner, default=-1) + 1
    links = [Link("value", boxes[a], boxes[b], outer[i]) for i, (a, b) in enumerate(values)]
    links += [Link("state", boxes[a], boxes[b], inner[i]) for i, (a, b) in enumerate(states)]
    for i, (turn, consumer) in enumerate(messages):
        links.append(Link("message", cards[turn], boxes[consumer], far + beyond[i]))
    return links


def lanes(spans: Sequence[tuple[int, int]]) -> list[int]:
    """A lane for each span, short ones nearest; spans that meet never share a lane."""
    order = sorted(range(len(spans)), key=lambda i: (spans[i][1] - spans[i][0], spans[i]))
    used: list[list[tuple[int, int]]] = []
    found = [0] * len(spans)
    for i in order:
        low, high = spans[i]
        free = (n for n, lane in enumerate(used) if all(high < a or b < low for a, b in lane))
        found[i] = next(free, len(used))
        if found[i] == len(used):
            used.append([])
        used[found[i]].append(spans[i])
    return found


def _place(
    cards: Sequence[Box], boxes: Sequence[Box], profile: Profile, width: float
) -> tuple[list[Markup], float]:
    """Set every box's top; returns the bands of the turns and where they end."""
    rest, y = iter(boxes), float(HEAD)
    bands: list[Markup] = []
    for card, count in zip(cards, profile.calls, strict=True):
        top = card.y = y + GAP / 2
        for _ in range(count):
            box = next(rest)
            box.y, top = top, top + box.height + GAP
        end = max(card.y + card.height + GAP / 2, top - GAP / 2)
        bands.append(
            Markup('<rect class="band" x="8" y="{}" width="{}" height="{}" rx="6"/>').format(
                f"{y:.1f}", f"{width - 16:.1f}", f"{end - y:.1f}"
            )
        )
        y = end + GAP / 2
    return bands, y


def _boxed(box: Box, css: str) -> Markup:
    frame = Markup(
        '<g data-key="{}"><rect class="{}" x="{:.1f}" y="{:.1f}" width="{}" height="{:.1f}" '
        'rx="4"/>'
    ).format(box.key, css, box.x, box.y, box.width, box.height)
    return frame + Markup("").join(
        _text(box.x + 8, box.y + LINE * (i + 1), line, "small" if i else "name")
        for i, line in enumerate(box.lines)
    ) + Markup("</g>")  # fmt: skip


def _text(x: float, y: float, text: str, css: str) -> Markup:
    mark = Markup('<text class="{}" x="{:.1f}" y="{:.1f}" xml:space="preserve">{}</text>')
    return mark.format(css, x, y, text)


def _edges(links: Iterable[Link]) -> list[Markup]:
    """Paths; ports are taken from the top: first what comes in from above, then what leaves."""
    ends: dict[int, tuple[float, float]] = {}
    starts: dict[int, tuple[float, float]] = {}
    known = list(links)
    # On one side all that enters comes from above and all that leaves goes down: the innermost lane
    # enters first and leaves last, so that edges of one box do not cross.
    for i in sorted(range(len(known)), key=lambda i: known[i].lane):
        ends[i] = known[i].consumer.port(_sides(known[i].kind)[1])
    for i in sorted(range(len(known)), key=lambda i: -known[i].lane):
        starts[i] = known[i].producer.port(_sides(known[i].kind)[0])
    return [_edge(link, starts[i], ends[i]) for i, link in enumerate(known)]


def _edge(link: Link, start: tuple[float, float], end: tuple[float, float]) -> Markup:
    away = STUB + LANE * link.lane
    lane = link.consumer.x + BOX + away if link.kind == "value" else link.consumer.x - away
    (x0, y0), (x1, y1) = start, end
    path = f"M{x0:.1f},{y0:.1f} H{lane:.1f} V{y1:.1f} H{x1:.1f}"
    words = f"{link.producer.key} → {link.consumer.key}"
    return Markup(
        '<path class="edge {0}" data-from="{1}" data-to="{2}" d="{3}" marker-end="url(#tip-{0})" '
        'stroke-linejoin="round"><title>{0}: {4}</title></path>'
    ).format(link.kind, link.producer.key, link.consumer.key, path, words)


def _figures(profile: Profile) -> str:
    said = f"{profile.turns} turns, {len(profile.functions)} calls, "
    said += f"{len(profile.value_edges)} value edges"
    said += f" (depth {profile.depth}), {profile.cross_turn} references across turns"
    if profile.state is not None:
        across = len(profile.across(profile.state.edges))
        said += f", {len(profile.state.edges)} state edges, {across} across turns"
        said += f" (depth {profile.state_depth})"
    return said


def _legend(profile: Profile, top: float) -> list[Markup]:
    shown: Mapping[str, str] = {k: v for k, v in CLASSES.items() if k != "state" or profile.state}
    drawn: list[Markup] = []
    for row, (kind, words) in enumerate(shown.items()):
        y = top + 18 + LINE * row
        line = Markup('<path class="edge {0}" d="M{1},{2:.1f} H{3}" marker-end="url(#tip-{0})"/>')
        drawn += [line.format(kind, MARGIN, y - 4, MARGIN + 40), _text(70, y, words, "small")]
    if profile.state is not None:
        y = top + 18 + LINE * len(shown)
        mark = Markup('<rect class="call final" x="{}" y="{:.1f}" width="36" height="9" rx="2"/>')
        words = "thick frame: without the call the last public state changes"
        drawn += [mark.format(MARGIN, y - 9), _text(70, y, words, "small")]
    return drawn


def _page(width: float, height: float, title: str, figures: str, parts: Sequence[Markup]) -> str:
    tips = Markup("").join(
        Markup(
            '<marker id="tip-{0}" viewBox="0 0 8 8" refX="7.5" refY="4" markerWidth="7" '
            'markerHeight="7" orient="auto"><path class="tip-{0}" d="M0,0.8 L8,4 L0,7.2 z"/>'
            "</marker>"
        ).format(kind)
        for kind in CLASSES
    )
    size = f'width="{width:.0f}" height="{height:.0f}" viewBox="0 0 {width:.0f} {height:.0f}"'
    head = [_text(MARGIN, 28, title, "title")]
    wrapped = textwrap.wrap(figures, int((width - 2 * MARGIN) / 6.2))
    head += [_text(MARGIN, 46 + 13 * i, line, "small") for i, line in enumerate(wrapped)]
    return (
        f'<svg xmlns="http://www.w3.org/2000/svg" role="img" {size}>'
        f"<title>{escape(title)}</title><style>{STYLE}</style><defs>{tips}</defs>"
        f'<rect class="page" width="100%" height="100%"/>{"".join(head)}{"".join(parts)}</svg>\n'
    )
