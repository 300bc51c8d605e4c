"""Files of rows behind a name: a file, a folder of a data set, or a data set of a hub.

Owns the layouts of folders: what `datasets` saves (Arrow), and what the Hugging Face hub holds, as
`data/train-00000-of-00001.parquet`, `train/rows.jsonl` and `test.json`. One split is read: the
one named after a colon, else the only one, else `train`.

    files_of(Path("gsm8k:test"), "questions", TaskError)                 # a folder
    files_of(Path("hf:openai/gsm8k/main:test"), "questions", TaskError)  # hf:OWNER/NAME/CONFIG
"""

from __future__ import annotations

import functools
import importlib
import logging
import re
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from rods.errors import PrerequisiteError, RodsError
from rods.infra.install import installed

HUB = "hf:"
ENDINGS = (".parquet", ".arrow", ".jsonl", ".json")
SPLITS = {
    **dict.fromkeys(("train", "training"), "train"),
    **dict.fromkeys(("validation", "valid", "val", "dev"), "validation"),
    **dict.fromkeys(("test", "testing", "eval", "evaluation"), "test"),
}
"""Splits by the words of files and folders that name them, as `datasets` knows them."""
_SHARD = re.compile(r"-?\d{5}-of-(\d{5})$")
_ROWS = re.compile(r"\.(parquet|arrow|jsonl?)(\.(gz|bz2|xz|zst|zip))?$")  # refused if packed
_NO_ROWS = re.compile(r"(^|/)(\.|cache-|(state|dataset_\w+)\.json$)")
"""Hidden files, and what `datasets` writes beside its rows."""
_log = logging.getLogger(__name__)


def files_of(path: Path, what: str, error: type[RodsError]) -> list[Path]:
    """The files of one split, in order; a file is itself, whether it exists or not.

    Args:
        path: of a file or folder, `FOLDER:SPLIT`, or `hf:OWNER/NAME[/CONFIG][:SPLIT]`.
        what: they should hold, for messages: "tasks".
        error: raised where there is no such split, or a file of it is missing.

    Raises:
        PrerequisiteError: a data set of the hub, and `datasets` is not installed.
    """
    name, split = str(path), ""
    front, colon, last = name.rpartition(":")
    if colon and not path.exists() and (front.startswith(HUB) or Path(front).is_dir()):
        name, split = front, last
    if not (name.startswith(HUB) or Path(name).is_dir()):
        return [path]
    splits = _of_hub(name, error) if name.startswith(HUB) else _of_folder(Path(name))
    if not splits:
        endings = ", ".join(ENDINGS)
        raise error(f"{name}: is a folder without files of {what}; expected some of {endings}.")
    wanted = split or ("train" if len(splits) > 1 else next(iter(splits)))
    if wanted not in splits:
        raise error(
            f"{name}: there is no split {wanted!r}. Name one of {', '.join(splits)} after a colon: "
            f"{name}:{next(iter(splits))}."
        )
    if not split and (others := ", ".join(one for one in splits if one != wanted)):
        _note(f"{name}: the split {wanted} is read, not {others}; name another after a colon")
    places = sorted({str(file.parent) for file in splits[wanted]})
    if len(places) > 1:
        raise error(f"{name}: the split {wanted} lies in {', '.join(places)}. Name one of them.")
    found = list(splits[wanted])
    total = max((int(match[1]) for f in found if (match := _SHARD.search(f.stem))), default=0)
    if total > len(found):
        raise error(f"{name}: {len(found)} of {total} files of the split {wanted} are here.")
    return found


_note = functools.cache(_log.warning)
"""Log a line once, however often the rows are read."""


def _of_folder(folder: Path) -> dict[str, list[Path]]:
    """The files of each split; a file whose name says none is one, unless all are so."""
    found: dict[str, list[Path]] = {}
    for file in sorted(file for file in folder.rglob("*") if _ROWS.search(file.name)):
        inner = file.relative_to(folder)
        if not _NO_ROWS.search(inner.as_posix()):
            found.setdefault(_split_of(inner), []).append(file)
    if found.keys() == {""}:
        return {"train": found[""]}
    for file in found.pop("", []):
        found.setdefault(file.stem, []).append(file)
    return found


def _split_of(file: Path) -> str:
    """The split that the names of folders and file say; empty: they say none."""
    stem = _SHARD.sub("", file.stem)
    names = [name for name in (stem, *reversed(file.parts[:-1])) if name not in ("", "data")]
    if stem != file.stem and names:
        return next((SPLITS[name] for name in names if name in SPLITS), names[0])
    words = re.findall("[a-z]+", " ".join(names).lower())
    return next((SPLITS[word] for word in words if word in SPLITS), "")


@functools.cache
def _of_hub(name: str, error: type[RodsError]) -> Mapping[str, Sequence[Path]]:
    """The Arrow files in which `datasets` keeps each split, once it has loaded a data set."""
    if not installed("datasets"):
        raise PrerequisiteError(
            f"{name}: data sets of the hub need `datasets` (pip install datasets). Or download its "
            "files, and name the folder."
        )
    import httpx

    datasets: Any = importlib.import_module("datasets")
    *repository, config = f"{name.removeprefix(HUB)}/".split("/", 3)[:3]
    try:
        found = datasets.load_dataset("/".join(repository), config or None)
    except (OSError, ValueError, RuntimeError, httpx.HTTPError) as fault:
        raise error(
            f"{name}: cannot be loaded: {' '.join(str(fault).split())}. Check the name and the "
            "network, or download its files elsewhere, and name the folder."
        ) from fault
    held = {split: part.cache_files for split, part in found.items()}
    return {split: [Path(file["filename"]) for file in files] for split, files in held.items()}
