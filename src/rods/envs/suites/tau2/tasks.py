"""Reading of retail tasks: what the customer wants, what is judged, and of which split it is.

Owns the form of a checkout's `tasks.json`, `split_tasks.json` and `policy.md`, and what both sides
of the conversation are told. Never judges.

    tasks = read_retail(Path("tau2-bench/data/tau2/domains/retail"))
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from textwrap import indent
from typing import Any, cast

from rods.envs.suites.tau2.world import GREETING
from rods.errors import TaskError
from rods.infra.files import text_of
from rods.infra.rows import field, file_rows
from rods.task import Provenance, Task, Turn
from rods.types import Json

NAME = "tau2-retail"
BASES = ("DB", "COMMUNICATE", "NL_ASSERTION", "ACTION")
DEFAULT = ("DB", "COMMUNICATE")
INSTRUCTIONS = (
    "You serve the customers of a shop. Follow the policy below. Each of your messages either "
    "speaks to the customer or calls a function, never both; be helpful within the policy."
)
_PARTS = (
    ("domain", "Domain: {}"),
    ("reason_for_call", "Reason for call:\n{}"),
    ("known_info", "Known info:\n{}"),
    ("unknown_info", "Unknown info:\n{}"),
    ("task_instructions", "Task instructions:\n{}"),
)
"""Parts of a scenario in the order in which the customer reads them."""


def read_retail(folder: Path) -> list[Task]:
    """All tasks of the split `base`.

    Raises:
        TaskError: a file is missing or broken; the message names file, row and key.
    """
    policy = text_of(folder / "policy.md", "a policy", TaskError)
    guide = folder.absolute().parents[1] / "user_simulator" / "simulation_guidelines.md"
    told = text_of(guide, "instructions of who plays the user", TaskError)
    told = told.replace("<PERSONA_GUIDELINES>", "")
    sides = _sides(folder / "split_tasks.json")
    opening = (
        f"<instructions>\n{INSTRUCTIONS}\n</instructions>\n<policy>\n{policy}\n</policy>\n\n"
        f"You have greeted the customer: {GREETING}\nThe customer says:"
    )
    path = folder / "tasks.json"
    made: list[Task] = []
    for number, row in file_rows(path, "retail tasks", TaskError):
        where = f"{path}, row {number}"
        name = field(row, "id", str, where, TaskError)
        if name in sides:
            made.append(_task(row, name, where, sides[name], opening, told))
    if not made:
        raise TaskError(f"{path}: it has none of the tasks of the split base.")
    return made


def _sides(path: Path) -> dict[str, str]:
    """Train or test of each task of the split base."""
    try:
        found = json.loads(text_of(path, "the split of the tasks", TaskError))
    except ValueError as error:
        raise TaskError(f"{path}: not JSON: {error}.") from error
    parts = {
        key: field(found, key, list, str(path), TaskError) for key in ("base", "train", "test")
    }
    sides = {name: side for side in ("train", "test") for name in cast("list[str]", parts[side])}
    for name in cast("list[str]", parts["base"]):
        if name not in sides:
            raise TaskError(f"{path}: task {name!r} of base is neither in train nor in test.")
    return {name: sides[name] for name in cast("list[str]", parts["base"])}


def _task(row: Any, name: str, where: str, side: str, opening: str, told: str) -> Task:
    if row.get("initial_state") is not None:
        raise TaskError(
            f"{where}: initial_state: expected null; conversations that begin in the middle are "
            "not played here (the released retail tasks have none)."
        )
    scenario = field(row, "user_scenario", dict, where, TaskError)
    judged = field(row, "evaluation_criteria", dict, where, TaskError)
    basis = cast("list[str]", judged.get("reward_basis") or list(DEFAULT))
    unknown = [one for one in basis if one not in BASES]
    if unknown or judged.get("env_assertions"):
        raise TaskError(
            f"{where}: reward_basis: expected some of {', '.join(BASES)}, got "
            f"{(unknown or ['env_assertions'])[0]!r}; the shop has nothing else to be judged by."
        )
    world: dict[str, Json] = {
        "customer": f"{told}\n\n<scenario>\n{scenario_text(scenario, where)}\n</scenario>",
        "actions": _actions(judged, where),
        "communicate": _texts(judged, "communicate_info", where),
        "assertions": _texts(judged, "nl_assertions", where),
        "basis": list[Json](basis),
        "entry": name,
    }
    words = "words" if world["assertions"] and "NL_ASSERTION" in basis else "state"
    origin = Provenance(f"retail {name}", f"retail-{name}")
    return Task(NAME, f"{side}_{words}", (Turn(opening),), world, origin)


def _actions(judged: Mapping[str, Any], where: str) -> Json:
    """Calls with `name`, `arguments`, `requestor` and `compare_args`; None where none are given."""
    if judged.get("actions") is None:
        return None
    made: list[Json] = []
    for action in cast("list[Any]", field(judged, "actions", list, where, TaskError)):
        inside = f"{where}: actions"
        compared = action.get("compare_args") if isinstance(action, dict) else None
        made.append(
            {
                "name": field(action, "name", str, inside, TaskError),
                "arguments": field(action, "arguments", dict, inside, TaskError),
                "requestor": cast("Any", action).get("requestor", "assistant"),
                "compare_args": cast("Json", compared),
            }
        )
    return made


def _texts(judged: Mapping[str, Any], key: str, where: str) -> list[Json]:
    if judged.get(key) is None:
        return []
    found = cast("list[Json]", field(judged, key, list, where, TaskError))
    if not all(isinstance(one, str) for one in found):
        raise TaskError(f"{where}: {key}: expected a list of texts, got {found!r:.60}.")
    return found


def scenario_text(scenario: Mapping[str, Any], where: str) -> str:
    """What the customer reads of the task, as the released simulator writes it.

    Raises:
        TaskError: a part is missing.
    """
    lines: list[str] = []
    if scenario.get("persona") is not None:
        lines += ["Persona:", indent(str(scenario["persona"]), "\t")]
    given = scenario.get("instructions")
    if not isinstance(given, str):
        inside = f"{where}: user_scenario"
        parts = field(scenario, "instructions", dict, inside, TaskError)
        for needed in ("domain", "reason_for_call", "task_instructions"):
            field(parts, needed, str, f"{inside}.instructions", TaskError)
        told = [(key, form, parts.get(key)) for key, form in _PARTS]
        given = "\n".join(
            form.format(text if key == "domain" else indent(str(text), "\t"))
            for key, form, text in told
            if text is not None
        )
    return "\n".join([*lines, "Instructions:", indent(given, "\t")])
