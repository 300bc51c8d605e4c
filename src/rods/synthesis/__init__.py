"""Synthesis: new tasks of the same structure where the policy can learn.

Owns the way from a seed to an accepted variant: writers propose, gates decide, the worker runs both
in a process of its own. Never trains, never touches the replay buffer.

    from rods.synthesis.pipeline import Pipeline
"""
