"""`function_call`: tools and a dialogue so far, then one response with calls, scored offline.

Owns single steps: where they come from (published files, or multi-turn tasks that are split) and
the world in which nothing is executed. Rewards of single steps are in `rods.recipes`.

    FunctionCallEnvironment(source="rods.envs.bfcl.world:BfclEnvironment").tasks(held_out=0.25)
"""
