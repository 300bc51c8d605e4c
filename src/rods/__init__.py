"""RODS: reinforcement learning for tool-using agents that makes its own tasks while it trains."""

__version__ = "0.1.0"
