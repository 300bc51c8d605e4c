"""`rods demonstrate`: write solved tasks, or generated questions with answers, for `rods sft`."""

from __future__ import annotations

import json
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Annotated, Any

import typer

from rods.cli import common
from rods.config import RunConfig, load_config
from rods.errors import ConfigError, Interrupted, PolicyError
from rods.infra.claims import claimed
from rods.infra.dotted import not_among
from rods.infra.files import write_atomic
from rods.infra.interrupt import ctrl_c
from rods.infra.text import counted
from rods.trajectory import Trajectory
from rods.trajectory_codec import write_parquet

SEARCH = "search_r1"
Dialect = Annotated[
    str,
    typer.Option(
        help="Syntax of calls. Tasks: [default: model.dialect]. Questions: torl, zerotir, retool "
        "or artist write programs, search_r1 writes searches. [default: retool]"
    ),
]
Writers = Annotated[
    str,
    typer.Option(
        help="Tasks: writers of variants, such as resample,graph; naming one twice doubles its "
        "share. Empty: no variants."
    ),
]

OF_TASKS = ("writer", "variants", "originals", "parallel", "recipe", "profile")
OF_QUESTIONS = ("families", "difficulties", "needed", "extra", "failing", "useless", "results")
"""Parameters that only the one or the other reads."""


def share(text: str) -> Any:
    """Make an option for a share from 0 to 1."""
    return typer.Option(min=0, max=1, help=text)


def demonstrate(
    context: typer.Context,
    target: Annotated[
        Path, typer.Option("--out", help="New file: .parquet for tasks, JSON lines for questions.")
    ],
    number: Annotated[int, typer.Option("--n", min=1, help="Number to write.")] = 2_000,
    model: Annotated[
        str, typer.Option(help="Tasks: the model to train; its tokenizer gives the token ids.")
    ] = "",
    dialect: Dialect = "",
    writer: Writers = "",
    variants: Annotated[
        int, typer.Option(min=0, help="Tasks: number of variants; 0: one for each conversation.")
    ] = 0,
    originals: Annotated[float, share("Tasks: share of originals among variants.")] = 0.25,
    parallel: Annotated[float, share("Tasks: share with independent calls in one step.")] = 0.5,
    families: Annotated[
        str, typer.Option(help="Programs: families of questions, a,b; empty: all built-in ones.")
    ] = "",
    difficulties: Annotated[
        str, typer.Option(help="Difficulty levels, 1,2 (search_r1: hops); empty: all.")
    ] = "",
    needed: Annotated[float, share("Questions: share with only what is needed.")] = 0.6,
    extra: Annotated[
        float, share("Questions: share with more programs or searches than needed.")
    ] = 0.3,
    failing: Annotated[
        float, share("Questions: share with a failing program, or a search too few.")
    ] = 0.05,
    useless: Annotated[float, share("Questions: share with a useless program or search.")] = 0.0,
    results: Annotated[int, typer.Option(min=1, help="Questions: documents per search.")] = 3,
    seed: Annotated[int, typer.Option(min=0, help="Seed of everything random.")] = 0,
    recipe: common.Recipe = "rods",
    profile: Annotated[str, common.profile_option("full")] = "",
    as_json: common.AsJson = False,
) -> None:
    """Write solved conversations or answers, for `rods sft`.

    With --model, it writes conversations of tasks. Without it, answers to generated questions.

    The tasks are those of `rods train` with the same settings (--section.key VALUE). No task of a
    held-out scenario is written.
    """
    context.with_resource(claimed(target))
    asked = common.overrides(context.args)
    unread = common.named_options(context, OF_QUESTIONS if model else OF_TASKS)
    if model:
        if unread:
            raise ConfigError(
                f"{', '.join(unread)}: no effect with --model, which writes conversations of "
                "tasks and no questions. Leave one of them out."
            )
        own = {"model.name": model, "seed": seed, "model.dialect": dialect}
        asked += common.given(own, asked)
        config = load_config(recipe, common.profile_for(profile, asked), asked)
        _tasks(config, target, number, writer, (variants, originals, parallel))
        return
    if unread := [*asked, *unread]:
        raise ConfigError(
            f"{unread[0]}: conversations of tasks need a chat template and a tokenizer. Name the "
            "model: --model."
        )
    shares = (needed, extra, failing, useless)
    if dialect != SEARCH and common.named_options(context, ["results"]):
        raise ConfigError(f"--results has no effect without --dialect {SEARCH}. Leave it out.")
    how = dialect or "retool"
    count = _questions(target, number, how, families, difficulties, shares, results, seed)
    common.print_results({"out": target, "demonstrations": count})
    common.say(f"{counted(count, 'demonstration')} in {target}")


