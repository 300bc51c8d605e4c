"""Training as it goes on, on standard error. Owns the display, never writes to standard output.

On a terminal a panel that is redrawn in place; otherwise a plain line for each record, of at most
120 characters, and one after each `QUIET` seconds without any. It takes the records
that go to `metrics.jsonl`.

    with TrainDisplay(title="small-rods-seed0", total_steps=60) as display:
        display.rollout(done=32, total=128)
        display.record(step_record)
        display.message("checkpoint written")
"""

from __future__ import annotations

import threading
import time
from collections import Counter, deque
from collections.abc import Callable, Iterable, Mapping, Sequence
from datetime import timedelta
from statistics import fmean
from typing import Any

from rich.console import Console, Group
from rich.live import Live
from rich.markup import escape
from rich.panel import Panel
from rich.progress_bar import ProgressBar
from rich.table import Table
from rich.text import Text

from rods.infra.text import WIDTH, wrapped
from rods.infra.waiting import QUIET

RECENT = 8
"""Steps that the estimate of the time left looks back on, and that a mean of the trend holds."""
STEP_FACTS = ("reward", "progress", "no variance", "boundary", "speed")
"""Facts that stand on the plain line of a step; the last one goes where the line is too long."""


class TrainDisplay:
    """Progress of a training run; a context manager. Only messages may come from other threads."""

    def __init__(
        self,
        title: str = "",
        total_steps: int = 0,
        console: Console | None = None,
        clock: Callable[[], float] = time.monotonic,
        pipelined: bool = False,
    ) -> None:
        """Set up; nothing is drawn before the context is entered.

        `total_steps` are the run's updates (0: unknown); in a `pipelined` run groups are rolled out
        beside updates, and the schedule has metrics.
        """
        self._console = console or Console(stderr=True, highlight=False, emoji=False)
        self._title, self._total, self._clock = title, total_steps, clock
        self._pipelined = pipelined
        self._live: Live | None = None
        self._step: Mapping[str, Any] = {}
        self._epoch: Mapping[str, Any] = {}
        self._held_out: dict[str, str] = {}
        self._progress: list[float] = []
        self._rewards: list[float] = []
        self._injected = 0
        self._retired = Counter[str]()
        self._rollout, self._doing = (0, 0), "starting the engine"
        self._message = self._until = ""
        self._started = self._printed = clock()
        self._ends: deque[tuple[int, float]] = deque(maxlen=RECENT + 1)
        self._left = threading.Event()

    def __enter__(self) -> TrainDisplay:
        """Start drawing."""
        self._started = self._clock()
        if self._console.is_terminal:
            # Standard output stays untouched: another program may be reading it.
            self._live = Live(
                self._draw(),
                console=self._console,
                refresh_per_second=2,
                redirect_stdout=False,
                get_renderable=self._draw,
            )
            self._live.start()
        else:
            threading.Thread(target=self._watch, daemon=True).start()
        return self

    def __exit__(self, *_: object) -> None:
        """Leave the last state on the screen."""
        self._left.set()
        if self._live is not None:
            self._live.stop()
            self._live = None

    def record(self, record: Mapping[str, object]) -> None:
        """Show a record of the log: an evaluation, the start of an epoch, or a training step."""
        self._take(record)
        if record["kind"] == self._until:
            self._message = self._until = ""
        if record["kind"] in ("step", "eval"):
            self._rollout, over = (0, 0), record.get("when") == "after"
            self._doing = "saving" if over else "saving and rolling out"
        if record["kind"] == "step":
            self._ends.append((_number(record, "step"), self._clock()))
        for line in self._lines(record) if self._live is None else ():
            self._print(line)

    def resume(self, records: Iterable[Mapping[str, object]]) -> None:
        """Take over the records of the run so far, so that its counts go on; draws nothing."""
        for record in records:
            self._take(record)

    def _take(self, record: Mapping[str, Any]) -> None:
        match record.get("kind"):
            case "epoch":
                self._epoch = record
                self._injected += _number(record, "injected")
                self._retired.update(record.get("retired") or {})
            case "step":
                self._step = record
                for means, key in (self._progress, "progress_mean"), (self._rewards, "reward_mean"):
                    means += [record[key]] if record.get(key) is not None else []
            case "eval":
                self._held_out[str(record["when"])] = _means(record)
            case _:
                pass

    def rollout(self, done: int, total: int, samples: int | None = None) -> None:
        """Finished trajectories of the update, or of an evaluation with so many samples a task."""
        self._rollout, self._doing = (done, total), "updating and saving"
        if self._live is None and (not done or self._clock() - self._printed >= QUIET):
            begun = f"rolling out {total} trajectories"
            if samples is not None:
                each = f"1 greedy rollout{f' and {samples} sampled' * bool(samples)}"
                begun = f"evaluating {total // (1 + samples)} held-out tasks, each with {each}"
            self._print(f"{done} of {total} trajectories" if done else begun)

    def message(self, text: str, until: str = "") -> None:
        """Print a line, which stays in the panel until a record of this kind or another message."""
        self._message, self._until = text, until
        self._print(text)

    def _print(self, text: str) -> None:
        self._printed = self._clock()
        self._console.print(Text(text if self._live else wrapped(text)), soft_wrap=True)

    def _watch(self) -> None:
        """Say that work goes on where nothing else does, such as during an update."""
        while not self._left.wait(QUIET):
            if self._clock() - self._printed >= QUIET:
                self._print(f"{self._now}, {_span(self._clock() - self._started)} since the start")

    @property
    def _now(self) -> str:
        done, total = self._rollout
        return f"{done} of {total} trajectories" if done < total else self._doing

    def seconds_left(self) -> float | None:
        """Estimate from the last steps; `None` before two steps or without a known total."""
        if len(self._ends) < 2 or not self._total:
            return None
        (first, since), (last, now) = self._ends[0], self._ends[-1]
        if last <= first:
            return None
        left = (self._total - last) * (now - since) / (last - first)
        return max(0.0, left - (self._clock() - now))

    def _lines(self, record: Mapping[str, object]) -> list[str]:
        """Return the plain lines for a record."""
        facts, left = self._facts(), self.seconds_left()
        kind = record["kind"]
        if kind == "eval":
            return [f"held-out progress {record['when']}: {self._held_out[str(record['when'])]}"]
        if kind == "epoch":
            where = f"epoch {record.get('epoch', 0)} ({record.get('stage', '')})"
            lines = [f"{where}: {facts['pool']}"]
            if "synthesis" in facts:
                lines.append(f"synthesis: {facts['synthesis']}")
            return lines
        step = f"update {_number(record, 'step')}{f'/{self._total}' if self._total else ''}"
        parts = [f"{name} {facts[name]}".removeprefix("speed ") for name in STEP_FACTS]
        end = [f"{_span(left)} left"] * bool(left)  # at 0 the evaluation follows
        whole, short = (" | ".join([step, *shown, *end]) for shown in (parts, parts[:-1]))
        return [whole if len(whole) <= WIDTH else short]

    def _facts(self) -> dict[str, str]:
        """Return what is known so far, by the panel's names."""
        row = self._step
        facts: dict[str, str] = {}
        if row:
            regions: Mapping[str, int] = row.get("regions") or {}
            facts["reward"] = _trend(self._rewards, 2)  # its scale differs between recipes
            facts["progress"] = _trend(self._progress, 3)
            facts["no variance"] = f"{_number(row, 'zero_variance'):.0%}"
            facts["boundary"] = f"{regions.get('boundary', 0)}/{sum(regions.values())} tasks"
            facts["speed"] = f"{_number(row, 'trajectories_per_s'):.1f} trajectories/s"
        if self._held_out:
            passes = [f"{when} {scores}" for when, scores in self._held_out.items()]
            facts["held out"] = "; ".join(passes)
        if row and self._pipelined:
            facts["schedule"] = _schedule(row.get("schedule") or {})
        if self._epoch:
            facts["pool"] = self._pool()
        made = [r.get("synthesis") or {} for r in (row, self._epoch)]
        made.sort(key=lambda m: (_number(m, "tried"), _number(m, "accepted")))
        if _number(made[-1], "tried") or made[-1].get("suspended"):
            facts["synthesis"] = synthesis_line(made[-1])
        return facts

    def _draw(self) -> Panel:
        row = self._step
        grid = Table.grid(padding=(0, 2), expand=True)
        grid.add_column(style="dim", no_wrap=True, width=13)
        grid.add_column(ratio=1)
        stage = row.get("stage", self._epoch.get("stage", "starting"))
        epoch = row.get("epoch", self._epoch.get("epoch", "-"))
        done, total = _number(row, "step"), self._total
        bar = ProgressBar(total=total or None, completed=done, width=20, pulse=not total)
        place = (
            f"update {done}{f' of {total}' if total else ''}, left "
            f"{_span(self.seconds_left())}, spent {_span(self._clock() - self._started)}"
        )
        grid.add_row("stage", Text(f"{stage}, epoch {epoch}"))
        both = Table.grid(padding=(0, 1))
        both.add_row(bar, Text(place))
        grid.add_row("training", both)
        grid.add_row("now", Text(self._now))
        for name, words in self._facts().items():
            grid.add_row(name, Text(words))
        last = Text(self._message, style="dim", overflow="ellipsis", no_wrap=True)
        title = f"[bold]rods train[/] {escape(self._title)}"
        return Panel(Group(grid, last), title=title, title_align="left", border_style="dim")

    def _pool(self) -> str:
        variants = _number(self._epoch, "generated")
        gone = self._retired.total()
        reasons = ", ".join(f"{k.replace('_', ' ')} {n}" for k, n in self._retired.items() if n)
        waited = _number(self._epoch, "seconds_waited")
        parts = [f"{_number(self._epoch, 'originals') + variants} tasks"]
        if variants:
            parts.append(f"{variants} of them variants")
        if self._injected:
            parts.append(f"{self._injected} injected")
        if gone:
            parts.append(f"{gone} retired ({reasons})")
        if waited >= 0.05:
            parts.append(f"waited {waited:.1f} s for synthesis")
        return ", ".join(parts)


