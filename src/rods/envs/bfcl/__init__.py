"""The BFCL multi-turn benchmark: 800 tasks over eight stateful API classes.

Owns the way from the benchmark's wheel to tasks, worlds and verdicts. Never copies the benchmark's
code, never evaluates text, never keeps state outside of a world.

    tasks = load_tasks()                      # rods.envs.bfcl.tasks
    world = BfclEnvironment().open(tasks[0])  # rods.envs.bfcl.world
"""

from typing import Literal

from rods.config.base import Settings


class BfclSettings(Settings):
    """The benchmark, `env.name = "bfcl"`."""

    wheel: str = ""
    """Path of the benchmark's wheel; empty: an installed package, or the package index."""
    split: Literal["grouped", "paper", "tuning"] = "grouped"
    """`grouped`: by scenario, leak-free. `paper`: half of each category at random (leaks).
    `tuning`: a fifth of the training scenarios replaces the held-out split, so that settings can
    be chosen without it."""

    places = ("wheel",)


SECTIONS = {"bfcl": BfclSettings}
