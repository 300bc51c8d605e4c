"""Published benchmarks by their own rules, found by name.

Owns the short names. A suite whose data and tools lie in a folder of the user's has its reader and
rules here; the folder's classes run in a process of their own (`host.py`) and are given values,
never text to evaluate. BFCL's suites stand with its environment.

    rules = make_suite("api-bank", config)          # evaluation.suite.folder says where
"""

from __future__ import annotations

from rods.config import RunConfig
from rods.evaluation.rules import SuiteRules
from rods.registry import Registry, require, takes

SUITES = Registry(
    "--suite",
    "suite",
    {
        "bfcl-multi-turn": "rods.envs.bfcl.suites:MultiTurn",
        "bfcl-single-turn": "rods.envs.bfcl.suites:SingleTurn",
        "api-bank": "rods.suites.api_bank:ApiBank",
        "acebench-agent": "rods.suites.acebench:AceBenchAgent",
        "tau2-retail": "rods.suites.tau2.rules:Tau2Retail",
        "tau2-airline": "rods.suites.tau2.rules:Tau2Airline",
    },
)


def make_suite(name: str, config: RunConfig) -> SuiteRules:
    """The suite of a published benchmark that a short name or `module:attribute` means.

    Raises:
        ConfigError: there is none of this name, or it lacks a part of `SuiteRules`.
    """
    made = takes("--suite", name, SUITES.find(name), "the configuration")(config)
    require("--suite", name, made, SuiteRules)
    return made
