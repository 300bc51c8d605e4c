"""What a proposal must fulfil before it may be trained on.

Owns the conditions, one small function each, and the keeper that asks them in order. Never changes
a proposal, never asks a model.

    from rods.synthesis.gates.keeper import Gatekeeper
"""
