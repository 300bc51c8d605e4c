"""Names of the bundled models and their folders: whole policies, or adapters."""

from __future__ import annotations

import os
from pathlib import Path

_POLICIES = Path(__file__).parents[1] / "policies"
TINY, TINY_MATH = _POLICIES / "tiny", _POLICIES / "tiny_math"
TINY_SEARCH, TINY_REPO = _POLICIES / "tiny_search", _POLICIES / "tiny_repo"
SMOLLM2_BFCL = _POLICIES / "smollm2_bfcl"
"""LoRA adapters of `smollm2`, from a cold start on BFCL's training split."""
BUNDLED = {
    "tiny": TINY,
    "tiny-math": TINY_MATH,
    "tiny-search": TINY_SEARCH,
    "tiny-repo": TINY_REPO,
    "smollm2-bfcl": SMOLLM2_BFCL,
}
"""Folders by name."""
ADAPTER_CONFIG = "adapter_config.json"
ENDINGS = (".json", ".jsonl", ".toml", ".parquet", ".yaml", ".csv", ".txt", ".py", ".md", ".html")


def is_missing_path(name: str) -> bool:
    """Return true for a path, not a hub's name such as `org/name`, at which nothing is."""
    path = name.startswith((".", "/", "~", "runs/")) or name.count("/") > 1
    return (path or name.endswith(ENDINGS)) and not local_path(name).exists()


def local_path(name: str) -> Path:
    """Return the folder of a bundled model or of a path; a hub name gives a missing folder."""
    return BUNDLED.get(name) or Path(os.path.expanduser(name))


def adapters_at(name: str) -> Path | None:
    """Return the folder of this name if it holds LoRA adapters and no whole model."""
    path = local_path(name)
    if not (path / ADAPTER_CONFIG).is_file() or any(path.glob("model*.safetensors")):
        return None
    return path
