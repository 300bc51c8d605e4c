"""Parcels: what they weigh, what they cost, and how they are packed."""
