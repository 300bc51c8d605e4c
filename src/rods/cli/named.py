"""Refuses what a command line names and is not there, before torch is imported."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

from rods.cli.common import say
from rods.config.bundled import is_missing_path, local_path
from rods.errors import ConfigError, PolicyError, TaskError
from rods.infra.dotted import flat, override
from rods.registry import load

REGISTRIES = {
    **{"env.name": "rods.envs:ENVIRONMENTS", "model.dialect": "rods.dialects:DIALECTS"},
    **{"reward": "rods.rewards:REWARDS", "synthesis.writer": "rods.writers:WRITERS"},
}
FILES = ("env.tasks", "evaluation.files", "static.variants")
PACKAGED = "smollm2"  # its home, `rods.trainers.packaged`, imports torch


def require_there(args: list[str], given: dict[str, Any]) -> None:
    """Raise `RodsError` for a missing path or name; say which model a hub is asked for."""
    data = {"synthesis": {"writer": given["writer"]}} if given.get("writer") else dict[str, Any]()
    for key, equals, value in (word[2:].partition("=") for word in args if word[:2] == "--"):
        if equals and "." in key:
            override(data, f"{key.replace('-', '_')}={value}")
    for key, value in (asked := flat(data)).items():
        table = REGISTRIES.get("reward" if key.endswith(".reward") else key)
        address = load(key, table).address(value) if table and isinstance(value, str) else ""
        file = Path(os.path.expanduser(address.rpartition(":")[0])).resolve()
        if file.suffix == ".py" and not file.is_file():
            raise ConfigError(f"{key}: {address!r} cannot be imported: there is no file {file}.")
        for name in ([value] if isinstance(value, str) else value) if key in FILES else ():
            if not Path(name).exists():
                raise TaskError(f"{name}: there is no such file of tasks.")
    place = args[0] if args and args[0][:2] != "--" else ""
    model = asked.get("model.name") or given.get("model") or place
    if not model or model == PACKAGED or local_path(model).exists() or model[-5:] == ".gguf":
        return
    if is_missing_path(model) and model != place:  # what a place may be, the verb knows
        raise PolicyError(
            f"model {model!r}: there is no folder {model}, neither a model nor a run. Give a "
            "folder, as `rods sft DATA --out FOLDER` writes one, or a Hugging Face name."
        )
    if not (is_missing_path(model) or given.get("trajectories") or "HF_HUB_OFFLINE" in os.environ):
        say(f"asking the model hub for {model}")
