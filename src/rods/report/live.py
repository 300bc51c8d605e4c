"""Training as it goes on, on standard error. Owns the display, never writes to standard output.

On a terminal a panel that is redrawn in place; otherwise one plain line a step. It takes the same
records that go to `metrics.jsonl` and keeps nothing but the last of each.

    with TrainDisplay(title="quick-rods-seed0", total_steps=60) as display:
        display.epoch(epoch_record)
        display.rollout(done=32, total=128)
        display.step(step_record)
        display.message("checkpoint written")
"""

from __future__ import annotations

import time
from collections import Counter, deque
from collections.abc import Callable, Iterable, Mapping
from datetime import timedelta
from typing import Any, cast

from rich.console import Console, Group
from rich.live import Live
from rich.markup import escape
from rich.panel import Panel
from rich.progress_bar import ProgressBar
from rich.table import Table
from rich.text import Text

from rods.report.run_data import REGIONS

STYLES = {"hard": "red", "boundary": "bright_blue", "mastered": "green"}
RECENT = 8
"""Steps that the estimate of the time left looks back on."""
QUIET = 15.0
"""Seconds after which a plain log says how many trajectories are done."""


class TrainDisplay:
    """Progress of a training run; a context manager. Use it from one thread."""

    def __init__(
        self,
        title: str = "",
        total_steps: int = 0,
        console: Console | None = None,
        clock: Callable[[], float] = time.monotonic,
        pipelined: bool = False,
    ) -> None:
        """Set up; nothing is drawn before the context is entered.

        `total_steps` are the run's updates (0: from the records' `total_steps`); in a `pipelined`
        run groups are rolled out beside updates, and the schedule has metrics.
        """
        self._console = console or Console(stderr=True, highlight=False)
        self._title, self._total, self._clock = title, total_steps, clock
        self._pipelined = pipelined
        self._live: Live | None = None
        self._step: Mapping[str, Any] = {}
        self._epoch: Mapping[str, Any] = {}
        self._injected = 0
        self._retired = Counter[str]()
        self._rollout: tuple[int, int] = (0, 0)
        self._message = ""
        self._started = self._printed = clock()
        self._ends: deque[tuple[int, float]] = deque(maxlen=RECENT + 1)

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
        return self

    def __exit__(self, *_: object) -> None:
        """Leave the last state on the screen."""
        if self._live is not None:
            self._live.stop()
            self._live = None

    def step(self, record: Mapping[str, Any]) -> None:
        """An update is done."""
        self._step = record
        self._rollout = (0, 0)
        self._total = self._total or _whole(record, "total_steps")
        self._ends.append((_whole(record, "step"), self._clock()))
        if self._live is None:
            self._print(self._line())

    def epoch(self, record: Mapping[str, Any]) -> None:
        """An epoch begins; the record says what its start did to the pool."""
        self._count(record)
        if self._live is None:
            where = f"epoch {record.get('epoch', 0)} ({record.get('stage', '')})"
            self._print(f"{where}: {self._buffer()}")

    def resume(self, records: Iterable[Mapping[str, Any]]) -> None:
        """Take over the records of the run so far, so that its counts go on; draws nothing."""
        for record in records:
            if record.get("kind") == "epoch":
                self._count(record)
            elif record.get("kind") == "step":
                self._step = record

    def _count(self, record: Mapping[str, Any]) -> None:
        self._epoch = record
        self._injected += _whole(record, "injected")
        self._retired.update(_counts(record, "retired"))

    def rollout(self, done: int, total: int) -> None:
        """Trajectories of the current step (or evaluation) that are finished."""
        self._rollout = (done, total)
        if self._live is None and (not done or self._clock() - self._printed >= QUIET):
            self._print(f"{done} of {total} trajectories")

    def message(self, text: str) -> None:
        """One line that stays."""
        self._message = text
        self._print(text)

    def _print(self, text: str) -> None:
        self._printed = self._clock()
        self._console.print(Text(text), soft_wrap=True)

    def seconds_left(self) -> float | None:
        """Estimate from the last steps; `None` before two steps or without a known total."""
        if len(self._ends) < 2 or not self._total:
            return None
        (first, since), (last, now) = self._ends[0], self._ends[-1]
        if last <= first:
            return None
        left = (self._total - last) * (now - since) / (last - first)
        return max(0.0, left - (self._clock() - now))

    def _line(self) -> str:
        row = self._step
        step = f"step {_whole(row, 'step')}{f'/{self._total}' if self._total else ''}"
        epoch = f"epoch {row.get('epoch', 0)} ({row.get('stage', '')})"
        left = f"left {_span(self.seconds_left())}"
        return " | ".join([step, epoch, *self._facts().values(), left])

    def _facts(self) -> dict[str, str]:
        """What line and panel both say of the last step, by the panel's names."""
        row, regions = self._step, _counts(self._step, "regions")
        key = "progress_mean" if "progress_mean" in row else "reward_mean"
        name = "mean progress reward" if key == "progress_mean" else "mean reward"
        facts = {
            "reward": f"{name} {_number(row, key):.3f}, "
            f"{_number(row, 'zero_variance'):.0%} of groups without variance",
            "regions": ", ".join(f"{name} {regions.get(name, 0)}" for name in REGIONS),
            "speed": f"{_number(row, 'trajectories_per_s'):.1f} trajectories/s, "
            f"{_number(row, 'tokens_per_s'):.0f} tokens/s",
        }
        if self._pipelined:
            facts["schedule"] = _schedule(row.get("schedule") or {})
        made = [r.get("synthesis") or {} for r in (row, self._epoch)]
        made.sort(key=lambda m: (_whole(m, "tried"), _whole(m, "accepted")))
        return {**facts, "buffer": self._buffer(), "synthesis": synthesis_line(made[-1])}

    def _draw(self) -> Panel:
        row = self._step
        grid = Table.grid(padding=(0, 2), expand=True)
        grid.add_column(style="dim", no_wrap=True, width=13)
        grid.add_column(ratio=1)
        stage = row.get("stage", self._epoch.get("stage", "starting"))
        epoch = row.get("epoch", self._epoch.get("epoch", "-"))
        done, total = _whole(row, "step"), self._total
        bar = ProgressBar(total=total or None, completed=done, width=32, pulse=not total)
        place = (
            f"step {done}{f' of {total}' if total else ''}, left "
            f"{_span(self.seconds_left())}, spent {_span(self._clock() - self._started)}"
        )
        rolled, of = self._rollout
        words = f"{rolled} of {of} trajectories"
        idle = Text("updating" if self._step else "waiting", style="dim")
        rolling = _beside(ProgressBar(total=of, completed=rolled, width=32), words) if of else idle
        grid.add_row("stage", Text(f"{stage}, epoch {epoch}"))
        grid.add_row("training", _beside(bar, place))
        grid.add_row("rollout", rolling)
        for name, words in self._facts().items():
            text = Text(words)
            for region, style in STYLES.items() if name == "regions" else ():
                text.highlight_regex(rf"{region} \d+", style)
            grid.add_row(name, text)
        last = Text(self._message, style="dim", overflow="ellipsis", no_wrap=True)
        title = f"[bold]rods train[/] {escape(self._title)}"
        both = Group(grid, last)
        return Panel(both, title=title, title_align="left", border_style="bright_black")

    def _buffer(self) -> str:
        reasons = ", ".join(f"{k.replace('_', ' ')} {n}" for k, n in self._retired.items() if n)
        variants = _whole(self._epoch, "generated")
        active = _whole(self._epoch, "originals") + variants
        waited = _number(self._epoch, "seconds_waited")
        return (
            f"{active} active ({variants} variants), {self._injected} injected, "
            f"{self._retired.total()} retired{f' ({reasons})' if reasons else ''}"
            + (f", waited {waited:.1f} s for synthesis" if waited >= 0.05 else "")
        )


