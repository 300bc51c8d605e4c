"""Options that several commands share, overrides from the command line, and output.

Results that a script may read go to standard output, everything else to standard error.
"""

from __future__ import annotations

import json
import math
import os
from collections.abc import Callable, Generator, Mapping, Sequence
from contextlib import contextmanager, nullcontext
from contextvars import ContextVar
from pathlib import Path
from typing import Annotated, Any, TextIO, TypeVar

import typer
from pydantic_core import to_json
from rich.console import Console, RenderableType
from rich.progress import BarColumn, Progress, TaskProgressColumn, TimeRemainingColumn

from rods.config import FULL, SMALL, keys
from rods.config.bundled import ENDINGS, is_missing_path, local_path
from rods.config.load import no_setting
from rods.errors import ConfigError, PolicyError, TaskError
from rods.infra.dotted import flat, override, within
from rods.infra.shards import HUB
from rods.infra.waiting import waiting
from rods.registry import load, read_recipe, recipe_file, recipe_names
from rods.task import Task
from rods.writers import LOCAL

HELP_NAMES = ["-h", "--help"]
HELP = {"help_option_names": HELP_NAMES}
"""Typer's context settings of the program and all its commands."""
EXTRA = {**HELP, "allow_extra_args": True, "ignore_unknown_options": True}
"""Typer's context settings of commands with `--section.key value`: they have a `context`."""
REGISTRIES = {
    "env.name": "rods.envs:ENVIRONMENTS", "model.dialect": "rods.dialects:DIALECTS",
    "reward": "rods.rewards:REWARDS", "synthesis.writer": "rods.writers:WRITERS",
    "train.filter": "rods.rewards.filters:FILTERS", "engine.name": "rods.engines:ENGINES",
}  # fmt: skip
FILES = ("env.tasks", "evaluation.files", "static.variants")
AUTO = "auto"  # no engine's name: which one fits is decided by the model
PACKAGED = "smollm2"  # its home, `rods.trainers.packaged`, imports torch


def profiles_of(recipe: str) -> list[str]:
    """Return the names of a recipe's profiles; none if there is no such recipe."""
    path = Path(recipe) if recipe.endswith(".toml") else recipe_file(recipe)
    return [*read_recipe(path).get("profile", {})] if path.is_file() else []


def _profiles(context: typer.Context) -> list[str]:
    """Return what `--profile` may be, for the shell's completion."""
    return [SMALL, FULL, *profiles_of(context.params.get("recipe") or "rods")]


AsJson = Annotated[bool, typer.Option("--json", help="Print the results as JSON.")]
"""Read before the command runs (`RESULTS`); without it, `print_results` prints tables."""


def profile_option(default: str) -> Any:
    """Make `--profile`; each command states its own default."""
    text = f"small, full or another of the recipe. [default: {default}]"
    return typer.Option(help=text, autocompletion=_profiles, show_default=False)


Profile = Annotated[str, profile_option("small")]
ModelProfile = Annotated[str, profile_option("small; if you name a model: full")]
OwnProfile = Annotated[str, profile_option("small; a run or checkpoint keeps its own settings")]
Recipe = Annotated[
    str, typer.Option(help="A .toml file, or bundled: rods, torl, ...", autocompletion=recipe_names)
]
Model = Annotated[
    str, typer.Option(help="Your own model: a folder or a Hugging Face name (model.name).")
]
Memory = Annotated[
    float | None, typer.Option(help="GiB of device memory, to use or plan for. [default: all free]")
]
Resume = Annotated[
    Path | None, typer.Option(help="Continue the interrupted work at this path; give no --out.")
]
Drift = Annotated[
    bool, typer.Option("--allow-drift", help="Resume with other learning settings (train.lr, ...).")
]
Format = Annotated[
    str, typer.Option("--format", help="jsonl, datasets, verl, trl, verifiers, bfcl or envtuning.")
]
Categories = Annotated[str, typer.Option(help="Only tasks of these categories: a,b")]
PromptDialect = Annotated[
    str, typer.Option("--dialect", help="Syntax of tool calls in prompts that the format has.")
]
"""Options that several commands have."""


def out() -> Console:
    """Console of results."""
    return Console(soft_wrap=True, emoji=False)


RESULTS: ContextVar[TextIO | None] = ContextVar("RESULTS", default=None)
"""With `--json`, standard output; what anybody else prints goes to standard error then."""


