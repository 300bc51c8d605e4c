"""Entry point of `rods`: the commands and the exit status of errors.

A user's error prints one message and exits with 2, Ctrl-C exits with 130, a bug shows its
traceback. Each command imports what it needs when it runs, so `rods --help` needs no torch.
"""

from __future__ import annotations

import logging
import os
import re
import sys
from collections.abc import Callable, Mapping, Sequence
from contextlib import redirect_stdout
from difflib import get_close_matches
from functools import partial
from inspect import signature
from itertools import chain, pairwise
from types import SimpleNamespace
from typing import Any, cast

import typer
from pydantic import ValidationError
from typer.core import TyperCommand, TyperGroup

from rods.cli.chat import chat
from rods.cli.check import check
from rods.cli.common import EXTRA, HELP, HELP_NAMES, RESULTS, require_there, say
from rods.cli.convert import convert
from rods.cli.demonstrate import demonstrate
from rods.cli.doctor import doctor
from rods.cli.evaluate import evaluate
from rods.cli.experiment import experiment
from rods.cli.export import export
from rods.cli.hosts.trl import trl
from rods.cli.hosts.verl import verl
from rods.cli.init import init
from rods.cli.inspect import inspect
from rods.cli.observe import observe
from rods.cli.report import compare, report, view
from rods.cli.serve_env import serve_env
from rods.cli.settings import places, recipes, rows_of, settings
from rods.cli.sft import sft
from rods.cli.synth import synth
from rods.cli.train import train
from rods.config import FULL, SMALL, RunConfig, keys
from rods.config.load import explained
from rods.errors import ConfigError, Interrupted, RodsError
from rods.infra.dotted import ALGORITHMS, SYNONYMS, nearest
from rods.infra.install import VERSION
from rods.registry import recipe_names

# A thread that spins while it waits can hold the core that the others need, once another process
# runs. A thread that sleeps at once wakes too late, because matrix products are short. So threads
# spin for a moment (`engines/threads.py` takes one thread on a shared machine). OpenMP reads this
# once, when torch is loaded.
os.environ.setdefault("OMP_WAIT_POLICY", "PASSIVE")
os.environ.setdefault("GOMP_SPINCOUNT", "100000")
os.environ.setdefault("KMP_BLOCKTIME", "0")
# oneDNN caches a thousand kernels by default, one for each matrix shape: several hundred MB. A
# decode step and an update repeat far fewer shapes.
os.environ.setdefault("ONEDNN_PRIMITIVE_CACHE_CAPACITY", "256")

_GROUPS: dict[str, Sequence[Callable[..., None]]] = {
    "Train": (train, recipes, settings, trl, verl, sft, experiment),
    "Evaluate and look": (evaluate, chat, view, report, compare, inspect, observe),
    "Tasks and data": (check, synth, convert, demonstrate),
    "Serve and set up": (init, export, serve_env, doctor),
}

_VERBS = {
    "eval" if verb is evaluate else verb.__name__.replace("_", "-"): verb
    for verb in chain(*_GROUPS.values())
}

KINDS = {
    **dict.fromkeys(("<int>", "<float>", "<int range>", "<float range>"), "<number>"),
    "<str>": "<text>", "<list[str]>": "<text>", "<list[Path]>": "<path>",
}  # fmt: skip
"""Typer's words for types, and ours."""


class _Program(TyperGroup):
    """Lists the commands by purpose, and suggests what is nearest to an unknown one."""

    def resolve_command(self, ctx: Any, args: list[str]) -> Any:
        """Return the command of the first word; `ConfigError` if there is none."""
        word, verbs = args[0], {name: name for name in self.commands}
        if word not in verbs and not word.startswith("-") and not ctx.resilient_parsing:
            recipes = {name: f"train --recipe {name}" for name in recipe_names()}
            known = {key: f"settings {key}" for key in keys()} | recipes | verbs
            hint = _hint(word, known, "rods ")
            raise ConfigError(f"there is no command {word!r}.{hint} `rods --help` lists them.")
        return super().resolve_command(ctx, args)

    def format_commands(self, ctx: Any, formatter: Any) -> None:
        width = max(map(len, self.commands))
        limit = formatter.width - 6 - width
        for title, verbs in _GROUPS.items():
            with formatter.section(title):
                names = [name for name, verb in _VERBS.items() if verb in verbs]
                short = [self.commands[name].get_short_help_str(limit) for name in names]
                formatter.write_dl([(n.ljust(width), s) for n, s in zip(names, short, strict=True)])


app = typer.Typer(
    name="rods",
    cls=_Program,
    help="Train tool-using agents by reinforcement learning, on tasks written during training.",
    no_args_is_help=True,
    context_settings=HELP,
    pretty_exceptions_enable=False,
    rich_markup_mode=None,
)
SURE = 0.8  # likeness from which an unknown option may be the value of another one
_OF_MODELS = ("--model", "--model.name")
SETTINGS = {*RunConfig.model_fields, *RunConfig.sections()}
"""Settings without a section, and the sections."""


def _hint(word: str, known: Mapping[str, str], start: str) -> str:
    """Return a hint at the nearest name, as the words that are typed for it; else nothing."""
    near = (hint := nearest(word, [*known])).partition("'")[2].rpartition("'")[0]
    return f" Did you mean '{start}{known[near]}'?" if near else hint


