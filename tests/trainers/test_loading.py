"""Loading models: what works, and one message for each way it can fail."""

import logging

import pytest
import torch
from tokenizers import Tokenizer, models
from transformers import PreTrainedTokenizerFast, Qwen3Config, Qwen3ForCausalLM

from rods.config import ModelSettings
from rods.errors import PolicyError
from rods.trainers import loading
from rods.trainers.loading import WIDE, load_model, pick_device, quiet, uses_bfloat16

SIZE = 16


@pytest.fixture
def folder(tmp_path):
    config = Qwen3Config(
        vocab_size=SIZE, hidden_size=8, intermediate_size=16, num_hidden_layers=1,
        num_attention_heads=1, num_key_value_heads=1, head_dim=8, tie_word_embeddings=True,
    )  # fmt: skip
    Qwen3ForCausalLM(config).half().save_pretrained(tmp_path)
    words = {f"w{i}": i for i in range(SIZE)}
    tokenizer = PreTrainedTokenizerFast(tokenizer_object=Tokenizer(models.WordLevel(words)))
    tokenizer.chat_template = "{{ messages }}"
    tokenizer.save_pretrained(tmp_path)
    return tmp_path


def settings(name, **changes):
    return ModelSettings(name=str(name), device="cpu", threads=1, **changes)


def test_a_folder_loads_in_float32_and_prints_nothing(folder, capfd):
    capfd.readouterr()
    model, tokenizer = load_model(settings(folder))
    assert next(model.parameters()).dtype == torch.float32
    assert not model.training and len(tokenizer) == SIZE
    assert capfd.readouterr() == ("", "")


def test_weights_are_of_the_arithmetics_type(folder):
    full, _ = load_model(settings(folder, dtype="bfloat16"))
    frozen, _ = load_model(settings(folder, dtype="bfloat16", lora_rank=2))
    assert next(full.parameters()).dtype == torch.bfloat16
    assert next(frozen.parameters()).dtype == torch.bfloat16


@pytest.mark.parametrize(
    ("remove", "message"),
    [
        ("config.json", "no config.json"),
        ("model.safetensors", "no weights"),
        ("chat_template.jinja", "no chat template"),
    ],
)
def test_an_incomplete_folder(folder, remove, message):
    (folder / remove).unlink()
    with pytest.raises(PolicyError, match=message):
        load_model(settings(folder))


def test_a_missing_folder():
    with pytest.raises(PolicyError, match="there is no folder"):
        load_model(settings("./no/such/model"))


def test_a_hub_name_that_cannot_be_reached(monkeypatch):
    def offline(*_, **__):
        raise OSError("no connection\nlong advice")

    monkeypatch.setattr("transformers.AutoTokenizer.from_pretrained", offline)
    with pytest.raises(PolicyError, match=r"some/model.*no folder.*no connection$"):
        load_model(settings("some/model"))


def test_no_tokenizer(folder):
    for path in folder.glob("tokenizer*"):
        path.unlink()
    with pytest.raises(PolicyError, match="no tokenizer"):
        load_model(settings(folder))


def test_truncated_weights(folder):
    path = folder / "model.safetensors"
    path.write_bytes(path.read_bytes()[:200])
    with pytest.raises(PolicyError, match="cannot be loaded"):
        load_model(settings(folder))


def test_missing_weights_are_never_made_up(folder):
    config = folder / "config.json"
    text = config.read_text().replace('"num_hidden_layers": 1', '"num_hidden_layers": 2')
    config.write_text(text.replace('"full_attention"', '"full_attention", "full_attention"'))
    with pytest.raises(PolicyError, match="weights are missing"):
        load_model(settings(folder))


def test_a_tokenizer_of_another_model(folder):
    words = {f"w{i}": i for i in range(SIZE + 1)}
    tokenizer = PreTrainedTokenizerFast(tokenizer_object=Tokenizer(models.WordLevel(words)))
    tokenizer.chat_template = "{{ messages }}"
    tokenizer.save_pretrained(folder)
    with pytest.raises(PolicyError, match="do not belong together"):
        load_model(settings(folder))


def test_cuda_where_there_is_none(monkeypatch):
    monkeypatch.setattr("torch.cuda.is_available", lambda: False)
    with pytest.raises(PolicyError, match="no CUDA device"):
        pick_device(ModelSettings(device="cuda"))
    assert pick_device(ModelSettings()).type == "cpu"


def test_precision_follows_the_device():
    cpu, cuda = torch.device("cpu"), torch.device("cuda")
    assert not uses_bfloat16(ModelSettings(), cpu) and uses_bfloat16(ModelSettings(), cuda)
    assert not uses_bfloat16(ModelSettings(dtype="float32"), cuda)
    assert uses_bfloat16(ModelSettings(dtype="bfloat16"), cpu)


def test_wide_models_take_what_is_faster_on_a_cpu(monkeypatch):
    cpu = torch.device("cpu")
    for pays in (True, False):
        monkeypatch.setattr(loading, "bfloat16_pays", lambda width, pays=pays: pays)
        for width in (WIDE - 1, WIDE):
            config = Qwen3Config(hidden_size=width)
            monkeypatch.setattr(loading, "load_architecture", lambda _, config=config: config)
            assert uses_bfloat16(ModelSettings(), cpu) == (pays and width == WIDE)
            assert not uses_bfloat16(ModelSettings(dtype="float32"), cpu)


def test_hubs_that_are_not_reached_are_said_once() -> None:
    """By the error at the end, and not by a line for every try."""
    hub = logging.getLogger("huggingface_hub.utils._http")
    before = hub.getEffectiveLevel()
    with quiet():
        assert not hub.isEnabledFor(logging.WARNING)
    assert hub.getEffectiveLevel() == before