def print_results(data: object, *shown: RenderableType) -> None:
    """Print results on standard output: texts and tables, with `--json` one document."""
    if json_out := RESULTS.get():
        json_out.write(to_json(data, indent=2, inf_nan_mode="null").decode() + "\n")
        return
    for one in shown:
        plain = isinstance(one, str)
        out().print(one, markup=not plain, highlight=not plain)


def say(text: str, always: bool = False) -> None:
    """Print a line on standard error; of several processes (`torchrun`), the first one does.

    `always`: each of them does, as with its error.
    """
    if always or os.environ.get("RANK", "0") == "0":
        Console(stderr=True, soft_wrap=True, highlight=False, markup=False, emoji=False).print(text)


def of_categories(names: str, *splits: Sequence[Task]) -> list[list[Task]]:
    """Return the tasks of some categories, or all; `ConfigError` for one without a task."""
    wanted = {name.strip() for name in names.split(",") if name.strip()}
    there = {task.category for tasks in splits for task in tasks}
    if wanted - there:
        odd, known = (", ".join(sorted(some)) for some in (wanted - there, there))
        raise ConfigError(f"--categories: there is no task of {odd}; expected some of {known}.")
    return [[task for task in tasks if task.category in (wanted or there)] for tasks in splits]


Number = TypeVar("Number", int, float)


def numbers(
    text: str, option: str, kind: type[Number], example: str, pair: bool = False
) -> list[Number]:
    """Return the numbers between the commas of an option; of a `pair`, exactly two.

    Raises:
        ConfigError: one is missing or is no finite number, such as `null`, `nan` or `inf`.
    """
    parts = text.split(",") if pair else [part for part in text.split(",") if part.strip()]
    try:
        found = [kind(part) for part in parts]
        finite = all(map(math.isfinite, found))
    except (ValueError, OverflowError):
        found, finite = [], False
    missing = len(found) != 2 if pair else bool(text) and not found
    if missing or not finite:
        what = "expected two numbers" if pair else "expected whole numbers"
        raise ConfigError(f"{option} {text!r}: {what}, such as {example}.")
    return found


@contextmanager
def progress(what: str, total: float | None, done: float = 0) -> Generator[Callable[..., None]]:
    """Draw a bar on standard error; without a terminal, print a line now and then (`waiting`).

    Yields:
        A function that takes the number done, a note, and the total if that was not known.
    """
    columns = ("{task.description}", BarColumn(), TaskProgressColumn(), TimeRemainingColumn())
    bar = Progress(*columns, "{task.fields[note]}", console=Console(stderr=True, emoji=False))
    plain = not bar.console.is_terminal
    with bar, waiting(what) if plain else nullcontext(str) as begin:
        line = bar.add_task(what, total=total, note="")
        bar.update(line, completed=done)

        def show(done: float, note: str = "", total: float | None = total) -> None:
            bar.update(line, completed=done, total=total, note=note)
            seconds = bar.tasks[line].time_remaining
            left = "" if seconds is None else f"{seconds / 60:.0f} min left; "
            left = "less than a minute left; " if seconds is not None and seconds < 60 else left
            text = f"{what}: {done:,.0f} of {total or 0:,.0f}; {left}{note}".removesuffix("; ")
            begin(text)
            if plain and done == total:
                say(text)

        yield show


def overrides(args: Sequence[str], model: str = "") -> list[str]:
    """Return `--train.lr=1e-4` as `train.lr=1e-4`, `model` last; `ConfigError` for other words."""
    found: list[str] = []
    for word in args:
        if not word.startswith("--"):
            near = f" Did you mean --recipe {word}?" if word.endswith(".toml") else ""
            raise ConfigError(f"argument {word!r}: expected --section.key value.{near}")
        key, equals, value = word[2:].partition("=")
        name = key.replace("-", "_")
        if not equals:
            known = within(name, (*keys(), "stages"))
            raise ConfigError(f"option {word}: a value is missing." if known else no_setting(name))
        found.append(f"{name}={value}")
    return found + given({"model.name": model})


def resumed(target: str | Path | None, resume: Path | None, drift: bool = False) -> Path | None:
    """Return where a command writes: `--resume`, or else `--out`; `ConfigError` if they differ."""
    if drift and resume is None:
        raise ConfigError("--allow-drift has no effect without --resume RUN. Add it, or leave out.")
    if target and resume and Path(target).resolve() != resume.resolve():
        raise ConfigError(f"--out {target}: {resume} resumes in its own folder. Leave out --out.")
    return resume or (Path(target) if target else None)


def profile_for(profile: str, asked: Sequence[str]) -> str:
    """Return the profile of a command line: without one, `full` if it names a model."""
    if profile or not any(text.startswith("model.name=") for text in asked):
        return profile or SMALL
    say(f"profile {FULL}, because you named a model; --profile takes another")
    return FULL