def _choices() -> dict[str, str]:
    """Return the values that only one setting has, and the words that are typed for each."""
    found: dict[str, list[str]] = {}
    for row in (row for at, kind in places() for row in rows_of(at, kind)):
        for value in re.findall(r'"(.+?)"', row["values"]):
            found.setdefault(value, []).append(f"{row['key']} {value}")
    return {value: words[0] for value, words in found.items() if len(words) == 1}


class _Verb(TyperCommand):
    """Accepts settings anywhere on the line and suggests the nearest to an unknown option.

    Settings end the context's `args`, each as one word: `--train.lr=1e-4`.
    """

    def __init__(self, *args: Any, **more: Any) -> None:
        super().__init__(*args, **more)
        for option in cast("list[Any]", self.params):
            option.display_type = partial(_plain, option.display_type, option.opts)

    def parse_args(self, ctx: Any, args: list[str]) -> list[str]:
        for before, word in pairwise(["", *args]):
            if not word and (before in _OF_MODELS or not before.startswith("-")):
                what = f"{before} is empty." if before in _OF_MODELS else "An argument is empty."
                raise ConfigError(f"{what} Leave it out, or give a folder or a name.")
        try:
            return self._parsed(ctx, args)
        except typer.BadParameter as error:
            if error.param is None or not isinstance(error.__cause__, ValidationError):
                raise
            option = error.param.opts[-1]
            raise ConfigError("\n".join(explained(error.__cause__, option))) from error

    def invoke(self, ctx: Any) -> Any:
        """Run the command; with `--json`, standard output holds nothing but the results."""
        if asked := require_there(ctx.args, ctx.params):
            say(asked)
        if not ctx.params.get("as_json"):
            return super().invoke(ctx)
        token = RESULTS.set(sys.stdout)
        try:
            with redirect_stdout(sys.stderr):
                return super().invoke(ctx)
        finally:
            RESULTS.reset(token)

    def shell_complete(self, ctx: Any, incomplete: str) -> list[Any]:
        """Complete options, and the settings of a command that takes them."""
        takes = ctx.ignore_unknown_options and incomplete.startswith("--")
        names = [f"--{key}" for key in keys() if takes]
        found = [SimpleNamespace(value=n, help="") for n in names if n.startswith(incomplete)]
        return [*super().shell_complete(ctx, incomplete), *found]

    def _parsed(self, ctx: Any, args: list[str]) -> list[str]:
        if ctx.resilient_parsing or not ctx.ignore_unknown_options:
            return super().parse_args(ctx, args)
        named = ((*option.opts, *option.secondary_opts) for option in self.params)
        own = {*chain(*named), *HELP_NAMES}
        words, ours, settings = list(args), list[str](), list[str]()
        while words:
            word = words.pop(0)
            if word == "--":  # what follows are arguments, however they look
                ours += [word, *words]
                break
            name = word.partition("=")[0]
            key = name[2:].replace("-", "_")
            if not name.startswith("--") or name in own:
                ours.append(word)
            elif "." in key or key in SETTINGS:
                apart = "=" not in word and words
                settings.append(f"{word}={words.pop(0)}" if apart else word)
            else:
                values = _choices()
                for option, names in (("profile", (SMALL, FULL)), ("recipe", recipe_names())):
                    values |= {n: f"{option} {n}" for n in names if f"--{option}" in own}
                exact = {n: n for n in (*keys(), *(o[2:] for o in own if o[:2] == "--"))}
                value = word.partition("=")[2] or next(iter(words), "")
                asked = value if value.lower() in ALGORITHMS else name[2:]
                theirs = f" Did you mean '--trl.{key}'?" if ctx.info_name == "trl" else ""
                near = [*get_close_matches(asked, values, cutoff=SURE), SYNONYMS.get(asked, "")]
                close = {value: values[value] for value in near if value in values}
                hint = _hint(asked, close | exact, "--") or theirs
                if key == "out" and "--json" in own:
                    hint = " The results are printed; `--json > FILE` keeps them."
                raise ConfigError(f"there is no setting or option {name}.{hint}")
        rest = super().parse_args(ctx, ours)
        ctx.args += settings
        return rest


def _plain(usual: Callable[[Any], str], names: Sequence[str], context: object) -> str:
    words = usual(context)
    return "<path>" if "--out" in names else KINDS.get(words, words)


for _name, _verb in _VERBS.items():
    _more = EXTRA if "context" in signature(_verb).parameters else HELP
    _usage = "[RUN_OR_MODEL] " * (_verb in (evaluate, chat)) + "[OPTIONS]"
    app.command(_name, cls=_Verb, context_settings=_more, options_metavar=_usage)(_verb)


def _show_version(asked: bool) -> None:
    if asked:
        typer.echo(f"rods {VERSION}")
        raise typer.Exit


@app.callback()
def _program(
    version: bool = typer.Option(
        False, "--version", callback=_show_version, is_eager=True, help="Show the version and exit."
    ),
) -> None:
    """Options that stand before a command."""


def main() -> None:
    """Run the program."""
    # Its warnings are of sockets and processes that end with the program, as after Ctrl-C.
    logging.getLogger("asyncio").setLevel(logging.ERROR)
    try:
        app(prog_name="rods")
    except Interrupted as stop:
        say(str(stop))
        sys.exit(130)
    except KeyboardInterrupt:
        say("interrupted.")
        sys.exit(130)
    except RodsError as error:
        say(f"rods: {error}", always=True)
        sys.exit(2)


if __name__ == "__main__":
    main()
