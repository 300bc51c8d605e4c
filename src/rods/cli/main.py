"""Entry point of `rods`: the commands and the exit status of errors.

A user's error prints one message and exits with 2, Ctrl-C exits with 130, a bug shows its
traceback. Each command imports what it needs when it runs, so `rods --help` needs no torch.
"""

from __future__ import annotations

import logging
import os
import re
import sys
from collections.abc import Callable, Generator, Sequence
from contextlib import contextmanager, redirect_stdout
from functools import cache, partial
from inspect import signature
from itertools import chain, pairwise
from types import SimpleNamespace
from typing import Any, cast

import typer
from pydantic import ValidationError
from typer.core import TyperCommand, TyperGroup

from rods.cli import common
from rods.cli.chat import chat
from rods.cli.check import check
from rods.cli.common import HELP, HELP_NAMES, REGISTRIES, RESULTS, say
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
from rods.infra.dotted import ELSEWHERE, UNREAD, nearest, nearest_setting, within
from rods.infra.install import VERSION
from rods.registry import load, recipe_names

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
        word, verbs = args[0], {name: f"rods {name}" for name in self.commands}
        if word not in verbs and not word.startswith("-") and not ctx.resilient_parsing:
            known = {key: f"rods settings {key}" for key in keys()} | verbs
            with _hinting(ctx):
                hint = nearest(word, known, anywhere=True)
            raise ConfigError(f"there is no command {word!r}.{hint} `rods --help` lists them.")
        return super().resolve_command(ctx, args)

    def parse_args(self, ctx: Any, args: list[str]) -> list[str]:
        """Read the options before the command; raises `ConfigError` for an unknown one."""
        with _hinting(ctx):
            return super().parse_args(ctx, args)

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
    help="Train tool-using agents by reinforcement learning, on tasks written during training.\n\n"
    "Begin with: rods train --recipe torl",
    no_args_is_help=True,
    context_settings=HELP,
    pretty_exceptions_enable=False,
    rich_markup_mode=None,
)
FAULTS = (
    (r"Option '(.+)' requires .*", r"option \1: a value is missing"),
    (r"Option '(.+)' does not take.*", r"option \1 takes no value"),
    (r"Got unexpected extra.*\((.+)\)", r"argument \1 is not expected"),
)
"""Click's words for usage errors, and ours."""
UsageError: Any = typer.BadParameter.__mro__[1]  # Typer exports only this class of it
_OF_MODELS = ("--model", "--model.name")
SETTINGS = {*RunConfig.model_fields, *RunConfig.sections()}
"""Settings without a section, and the sections."""


@cache
def _choices() -> list[tuple[str, str]]:
    """Return each setting that takes only known values, with each of its values."""
    rows = (row for at, kind in places() for row in rows_of(at, kind))
    found = [(row["key"], v) for row in rows for v in re.findall(r'"(.+?)"', row["values"])]
    found += [(key, value) for key, table in REGISTRIES.items() for value in load(key, table)]
    return [(key.replace("stages.N", "stages.0"), value) for key, value in found]


def _typed(ctx: typer.Context) -> dict[str, str]:
    """Return the options, settings and values that a command takes, each as it is typed.

    The program itself has those of `rods train`; `rods settings` takes no values.
    """
    verb: Any = ctx.command
    if root := isinstance(verb, _Program):
        verb = verb.commands["train"]
    named = chain(*((*option.opts, *option.secondary_opts) for option in verb.params))
    own = {name[2:] for name in named if name.startswith("--")}
    read = common.READS.get(verb.name, SETTINGS) if verb.context_settings != HELP else ()
    asked = verb.name == "settings"
    found: dict[str, list[str]] = {}
    for key, value in _choices():
        if asked or within(key, read):
            found.setdefault(value, []).append(key if asked else f"--{key} {value}")
    values = {value: typed[0] for value, typed in found.items() if len(typed) == 1}
    for option, names in (
        ("profile", (SMALL, FULL, *common.profiles_of("rods"))), ("recipe", recipe_names()),
    ):  # fmt: skip
        values |= {name: f"--{option} {name}" for name in names if option in own}
    values |= {key: f"--{key}" for key in (*filter(partial(within, names=read), keys()), *own)}
    return {name: f"rods train {typed}" for name, typed in values.items()} if root else values


