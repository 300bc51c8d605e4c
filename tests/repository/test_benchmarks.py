"""Benchmarks: each runs by `--quick` or is imported, and a page of the docs has its figures."""

from __future__ import annotations

from pathlib import Path

import pytest

import forked
from places import BENCHMARKS, ROOT, SOURCE

COMMANDS = (
    "attention", "bfcl_world", "boundary_cost", "broken_code", "category_gains",
    "gap_words --variants 2",
    "gate_catches --variants 2 --originals 4 --words 1",
    "generalisation", "growth --episodes", "hints", "hostile_writer", "math_start", "mechanism",
    "memory_plan --way 0 --shrink 16", "own_tools", "profile_figures", "resident",
    "scale curriculum", "scale worlds", "scale writers", "search", "skyrl",
    "synthesis_yield --proposals 4", "threads", "turn_outcomes", "update_step", "view",
)  # fmt: skip
"""Commands of some seconds, with what makes them shorter."""
TRAINS = "tests/trainers and tests/core/test_main_job.py train"
PLAYS = "tests/engines samples by each engine"
ELSEWHERE = {
    "beside_synthesis": "tests/synthesis runs the worker beside training",
    "decode_step": "benchmarks/gpu/decode_step.py runs in small",
    "faults": "test_faults_check.py plants what it must find; kill_resume kills",
    "gradient_noise": TRAINS,
    "join_window": PLAYS,
    "kill_resume": "tests/core/test_main_job.py kills one run and uses what it compares",
    "matrix_share": TRAINS,
    "recipes": "tests/recipes trains by recipes",
    "rollout_engine": PLAYS,
    "sandbox": "tests/sandbox runs programs in it",
    "schedules": "tests/core/test_loop_schedules.py trains by each schedule",
    "schedules_real": "tests/core/test_loop_schedules.py, too",
    "server_engine": PLAYS,
    "sft_speed": "tests/trainers trains with adapters",
    "soak": "test_soak.py runs it in threads and in processes",
    "suites_verdicts": "needs checkouts of the suites",
    "tool_rewards": "needs the released scorers",
    "whole_step": TRAINS,
}
"""Commands that are imported and parse the options of their quick form, and why that is enough."""
MODULES = {
    "sft_trl", "shared", "tau2_verdicts", "trl_process", "trl_timed", "update_trl",
    "vllm_server",
}  # fmt: skip
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
    assert run([str(BENCHMARKS / f"{name}.py"), "--quick", *words], tmp_path)


@pytest.mark.slow
@pytest.mark.parametrize("name", ELSEWHERE)
def test_what_is_run_elsewhere_has_a_quick_form(name: str, tmp_path: Path) -> None:
    """An unknown option of the quick form ends the command before its help."""
    assert "--quick" in run([str(BENCHMARKS / f"{name}.py"), "--quick", "--help"], tmp_path)


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
