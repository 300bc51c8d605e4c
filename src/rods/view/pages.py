"""The pages: overview, boundary map, task, trajectories, one of them, synthesis, a candidate.

Owns the addresses, and the colors of tokens by mask, log-probability and advantage. Each
address holds all that a page shows, so a copied one shows the same again.

    add_pages(open_runs([Path("runs/today")]))
"""

from __future__ import annotations

from asyncio import to_thread
from collections import Counter
from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import replace
from itertools import takewhile
from typing import Any

from fastapi import Request
from nicegui import events, ui

from rods.errors import RodsError
from rods.report.heldout import category_words
from rods.report.viewer import Decode, member_view, stop_words
from rods.synthesis.gates.keeper import gates_for
from rods.synthesis.worker.queue import KEPT
from rods.trajectory import TrainingSignal, Trajectory
from rods.types import Json, StopReason
from rods.view.charts import boundary_map, courses, overview
from rods.view.frame import draw, head, html, link, live
from rods.view.index import PAGE, TrajectoryFilter
from rods.view.runs import CandidateRow, RunView

MOST = 6000  # Tokens of one trajectory that are drawn; the page states how many are left out
SHOWN = 200  # Rows of a long table
UNLIKELY = 5.0  # Negative log-probability, in nats, from which a color is at its strongest
LARGE, FAINT = 1.0, 0.15
"""Size of an advantage from which a color is at its strongest, and strength of the faintest one."""
COLORS = {"mask": "loss mask", "logprob": "log-probability", "advantage": "advantage"}
"""What tokens may be colored by."""


def token_spans(
    trajectory: Trajectory, signal: TrainingSignal | None, decode: Decode | None, color: str
) -> dict[str, Any]:
    """Tokens as rows of text, title, class and strength of the color in [0, 1].

    Args:
        decode: tokens to text; None: each is shown by its id.
        color: `mask` (sampled tokens carry loss), `logprob` (unlikely tokens stand out) or
            `advantage` (sign and size).
    """
    rows: list[Json] = []
    advantages = signal.span_advantages if signal else [None] * len(trajectory.spans)
    total = sum(len(span.ids) for span in trajectory.spans)
    for span, advantage in zip(trajectory.spans, advantages, strict=True):
        owner, by = ("policy", "sampled") if span.sampled else ("env", "from the environment")
        if advantage is not None:
            owner += " less" if advantage < 0 else ""
            by += f", advantage {advantage:+.3f}"
        size = min(1.0, FAINT + abs(advantage) / LARGE) if advantage else 0.0
        plain = size if color == "advantage" else span.sampled
        for place, number in enumerate(span.ids[: MOST - len(rows)]):
            text = decode([number]) if decode else f"{number} "
            title, strength = f"token {number}, {by}", round(float(plain), 3)
            if span.logprobs:
                logprob = span.logprobs[place]
                title += f", log-probability {logprob:.3f}"
                if color == "logprob":
                    strength = round(min(1.0, -logprob / UNLIKELY), 3)
            rows.append([text, title, owner, strength])
    known = any(span.logprobs for span in trajectory.spans)
    some = {"advantages": sorted({round(a, 3) for a in advantages if a is not None})}
    return {"rows": rows, "total": total, "logprobs": known, "decoded": decode is not None, **some}


def add_pages(runs: Sequence[RunView]) -> None:
    """Register the pages of these runs."""

    def page(path: str, build: Callable[[RunView, Mapping[str, str]], Awaitable[None]]) -> None:
        async def show(request: Request) -> None:
            query = request.query_params
            name = query.get("run") or runs[0].label
            run = next((run for run in runs if run.label == name), None)
            head(runs, run, path, request.cookies.get("rods_theme", ""))
            with ui.element("div").classes("content"):
                if run is None:
                    return html("absent", text=f"There is no run {name!r}.", runs=runs, page=path)
                await build(run, query)

        title = f"rods view{path.replace('/', ' ').rstrip()}"
        ui.page(path, title=title, response_timeout=120)(show)  # busy cores take long to build it

    page("/", lambda run, _: _overview(runs, run))
    page("/boundary", _boundary)
    page("/task", _task)
    page("/trajectories", _trajectories)
    page("/trajectory", _trajectory)
    page("/synthesis", _synthesis)
    page("/candidate", _candidate)


async def _overview(runs: Sequence[RunView], run: RunView) -> None:
    async def content() -> None:
        html("overview", runs=runs, run=run)
        with ui.element("div").classes("charts"):
            for figure in overview(runs):
                draw(figure)

    await live(runs, content)


async def _boundary(run: RunView, query: Mapping[str, str]) -> None:
    def opened(event: events.GenericEventArguments) -> None:
        points: list[dict[str, Any]] = event.args.get("points") or []
        if points and (task := points[0].get("customdata")):
            ui.navigate.to(link("/task", run=run.label, id=task))

    async def content() -> None:
        await to_thread(run.read_tasks)
        found = courses(run.data)
        if plot := draw(boundary_map(run, found), 480):
            plot.on("plotly_click", opened)
        rows = sorted(found.values(), key=lambda c: (-c.points[-1][0], c.last, c.task_id))
        html("tasks", run=run, rows=rows[:SHOWN], total=len(rows))

    await live([run], content)


async def _task(run: RunView, query: Mapping[str, str]) -> None:
    name = query.get("id", "")

    async def content() -> None:
        await to_thread(run.read_tasks)
        task = run.tasks.get(name)
        row = next((c for c in run.candidates if c.variant and c.variant.id == name), None)
        made = [t for t in run.tasks.values() if name in t.provenance.ancestors]
        groups = await to_thread(run.index.groups, name)
        if task is None and not groups and name not in courses(run.data):
            return html("absent", text=f"There is no task {name!r} in this run.")
        shown = {"id": name, "task": task, "made": made, "groups": groups}
        html("task", run=run, gates=_gates(run, row), row=row, **shown)

    await live([run], content)


