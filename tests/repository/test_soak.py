"""The soak benchmark in short: every episode ends as a result or as a classified invalid one."""

from __future__ import annotations

import asyncio
import importlib
import logging
import sys
import time
from collections.abc import Iterator
from typing import Any

import pytest

from places import BENCHMARKS
from rods.envs.remote.processes import ProcessEnvironment, local
from rods.rollout.owner import hanging
from rods.types import StopReason

ENDS = {StopReason.DONE.value} | {
    f"{stop.value}, invalid" for stop in (StopReason.FAILURE, StopReason.SECONDS)
}


@pytest.fixture
def soak(monkeypatch: pytest.MonkeyPatch) -> Iterator[Any]:
    monkeypatch.syspath_prepend(str(BENCHMARKS))
    monkeypatch.setattr(logging.getLogger("rods.rollout.groups"), "disabled", True)
    yield importlib.import_module("soak")
    sys.modules.pop("soak", None)


@pytest.mark.slow
def test_troubled_worlds_in_threads(soak: Any) -> None:
    chances = soak.Chances(breaks=0.1, hangs=0.03, hang_seconds=1.5)
    before = hanging()
    found = asyncio.run(soak.soak(soak.Troubled(chances=chances), 480, 64))
    assert found.ended.total() == 480 and set(found.ended) <= ENDS
    assert found.ended["failure, invalid"] > 0 and found.ended["done"] > 300
    assert max(found.memory) - found.memory[1] < 32
    deadline = time.monotonic() + 30
    while hanging() > before and time.monotonic() < deadline:
        time.sleep(0.05)
    assert hanging() <= before


@pytest.mark.slow
def test_troubled_worlds_in_processes_that_are_killed(soak: Any) -> None:
    begin = local("soak:Troubled", {})
    elsewhere = ProcessEnvironment(soak.Troubled(), begin, 4, soak.CALL_SECONDS * 4)
    elsewhere.warm_up()
    try:
        found = asyncio.run(soak.soak(elsewhere, 96, 64, kill=16))
    finally:
        elsewhere.close()
    assert found.ended.total() == 96 and set(found.ended) <= ENDS
    assert found.ended["done"] > 0 and found.replaced > 0
