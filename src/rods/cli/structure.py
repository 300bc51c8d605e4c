"""`rods inspect --structure`: print the structure of tasks, and find a task of a file by name."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import replace
from pathlib import Path
from typing import NamedTuple

from rich.console import RenderableType
from rich.text import Text
from rich.tree import Tree

from rods.cli.common import print_results, say
from rods.env import Environment
from rods.errors import TaskError
from rods.infra.dotted import nearest
from rods.infra.files import is_table
from rods.synthesis.base import Base
from rods.synthesis.structure.profile import Profile, ablate
from rods.synthesis.structure.sources import Argument, Source
from rods.synthesis.structure.trace import TraceStep
from rods.task import Task, read_tasks
from rods.types import Json

PLACES = {
    Source.TURN: "this turn", Source.EARLIER_TURN: "earlier turn", Source.RESULT: "result of call",
    Source.DOCUMENTATION: "documentation", Source.CONFIGURATION: "initial state",
    Source.DERIVED: "derived",
}  # fmt: skip
"""Where a value can be found, as this command writes it."""
SHORTEST_PREFIX = 4  # least number of digits that name a task by the start of its id


class NumberedTask(NamedTuple):
    """A task and its line number in its file; 0: it has no file."""

    line: int
    task: Task


def show(tasks: Iterable[Task], environment: Environment) -> None:
    """Print the structure of each task, as a tree with metrics below it or as JSON."""
    plain, shown = list[Json](), list[RenderableType]()
    for task in tasks:
        base = Base(environment, task)
        traced, given = base.trace, base.arguments
        found = replace(base.profile, state=ablate(environment, task))
        plain.append(to_json(task, found))
        shown += [tree(task, traced.steps, given, found), figures(found)]
        for index, verdict in enumerate(traced.verdicts):
            if not verdict.solved:
                say(
                    f"note: task {task.id}, turn {index + 1}: the judge does not accept the task's "
                    "own ground truth."
                )
    print_results(plain, *shown)


def read_rows(path: Path) -> list[NumberedTask]:
    """Read the tasks of a file with line numbers; raises `TaskError` for an unreadable one."""
    tasks = list(read_tasks(path))
    if is_table(path) or not path.is_file():
        return [NumberedTask(number, task) for number, task in enumerate(tasks, 1)]
    lines = path.read_text(encoding="utf-8-sig").split("\n")
    numbers = [number for number, line in enumerate(lines, 1) if line.strip()]
    return [NumberedTask(number, task) for number, task in zip(numbers, tasks, strict=True)]


def find(key: str, rows: Sequence[NumberedTask], where: str) -> Task:
    """Return the task of this id, original's name, line or start of an id; else `TaskError`."""
    tasks = [row.task for row in rows]
    named = [t for t in tasks if t.provenance.origin == key]
    tries = (
        [t for t in tasks if t.id == key],
        [t for t in named if t.is_original],
        named,
        [row.task for row in rows if row.line and str(row.line) == key],
        [t for t in tasks if len(key) >= SHORTEST_PREFIX and t.id.startswith(key.lower())],
    )
    found = next((matches for matches in tries if matches), [])
    if len({t.id for t in found}) == 1:
        return found[0]
    if found:
        ids = ", ".join(t.id for t in found[:5]) + (", …" if len(found) > 5 else "")
        raise TaskError(
            f"task {key!r}: {len(found)} tasks of {where} have this name: {ids}. Give an id."
        )
    raise TaskError(_unknown(key, rows, where))


def _unknown(key: str, rows: Sequence[NumberedTask], where: str) -> str:
    names = dict.fromkeys(n for row in rows for n in (row.task.provenance.origin, row.task.id) if n)
    lines = f", or a line from 1 to {rows[-1].line}" if rows and rows[-1].line else ""
    return (
        f"task {key!r}: {where} has no such task; expected the name of an original, an id or at "
        f"least {SHORTEST_PREFIX} digits of its beginning{lines}.{nearest(key, list(names))}"
    )


