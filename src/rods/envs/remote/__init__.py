"""Worlds that are played elsewhere: in a process beside this one, or behind HTTP.

Owns the messages between a trajectory and its world, and both ends of them. What is played is any
environment; trajectories and verdicts are those of the same world in this process.

    rods serve-env --env.name bfcl                              # on one machine
    rods train --env.name remote --env.remote.url http://...    # on another
"""