def _unread() -> dict[str, str]:
    """Return what each value of any setting, and each recipe, is."""
    values = {value: f"a value of {key}" for key, value in reversed(_choices())}
    return values | dict.fromkeys(recipe_names(), "a recipe")


@contextmanager
def _hinting(ctx: typer.Context) -> Generator[None]:
    """Let hints name what this command takes, and put usage errors into the words of RODS."""
    token = ELSEWHERE.set(partial(_typed, ctx))
    UNREAD.set(_unread)
    try:
        yield
    except UsageError as error:
        if type(error).__name__ == "NoArgsIsHelpError":
            raise
        raise ConfigError(_in_our_words(ctx, error)) from error
    finally:
        ELSEWHERE.reset(token)


def _in_our_words(ctx: typer.Context, error: Any) -> str:
    """Return what is wrong with a command line, and what to type."""
    option, kind = getattr(error, "param", None), type(error).__name__
    if isinstance(error.__cause__, ValidationError) and option is not None:
        return "\n".join(explained(error.__cause__, option.opts[-1]))
    if kind == "NoSuchOption":
        return _no_option(ctx, error.option_name)
    named, what = getattr(error, "option_name", ""), error.format_message().rstrip(".")
    typed = {param: _as_typed(param, ctx) for param in ctx.command.params}
    always = {p for p in typed if p.required or p.param_type_name == "argument"}
    line = [text for param, text in typed.items() if param in always or named in param.opts]
    if kind == "MissingParameter" and option is not None:
        what = f"{typed[option].split()[0]} is missing ({option.help.rstrip('.')})"
    for theirs, ours in FAULTS:
        what = re.sub(theirs, ours, what)
    return f"{what}. Expected: `{' '.join([ctx.command_path, *line])}`."


def _as_typed(param: Any, ctx: typer.Context) -> str:
    if param.param_type_name == "option":
        return param.opts[-1] + f" {param.display_type(ctx)}" * (not param.is_flag)
    name = param.metavar or param.name.upper()
    return name if param.required else f"[{name}]"


def _no_option(ctx: typer.Context, name: str, value: str = "") -> str:
    """Return the sentence about an unknown option, with the nearest option, setting or value."""
    settings, own = ctx.ignore_unknown_options, ctx.command.params
    read = common.READS.get(ctx.command.name or "", SETTINGS) if settings else ()
    known = {key: f"--{key}" for key in keys() if within(key, read)}
    known |= {opt[2:]: opt for p in own for opt in p.opts if opt.startswith("--")}
    hint = nearest_setting(name, "" if value.startswith("-") else value, known)
    if not hint and ctx.info_name == "trl":
        hint = f" Did you mean '--trl.{name[2:].replace('-', '_')}'?"
    if name == "--out" and "json" in known:
        hint = " The results are printed; `--json > FILE` keeps them."
    hint = hint or f" `{ctx.command_path} --help` lists them."
    return f"there is no {'setting or ' * settings}option {name}.{hint}"


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
        with _hinting(ctx):
            return self._parsed(ctx, args)

    def invoke(self, ctx: Any) -> Any:
        """Run the command; with `--json`, standard output holds nothing but the results."""
        with _hinting(ctx):
            if asked := common.require_there(ctx.args, ctx.params):
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
                value = word.partition("=")[2] or next(iter(words), "")
                raise ConfigError(_no_option(ctx, name, value))
        rest = super().parse_args(ctx, ours)
        ctx.args += settings
        return rest


def _plain(usual: Callable[[Any], str], names: Sequence[str], context: object) -> str:
    words = usual(context)
    return "<path>" if "--out" in names else KINDS.get(words, words)


for _name, _verb in _VERBS.items():
    _more = common.EXTRA if "context" in signature(_verb).parameters else HELP
    app.command(_name, cls=_Verb, context_settings=_more)(_verb)


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
