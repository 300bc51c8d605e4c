"""Loading a policy's model and tokenizer by name.

Owns where a name leads (the bundled policy, a folder, the hub, a folder of LoRA adapters and their
base), which device and precision it gets, and one clear message when that fails. It never trains
and never prints.

    model, tokenizer = load_model(ModelSettings(name="tiny"))
"""

from __future__ import annotations

import logging
from collections.abc import Generator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any, cast
from urllib.error import HTTPError
from urllib.request import Request, urlopen

import torch
from huggingface_hub import constants as hub
from huggingface_hub import try_to_load_from_cache
from huggingface_hub.utils import logging as hub_logging
from safetensors import SafetensorError
from transformers import (
    AutoConfig,
    AutoModelForCausalLM,
    AutoTokenizer,
    GenerationConfig,
    PretrainedConfig,
    PreTrainedModel,
    PreTrainedTokenizerBase,
)
from transformers.utils import logging as hf_logging

from rods.config import ModelSettings, RunConfig
from rods.config.bundled import ADAPTER_CONFIG, adapters_at, local_path, require_name
from rods.engines.attention import without_cudnn
from rods.engines.hf import ends_of
from rods.engines.threads import bfloat16_pays, set_threads
from rods.errors import ConfigError, PolicyError
from rods.trainers.adapters import base_settings, load_adapters, of_base
from rods.trainers.packaged import PACKAGED, model_folder

# It asks for a package that nobody needs, whenever peft is imported beside it.
logging.getLogger("bitsandbytes.backends.cpu.ops").setLevel(logging.ERROR)

TOKENIZERS = ("tokenizer.json", "tokenizer.model", "vocab.json")
"""One of these files holds a saved tokenizer."""
WIDE = 512
"""Least hidden size for which `auto` may be bfloat16 on a CPU; bundled policies keep float32."""
STRETCHED = ("linear", "dynamic", "yarn")
"""Kinds of RoPE scaling whose factor multiplies the positions of the config."""


def path_or_name(name: str) -> str:
    """The folder or hub name that transformers takes for a model; raises as `model_folder`."""
    with quiet():
        return str(model_folder(name) or local_path(name))


def load_model(
    settings: ModelSettings, merge: bool = True
) -> tuple[PreTrainedModel, PreTrainedTokenizerBase]:
    """The model, on its device and in evaluation mode, and its tokenizer with a chat template.

    A folder of LoRA adapters gives their base with the adapters in it. Weights are of the
    arithmetic's type: the optimizer keeps exact masters of bfloat16 ones, in which small steps
    would vanish. Also sets the number of torch's CPU threads.

    Args:
        merge: add adapters to the weights, so that the model can be trained; else they stay apart,
            as exact as they were saved.

    Raises `PolicyError` for what is missing or damaged, `StoreError` for adapters of another base.
    """
    folder = adapters_at(settings.name)
    if folder is not None:
        return _adapted(settings, folder, merge)
    set_threads(settings.threads)
    device = pick_device(settings)
    without_cudnn(device)
    source, local = _source(settings.name)
    with quiet():
        tokenizer = _tokenizer(settings.name, source, local)
        dtype = torch.bfloat16 if uses_bfloat16(settings, device) else torch.float32
        model = _model(settings.name, source, local, dtype)
    _require_rows(settings.name, model, tokenizer)
    cast("torch.nn.Module", model).to(device)
    return model.eval(), tokenizer


def _adapted(
    settings: ModelSettings, folder: Path, merge: bool
) -> tuple[PreTrainedModel, PreTrainedTokenizerBase]:
    """The base of a folder of adapters, with these in it, and their tokenizer."""
    base = base_settings(settings, folder)
    try:
        model, _ = load_model(base)
    except PolicyError as error:
        raise PolicyError(
            f"model {settings.name!r}: {folder} holds LoRA adapters, whose base cannot be loaded: "
            f"{error} Put the base there, or name it under base_model_name_or_path in "
            f"{folder / ADAPTER_CONFIG}."
        ) from error
    tokenizer = load_tokenizer(settings)
    _require_rows(settings.name, model, tokenizer)
    model = load_adapters(model, folder, merge)
    model.name_or_path = model.config.name_or_path = str(folder)
    return model, tokenizer


