"""Worlds that run elsewhere: in a process beside this one, or behind HTTP.

Owns the messages between a trajectory and its world, and both ends of them. What runs there is any
environment; trajectories and verdicts are those of the same world in this process.

    rods serve-env --env.name bfcl                              # on one machine
    rods train --env.name remote --env.remote.url http://...    # on another
"""

from rods.config.base import Settings


class RemoteSettings(Settings):
    """`env.name = "remote"`: an environment that `rods serve-env` runs on another machine."""

    url: str = ""
    """Address of the service."""

    places = ("url",)


SECTIONS = {"remote": RemoteSettings}