def given(options: Mapping[str, object]) -> list[str]:
    """Return overrides for options that stand for settings; empty and None were left out."""
    return [f"{key}={json.dumps(v)}" for key, v in options.items() if v not in ("", None, [])]


def overrides_of(args: Sequence[str], verb: str, *read: str) -> list[str]:
    """Return overrides of a command that reads `read` (keys or sections), else `ConfigError`."""
    found, known = overrides(args), keys()
    for text in found:
        key = text.partition("=")[0].strip()
        if not within(key, read):
            shown = ", ".join(name if name in known else f"{name}.*" for name in read)
            raise ConfigError(
                f"--{key} has no effect: rods {verb} reads only {shown} settings. "
                "Leave it out; it belongs to the command that trains or evaluates."
            )
    return found


def writer_overrides(
    args: Sequence[str], writer: str = "", url: str = "", model: str = ""
) -> list[str]:
    """Return all overrides of a command line, `--writer` and its server included.

    A named writer works without the profile's share of `resample`, and an epoch's start does not
    wait for a server.
    """
    server = {"synthesis.llm.url": url, "synthesis.llm.model": model}
    found = overrides(args) + given({"synthesis.writer": writer, **server})
    values = {k.strip(): v.strip(" \"'") for k, _, v in (text.partition("=") for text in found)}
    named = values.get("synthesis.writer")
    if named and "synthesis.resample.share" not in values:
        found.append("synthesis.resample.share=0.0")
    if named and named not in LOCAL and "synthesis.drain_seconds" not in values:
        found.append("synthesis.drain_seconds=0.0")
    return found


def _of_file(given: Mapping[str, Any]) -> dict[str, Any]:
    """Return the settings of a recipe's file and its named profile; none of a bundled recipe."""
    recipe = Path(given.get("recipe") or "")
    if recipe.suffix != ".toml" or not recipe.is_file():
        return {}
    data = read_recipe(recipe)
    profiles = data.pop("profile", {})
    chosen = profiles.get(given.get("profile")) if isinstance(profiles, dict) else {}
    return flat(data) | flat(chosen or {})


def _require_names(asked: Mapping[str, Any]) -> None:
    """Raise `RodsError` for a file or a registered name of these settings that is not there."""
    for key, value in asked.items():
        kind = "reward" if key.endswith(".reward") else key
        table = None if value == AUTO else REGISTRIES.get(kind)
        address = load(key, table).address(value) if table and isinstance(value, str) else ""
        file = Path(os.path.expanduser(address.rpartition(":")[0])).resolve()
        if file.suffix == ".py" and not file.is_file():
            raise ConfigError(f"{key}: {address!r} cannot be imported: there is no file {file}.")
        for name in ([value] if isinstance(value, str) else value) if key in FILES else ():
            folder = name.rpartition(":")[0] or name  # FOLDER:SPLIT
            if not (name.startswith(HUB) or Path(name).exists() or Path(folder).is_dir()):
                raise TaskError(f"{key}: {name}: there is no such file of tasks.")


def require_there(args: list[str], given: dict[str, Any]) -> str:
    """Return a note on a model that only a hub can have; raise `RodsError` for a missing name."""
    data: dict[str, Any] = {}
    for key, equals, value in (word[2:].partition("=") for word in args if word[:2] == "--"):
        if equals and "." in key:
            override(data, f"{key.replace('-', '_')}={value}")
    asked = flat(data)
    _require_names(_of_file(given) | asked)
    for name in (given.get("writer") or "").split(","):
        _require_names({"synthesis.writer": name} if name else {})
    takes_place = "run" in given and args and args[0][:1] not in "-\u2013\u2014"
    place = args[0] if takes_place and "=" not in args[0] else ""
    model = asked.get("model.name") or given.get("model") or place
    if not model or model == PACKAGED or local_path(model).exists() or model[-5:] == ".gguf":
        return ""
    if is_missing_path(model) and model != place:  # what a place may be, the command knows
        what = "such file" if model.endswith(ENDINGS) else "folder"
        raise PolicyError(
            f"model {model!r}: there is no {what} {model}, neither a model nor a run. Give a "
            "folder, as `rods sft DATA --out FOLDER` writes one, or a Hugging Face name."
        )
    if is_missing_path(model) or given.get("trajectories") or "HF_HUB_OFFLINE" in os.environ:
        return ""
    return f"asking the model hub for {model}"
