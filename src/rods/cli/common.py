"""Options that several commands share, overrides from the command line, and output.

Results that a script may read go to standard output, everything else to standard error.
"""

from __future__ import annotations

import json
import math
import os
import re
from collections.abc import Callable, Generator, Iterable, Mapping, Sequence
from contextlib import contextmanager, nullcontext
from contextvars import ContextVar
from pathlib import Path
from typing import Annotated, Any, TextIO, TypeVar

import typer
from pydantic_core import to_json
from rich.console import Console, RenderableType
from rich.progress import BarColumn, Progress, TaskProgressColumn, TimeRemainingColumn

from rods.config import FULL, SMALL, keys, profile_name
from rods.config.base import one_or_many
from rods.config.bundled import PACKAGED, is_missing_path, local_path, require_name
from rods.config.load import no_setting
from rods.errors import ConfigError, TaskError
from rods.infra.dotted import flat, merge, nearest, override, within
from rods.infra.shards import HUB
from rods.infra.text import wrapped
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
    "stages.N.reward": "rods.rewards:REWARDS", "synthesis.writer": "rods.writers:WRITERS",
    "track.names": "rods.integrations.trackers:TRACKERS",
    "train.filter": "rods.rewards.filters:FILTERS", "engine.name": "rods.engines:ENGINES",
}  # fmt: skip
READS = {
    "sft": (
        "model.lora_rank", "model.device", "model.dtype", "model.threads",
        "train.lr", "train.schedule", "train.local.microbatch_tokens",
    ),
    **dict.fromkeys(("convert", "serve-env", "view"), ("env",)),
    "check": ("env", "evaluation.files"), "observe": ("boundary",),
}  # fmt: skip
"""The settings or sections of commands that do not read all."""
FILES = ("env.tasks", "evaluation.files", "static.variants")
AUTO = "auto"  # no engine's name: which one fits is decided by the model


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
Source = Annotated[
    str,
    typer.Argument(
        metavar="RUN_OR_MODEL",
        help="Folder or name of a run (its last checkpoint), a checkpoint, a model or adapters.",
    ),
]
Policy = Annotated[str, typer.Option(help="Another spelling of RUN_OR_MODEL.")]
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
WriterUrl = Annotated[str, typer.Option(help="Chat server: synthesis.llm.url.")]
WriterModel = Annotated[str, typer.Option(help="Its model: synthesis.llm.model.")]
TaskKey = Annotated[str, typer.Option(help="Log's column of task ids. [default: detected]")]
RewardKey = Annotated[str, typer.Option(help="Log's column of rewards. [default: detected]")]
Categories = Annotated[str, typer.Option(help="Only tasks of these categories: a,b")]
Dialect = Annotated[str, typer.Option(help="Syntax of tool calls (model.dialect).")]
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
    """Print a text on standard error; of several processes (`torchrun`), the first one does.

    `always`: each of them does, as with its error, which stays on one line of a log.
    """
    if always or os.environ.get("RANK", "0") == "0":
        shown = Console(stderr=True, soft_wrap=True, highlight=False, markup=False, emoji=False)
        shown.print(text if always or shown.is_terminal else wrapped(text))


def of_categories(names: str, *splits: Sequence[Task], kind: str = "task") -> list[list[Task]]:
    """Return the tasks of some categories, or all; `ConfigError` for one without a task."""
    wanted = {name.strip() for name in names.split(",") if name.strip()}
    there = {task.category for tasks in splits for task in tasks}
    if wanted - there:
        odd, known = (", ".join(sorted(some)) for some in (wanted - there, there))
        hints = "".join(nearest(name, there) for name in sorted(wanted - there))
        what = f"there is no {kind} of {odd}; expected some of {known}.{hints}"
        raise ConfigError(f"--categories: {what}")
    return [[task for task in tasks if task.category in (wanted or there)] for tasks in splits]


Number = TypeVar("Number", int, float)


