"""The bundled adapters of SmolLM2: small, honest about themselves, and a start for training."""

from __future__ import annotations

import json

import pytest
from safetensors.torch import load_file

from rods.config import ModelSettings, load_config
from rods.config.bundled import SMOLLM2_BFCL
from rods.trainers.adapters import base_settings
from rods.trainers.loading import load_model

WEIGHTS = SMOLLM2_BFCL / "adapter_model.safetensors"


def test_they_are_small_and_their_card_is_complete() -> None:
    assert WEIGHTS.stat().st_size <= 10e6
    card = json.loads((SMOLLM2_BFCL / "card.json").read_text())
    for key in ("command", "demonstrations", "updates", "tokens", "loss", "held_out", "seed"):
        assert key in card, key


def test_the_profile_starts_from_them() -> None:
    model = load_config("rods", "smollm2").model
    assert model.name == "smollm2-bfcl"
    assert base_settings(model, SMOLLM2_BFCL).name == "smollm2"


@pytest.mark.slow
def test_they_change_every_layer_of_their_base() -> None:
    layers = {name.split(".layers.")[1].partition(".")[0] for name in load_file(WEIGHTS)}
    assert len(layers) == 30
    plain, _ = load_model(ModelSettings(name="smollm2", dtype="float32", threads=1))
    tuned, _ = load_model(ModelSettings(name="smollm2-bfcl", dtype="float32", threads=1))
    names = [name for name, _ in plain.named_parameters() if name.endswith("proj.weight")]
    changed = dict(tuned.named_parameters())
    before = dict(plain.named_parameters())
    assert all(not changed[name].equal(before[name]) for name in names)
