"""Tool environments: what derives from `rods.env.Environment`, one folder or file each.

Owns their short names; one is imported when it is asked for.

    environment = make_environment("bfcl")
"""

from __future__ import annotations

from collections.abc import Mapping

from rods.env import Environment, load_environment
from rods.registry import Registry

ENVIRONMENTS = Registry(
    "env.name",
    "environment",
    {
        "bfcl": "rods.envs.bfcl.world:BfclEnvironment",
        "python_tool": "rods.envs.python_tool.environment:PythonToolEnvironment",
        "search": "rods.envs.search.environment:SearchEnvironment",
        "function_call": "rods.envs.function_call.environment:FunctionCallEnvironment",
        "repo": "rods.envs.repo.environment:RepoEnvironment",
        "mcp": "rods.envs.mcp.world:McpEnvironment",
        "remote": "rods.envs.remote.client:RemoteEnvironment",
    },
)


def make_environment(name: str, arguments: Mapping[str, object] | None = None) -> Environment:
    """The environment that a short name or `module:attribute` means.

    Its factory gets the arguments by name. One called `environment` names another environment, and
    the factory gets that one's `module:attribute`.

    Raises:
        ConfigError: there is none of this name, or its factory does not take the arguments.
    """
    given = dict(arguments or {})
    inner = given.get("environment")
    if isinstance(inner, str) and inner:
        given["environment"] = ENVIRONMENTS.address(inner)
    return load_environment(ENVIRONMENTS.address(name), given)