def numbers(
    text: str, option: str, kind: type[Number], example: str, pair: bool = False
) -> list[Number]:
    """Return the numbers between the commas of an option; of a `pair`, exactly two.

    Raises `ConfigError` for one that is missing or not finite.
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

    Yields a function that takes the number done, a note, and the total if that was not known.
    """
    columns = ("{task.description}", BarColumn(), TaskProgressColumn(), TimeRemainingColumn())
    console = Console(stderr=True, emoji=False)
    # Rich forgets a step after 30 s: it would never know the time left where each takes longer.
    bar = Progress(*columns, "{task.fields[note]}", console=console, speed_estimate_period=math.inf)
    bar.disable = plain = not console.is_terminal
    with bar, waiting(what) if plain else nullcontext(str) as begin:
        line = bar.add_task(what, total=total, note="")
        bar.update(line, completed=done)

        def show(done: float, note: str = "", total: float | None = total) -> None:
            bar.update(line, completed=done, total=total, note=note)
            seconds = bar.tasks[line].time_remaining
            left = f"{seconds / 60:.0f} min left; " if seconds else ""  # 0: all is done
            left = "less than a minute left; " if seconds and seconds < 60 else left
            text = f"{what}: {done:,.0f} of {total or 0:,.0f}; {left}{note}".removesuffix("; ")
            begin(text)
            if plain and done == total:
                say(text)

        yield show


def overrides(args: Sequence[str], model: str = "", dialect: str = "") -> list[str]:
    """Return `--train.lr=1e-4` as `train.lr=1e-4`, options last; `ConfigError` for other words."""
    found: list[str] = []
    for word in args:
        if not word.startswith("--"):
            near = f" Did you mean '--recipe {word}'?" if word.endswith(".toml") else ""
            near = near or nearest(word.partition("=")[0], (), anywhere=True)
            near = near or " Options have two dashes; --help lists them."
            raise ConfigError(f"argument {word!r}: expected --section.key value.{near}")
        key, equals, value = word[2:].partition("=")
        name = key.replace("-", "_")
        if not equals:
            known = within(name, (*keys(), "stages"))
            if not known:
                raise ConfigError(no_setting(name))
            how = f"`rods settings {name}` lists what it takes"
            raise ConfigError(f"option {word}: a value is missing. Give one: {how}.")
        found.append(f"{name}={value}")
    return found + given({"model.name": model, "model.dialect": dialect}, found)


def named_options(context: typer.Context, names: Iterable[str]) -> list[str]:
    """Return the options of these parameters that are on the command line, as they are typed."""
    typed = {param.name: param.opts[-1] for param in context.command.params}
    sources = {name: context.get_parameter_source(name) for name in names}
    given = [name for name, source in sources.items() if source and source.name != "DEFAULT"]
    return [typed[name] if typed[name].startswith("-") else name.upper() for name in given]


def refuse_unread(context: typer.Context, names: Iterable[str], where: str) -> None:
    """Raise `ConfigError` for options of these parameters, which have no effect `where`."""
    if unread := named_options(context, names):
        raise ConfigError(f"{', '.join(unread)}: no effect {where}. Leave it out.")


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


def given(options: Mapping[str, object], asked: Sequence[str] = ()) -> list[str]:
    """Return overrides for options that stand for settings; empty and None were left out.

    Raises `ConfigError` for a setting that is also among those `asked` for.
    """
    named = {key: value for key, value in options.items() if value not in ("", None, [])}
    if twice := named.keys() & {text.partition("=")[0].strip() for text in asked}:
        key = min(twice)
        raise ConfigError(f"--{key} is given twice, since a shorter option means it. Give one.")
    return [f"{key}={json.dumps(value)}" for key, value in named.items()]


def overrides_of(args: Sequence[str], verb: str) -> list[str]:
    """Return overrides of a command, of which each must be among those that it `READS`."""
    found, known, read = overrides(args), keys(), READS[verb]
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
    """Return all overrides of a command line, `--writer` and its server included."""
    server = {"synthesis.llm.url": url, "synthesis.llm.model": model}
    found = overrides(args)
    return with_writer([*found, *given({"synthesis.writer": writer, **server}, found)])


