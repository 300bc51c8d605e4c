"""Pools for tests of the sandbox; where a machine cannot lock itself, proof that it refuses to run.

A kernel without Landlock or seccomp cannot run the attacks. There `opened` checks that the pool
says so and runs nothing, and then marks the test as expected to fail, with the reason.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

import pytest

from rods.errors import PrerequisiteError
from rods.sandbox import lockdown
from rods.sandbox.execution import MIB, SandboxLimits
from rods.sandbox.pool import SandboxPool

LACKS = lockdown.missing()
LIMITS = SandboxLimits(
    seconds=20.0,
    cpu=10.0,
    memory=64 * MIB,
    output=4096,
    file=MIB,
    disk=4 * MIB,
    entries=200,
    idle=60,
)


@contextmanager
def opened(limits: SandboxLimits = LIMITS, size: int = 2, **more: object) -> Iterator[SandboxPool]:
    """A pool without packages, or the proof that there can be none."""
    settings = {"preload": (), **more}
    if LACKS:
        with pytest.raises(PrerequisiteError, match="cannot lock itself"):
            SandboxPool(size, limits, **settings)
        pytest.xfail(f"the sandbox refuses to run here: {'; '.join(LACKS)}")
    with SandboxPool(size, limits, **settings) as pool:
        yield pool
