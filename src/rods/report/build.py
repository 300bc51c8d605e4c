"""`report.html` of a run: one self-contained file, no external request. Owns the page's context.

The page is a Jinja template with its style sheet and script included; everything that comes from a
run is escaped (HTML by Jinja, data for the script as JSON without `<`, `>` and `&`), because model
text is data.

    build_report(Path("runs/today"))            # writes runs/today/report.html
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from itertools import chain
from pathlib import Path
from typing import cast

from jinja2 import Environment, FileSystemLoader, StrictUndefined
from markupsafe import Markup

from rods.dialects import InlineDialect, get_dialect
from rods.errors import ConfigError
from rods.evaluation.stats import Interval
from rods.infra.checkpoints import LATEST
from rods.infra.dotted import flat
from rods.infra.files import write_atomic
from rods.infra.host import masked
from rods.infra.text import quoted
from rods.report import heldout, panels
from rods.report.heldout import LEADING, METRICS, SETS, MetricCell, ResultRow
from rods.report.panels import Figure, Tile, facts
from rods.report.plots import Whisker, forest, plotly_script
from rods.report.run_data import RunData, load_run, moment, yields_of
from rods.report.viewer import decoder_for, trajectory_view
from rods.store import TRAIN
from rods.types import Json

TEMPLATES = Path(__file__).parent / "templates"
DASH = "\N{EN DASH}"


def build_report(path: Path, out: Path | None = None) -> Path:
    """Write the report of a run, `report.html` in its directory unless `out` says where.

    Raises:
        StoreError: the run cannot be read, or the report cannot be written.
    """
    run = load_run(path)
    context = {**_context(run), "view": trajectory_view(run, decoder_for(run))}
    return write_page(out or run.path / "report.html", "report.html.j2", context)


def write_page(path: Path, template: str, context: Mapping[str, object]) -> Path:
    """Write one page of `templates/`, everything escaped that is not markup of RODS.

    Raises `StoreError` if it cannot be written; an old page survives that.
    """
    environment = Environment(
        loader=FileSystemLoader(TEMPLATES),
        autoescape=True,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    helpers = {"interval": interval, "metrics": METRICS, "sets": SETS, "signed": panels.signed}
    helpers |= {"plotly_script": plotly_script}
    page = environment.get_template(template).render({**helpers, **context})
    write_atomic(path, page)
    return path


def _context(run: RunData) -> dict[str, object]:
    before, after = run.evaluation("before"), run.last_evaluation
    rows = heldout.result_rows(before, after)
    notes = [*run.notes, *yields_of(run)[1]]
    manifest = {k: v for k, v in run.manifest.items() if k not in ("format", "kind")}
    heat = run.setting("evaluation.temperature")
    when = "after" if after is None or after.when == "after" else after.when
    return {
        "run": run, "identity": identity(run), "details": details(manifest), "notes": notes,
        "tiles": tiles(run, rows), "rows": rows, "after_label": when,
        "leading": heldout.shown(rows),
        "official": heldout.measured(rows, [m for m in METRICS if m not in LEADING]),
        "unsolved": heldout.unsolved_note(rows),
        "samples": max((r.samples for e in (before, after) if e for r in e.rows), default=0),
        "temperature": f" at temperature {heat:g}" if isinstance(heat, int | float) else "",
        "writers_note": heldout.WRITERS_NOTE if any(r.part.by == "writer" for r in rows) else "",
        "forests": forests, "panels": panels, "uses": uses(run),
    }  # fmt: skip


def identity(run: RunData) -> list[tuple[str, str]]:
    """The run in a few words: what was trained on what, when and for how long."""
    manifest = run.manifest
    pairs: list[tuple[str, Json]] = [
        ("Recipe", manifest.get("recipe")),
        ("Curriculum", run.setting("curriculum")),
        ("Model", run.setting("model.name")),
        ("Profile", manifest.get("profile")),
        ("Seed", manifest.get("seed", run.setting("seed"))),
        ("Split", run.split),
        ("Started", _clock(manifest.get("started"))),
        ("Skipped tasks", len(cast("list[Json]", manifest.get("skipped") or [])) or None),
        ("Finished", _clock(manifest.get("finished"))),
        ("From start to end", None if run.seconds is None else span(run.seconds)),
        ("Updates", len(run.steps)),
        ("Trajectories", int(run.total("trajectories")) or None),
    ]
    return [(name, str(value)) for name, value in pairs if value not in (None, "")]


def uses(run: RunData) -> list[tuple[str, str]]:
    """What can be done with the last checkpoint, and by which command; empty without one."""
    if not (run.path / "checkpoint" / LATEST).exists():
        return []
    try:
        inline = isinstance(get_dialect(str(run.setting("model.dialect"))), InlineDialect)
        raw = " (send prompts to /v1/completions: docs/guides/use-the-model.md)" * inline
    except ConfigError:  # of another version, or in a module that is not on this machine
        inline, raw = True, ""
    at = quoted(run.path)
    talks = not inline and run.setting("rollout.steps_per_turn") != 1  # rods chat refuses others
    found = [("talk with it", f"rods chat {at}")] if talks else []
    found += [("evaluate it", f"rods eval {at}")] * any(e.rows for e in run.evaluations)
    found.append(("export it", f"rods export {at} --out agent"))
    found.append((f"serve it on a GPU{raw}", "vllm serve ./agent --served-model-name agent"))
    more = f"rods {run.manifest.get('kind', TRAIN)} --resume {at}"
    return found if run.manifest.get("finished") else [*found, ("continue training", more)]


def details(data: Mapping[str, Json]) -> dict[str, str]:
    """Every leaf of nested tables as text, by its dotted key, without logins and secrets."""
    return {key: masked(str(value), key) for key, value in flat(data).items()}


def tiles(run: RunData, rows: Sequence[ResultRow]) -> list[Tile]:
    """The numbers that say whether the method worked in this run."""
    every = [(m, row) for row in rows if not row.part.by for m in ("greedy_progress", "progress")]
    known = [(m, row) for m, row in every if row.cells[m].before or row.cells[m].after]
    names = [f"{METRICS[m][1]} progress, {row.part.title.lower()}" for m, row in known]
    cells = [row.cells[m] for m, row in known]
    return [*map(_change_tile, names, cells), *facts(run)]


def _change_tile(label: str, cell: MetricCell) -> Tile:
    change = cell.difference
    if change is not None:
        means = " → ".join(f"{i.mean:.3f}" if i else "?" for i in (cell.before, cell.after))
        reach = interval(change)
        reach = reach[1:-1] if "no interval" in reach else f"95 % interval {reach}"
        return Tile(panels.signed(change.mean), label, f"{means}; {reach}")
    when, known = ("before", cell.before) if cell.before else ("after", cell.after)
    value = f"{known.mean:.3f}" if known else DASH
    return Tile(value, label, f"{when} training; no difference can be given")


def forests(rows: Sequence[ResultRow], metrics: Sequence[str]) -> list[Figure]:
    """For each metric with differences: those of all parts, all metrics on one scale."""
    charts: dict[str, list[Whisker]] = {}
    for metric in metrics:
        for row in rows:
            if difference := row.cells[metric].difference:
                found, text = _possible(difference), interval(difference)
                sure = "no interval" not in text
                low, high = (found.low, found.high) if sure else (found.mean, found.mean)
                whole = Markup("<b>{}</b>").format(row.part.title)
                name = row.part.label if row.part.by else whole
                whisker = name, found.mean, low, high, _verdict(found), text
                charts.setdefault(metric, []).append(whisker)
    whiskers = list(chain.from_iterable(charts.values()))
    lowest = min([-0.02, *(whisker[2] for whisker in whiskers)])
    highest = max([0.02, *(whisker[3] for whisker in whiskers)])
    figures: list[Figure] = []
    for metric, found in charts.items():
        title = f"Difference: {', '.join(METRICS[metric]).lower()}"
        chart = forest(found, (1.1 * lowest, 1.1 * highest))
        caption = "After minus before, with 95 % intervals."
        caption += " Without a bar: no interval." * any(
            low == high for _, _, low, high, *_ in found
        )
        figures.append(Figure(title, caption, chart))
    return figures


def _verdict(found: Interval) -> str:
    """Color class: whether the interval excludes zero, and on which side."""
    return "s-grey" if not found.excludes_zero else "s-mastered" if found.mean > 0 else "s-hard"


def _possible(found: Interval) -> Interval:
    """An interval of a difference of shares, cut to what such a difference can be."""
    return replace(found, low=max(found.low, -1.0), high=min(found.high, 1.0))


def interval(found: Interval | None) -> str:
    """`[+0.01, +0.08]` of a difference of shares; a dash where there is none."""
    if found is None:
        return DASH
    wide = found.low <= -1 and found.high >= 1
    why = "too few scenarios" if wide else "all changed alike" if found.is_flat else ""
    if why:
        return f"[no interval: {why}]"
    return f"[{panels.signed(_possible(found).low)}, {panels.signed(_possible(found).high)}]"


def span(seconds: float) -> str:
    """A duration in words: `9 min 41 s`."""
    whole = round(seconds)
    hours, minutes, rest = whole // 3600, whole // 60 % 60, whole % 60
    if hours:
        return f"{hours} h {minutes} min"
    return f"{minutes} min {rest} s" if minutes else f"{rest} s"


def _clock(value: Json) -> str | None:
    when = moment(value)
    return when and when.strftime("%Y-%m-%d %H:%M %Z")
