"""Entry point of `rods`: verbs, and how errors end.

A user's error is one message and exit status 2, Ctrl-C is 130, a bug shows its traceback. Each verb
imports what it needs when it is called, so that `rods --help` is quick and needs no torch.
"""

from __future__ import annotations

import os
import sys

import typer

from rods.cli import (
    check,
    compare,
    demonstrate,
    doctor,
    evaluate,
    experiment,
    inspect,
    pretrain,
    profile,
    report,
    sft,
    synth,
    train,
)
from rods.cli.common import say
from rods.errors import Interrupted, RodsError

# Threads that spin while they wait for the others take the core from who they wait for, as soon as
# another process runs. OpenMP reads this once, when torch is loaded.
os.environ.setdefault("OMP_WAIT_POLICY", "PASSIVE")
os.environ.setdefault("KMP_BLOCKTIME", "0")

app = typer.Typer(
    name="rods",
    help="Train tool-using agents by reinforcement learning on tasks that follow the policy.",
    no_args_is_help=True,
    add_completion=False,
    pretty_exceptions_enable=False,
    rich_markup_mode=None,
)
for _verb in (
    train,
    evaluate,
    check,
    synth,
    inspect,
    profile,
    report,
    compare,
    experiment,
    demonstrate,
    sft,
    pretrain,
    doctor,
):
    _verb.add(app)


def main() -> None:
    """Run the program."""
    try:
        app()
    except Interrupted as stop:
        say(str(stop))
        sys.exit(130)
    except KeyboardInterrupt:
        say("interrupted.")
        sys.exit(130)
    except RodsError as error:
        say(f"rods: {error}")
        sys.exit(2)


if __name__ == "__main__":
    main()
