"""Entry point of `rods`: verbs, and how errors end.

A user's error is one message and exit status 2, Ctrl-C is 130, a bug shows its traceback. Each verb
imports what it needs when it is called, so that `rods --help` is quick and needs no torch.
"""

from __future__ import annotations

import os
import sys
from inspect import signature

import typer

from rods.cli.check import check
from rods.cli.common import EXTRA, say
from rods.cli.compare import compare
from rods.cli.convert import convert
from rods.cli.demonstrate import demonstrate
from rods.cli.doctor import doctor
from rods.cli.evaluate import evaluate
from rods.cli.experiment import experiment
from rods.cli.hosts.trl import trl
from rods.cli.hosts.verl import verl
from rods.cli.inspect import inspect
from rods.cli.observe import observe
from rods.cli.pretrain import pretrain
from rods.cli.profile import profile
from rods.cli.report import report
from rods.cli.serve_env import serve_env
from rods.cli.serve_policy import serve_policy
from rods.cli.sft import sft
from rods.cli.synth import synth
from rods.cli.train import train
from rods.errors import Interrupted, RodsError

# Threads that spin while they wait for the others take the core from who they wait for, as soon as
# another process runs; threads that sleep at once are no quicker together than one alone, because
# products are short. So they spin for a moment (`engines/threads.py` takes one thread on a machine
# that is shared). OpenMP reads this once, when torch is loaded.
os.environ.setdefault("OMP_WAIT_POLICY", "PASSIVE")
os.environ.setdefault("GOMP_SPINCOUNT", "100000")
os.environ.setdefault("KMP_BLOCKTIME", "0")
# oneDNN keeps the kernels that it made for shapes of matrices, a thousand unless told, several
# hundred MB in all; a decode step and an update have not so many that come again.
os.environ.setdefault("ONEDNN_PRIMITIVE_CACHE_CAPACITY", "256")

app = typer.Typer(
    name="rods",
    help="Train tool-using agents by reinforcement learning on tasks that follow the policy.",
    no_args_is_help=True,
    add_completion=False,
    pretty_exceptions_enable=False,
    rich_markup_mode=None,
)
_VERBS = {
    "train": train,
    "trl": trl,
    "verl": verl,
    "eval": evaluate,
    "check": check,
    "synth": synth,
    "inspect": inspect,
    "observe": observe,
    "profile": profile,
    "report": report,
    "compare": compare,
    "experiment": experiment,
    "convert": convert,
    "demonstrate": demonstrate,
    "sft": sft,
    "pretrain": pretrain,
    "serve-env": serve_env,
    "serve-policy": serve_policy,
    "doctor": doctor,
}
for _name, _verb in _VERBS.items():
    _more = EXTRA if "context" in signature(_verb).parameters else None
    app.command(_name, context_settings=_more)(_verb)


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
