"""`rods demonstrate`: solved tasks, or generated questions answered with a tool, for `rods sft`."""

from __future__ import annotations

import json
import time
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Annotated, Any

import typer

from rods.cli.common import Profile, Recipe, given, overrides, progress, say
from rods.config import FULL, RunConfig, load_config
from rods.errors import ConfigError, Interrupted, PolicyError, StoreError
from rods.infra.files import write_atomic
from rods.infra.interrupt import ctrl_c
from rods.trajectory import Trajectory

SEARCH = "search_r1"
SEVERAL = 0.5
Dialect = Annotated[
    str,
    typer.Option(
        help="Tasks: how calls are written; empty: as model.dialect. Questions: torl, zerotir, "
        "retool or artist: programs; search_r1: searches. [default: retool]"
    ),
]
Writers = Annotated[
    str,
    typer.Option(
        help="Tasks: writers of variants, resample or graph, with commas; one that is named "
        "twice writes twice as many. Empty: no variants."
    ),
]


def share(text: str) -> Any:
    """An option of a share, with its help."""
    return typer.Option(min=0, max=1, help=text)


def demonstrate(
    context: typer.Context,
    target: Annotated[
        Path, typer.Option("--out", help="Must be new. Tasks: .parquet; questions: JSON lines.")
    ],
    number: Annotated[int, typer.Option("--n", min=1, help="Demonstrations.")] = 2_000,
    model: Annotated[
        str, typer.Option(help="Tasks: the model that will learn, whose token ids they are.")
    ] = "",
    dialect: Dialect = "",
    writer: Writers = "",
    variants: Annotated[
        int,
        typer.Option(
            min=0, help="Tasks: number of different variants; 0: one for each conversation."
        ),
    ] = 0,
    originals: Annotated[float, share("Tasks: share of originals beside variants.")] = 0.25,
    families: Annotated[
        str, typer.Option(help="Of programs: names with commas; empty: all of ours.")
    ] = "",
    difficulties: Annotated[
        str, typer.Option(help="Levels with commas (search_r1: hops); empty: all.")
    ] = "",
    one: Annotated[float, share("Share with one program, or the necessary searches.")] = 0.6,
    several: Annotated[
        float | None,
        share(
            "Share with several programs, or one search too many [0.3]; tasks: with several calls "
            "in a step where none waits for another [0.5]."
        ),
    ] = None,
    failing: Annotated[
        float, share("Share whose first program fails, or one search too few.")
    ] = 0.05,
    useless: Annotated[float, share("Share with a program or search that does not help.")] = 0.0,
    results: Annotated[int, typer.Option(min=1, help="Documents that one search shows.")] = 3,
    seed: Annotated[int, typer.Option(min=0, help="Seed of everything random.")] = 0,
    recipe: Recipe = "rods",
    profile: Profile = FULL,
) -> None:
    """Write solved conversations or answers, for `rods sft`.

    Conversations of tasks need --model; without it, answers to generated questions.

    Tasks are those that `rods train` trains on by the same settings (--section.key VALUE); none of
    a held-out scenario is shown.
    """
    if target.exists():
        raise StoreError(f"{target}: exists. Choose another name; nothing was written.")
    asked = overrides(context.args)
    if model:
        asked += given({"model.name": model, "seed": seed, "model.dialect": dialect})
        config = load_config(recipe, profile, asked)
        calls = SEVERAL if several is None else several
        _tasks(config, target, number, writer, (variants, originals, calls))
        return
    _require_model([*asked, *["--writer"] * bool(writer), *["--variants"] * bool(variants)])
    shares = (one, 0.3 if several is None else several, failing, useless)
    _questions(target, number, dialect or "retool", families, difficulties, shares, results, seed)


def _require_model(unread: Sequence[str]) -> None:
    if unread:
        raise ConfigError(
            f"{unread[0]}: tasks are demonstrated to a model, whose chat template and tokens they "
            "are in. Name it: --model."
        )


def _tasks(
    config: RunConfig, target: Path, number: int, writer: str, mixture: tuple[int, float, float]
) -> None:
    """Play the ground truth of the training side, and keep what is solved."""
    from rods.assemble.demonstrated import demonstrations_of
    from rods.trajectory_codec import write_parquet

    if target.suffix != ".parquet":
        raise ConfigError(f"--out {target}: conversations are trajectories; name it .parquet.")
    writers = [name.strip() for name in writer.split(",") if name.strip()]
    if mixture[0] and not writers:
        raise ConfigError(f"--variants {mixture[0]}: name what makes them: --writer.")
    made, template = demonstrations_of(config, writers, *mixture)
    started, count = time.monotonic(), 0

    with progress("demonstrations", number) as show, ctrl_c() as stopped:

        def shown() -> Iterator[Trajectory]:
            nonlocal count
            for count, trajectory in enumerate(made.solved(number), 1):
                yield trajectory
                rate = 60 * count / max(time.monotonic() - started, 1e-9)
                left = sum(made.left_out.values())
                show(count, f"{rate:,.0f} a minute; {left} tries left out")
                if stopped():
                    return

        write_parquet(target, shown(), template)
    for reason, times in made.left_out.most_common(5):
        say(f"left out: {times} {reason}")
    if not count:
        target.unlink()
        raise PolicyError(
            f"no ground truth was played to its end in {made.left_out.total()} tries. Raise the "
            "budgets (--rollout.context_tokens, --rollout.generated_tokens, "
            "--rollout.steps_per_turn), or look with rods check."
        )
    say(f"{count} demonstrations in {target}")
    if stopped() and count < number:
        raise Interrupted(f"stopped after {count} of {number}; the file is whole.")


def _questions(
    target: Path,
    number: int,
    dialect: str,
    families: str,
    difficulties: str,
    shares: tuple[float, float, float, float],
    results: int,
    seed: int,
) -> None:
    """Generated questions; the rest of the shares are direct answers."""
    from rods.envs.questions.families import FAMILIES
    from rods.policies.demonstrations import DIALECTS, Mixture, ProgramPlan, demonstrations
    from rods.policies.searches import BundledWorld, SearchPlan, search_demonstrations

    if dialect not in (*DIALECTS, SEARCH):
        names = ", ".join((*DIALECTS, SEARCH))
        raise ConfigError(
            f"--dialect {dialect!r}: expected one of {names}; to show tasks, name a --model."
        )
    if sum(shares) > 1:
        raise ConfigError("--one, --several, --failing and --useless add up to more than 1.")
    if families and dialect == SEARCH:
        raise ConfigError(f"--families {families!r}: search questions have none; leave it out.")
    try:
        levels = tuple(int(word) for word in difficulties.split(",") if word)
    except ValueError as error:
        raise ConfigError(f"--difficulties {difficulties!r}: expected 1,2,3 or so.") from error
    mixture = Mixture(*shares)
    if dialect == SEARCH:
        searches = SearchPlan(levels, mixture) if levels else SearchPlan(mixture=mixture)
        made = search_demonstrations(BundledWorld(results), searches, seed, range(number))
    else:
        names = tuple(families.split(",")) if families else tuple(FAMILIES)
        made = demonstrations(
            ProgramPlan((dialect,), names, levels or (1, 2, 3, 4, 5), mixture), seed, range(number)
        )
    rows = [{"task_id": row.task_id, "pieces": row.pieces} for row in made]
    write_atomic(target, "".join(json.dumps(row) + "\n" for row in rows))
    say(f"{len(rows)} demonstrations in {target}")
