"""Structure of a task: its calls and results, the sources of values, and links between calls.

Owns the reading of tasks. Never draws, never words a message, never decides whether a task is good.

    from rods.synthesis.structure.profile import distance
"""
