"""The display of training: what it says, and that standard output stays untouched."""

import io
from typing import Any

import pytest
from rich.console import Console
from rich.text import Text

from rods.report.live import TrainDisplay

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
    "total_steps": 10,
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


EXPECTED = (
    "all",
    "mean progress reward 0.438",
    "18.6 trajectories/s, 1331 tokens/s",
    "hard 3",
    "boundary 11",
    "mastered 2",
    "38 active (6 variants), 6 injected, 3 retired (mastered 2, burn in 1)",
    "96 tried, 64 accepted (67%)",
    "25%",
)


def test_a_pipe_gets_one_plain_line_a_step() -> None:
    shown = console(terminal=False)
    with TrainDisplay("run", console=shown) as display:
        display.epoch(EPOCH)
        display.rollout(3, 16)
        display.step(STEP)
    lines = text(shown).splitlines()
    assert len(lines) == 2 and "\x1b" not in text(shown)
    assert lines[1].startswith("step 2/10 | epoch 1 (all)")
    for part in EXPECTED:
        assert part in lines[1], part


def test_a_terminal_gets_a_panel() -> None:
    shown = console(terminal=True)
    with TrainDisplay("my [bold]run", console=shown) as display:
        display.epoch(EPOCH)
        display.step(STEP)
        display.rollout(40, 128)
        display.message("[red]not markup")
    panel = text(shown)
    for part in (*EXPECTED, "40 of 128 trajectories", "my [bold]run", "[red]not markup"):
        assert part in panel, part


def test_a_pipelined_run_shows_its_meters() -> None:
    meters = {"groups_queued": 3, "groups_in_rollout": 5, "staleness_mean": 0.75, "acceptance": 0.5}
    record = {**STEP, "schedule": {**meters, "idle_rollout": 0.1, "idle_update": 0.42}}
    words = "3 groups queued, 5 in flight, 0.8 updates old, 50% pass, idle: rollouts 10%, trainer"
    for terminal in (False, True):
        shown = console(terminal)
        with TrainDisplay("run", console=shown, pipelined=True) as display:
            display.step(record)
        assert words[:48] in text(shown) and "trainer 42%" in text(shown)
        plain = console(terminal)
        with TrainDisplay("run", console=plain) as display:
            display.step(record)
        assert "queued" not in text(plain)


def test_waiting_for_synthesis_is_on_the_line() -> None:
    shown = console(terminal=False)
    with TrainDisplay("run", console=shown) as display:
        display.epoch({**EPOCH, "seconds_waited": 3.214})
        display.epoch({**EPOCH, "seconds_waited": 0.0})
    first, second = text(shown).splitlines()
    assert "waited 3.2 s for synthesis" in first and "waited" not in second


def test_the_line_says_what_turns_proposals_down_and_what_a_variant_costs() -> None:
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
        display.step({**STEP, "synthesis": synthesis})
    line = text(shown)
    assert (
        "64 accepted (67%); rejected gate 20, writer 12; 2,100 tokens and 2.3 s a variant" in line
    )
    assert "s a variant; paused |" in line


def test_standard_output_is_never_written(capsys: pytest.CaptureFixture[str]) -> None:
    with TrainDisplay() as display:
        display.epoch(EPOCH)
        display.step(STEP)
        display.message("a line")
    out, err = capsys.readouterr()
    assert out == "" and "a line" in err and "step 2/10" in err


def test_time_left_follows_the_last_steps() -> None:
    clock = Clock()
    display = TrainDisplay(console=console(terminal=False), clock=clock)
    display.step({**STEP, "step": 1})
    assert display.seconds_left() is None
    for step in (2, 3):
        clock.now += 4.0
        display.step({**STEP, "step": step})
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
        display.step({"step": step})
    assert display.seconds_left() is None


def test_a_resumed_run_goes_on_counting() -> None:
    shown = console(terminal=False)
    with TrainDisplay("run", console=shown) as display:
        display.resume([EPOCH, STEP, {"kind": "eval"}])
        assert text(shown) == ""
        display.epoch({**EPOCH, "epoch": 2})
    assert "12 injected, 6 retired (mastered 4, burn in 2)" in text(shown)


def test_the_panel_is_put_away_when_training_fails() -> None:
    shown = console(terminal=True)
    with pytest.raises(RuntimeError, match="broke"), TrainDisplay(console=shown) as display:
        display.step(STEP)
        raise RuntimeError("it broke")
    assert text(shown).endswith("\x1b[?25h")  # the cursor is visible again


def test_an_evaluation_of_minutes_says_how_far_it_is_in_plain_lines() -> None:
    clock, shown = Clock(), console(terminal=False)
    with TrainDisplay(console=shown, clock=clock) as display:
        display.message("held-out evaluation before")
        display.rollout(0, 90)
        for done in range(1, 91):
            clock.now += 1
            display.rollout(done, 90)
    lines = text(shown).splitlines()
    assert lines == [
        "held-out evaluation before",
        *(f"{n} of 90 trajectories" for n in (0, 15, 30, 45, 60, 75, 90)),
    ]


def test_an_evaluation_shows_its_bar_in_a_terminal() -> None:
    shown = console(terminal=True)
    with TrainDisplay("mine", console=shown, clock=Clock()) as display:
        display.message("held-out evaluation before")
        display.rollout(0, 90)
    plain = Text.from_ansi(text(shown)).plain
    assert "0 of 90 trajectories" in plain and "rods train mine" in plain
