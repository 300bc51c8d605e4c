"""The BFCL multi-turn benchmark: 800 tasks over eight stateful API classes.

Owns the way from the benchmark's wheel to tasks, worlds and verdicts. Never copies the benchmark's
code, never evaluates text, never keeps state outside of a world.

    tasks = load_tasks()                      # rods.envs.bfcl.tasks
    world = BfclEnvironment().open(tasks[0])  # rods.envs.bfcl.world
"""
