"""Conditions that a candidate must fulfil before training uses it.

Owns the conditions, one small function each, and the keeper that checks them in order. Never
changes a candidate, never asks a model.

    from rods.synthesis.gates.keeper import Gatekeeper
"""