def load_architecture(settings: ModelSettings) -> PretrainedConfig:
    """The model's config alone: of a folder or a hub name no other file is read.

    Raises `PolicyError` where there is no such folder or hub name, or no config there.
    """
    settings = of_base(settings)
    path = path_or_name(settings.name)
    local = (Path(path) / "config.json").is_file()
    source = path if local else _source(settings.name)[0]
    try:
        with quiet():
            found = AutoConfig.from_pretrained(source, local_files_only=local)
            return found
    except (OSError, ValueError, KeyError) as error:
        raise _failed(settings.name, local, "its config.json cannot be read", error) from error


def positions_of(config: PretrainedConfig) -> int:
    """Tokens of a row at most; 0: the model's config names no limit."""
    text: Any = config.get_text_config()
    most = int(getattr(text, "max_position_embeddings", 0) or 0)
    rope = getattr(text, "rope_scaling", None) or getattr(text, "rope_parameters", None) or {}
    kind = isinstance(rope, Mapping) and (rope.get("rope_type") or rope.get("type"))
    if kind not in STRETCHED:
        return most
    # YaRN's config may name the positions before or after stretching; both mean the larger number.
    before = int(rope.get("original_max_position_embeddings") or most)
    return max(most, int(before * float(rope.get("factor") or 1)))


def require_context(config: RunConfig, positions: int) -> None:
    """Refuse a context longer than the model's positions; raises `ConfigError`."""
    asked = config.rollout.context_tokens
    if 0 < positions < asked:
        raise ConfigError(
            f"model {config.model.name!r} has positions for {positions:,} tokens, and "
            f"rollout.context_tokens is {asked:,}: text beyond them would be noise. Set "
            f"--rollout.context_tokens {positions} or less, or take another --model."
        )


def load_tokenizer(settings: ModelSettings) -> PreTrainedTokenizerBase:
    """The tokenizer alone, with a chat template; raises `PolicyError` where one is missing."""
    folder = adapters_at(settings.name)
    if folder is None:
        source, local = _source(settings.name)
    elif any((folder / file).is_file() for file in TOKENIZERS):
        source, local = str(folder), True
    else:
        return load_tokenizer(base_settings(settings, folder))
    with quiet():
        return _tokenizer(settings.name, source, local)


def load_stops(settings: ModelSettings) -> tuple[int, ...]:
    """Ids that end a generation by the model's generation config, without its weights."""
    source, local = _source(of_base(settings).name)
    try:
        return ends_of(GenerationConfig.from_pretrained(source, local_files_only=local))
    except OSError:  # it has none, and the tokenizer knows the one end
        return ()


def pick_device(settings: ModelSettings) -> torch.device:
    """The device that the settings name; `auto` is the first CUDA device, else the CPU.

    Raises `PolicyError` where CUDA was asked for and there is none.
    """
    if settings.device != "cpu" and torch.cuda.is_available():
        return torch.device("cuda", 0)
    if settings.device == "cuda":
        raise PolicyError(
            'model.device is "cuda" but torch finds no CUDA device: use "cpu" or "auto", or '
            "install a CUDA build of torch."
        )
    return torch.device("cpu")


def uses_bfloat16(settings: ModelSettings, device: torch.device) -> bool:
    """True if arithmetic on this device is bfloat16; `auto`: where that is faster."""
    if settings.dtype != "auto":
        return settings.dtype == "bfloat16"
    if device.type == "cuda":
        return True
    return cpu_halves(int(cast("Any", load_architecture(settings)).get_text_config().hidden_size))


def cpu_halves(width: int) -> bool:
    """True if `auto` is bfloat16 on this CPU, for models with a hidden state of this width."""
    return width >= WIDE and bfloat16_pays(width)


