"""The display of training: what it says, and that standard output stays untouched."""

import io
import os
import re
import signal
from functools import partial
from typing import Any

import pytest
from rich.console import Console
from rich.text import Text

from rods.infra.interrupt import AFTER_UPDATE, ctrl_c
from rods.report.live import TrainDisplay, synthesis_line
from waits import running, until

STEP: dict[str, Any] = {
    "kind": "step",
    "step": 2,
    "epoch": 1,
    "stage": "all",
    "reward_mean": 1.5,
    "progress_mean": 0.4375,
    "zero_variance": 0.25,
    "regions": {"hard": 3, "boundary": 11, "mastered": 2},
    "trajectories_per_s": 18.62,
    "tokens_per_s": 1331.4,
    "synthesis": {"tried": 96, "accepted": 64},
}
EVALUATION: dict[str, Any] = {
    "kind": "eval",
    "step": 0,
    "when": "before",
    "rows": [
        {"greedy_progress": [0.5], "progress": [0.0, 0.5]},
        {"greedy_progress": [], "progress": [0.25, 0.25]},
    ],
}
EPOCH: dict[str, Any] = {
    "kind": "epoch",
    "epoch": 1,
    "stage": "all",
    "originals": 32,
    "generated": 6,
    "injected": 6,
    "retired": {"mastered": 2, "burn_in": 1, "stale": 0},
}


class Clock:
    def __init__(self) -> None:
        self.now = 100.0

    def __call__(self) -> float:
        return self.now


def console(terminal: bool) -> Console:
    return Console(file=io.StringIO(), force_terminal=terminal, width=110, _environ={})


def text(shown: Console) -> str:
    assert isinstance(shown.file, io.StringIO)
    return shown.file.getvalue()


POOL = "38 tasks, 6 of them variants, 6 injected, 3 retired (mastered 2, burn in 1)"


def test_a_pipe_gets_a_plain_line_for_each_record() -> None:
    shown = console(terminal=False)
    with TrainDisplay("run", 10, console=shown) as display:
        display.record(EVALUATION)
        display.record(EPOCH)
        display.rollout(3, 16)
        display.record(STEP)
    assert text(shown).splitlines() == [
        "held-out progress before: greedy 0.500 and sampled 0.250",
        f"epoch 1 (all): {POOL}",
        "update 2/10 | reward 1.50 | progress 0.438 | no variance 25% | boundary 11/16 tasks | "
        "18.6 trajectories/s",
    ]


def test_the_lines_of_a_long_run_fit_120_characters_and_say_what_changed() -> None:
    clock, shown = Clock(), console(terminal=False)
    with TrainDisplay("run", 200, console=shown, clock=clock) as display:
        for step in range(1, 121):
            clock.now += 100
            regions = {"hard": 10, "boundary": 20, "mastered": 2}
            row = {"step": step, "progress_mean": step / 200, "regions": regions}
            display.record({**STEP, **row, "reward_mean": step / 50})
    lines = text(shown).splitlines()
    assert max(map(len, lines)) <= 120
    assert "| progress 0.022 |" in lines[7], "no trend before there are more steps than it holds"
    assert "| reward 0.09 → 2.33 | progress 0.022 → 0.583 |" in lines[-1]
    assert len(lines) == 120 and lines[-1].endswith("| boundary 20/32 tasks | 2:13:20 left")


def test_an_update_without_a_valid_trajectory_is_in_no_mean() -> None:
    shown = console(terminal=False)
    with TrainDisplay("run", 10, console=shown) as display:
        display.record({**STEP, "step": 1, "reward_mean": None, "progress_mean": None})
        display.record(STEP)
        display.record({**STEP, "step": 3, "reward_mean": None, "progress_mean": None})
    lines = text(shown).splitlines()
    assert "| reward - | progress - |" in lines[0]
    assert all("| reward 1.50 | progress 0.438 |" in line for line in lines[1:])


def test_a_line_with_every_fact_is_wrapped_and_loses_nothing() -> None:
    shown = console(terminal=False)
    stages = {f"stage_of_a_writer_{n}": 1000 + n for n in range(8)}
    path = "runs/" + "long/" * 40
    with TrainDisplay("run", console=shown) as display:
        display.record({**EPOCH, "synthesis": {"tried": 9000, "accepted": 64, "stages": stages}})
        display.message(f"see {path}")
    lines = text(shown).splitlines()
    assert max(len(line) for line in lines if path not in line) <= 120
    assert all(stage in text(shown) for stage in stages) and path in lines[-1]


