"""Our tasks for verifiers and prime-rl, whose ids are names of modules.

With this folder on PYTHONPATH:

    --env.taskset.id rods_tasks --env.taskset.tasks tasks.jsonl --env.taskset.environment bfcl
"""

from rods.integrations.taskset import RodsEnv, RodsTaskset

__all__ = ["RodsEnv", "RodsTaskset"]
