"""Settings of `remote`.

rods train --env.name remote --env.remote.url http://worlds.example:8010
"""

from rods.config.base import Settings


class RemoteSettings(Settings):
    """`env.name = "remote"`: an environment that `rods serve-env` runs on another machine."""

    url: str = ""
    """Address of the service."""

    places = ("url",)


SECTIONS = {"remote": RemoteSettings}
