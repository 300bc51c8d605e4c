"""Rollout: what happened when a policy tried a task.

Owns one episode (`episode`, `inline` for programs inside one response), groups of them rolled out
concurrently (`groups`), and chat templates by increments (`template`). Never scores.

    from rods.rollout.groups import run_groups
"""
