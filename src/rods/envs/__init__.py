"""Tool environments: adapters of the protocols in `rods.env`, one folder or file each.

Owns their short names; one is imported when it is asked for.

    environment = make_environment("bfcl")
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from rods.env import Environment, load_environment
from rods.registry import Registry

ENVIRONMENTS = Registry(
    "env.name",
    "environment",
    {
        "bfcl": "rods.envs.bfcl.world:BfclEnvironment",
        "python_tool": "rods.envs.python_tool:PythonToolEnvironment",
        "search": "rods.envs.search.environment:SearchEnvironment",
        "remote": "rods.envs.elsewhere.remote:RemoteEnvironment",
    },
)


def make_environment(name: str, arguments: Mapping[str, Any] | None = None) -> Environment:
    """The environment that a short name or `module:attribute` means.

    Raises:
        ConfigError: there is none of this name, or its factory does not take the arguments.
    """
    return load_environment(ENVIRONMENTS.address(name), arguments)
