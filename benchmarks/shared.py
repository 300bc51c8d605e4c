"""What the commands of this folder share: options with a quick form, and the tests' doubles.

Importing it puts `tests/support` on the path, where stand-ins for servers, authors and worlds lie,
and `tools` with what makes the bundled policies.
"""

from __future__ import annotations

import argparse
import sys
import tempfile
from collections.abc import Generator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

ROOT = Path(__file__).parents[1]
SUPPORT = ROOT / "tests" / "support"
sys.path[:0] = [str(SUPPORT), str(ROOT / "tools")]

FEW_TOKENS = ("rollout.generated_tokens=48", "rollout.step_tokens=24")
"""What a trajectory may have where nobody reads it."""
SHORT = (
    "evaluation.tasks=1", "evaluation.variants=0", "evaluation.samples=1", "env.train_tasks=2",
    "rollout.k=2", "rollout.tasks_per_step=2", *FEW_TOKENS,
    "stages.0.tasks=2", "train.minibatch=4",
)  # fmt: skip
"""Settings over the small profile by which an update takes a second."""


@contextmanager
def short_run(updates: int = 1) -> Generator[Path]:
    """The folder of a training of some seconds, which is removed afterwards."""
    import rods

    with tempfile.TemporaryDirectory() as folder:
        settings = (f"updates={updates}", "model.threads=1", *SHORT)
        rods.train(rods.load_config("rods", "small", settings), f"{folder}/run")
        yield Path(folder) / "run"


class Options(argparse.ArgumentParser):
    """Options of a command; `--quick` puts other defaults in their place.

    A quick run takes at most some twenty seconds of one core and shows that the command works. Its
    figures mean nothing. `tests/repository/test_benchmarks.py` runs all of them.

    Args:
        about: the command's docstring; its first line is the help.
        quick: defaults of a quick run by the name of an option.
    """

    def __init__(self, about: str | None, quick: Mapping[str, Any]) -> None:
        super().__init__(description=(about or "").partition("\n")[0])
        self._quick = quick
        words = "some seconds, to see that the command works; its figures mean nothing"
        self.add_argument("--quick", action="store_true", help=words)

    def parse_known_args(self, args: Sequence[str] | None = None, namespace: Any = None) -> Any:
        """Parse with the defaults that fit; `parse_args` comes here too."""
        if "--quick" in (sys.argv[1:] if args is None else args):
            unknown = self._quick.keys() - {action.dest for action in self._actions}
            assert not unknown, f"no options, or not any more: {sorted(unknown)}"
            self.set_defaults(**self._quick)
        return super().parse_known_args(args, namespace)
