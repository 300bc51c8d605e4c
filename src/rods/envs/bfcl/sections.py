"""Settings of `bfcl`.

rods check --env.bfcl.wheel bfcl_eval.whl
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
