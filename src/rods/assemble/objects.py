"""An environment and tasks that a Python program holds, as the settings that mean them.

Other processes import the environment by its name, and a resumed run reads the tasks from their
file.
"""

from __future__ import annotations

import hashlib
import json
import sys
from collections.abc import Sequence
from pathlib import Path

from rods.config import RunConfig
from rods.config.load import with_overrides
from rods.env import Environment
from rods.errors import ConfigError
from rods.infra.text import json_text
from rods.registry import LOADING
from rods.task import Task, write_tasks


def with_objects(
    config: RunConfig, environment: Environment | None, tasks: Sequence[Task] | None
) -> RunConfig:
    """Return settings that mean these objects.

    Args:
        config: settings; an object replaces what they say in `env.name` or `env.tasks`.
        environment: the value of a name at the top of a module or script.
        tasks: original tasks; a file in `runs`, named after its content, keeps them.

    Raises:
        ConfigError: no module has the environment, or this call is part of what another process
            imports to get it.
    """
    words: list[str] = []
    if environment is not None:
        words.append(f"env.name={json.dumps(_address(environment))}")
    if tasks is not None:
        text = "".join(json_text(task.to_json()) for task in tasks)
        path = Path("runs") / f"tasks-{hashlib.sha256(text.encode()).hexdigest()[:12]}.jsonl"
        path.parent.mkdir(exist_ok=True)
        write_tasks(path, tasks)
        words.append(f"env.tasks={json.dumps([str(path)])}")
    return with_overrides(config, words) if words else config


def _address(environment: Environment) -> str:
    """`FILE.py:attribute`, or `module:attribute` of what is in a package or a notebook."""
    for name, module in list(sys.modules.items()):
        for attribute, value in list(getattr(module, "__dict__", {}).items()):
            if value is not environment:
                continue
            file = getattr(module, "__file__", None)
            if name in LOADING:
                raise ConfigError(
                    f"{file} calls rods while another process imports it for its environment. "
                    'Put the call under: if __name__ == "__main__":'
                )
            where = name if "." in name or not file else Path(file).resolve()
            return f"{where}:{attribute}"
    raise ConfigError(
        f"environment: this {type(environment).__name__} is not at the top of a module, so other "
        "processes cannot import it. Assign it to a name there."
    )