def _trend(means: Sequence[float], digits: int) -> str:
    """Return the mean of the first and of the last updates; of few updates, only the last."""
    rise = f"{fmean(means[:RECENT]):.{digits}f} → " if len(means) > RECENT else ""
    return f"{rise}{fmean(means[-RECENT:]):.{digits}f}" if means else "-"


def _means(record: Mapping[str, Any]) -> str:
    """Return the mean progress of an evaluation, greedy and sampled, as far as it was measured."""
    rows: Sequence[Mapping[str, Any]] = record.get("rows") or []
    found: list[str] = []
    for name, key in (("greedy", "greedy_progress"), ("sampled", "progress")):
        values = [fmean(row[key]) for row in rows if row.get(key)]
        found += [f"{name} {fmean(values):.3f}"] if values else []
    return " and ".join(found) or "no trajectory is valid"


def _schedule(row: Mapping[str, object]) -> str:
    return (
        f"{_number(row, 'groups_queued')} groups queued, {_number(row, 'groups_in_rollout')} in "
        f"flight, {_number(row, 'staleness_mean'):.1f} updates old, "
        f"{_number(row, 'acceptance'):.0%} pass, idle: rollouts "
        f"{_number(row, 'idle_rollout'):.0%}, trainer {_number(row, 'idle_update'):.0%}"
    )