def tree(
    task: Task, steps: Sequence[TraceStep], arguments: Sequence[Argument], profile: Profile
) -> Tree:
    """Draw the turns, their calls, and the arguments and dependencies of each call."""
    title = task.provenance.origin or "a task without a name"
    root = Tree(Text(f"{title} · {task.category} · id {task.id}", style="bold"))
    for index, turn in enumerate(task.turns):
        text = shorten(" ".join(turn.user.split()), 120) or "(no text)"
        branch = root.add(Text(f"turn {index + 1}: {text}"))
        if turn.withheld:
            branch.add(Text(f"withheld: {', '.join(turn.withheld)}"))
        if not turn.ground_truth:
            branch.add(Text("no call: the agent must say what is missing"))
        for number, step in enumerate(steps):
            if step.turn != index:
                continue
            mark = " · fails" if step.result.failed else ""
            leaf = branch.add(Text(f"{number + 1} {step.call.name}{mark}", style="bold"))
            given = [describe(argument) for argument in arguments if argument.step == number]
            for line in (*given, *_needs(number, profile)):
                leaf.add(Text(line))
    return root


def describe(argument: Argument, most: int = 90) -> str:
    """Return `name = value <- source`, with the value shortened to fit if possible."""
    where = PLACES[argument.source]
    path = "".join(f".{part}" for part in argument.path if part != "$call")
    if argument.feeder is not None:
        where += f" {argument.feeder + 1}"
    elif argument.source is Source.EARLIER_TURN and argument.text_turn is not None:
        where += f" {argument.text_turn + 1}"
    room = most - len(argument.name + path + where) - len(" =  ← ")
    return f"{argument.name}{path} = {shorten(repr(argument.value), max(room, 8))} ← {where}"


def shorten(text: str, most: int) -> str:
    """Cut a text to at most `most` characters; an ellipsis marks the cut."""
    return text if len(text) <= most else text[: most - 1] + "…"


def _needs(number: int, profile: Profile) -> list[str]:
    """Return lines on what a call takes from earlier calls and whether it changes the state."""
    lines: list[str] = []
    state = profile.state
    for kind, edges in (("value", profile.value_edges), ("state", state.edges if state else ())):
        producers = sorted(edge.producer for edge in edges if edge.consumer == number)
        if producers:
            named = ", ".join(f"{n + 1} {profile.functions[n]}" for n in producers)
            lines.append(f"{kind} edges from {named}")
    if state and number in state.final:
        lines.append("changes the last state")
    elif state and number in state.idle:
        lines.append("changes no state and no later result")
    return lines


def figures(profile: Profile) -> str:
    """Return the metrics of a profile, one line each."""
    sources = ", ".join(f"{PLACES[s]} {n}" for s, n in sorted(profile.arguments.items()))
    rows = (profile.calls, profile.classes, profile.references)
    calls, classes, references = (", ".join(map(str, numbers)) for numbers in rows)
    edges, all_calls = profile.value_edges, len(profile.functions)
    across = f"{len(profile.across(edges))} across turns"
    lines = [
        f"turns               {profile.turns}",
        f"calls by turn       {calls} (sum {all_calls})",
        f"classes by turn     {classes}",
        f"arguments from      {sources or 'no arguments'}",
        f"from earlier turns  {references} by turn (sum {profile.cross_turn})",
        f"value edges         {len(edges)}, {across}, depth {profile.depth}",
        f"message edges       {len(profile.message_edges)}",
    ]
    if profile.state is not None:
        edges, across = profile.state.edges, len(profile.across(profile.state.edges))
        lines += [
            f"state edges         {len(edges)}, {across} across turns, depth {profile.state_depth}",
            f"change last state   {len(profile.state.final)} of {all_calls} calls",
        ]
    return "\n".join(lines)


def to_json(task: Task, profile: Profile) -> dict[str, Json]:
    """Return the profile as JSON; edges are pairs of call numbers, or of a turn and a call."""
    data: dict[str, Json] = {
        "id": task.id, "origin": task.provenance.origin, "category": profile.category,
        "calls": list(profile.calls), "classes": list(profile.classes),
        "functions": list(profile.functions),
        "arguments": {source.value: count for source, count in profile.arguments.items()},
        "references": list(profile.references),
        "message_edges": [list(edge) for edge in sorted(profile.message_edges)],
        "value_edges": [list(edge) for edge in sorted(profile.value_edges)],
        "depth": profile.depth,
    }  # fmt: skip
    if profile.state is not None:
        data["state_edges"] = [list(edge) for edge in sorted(profile.state.edges)]
        data["state_depth"] = profile.state_depth
        data["final"] = [*sorted(profile.state.final)]
    return data