def _gates(run: RunView, row: CandidateRow | None) -> list[str]:
    """Names of the gates that an accepted variant has passed, in order."""
    seed = run.tasks.get(row.seed) if row else None
    return list(gates_for(seed)) if seed else []


async def _trajectories(run: RunView, query: Mapping[str, str]) -> None:
    wanted = TrajectoryFilter.parse(query)

    async def content() -> None:
        await to_thread(run.read_tasks)
        found = await to_thread(run.index.find, wanted)
        pages = max(1, -(-found.total // PAGE))
        at = min(max(0, wanted.page), pages - 1)
        steps = {"previous": at - 1 if at else None, "next": at + 1 if at + 1 < pages else None}
        links = {
            word: link("/trajectories", run=run.label, **replace(wanted, page=number).query)
            for word, number in steps.items()
            if number is not None
        }
        html("rows", run=run, found=found, page=at + 1, pages=pages, links=links)

    await to_thread(run.refresh)
    stops = {"": "any"} | {stop.value: stop_words(stop.value) for stop in StopReason}

    def change(**values: Any) -> Callable[[], Awaitable[None]]:
        async def changed() -> None:
            nonlocal wanted
            given = {n: "" if f.value is None else f"{f.value}" for n, f in fields.items()}
            wanted = TrajectoryFilter.parse({**given, **values})
            ui.navigate.history.replace(link("/trajectories", run=run.label, **wanted.query))
            box.clear()
            with box:
                await content()

        return changed

    fields: dict[str, Any] = {}
    with ui.element("search").classes("filters card"):
        fields["text"] = ui.input("text of a message", value=wanted.text).props("type=search")
        for name, label in (("category", "category"), ("tool", "tool called")):
            known = await to_thread(run.index.values, name)
            say = category_words if name == "category" else str
            options = {"": "any"} | {v: say(v) for v in {*known, getattr(wanted, name)} if v}
            fields[name] = ui.select(options, label=label, value=getattr(wanted, name))
        options = stops if wanted.stop in stops else stops | {wanted.stop: wanted.stop}
        fields["stop"] = ui.select(options, label="stop reason", value=wanted.stop)
        for name, label in (("low", "progress from"), ("high", "progress to")):
            fields[name] = ui.number(label, value=getattr(wanted, name), min=0, max=1, step=0.1)
        more = {"step": "update", "reward_low": "reward from", "reward_high": "reward to"}
        for name, label in {**more, "task": "task id"}.items():
            fields[name] = ui.input(label, value=getattr(wanted, name))
        fields["step"].props("inputmode=numeric")
    for field in fields.values():
        field.props("dense outlined debounce=250").on_value_change(change())
    box = ui.element("div").classes("block")
    with box:
        await live([run], content)


async def _trajectory(run: RunView, query: Mapping[str, str]) -> None:
    await to_thread(run.refresh)
    await to_thread(run.read_tasks)
    try:
        step, number = int(query.get("step", "")), int(query.get("row", ""))
        beside = int(query["beside"]) if query.get("beside") else None
        chosen = [number] if beside in (None, number) else [number, beside]
        members = await to_thread(run.index.siblings, step, number)
        loaded = [await to_thread(run.index.read, step, n) for n in chosen]
    except (ValueError, RodsError) as error:
        html("absent", text=f"There is no such trajectory: {error}")
        return
    color = wanted if (wanted := query.get("color", "")) in COLORS else "mask"
    views = [
        {**member_view((t, some), None), "spans": token_spans(t, some, run.decode, color)}
        for t, some in loaded
    ]
    place = {"step": step, "row": number, "beside": beside, "task": loaded[0][0].task_id}
    shown = {"members": members, "color": color, "colors": COLORS, "views": views}
    html("trajectory", run=run, **place, **shown)


async def _synthesis(run: RunView, query: Mapping[str, str]) -> None:
    stage = query.get("stage", "")

    async def content() -> None:
        await to_thread(run.read_tasks)
        rejected = Counter((r[0], r[1]) for c in run.candidates for r in c.rejections)
        accepted = sum(c.variant is not None for c in run.candidates)
        rows = [c for c in run.candidates if _shown(c, stage)]
        shown = {"accepted": accepted, "rejected": rejected.most_common(), "total": len(rows)}
        html("synthesis", run=run, stage=stage, rows=rows[:SHOWN], **shown)

    await live([run], content)


async def _candidate(run: RunView, query: Mapping[str, str]) -> None:
    await to_thread(run.read_tasks)
    place = [query.get(name, "") for name in ("seed", "number", "attempt")]
    tried = ((row, n) for row in run.candidates for n in range(len(row.rejections)))
    found = next(((c, n) for c, n in tried if [c.seed, f"{c.number}", f"{n}"] == place), None)
    if found is None:
        return html("absent", text="There is no such candidate in this run.")
    row, n = found
    turns = await to_thread(run.turns_of, row.seed, row.number, n)
    gates = takewhile(lambda gate: gate != row.rejections[n][1], _gates(run, row))
    html("candidate", run=run, row=row, attempt=n, turns=turns, gates=[*gates], kept=KEPT)


def _shown(row: CandidateRow, stage: str) -> bool:
    """Whether a row belongs under `accepted`, `rejected`, or `STAGE/REASON`."""
    if stage == "accepted":
        return row.variant is not None
    if stage == "rejected":
        return bool(row.rejections)
    return not stage or any(f"{r[0]}/{r[1]}" == stage for r in row.rejections)
