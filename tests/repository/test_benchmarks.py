"""Benchmarks: each runs to its end by `--quick`, and a page of the docs has its figures."""

from __future__ import annotations

from pathlib import Path

import pytest

import forked
from places import BENCHMARKS, ROOT, SOURCE

COMMANDS = (
    *(
        "attention",
        "beside_synthesis",
        "bfcl_world",
        "boundary_cost",
        "decode_step",
        "faults",
        "gap_words",
    ),
    *("gate_catches", "gate_catches --words 4", "generalisation", "gradient_noise", "growth"),
    *("hints", "hostile_writer", "join_window", "math_start", "matrix_share", "mechanism"),
    *(
        "memory_plan",
        "own_tools",
        "profile_figures",
        "recipes",
        "resident",
        "rollout_engine",
        "sandbox",
    ),
    *("scale curriculum", "scale worlds", "scale writers", "schedules", "schedules_real"),
    *("search", "server_engine", "sft_speed", "skyrl", "soak", "synthesis_yield", "threads"),
    *("turn_outcomes", "update_step", "view", "whole_step"),
)
ELSEWHERE = {
    "kill_resume": "tests/core/test_main_job.py runs it with two kills",
    "suites_verdicts": "needs checkouts of the suites",
    "tool_rewards": "needs the released scorers",
}
"""Commands that are only seen to parse their options, and why."""
MODULES = {
    *("sft_trl", "shared", "tau2_verdicts", "trl_process", "trl_timed", "update_trl"),
    "vllm_server",
}
"""What commands import or start."""
GPU = ("decode_step", "memory", "speed")
"""Commands for a GPU that run in small on a CPU."""
SECONDS = 300
"""Ten times what they take on two idle cores."""


def run(words: list[str], folder: Path) -> str:
    done = forked.run(words, folder, SECONDS)
    assert done.returncode == 0, done.stdout[-2000:] + done.stderr[-4000:]
    return done.stdout


@pytest.mark.slow
@pytest.mark.parametrize("command", COMMANDS)
def test_a_benchmark_runs_to_its_end(command: str, tmp_path: Path) -> None:
    name, *words = command.split()
    assert run([str(BENCHMARKS / f"{name}.py"), *words, "--quick"], tmp_path)


@pytest.mark.slow
@pytest.mark.parametrize("name", ELSEWHERE)
def test_what_is_run_elsewhere_has_a_quick_form(name: str, tmp_path: Path) -> None:
    assert "--quick" in run([str(BENCHMARKS / f"{name}.py"), "--help"], tmp_path)


@pytest.mark.slow
@pytest.mark.parametrize("name", GPU)
def test_a_command_for_a_gpu_runs_in_small_on_a_cpu(name: str, tmp_path: Path) -> None:
    words = ["--device", "cpu", "--tiny"]
    assert run([str(BENCHMARKS / "gpu" / f"{name}.py"), *words], tmp_path)


def test_every_benchmark_is_run_and_has_its_figures_in_a_page() -> None:
    commands = {command.split()[0] for command in COMMANDS} | set(ELSEWHERE)
    assert {path.stem for path in BENCHMARKS.glob("*.py")} == commands | MODULES
    pages = [*(ROOT / "docs").rglob("*.md"), *(SOURCE / "recipes").rglob("*.md")]
    text = "\n".join(page.read_text(encoding="utf-8") for page in pages)
    assert [name for name in sorted(commands) if f"{name}.py" not in text] == []