def _tasks(
    config: RunConfig, target: Path, number: int, writer: str, mixture: tuple[int, float, float]
) -> None:
    """Roll out the ground truth of the training split, and write the solved trajectories."""
    from rods.assemble.tasks import demonstrations_of

    if target.suffix != ".parquet":
        raise ConfigError(f"--out {target}: expected .parquet, the form of conversations.")
    writers = [name.strip() for name in writer.split(",") if name.strip()]
    if mixture[0] and not writers:
        raise ConfigError(f"--variants {mixture[0]} needs a writer. Add --writer NAME.")
    made, template = demonstrations_of(config, writers, *mixture)
    started, count = time.monotonic(), 0

    with common.progress("demonstrations", number) as show, ctrl_c() as stopped:

        def shown() -> Iterator[Trajectory]:
            nonlocal count
            for count, trajectory in enumerate(made.solved(number), 1):
                yield trajectory
                rate = 60 * count / max(time.monotonic() - started, 1e-9)
                left = sum(made.left_out.values())
                show(count, f"{rate:,.0f} a minute; {counted(left, 'try')} left out")
                if stopped():
                    return

        write_parquet(target, shown(), template)
    for reason, times in made.left_out.most_common(5):
        common.say(f"left out: {times} {reason}")
    if not count:
        target.unlink()
        raise PolicyError(
            f"no ground truth was completed in {counted(made.left_out.total(), 'try')}. Raise the "
            "budgets (--rollout.context_tokens, --rollout.generated_tokens, "
            "--rollout.steps_per_turn), or find the fault with rods check."
        )
    common.print_results({"out": target, "demonstrations": count, "left_out": made.left_out})
    common.say(f"{counted(count, 'demonstration')} in {target}")
    if stopped() and count < number:
        raise Interrupted(f"stopped after {count} of {number}; the file is complete.")


def _questions(
    target: Path,
    number: int,
    dialect: str,
    families: str,
    difficulties: str,
    shares: tuple[float, float, float, float],
    results: int,
    seed: int,
) -> int:
    """Write answers to generated questions; the rest of the shares are direct answers."""
    from rods.envs.questions.families import FAMILIES
    from rods.policies.demonstrations import DIALECTS, Mixture, ProgramPlan, demonstrations
    from rods.policies.searches import SearchPlan, SearchQuestions, search_demonstrations

    if dialect not in (*DIALECTS, SEARCH):
        known = not_among("--dialect", dialect, (*DIALECTS, SEARCH))
        raise ConfigError(f"{known} For tasks, name a --model.")
    if sum(shares) > 1:
        raise ConfigError("--needed, --extra, --failing and --useless add up to more than 1.")
    if families and dialect == SEARCH:
        raise ConfigError(f"--families {families!r}: search questions have none. Leave it out.")
    levels = tuple(common.numbers(difficulties, "--difficulties", int, "1,2,3"))
    mixture, which = Mixture(*shares), (seed, range(number))
    if dialect == SEARCH:
        searches = SearchPlan(levels, mixture) if levels else SearchPlan(mixture=mixture)
        made = search_demonstrations(SearchQuestions(results), searches, *which)
    else:
        names = tuple(families.split(",")) if families else tuple(FAMILIES)
        programs = ProgramPlan((dialect,), names, levels or (1, 2, 3, 4, 5), mixture)
        made = demonstrations(programs, *which)
    rows = [{"task_id": row.task_id, "pieces": row.pieces} for row in made]
    write_atomic(target, "".join(json.dumps(row) + "\n" for row in rows))
    return len(rows)