def test_nothing_is_said_of_what_there_is_not_yet() -> None:
    """A fixed pool has no variants and no synthesis; a run that starts has no step."""
    fixed = {"generated": 0, "injected": 0, "retired": {}, "synthesis": {}}
    for terminal in (False, True):
        shown = console(terminal)
        with TrainDisplay("run", 10, console=shown) as display:
            display.record({**EVALUATION, "rows": []})
            display.record({**EPOCH, **fixed})
        said = text(shown)
        assert "32 tasks" in said and "no trajectory is valid" in said
        for absent in ("variants", "injected", "retired", "tried", "progress 0", "boundary"):
            assert absent not in said, absent


def test_a_terminal_gets_a_panel() -> None:
    shown = console(terminal=True)
    with TrainDisplay("my [bold]run", 10, console=shown) as display:
        for record in (EVALUATION, EPOCH, STEP):
            display.record(record)
        display.rollout(40, 128)
        display.message("[red]not markup")
    panel = Text.from_ansi(text(shown)).plain
    figures = ("update 2 of 10", "0.438", "25%", "1.50", "11/16 tasks", "18.6 trajectories/s")
    held_out = "before greedy 0.500 and sampled 0.250"
    words = ("40 of 128 trajectories", "my [bold]run", "[red]not markup")
    for part in (*figures, held_out, POOL, "96 tried, 64 accepted (67%)", *words):
        assert part in panel, part


def test_a_pipelined_run_shows_its_meters_in_the_panel() -> None:
    meters = {"groups_queued": 3, "groups_in_rollout": 5, "staleness_mean": 0.75, "acceptance": 0.5}
    record = {**STEP, "schedule": {**meters, "idle_rollout": 0.1, "idle_update": 0.42}}
    for pipelined in (False, True):
        shown = console(terminal=True)
        with TrainDisplay("run", console=shown, pipelined=pipelined) as display:
            display.record(record)
        said = "3 groups queued, 5 in flight, 0.8 updates old" in text(shown)
        assert said == ("trainer 42%" in text(shown)) == pipelined


def test_waiting_for_synthesis_is_on_the_line() -> None:
    shown = console(terminal=False)
    with TrainDisplay("run", console=shown) as display:
        display.record({**EPOCH, "seconds_waited": 3.214})
        display.record({**EPOCH, "seconds_waited": 0.0})
    first, second = text(shown).splitlines()
    assert "waited 3.2 s for synthesis" in first and "waited" not in second


def test_an_epoch_says_what_turns_proposals_down_and_what_a_variant_costs() -> None:
    shown = console(terminal=False)
    synthesis = {
        **{"tried": 96, "accepted": 64, "seconds_per_variant": 2.345, "suspended": "HTTP 500"},
        "stages": {"gate": 20, "writer": 12},
        "usage": {
            "plan": {"prompt_tokens": 64_000, "completion_tokens": 6_400},
            "judge": {"prompt_tokens": 64_000, "completion_tokens": 0},
        },
    }
    with TrainDisplay("run", console=shown) as display:
        display.record({**EPOCH, "synthesis": synthesis})
    assert text(shown).splitlines()[1] == (
        "synthesis: 96 tried, 64 accepted (67%); rejected: 20 by gates, 12 in writer; "
        "2,100 tokens and 2.3 s per variant; paused"
    )


@pytest.mark.parametrize(
    ("seconds", "shown"), [(0.263, "0.26 s"), (99.2, "99 s"), (99.7, "100 s"), (1234.5, "1,234 s")]
)
def test_a_variant_costs_seconds_without_an_exponent(seconds: float, shown: str) -> None:
    line = synthesis_line({"tried": 2, "accepted": 1, "seconds_per_variant": seconds})
    assert line.endswith(f"; {shown} per variant")


