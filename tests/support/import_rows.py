"""Which package of `rods` may import which."""

from __future__ import annotations

ROWS: list[set[str]] = [
    {"errors", "types", "infra", "config", "registry"},
    {"task", "split", "abilities", "env", "policy", "limits", "tokens", "dialects", "trajectory"}
    | {"trajectory_codec", "stops", "reward"},
    {"rollout"},
    {"curriculum"},
    {"synthesis"},
    {"loop", "store", "components", "records"},
    {"rewards", "sandbox", "engines"},
    {"recipes"},
    {"trainers", "evaluation"},
    {"envs", "suites", "integrations", "report", "policies", "writers"},
    {"assemble", "view"},
    {"cli"},
    {""},
]
"""Each row may import those before it; the last one is `rods` itself, its public face."""
RANK = {room: rank for rank, rooms in enumerate(ROWS) for room in rooms}
PLUGINS = {"envs", "sandbox", "writers", "recipes", "integrations", "suites"}
SEAMS = (
    "envs envs.hints envs.originals envs.remote.processes integrations integrations.trackers"
    " writers writers.assembly writers.resample"
)
"""Modules of plug-ins by which `assemble` finds environments, writers and trackers."""
