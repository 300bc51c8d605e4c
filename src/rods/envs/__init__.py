"""Tool environments: adapters of the protocols in `rods.env`, one folder or file each.

Owns nothing itself; the configuration names an environment (`bfcl`) and it is imported then.

    from rods.envs.bfcl.world import BfclEnvironment
"""