def test_an_update_of_minutes_does_not_leave_a_log_silent(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr("rods.report.live.QUIET", 0.05)
    shown = console(terminal=False)
    with TrainDisplay("run", console=shown) as display:
        until(lambda: "starting the engine, 0:0" in text(shown))
        display.rollout(0, 8)
        until(lambda: "0 of 8 trajectories, 0:0" in text(shown))
        display.rollout(8, 8)
        until(lambda: "updating and saving, 0:0" in text(shown))
    until(lambda: not running("_watch"))  # the end of the run ends it


def test_standard_output_is_never_written(capsys: pytest.CaptureFixture[str]) -> None:
    with TrainDisplay() as display:
        display.record(EPOCH)
        display.record(STEP)
        display.message("a line")
    out, err = capsys.readouterr()
    assert out == "" and "a line" in err and "update 2 " in err


def test_time_left_follows_the_last_steps() -> None:
    clock = Clock()
    display = TrainDisplay("run", 10, console=console(terminal=False), clock=clock)
    display.record({**STEP, "step": 1})
    assert display.seconds_left() is None
    for step in (2, 3):
        clock.now += 4.0
        display.record({**STEP, "step": step})
    assert display.seconds_left() == pytest.approx(7 * 4.0)
    clock.now += 1.0
    assert display.seconds_left() == pytest.approx(27.0)
    clock.now += 1000.0
    assert display.seconds_left() == 0.0


def test_time_left_is_unknown_without_a_total() -> None:
    clock = Clock()
    display = TrainDisplay(console=console(terminal=False), clock=clock)
    for step in (1, 2):
        clock.now += 4.0
        display.record({"kind": "step", "step": step})
    assert display.seconds_left() is None


def test_a_resumed_run_goes_on_counting() -> None:
    shown = console(terminal=False)
    with TrainDisplay("run", console=shown) as display:
        display.resume([EVALUATION, EPOCH, STEP, {"kind": "unused"}])
        assert text(shown) == ""
        display.record({**EPOCH, "epoch": 2})
    assert "12 injected, 6 retired (mastered 4, burn in 2)" in text(shown)


def test_the_panel_is_put_away_when_training_fails() -> None:
    shown = console(terminal=True)
    with pytest.raises(RuntimeError, match="broke"), TrainDisplay(console=shown) as display:
        display.record(STEP)
        raise RuntimeError("it broke")
    assert text(shown).endswith("\x1b[?25h")  # the cursor is visible again


def test_an_evaluation_of_minutes_says_how_far_it_is_in_plain_lines() -> None:
    clock, shown = Clock(), console(terminal=False)
    with TrainDisplay(console=shown, clock=clock) as display:
        display.message("held-out evaluation before")
        display.rollout(0, 90, 2)
        for done in range(1, 91):
            clock.now += 1
            display.rollout(done, 90, 2)
    lines = text(shown).splitlines()
    assert lines == [
        "held-out evaluation before",
        "evaluating 30 held-out tasks, each with 1 greedy rollout and 2 sampled",
        *(f"{n} of 90 trajectories" for n in (15, 30, 45, 60, 75, 90)),
    ]


def test_an_evaluation_shows_its_bar_in_a_terminal() -> None:
    shown = console(terminal=True)
    with TrainDisplay("mine", console=shown, clock=Clock()) as display:
        display.message("held-out evaluation before")
        display.rollout(0, 90)
    plain = Text.from_ansi(text(shown)).plain
    assert "0 of 90 trajectories" in plain and "rods train mine" in plain


def last_panel(shown: Console) -> str:
    return Text.from_ansi(text(shown)).plain.rpartition("rods train")[2]


@pytest.mark.parametrize(
    ("until", "record", "stays"),
    [
        ("eval", EVALUATION, False),
        ("eval", STEP, True),
        ("epoch", EPOCH, False),
        ("", EVALUATION, True),
    ],
)
def test_a_message_leaves_the_panel_when_it_holds_no_more(
    until: str, record: dict[str, Any], stays: bool
) -> None:
    shown = console(terminal=True)
    with TrainDisplay("run", 10, console=shown) as display:
        display.message("it goes on", until=until)
        display.resume([record])  # of the run before
        display.record(record)
    assert ("it goes on" in last_panel(shown)) is stays
    assert "it goes on" in text(shown), "above the panel it stays"


@pytest.mark.parametrize(
    ("done", "record", "now"),
    [
        (3, None, "3 of 8 trajectories"),
        (8, None, "updating and saving"),
        (8, STEP, "saving and rolling out"),
        (8, {**EVALUATION, "when": "after"}, "saving"),
    ],
)
def test_the_panel_states_what_is_done_now(
    done: int, record: dict[str, Any] | None, now: str
) -> None:
    shown = console(terminal=True)
    with TrainDisplay("run", 10, console=shown) as display:
        display.rollout(done, 8)
        if record:
            display.record(record)
    assert re.search(rf"now +{now} +│", last_panel(shown))


@pytest.mark.parametrize("terminal", [True, False])
def test_ctrl_c_is_acknowledged_at_once(terminal: bool) -> None:
    shown = console(terminal)
    with (
        TrainDisplay("run", 10, console=shown) as display,
        ctrl_c(partial(display.message, AFTER_UPDATE)) as stopped,
    ):
        display.rollout(1, 8)
        os.kill(os.getpid(), signal.SIGINT)
        until(lambda: AFTER_UPDATE in text(shown))
        assert stopped()
    if terminal:
        assert AFTER_UPDATE in last_panel(shown), "the panel shows it until the end"
