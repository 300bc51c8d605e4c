"""Files of rows behind a name: a file, a folder of a data set, or a data set of a hub.

Owns the layouts of folders: what `datasets` saves (Arrow), what the Hugging Face hub holds, such as
`data/train-00000-of-00001.parquet`, `train/rows.jsonl` and `test.json`, and files without a split.
One split is read: the one named after a colon, else the only one, else `train`.

    files_of(Path("gsm8k:test"), "questions", TaskError)               # a folder
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
"""How the name of a data set of the hub begins."""
ENDINGS = (".parquet", ".arrow", ".jsonl", ".json")
TRAIN = "train"
SPLITS = {
    **dict.fromkeys(("train", "training"), TRAIN),
    **dict.fromkeys(("validation", "valid", "val", "dev"), "validation"),
    **dict.fromkeys(("test", "testing", "eval", "evaluation"), "test"),
}
"""Splits by the words of files and folders that name them, as `datasets` knows them."""
_NOTES = ("state.json", "dataset_info.json", "dataset_infos.json", "dataset_dict.json")
_SHARD = re.compile(r"-?\d{5}-of-(\d{5})$")
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
    if name.startswith(HUB):
        splits = _of_hub(name, error)
    elif Path(name).is_dir():
        splits = _of_folder(Path(name))
    else:
        return [path]
    if not splits:
        endings = ", ".join(ENDINGS)
        raise error(f"{name}: is a folder without files of {what}; expected some of {endings}.")
    wanted = split or (TRAIN if len(splits) > 1 else next(iter(splits)))
    if wanted not in splits:
        raise error(
            f"{name}: there is no split {wanted!r}. Name one of {', '.join(splits)} after a colon: "
            f"{name}:{next(iter(splits))}."
        )
    if len(splits) > 1 and not split:
        _note(name, wanted, ", ".join(one for one in splits if one != wanted))
    _require_whole(name, wanted, splits[wanted], error)
    return list(splits[wanted])


def _of_folder(folder: Path) -> dict[str, list[Path]]:
    """The files of each split. `cache-*` are left by `datasets` beside what it saved."""
    files = sorted(
        file
        for file in (*folder.glob("*"), *folder.glob("*/*"), *folder.glob("*/*/*"))
        if file.suffix in ENDINGS and file.is_file() and file.name not in _NOTES
        if not file.name.startswith("cache-") and "/." not in f"/{file.relative_to(folder)}"
    )
    found: dict[str, list[Path]] = {}
    for file in files:
        found.setdefault(_split_of(file.relative_to(folder)), []).append(file)
    loose = found.pop("", [])
    if loose and not found:
        return {TRAIN: loose}
    for file in loose:
        found.setdefault(file.stem, []).append(file)
    return found


def _split_of(file: Path) -> str:
    """The split that names of folders and file say; empty: none of them says one."""
    stem = _SHARD.sub("", file.stem)
    names = [name for name in (stem, *reversed(file.parts[:-1])) if name not in ("", "data")]
    for name in names:
        if name in SPLITS:
            return SPLITS[name]
    if stem != file.stem and names:
        return names[0]
    words = [word for name in names for word in re.split(r"[^a-z]+", name.lower())]
    return next((SPLITS[word] for word in words if word in SPLITS), "")


@functools.cache
def _of_hub(name: str, error: type[RodsError]) -> Mapping[str, Sequence[Path]]:
    """The Arrow files in which `datasets` keeps each split, once it has loaded a data set."""
    if not installed("datasets"):
        raise PrerequisiteError(
            f"{name}: data sets of the hub need `datasets` (pip install datasets). Or download its "
            "files, and name the folder."
        )
    owner, _, rest = name.removeprefix(HUB).partition("/")
    repo, _, config = rest.partition("/")
    import httpx

    datasets: Any = importlib.import_module("datasets")
    try:
        found = datasets.load_dataset(f"{owner}/{repo}", config or None)
    except (OSError, ValueError, RuntimeError, httpx.HTTPError) as fault:
        why = " ".join(str(fault).split())
        raise error(
            f"{name}: cannot be loaded: {why}. Check the name and the network, or download its "
            "files elsewhere, and name the folder."
        ) from fault
    return {
        one: [Path(file["filename"]) for file in part.cache_files] for one, part in found.items()
    }


@functools.cache
def _note(name: str, wanted: str, others: str) -> None:
    """Log once which split is read."""
    _log.warning(
        "%s: the split %s is read, not %s; name another after a colon", name, wanted, others
    )


def _require_whole(name: str, split: str, files: Sequence[Path], error: type[RodsError]) -> None:
    """Raise `error` where a file of several is missing, or several data sets lie in the folder."""
    places = sorted({str(file.parent) for file in files})
    if len(places) > 1:
        raise error(f"{name}: the split {split} lies in {', '.join(places)}. Name one of them.")
    total = next((int(match[1]) for file in files if (match := _SHARD.search(file.stem))), 0)
    if total > len(files):
        raise error(f"{name}: {len(files)} of {total} files of the split {split} are here.")
