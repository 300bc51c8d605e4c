"""What a task is made of: its calls and results, where values come from, who feeds whom.

Owns the reading of tasks. Never draws, never words a message, never decides whether a task is good.

    from rods.synthesis.structure.profile import distance, profile
"""
