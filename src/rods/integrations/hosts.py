"""What a host trainer (TRL, verl) does not check before it starts.

Owns two refusals: a training that is finished, and GPUs that a Ray does not have. It knows no host:
both come as plain numbers.

    require_unfinished(Path("runs/verl"), done=100, total=100, updates=100)
    require_gpus({"node": {"GPU": 8.0}}, [(1, 8)])
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path

from rods.errors import ConfigError, StoreError


def require_unfinished(folder: Path, done: int, total: int, updates: int) -> None:
    """Refuse to resume a training whose last checkpoint is its end.

    Args:
        done: steps of the host at the last checkpoint.
        total: steps of the host in the whole training; 0: it names no end.
        updates: of the settings.

    Raises:
        StoreError: nothing is left to do.
    """
    if 0 < total <= done:
        raise StoreError(
            f"{folder}: this training is finished, after {updates} updates; nothing was changed. "
            f"Train it for longer (--updates {2 * updates}), or choose another --out."
        )


def require_gpus(
    nodes: Mapping[str, Mapping[str, float]], pools: Sequence[tuple[int, int]], kind: str = "GPU"
) -> None:
    """Refuse pools that a Ray could never place: it would wait for ever.

    Args:
        nodes: resources of each machine, by its name, as Ray states them in total.
        pools: machines and GPUs of each, of everything that is placed beside each other.
        kind: Ray's name of the device.

    Raises:
        ConfigError: there are too few machines with so many GPUs.
    """
    left = sorted((int(found.get(kind, 0)) for found in nodes.values()), reverse=True)
    there = ", ".join(map(str, left)) or "none"
    for machines, gpus in sorted(pools, key=lambda pool: -pool[1]):
        for _ in range(machines):
            left.sort(reverse=True)
            if not left or left[0] < gpus:
                raise ConfigError(
                    f"verl asks for {' and '.join(f'{n} x {g}' for n, g in pools)} (machines x "
                    f"{kind}s), and this Ray has {len(nodes)} machines with {there} {kind}s: it "
                    "would wait for ever. Set --nodes and --gpus to what is there, or join more "
                    "machines by `ray start --address HOST:PORT`."
                )
            left[0] -= gpus