@contextmanager
def quiet() -> Generator[None]:
    """Silence the progress bars and the warnings of transformers and the hub inside the block."""
    verbosity, bars = hf_logging.get_verbosity(), hf_logging.is_progress_bar_enabled()
    hub = hub_logging.get_verbosity()
    hf_logging.set_verbosity_error()
    hub_logging.set_verbosity_error()  # a line for every time that a hub was not reached
    hf_logging.disable_progress_bar()
    try:
        yield
    finally:
        hf_logging.set_verbosity(verbosity)
        hub_logging.set_verbosity(hub)
        if bars:
            hf_logging.enable_progress_bar()


def require_found(name: str) -> None:
    """Raise `PolicyError` for what holds no model, or what no hub gives within seconds."""
    if adapters_at(name) is not None:
        return
    if local_path(name).is_dir() or name in PACKAGED or name.lower().endswith(".gguf"):
        _source(name)
        return
    require_name(name)
    if hub.HF_HUB_OFFLINE or isinstance(try_to_load_from_cache(name, "config.json"), str):
        return
    try:
        urlopen(Request(hub.ENDPOINT, method="HEAD"), timeout=5).close()
    except HTTPError:  # the hub answers; transformers asks for the model
        return
    except OSError as error:
        raise PolicyError(
            f"model {name!r}: there is no folder {name}, neither a model nor a run. As a name at "
            f"Hugging Face, it cannot be fetched: {getattr(error, 'reason', error)}. Give a folder "
            "or a Hugging Face name."
        ) from error


def _source(name: str) -> tuple[str, bool]:
    path = Path(path_or_name(name))
    if not path.is_dir():
        require_found(name)
        return name, False
    if not (path / "config.json").is_file():
        raise PolicyError(
            f"model {name!r}: {path} has no config.json; expected a folder that transformers' "
            "save_pretrained wrote."
        )
    if not any(path.glob("*.safetensors")):
        raise PolicyError(f"model {name!r}: {path} has no weights (*.safetensors).")
    if not any((path / file).is_file() for file in TOKENIZERS):
        # transformers would make an empty tokenizer of the model's type.
        raise PolicyError(
            f"model {name!r}: {path} has no tokenizer ({', '.join(TOKENIZERS)}); save it there."
        )
    return str(path), True


def _tokenizer(name: str, source: str, local: bool) -> PreTrainedTokenizerBase:
    try:
        loaded = AutoTokenizer.from_pretrained(source, local_files_only=local)
    except (OSError, ValueError, KeyError, ImportError) as error:
        raise _failed(name, local, "no tokenizer", error) from error
    tokenizer: PreTrainedTokenizerBase = loaded
    if not getattr(tokenizer, "chat_template", None):
        raise PolicyError(
            f"model {name!r}: its tokenizer has no chat template; RODS needs one to join turns. "
            "Use an instruction-tuned model, or put a chat_template.jinja into its folder."
        )
    return tokenizer


def _model(name: str, source: str, local: bool, dtype: torch.dtype) -> PreTrainedModel:
    try:
        loaded: Any = AutoModelForCausalLM.from_pretrained(
            source, dtype=dtype, local_files_only=local, output_loading_info=True
        )
    except (OSError, ValueError, KeyError, RuntimeError, ImportError, SafetensorError) as error:
        raise _failed(name, local, "it cannot be loaded", error) from error
    model, report = loaded
    if missing := sorted(report["missing_keys"]):
        raise PolicyError(
            f"model {name!r}: {len(missing)} weights are missing, {missing[0]} first; they would "
            "be random. Expected a complete checkpoint."
        )
    return model


def _require_rows(name: str, model: PreTrainedModel, tokenizer: PreTrainedTokenizerBase) -> None:
    rows = len(cast("torch.Tensor", model.get_input_embeddings().weight))
    if len(tokenizer) > rows:
        raise PolicyError(
            f"model {name!r}: the tokenizer has {len(tokenizer)} tokens, the embedding {rows}; "
            "they do not belong together."
        )


def _failed(name: str, local: bool, what: str, error: BaseException) -> PolicyError:
    where = "" if local else f"there is no folder {name}. From the hub: "
    return PolicyError(f"model {name!r}: {where}{what}: {_first_line(error)}")


def _first_line(error: BaseException) -> str:
    return (str(error).strip().splitlines() or [type(error).__name__])[0]
