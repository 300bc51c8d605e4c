"""Rewards of function calling: one response with calls, or a conversation in a stateful world.

Owns ToolRL's and Tool-N1's scorers of single steps (`toolrl`, `tool_n1`) and ARTIST's two rewards
(`artist`). Never executes a call. What they read of task and response is in `single`.

    score(get_reward("toolrl"), task, trajectory).parts["correctness"]
"""
