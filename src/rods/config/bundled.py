"""Names of the bundled models and their folders: whole policies, or adapters."""

from __future__ import annotations

import os
from pathlib import Path

from rods.errors import PolicyError
from rods.infra.dotted import nearest
from rods.infra.text import quoted

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
PACKAGED = "smollm2"  # of a package of the index; its home, `rods.trainers.packaged`, imports torch
ADAPTER_CONFIG = "adapter_config.json"
ENDINGS = (".json", ".jsonl", ".toml", ".parquet", ".yaml", ".csv", ".txt", ".py", ".md", ".html")


def is_missing_path(name: str) -> bool:
    """Return true for a path, not a hub's name such as `org/name`, at which nothing is."""
    path = name.startswith((".", "/", "~", "runs/")) or name.count("/") > 1
    return (path or name.endswith(ENDINGS)) and not local_path(name).exists()


def local_path(name: str) -> Path:
    """Return the folder of a bundled model or of a path; a hub name gives a missing folder."""
    return BUNDLED.get(name) or Path(os.path.expanduser(name))


def require_name(name: str) -> None:
    """Raise `PolicyError` for what is no model here, and cannot be a hub's name either.

    The few old hub names without a slash, such as gpt2, have no chat template, which RODS needs.
    """
    path, what = local_path(name), "this is a file; expected a folder of a model, or a file .gguf."
    if name == PACKAGED or name.lower().endswith(".gguf") or path.is_dir():
        return
    if not path.exists():
        if "/" in name and not is_missing_path(name):
            return
        here = [str(file.parent) for file in Path().glob("*/*config.json")]
        hint = nearest(name, (*here, *BUNDLED, PACKAGED))
        kind = "such file" if name.endswith(ENDINGS) else "folder"
        what = (
            f"there is no {kind} {name}, neither a model nor a run yet. Is the name right?{hint} "
            f"`rods sft DATA --out {quoted(name)}` makes it. A Hugging Face name is ORG/NAME."
        )
    raise PolicyError(f"model {name!r}: {what}")


def adapters_at(name: str) -> Path | None:
    """Return the folder of this name if it holds LoRA adapters and no whole model."""
    path = local_path(name)
    if not (path / ADAPTER_CONFIG).is_file() or any(path.glob("model*.safetensors")):
        return None
    return path