_ENDED = {"gate": "by gates", "judge": "by the judge", "execute": "by failed calls"}
"""What rejects candidates, by the step of synthesis; other steps by their names."""


def synthesis_line(state: Mapping[str, Any], what: str = "variant") -> str:
    """What the worker has made, what rejects candidates, and what a variant or seed task costs."""
    tried, accepted = _number(state, "tried"), _number(state, "accepted")
    share = f" ({accepted / tried:.0%})" if tried else ""
    parts = [f"{tried} tried, {accepted} accepted{share}"]
    stages: Mapping[str, int] = state.get("stages") or {}
    if stages:
        most = sorted(stages.items(), key=lambda row: -row[1])
        ended = ", ".join(f"{n} {_ENDED.get(step, f'in {step}')}" for step, n in most)
        parts.append(f"rejected: {ended}")
    if accepted:
        usage: Mapping[str, Any] = state.get("usage") or {}  # of a chat server, by stage
        kinds = ("prompt_tokens", "completion_tokens")
        tokens = sum(_number(row, kind) for row in usage.values() for kind in kinds) / accepted
        each = f"{tokens:,.0f} tokens and " if tokens else ""
        seconds = _number(state, "seconds_per_variant")
        parts.append(f"{each}{seconds:{'.2g' if seconds < 99.5 else ',.0f'}} s per {what}")
    if state.get("suspended"):
        parts.append("paused")
    return "; ".join(parts)


def _number(row: Mapping[str, object], key: str) -> Any:
    """A number of a record; 0 where it was not measured."""
    return row.get(key) or 0


def _span(seconds: float | None) -> str:
    return "-" if seconds is None else str(timedelta(seconds=round(seconds)))