def with_writer(asked: Sequence[str]) -> list[str]:
    """Return overrides; a writer that they name works alone, and no epoch waits for a server."""
    found = [*asked]
    values = {k.strip(): v.strip(" \"'") for k, _, v in (text.partition("=") for text in found)}
    named = values.get("synthesis.writer")
    if named and "synthesis.resample.share" not in values:
        found.append("synthesis.resample.share=0.0")
    if named and named not in LOCAL and "synthesis.drain_seconds" not in values:
        found.append("synthesis.drain_seconds=0.0")
    return found


def _of_file(given: Mapping[str, Any], asked: Mapping[str, object]) -> dict[str, Any]:
    """Return the settings of a recipe's file under its profile; none of a bundled recipe."""
    recipe = Path(given.get("recipe") or "")
    if recipe.suffix != ".toml" or not recipe.is_file():
        return {}
    usual = FULL if given.get("model") or "model.name" in asked else SMALL  # as `profile_for`
    name, data = profile_name(str(recipe), given.get("profile") or usual), read_recipe(recipe)
    merge(data, data.pop("profile", {}).get(name, {}))
    return flat(data)


def _require_names(asked: Mapping[str, Any]) -> None:
    """Raise `RodsError` for a file or a registered name of these settings that is not there."""
    for key, value in asked.items():
        kind = re.sub(r"^stages\.\d+", "stages.N", key)
        if key == "track.names":
            load(key, "rods.integrations.trackers:require_known")(_texts(value))
            continue
        table = None if value == AUTO else REGISTRIES.get(kind)
        address = load(key, table).address(value, key) if table and isinstance(value, str) else ""
        file = Path(os.path.expanduser(address.rpartition(":")[0])).resolve()
        if file.suffix == ".py" and not file.is_file():
            raise ConfigError(f"{key}: {address!r} cannot be imported: there is no file {file}.")
        for name in _texts(value) if key in FILES else ():
            folder = name.rpartition(":")[0] or name  # FOLDER:SPLIT
            if not (name.startswith(HUB) or Path(name).exists() or Path(folder).is_dir()):
                raise TaskError(f"{key}: {name}: there is no such file of tasks.")


def _texts(value: object) -> list[str]:
    """Return the texts of a setting of one or many; anything else is refused with the settings."""
    listed = one_or_many(value)
    return [one for one in listed if isinstance(one, str)] if isinstance(listed, list) else []


def require_there(args: list[str], given: dict[str, Any]) -> str:
    """Return a note on a model that only a hub can have; raise `RodsError` for a missing name."""
    data: dict[str, Any] = {}
    for key, equals, value in (word[2:].partition("=") for word in args if word[:2] == "--"):
        if equals and "." in key:
            override(data, f"{key.replace('-', '_')}={value}")
    asked = flat(data)
    _require_names(_of_file(given, asked) | {"track.names": given.get("track") or []} | asked)
    several = "," if "originals" in given else None  # in `rods demonstrate` alone
    for name in filter(None, (given.get("writer") or "").split(several)):
        _require_names({"synthesis.writer": name})
    _require_names({"model.dialect": given.get("dialect") or None})
    place = given.get("source") or ""
    if place[:1] in (*"-\u2013\u2014",) or ("=" in place and not local_path(place).exists()):
        overrides([place])  # raises: it is meant for an option
    model = asked.get("model.name") or given.get("model") or place
    if not isinstance(model, str) or model in ("", PACKAGED) or model[-5:] == ".gguf":
        return ""
    if local_path(model).is_dir():
        return ""
    if model != place or local_path(model).is_file():  # what a place may be, the command knows
        require_name(model)
    known = is_missing_path(model) or "/" not in model or given.get("trajectories")
    if known or "HF_HUB_OFFLINE" in os.environ:
        return ""
    return f"asking the model hub for {model}"
