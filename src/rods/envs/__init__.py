"""Tool environments: adapters of the protocols in `rods.env`, one folder or file each.

Owns their short names, and those of suites over them; one is imported when it is asked for.

    environment = make_environment("bfcl")
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, cast

from rods.config import RunConfig
from rods.env import Environment, load_environment
from rods.evaluation.rules import SuiteRules
from rods.registry import Registry, require, takes

ENVIRONMENTS = Registry(
    "env.name",
    "environment",
    {
        "bfcl": "rods.envs.bfcl.world:BfclEnvironment",
        "python_tool": "rods.envs.python_tool:PythonToolEnvironment",
        "search": "rods.envs.search.environment:SearchEnvironment",
        "function_call": "rods.envs.function_call.environment:FunctionCallEnvironment",
        "repo": "rods.envs.repo.environment:RepoEnvironment",
        "remote": "rods.envs.elsewhere.remote:RemoteEnvironment",
    },
)

SUITES = Registry(
    "--suite",
    "suite",
    {
        "bfcl-multi-turn": "rods.envs.bfcl.multi_turn:MultiTurn",
        "bfcl-single-turn": "rods.envs.bfcl.single_turn:SingleTurn",
        "api-bank": "rods.envs.suites.api_bank:ApiBank",
        "acebench-agent": "rods.envs.suites.acebench:AceBenchAgent",
        "tau2-retail": "rods.envs.suites.tau2.rules:Tau2Retail",
        "tau2-airline": "rods.envs.suites.tau2.rules:Tau2Airline",
    },
)


def make_suite(name: str, config: RunConfig) -> SuiteRules:
    """The suite of a published benchmark that a short name or `module:attribute` means.

    Args:
        name: of it; what it means is called with the configuration.
        config: where its data is, among the rest.

    Raises:
        ConfigError: there is none of this name, or it lacks a part of `SuiteRules`.
    """
    made = takes("--suite", name, SUITES.find(name), "the configuration")(config)
    require("--suite", name, made, SuiteRules)
    return cast("SuiteRules", made)


def make_environment(name: str, arguments: Mapping[str, Any] | None = None) -> Environment:
    """The environment that a short name or `module:attribute` means.

    Args:
        name: of it.
        arguments: of its factory, by name; one called `environment` names another environment, and
            the factory gets that one's `module:attribute`.

    Raises:
        ConfigError: there is none of this name, or its factory does not take the arguments.
    """
    given = dict(arguments or {})
    if isinstance(given.get("environment"), str) and given["environment"]:
        given["environment"] = ENVIRONMENTS.address(given["environment"])
    return load_environment(ENVIRONMENTS.address(name), given)