def _schedule(row: Mapping[str, Any]) -> str:
    return (
        f"{_whole(row, 'groups_queued')} groups queued, {_whole(row, 'groups_in_rollout')} in "
        f"flight, {_number(row, 'staleness_mean'):.1f} updates old, "
        f"{_number(row, 'acceptance'):.0%} pass, idle: rollouts "
        f"{_number(row, 'idle_rollout'):.0%}, trainer {_number(row, 'idle_update'):.0%}"
    )


def synthesis_line(state: Mapping[str, Any]) -> str:
    """What the worker has made, what rejects candidates, and what a variant costs."""
    tried, accepted = _whole(state, "tried"), _whole(state, "accepted")
    share = f" ({accepted / tried:.0%})" if tried else ""
    parts = [f"{tried} tried, {accepted} accepted{share}"]
    stages = sorted(_counts(state, "stages").items(), key=lambda row: -row[1])
    if stages:
        parts.append("rejected " + ", ".join(f"{stage} {count}" for stage, count in stages))
    if accepted:
        usage: Mapping[str, Any] = state.get("usage") or {}  # of a chat server, by stage
        kinds = ("prompt_tokens", "completion_tokens")
        tokens = sum(_number(row, kind) for row in usage.values() for kind in kinds) / accepted
        each = f"{tokens:,.0f} tokens and " if tokens else ""
        seconds = _number(state, "seconds_per_variant")
        parts.append(f"{each}{seconds:.2g} s a variant")
    return "; ".join([*parts, *(["paused"] if state.get("suspended") else [])])


def _beside(bar: ProgressBar, words: str) -> Table:
    row = Table.grid(padding=(0, 1))
    row.add_row(bar, Text(words))
    return row


def _number(row: Mapping[str, Any], key: str) -> float:
    value = row.get(key)
    return float(value) if isinstance(value, int | float) else 0.0


def _whole(row: Mapping[str, Any], key: str) -> int:
    return int(_number(row, key))


def _counts(row: Mapping[str, Any], key: str) -> dict[str, int]:
    found = cast("Mapping[str, Any]", row.get(key) or {})
    return {str(name): int(count) for name, count in found.items()}


def _span(seconds: float | None) -> str:
    return "-" if seconds is None else str(timedelta(seconds=round(seconds)))
