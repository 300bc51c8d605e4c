"""verl's modes for our schedules: whether rollouts go ahead of the updates.

Owns what `rollout.schedule` becomes. `synchronous` is refused in `checks.py`.

    of_schedule(config)[MODE]                       # "sync", or "colocate_async"
"""

from __future__ import annotations

from rods.config import RunConfig

MODE = "trainer.v1.trainer_mode"
SYNC, COLOCATED, SEPARATE = "sync", "colocate_async", "separate_async"
"""Everything in turn; rollouts that go on under new weights, on the GPUs that train; on others."""


def of_schedule(config: RunConfig) -> dict[str, object]:
    """verl's names and the values that `rollout.schedule` gives them."""
    rollout = config.rollout
    ahead = rollout.pipeline.staleness if rollout.schedule == "pipelined" else 0
    if not ahead:
        return {MODE: SYNC}
    return {
        MODE: COLOCATED,
        f"trainer.v1.{COLOCATED}.num_warmup_batches": ahead,
        f"trainer.v1.{SEPARATE}.num_warmup_batches": ahead,
        f"trainer.v1.{SEPARATE}.parameter_sync_step": 1,
        # verl counts the versions from a group's start to its update, both included.
        "trainer.v1.sampler.max_off_policy_threshold": ahead + 1,
        "trainer.v1.sampler.max_off_policy_strategy": "wait",
    }
