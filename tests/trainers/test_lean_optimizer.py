"""The optimizer for large models: exact masters, small and remote moments, resumed runs."""

from __future__ import annotations

import sys
from typing import Any

import pytest
import torch
from torch import nn

from rods.config import ModelSettings
from rods.errors import PrerequisiteError, StoreError
from rods.trainers import adamw
from rods.trainers.adamw import BLOCK, LeanAdamW, joined, split
from trainer_cases import make_groups, make_model, make_scores, make_trainer, same, weights

pytestmark = pytest.mark.usefixtures("one_thread")
HALF = ModelSettings(device="cpu", dtype="bfloat16")


@pytest.fixture
def eight(monkeypatch: pytest.MonkeyPatch) -> None:
    """Have 8 bits for the tiny model's parameters too."""
    pytest.importorskip("bitsandbytes", reason="8 bits: the extra 8bit")
    monkeypatch.setattr(adamw, "SMALL", 1)


def test_masters_are_exact() -> None:
    bits = torch.randint(
        -(2**31), 2**31 - 1, (100_000,), generator=torch.Generator().manual_seed(0)
    )
    exact = bits.to(torch.int32).view(torch.float32)
    exact = exact[exact.isfinite() & (exact.abs() < 3e38)]
    exact = torch.cat([exact, torch.tensor([0.0, -0.0, 1.00390625, -1.00390625, 1.01171875])])
    high, low = split(exact)
    assert torch.equal(joined(high, low).view(torch.int32), exact.view(torch.int32))
    ties = (exact.view(torch.int32) & 0xFFFF) == 0x8000
    assert torch.equal(high[~ties], exact.bfloat16()[~ties]) and int(ties.sum()) >= 3
    assert torch.equal(split(high.float())[0], high) and not split(high.float())[1].any()


def regression(moments: Any, dtype: torch.dtype, steps: int = 300) -> tuple[float, torch.Tensor]:
    """Loss and weights after fitting a linear map at a rate that bfloat16 alone cannot take."""
    generator = torch.Generator().manual_seed(1)
    true = torch.randn(24, 16, generator=generator)
    layer = nn.Linear(16, 24, bias=False)
    with torch.no_grad():
        layer.weight.copy_(true + 0.3 * torch.randn(24, 16, generator=generator))
    layer = layer.to(dtype)
    optimizer: torch.optim.Optimizer = (
        torch.optim.AdamW(layer.parameters(), lr=1e-3, weight_decay=0.0)
        if moments is None
        else LeanAdamW([{"params": [*layer.parameters()], "weight_decay": 0.0}], 1e-3, moments)
    )
    loss = torch.tensor(0.0)
    for _ in range(steps):
        x = torch.randn(64, 16, generator=generator)
        loss = (layer(x.to(dtype)).float() - x @ true.T).square().mean()
        loss.backward()
        optimizer.step()
        optimizer.zero_grad()
    return float(loss.detach()), layer.weight.detach().float()


@pytest.mark.slow
def test_float32_equals_torch() -> None:
    ours, theirs = regression("float32", torch.float32), regression(None, torch.float32)
    assert torch.allclose(ours[1], theirs[1], atol=1e-6)


@pytest.mark.slow
def test_small_steps_add_up_in_bfloat16_weights() -> None:
    """Weights of about 1 move by 1e-3: below half a unit of the last place of bfloat16."""
    alone = regression(None, torch.bfloat16, 700)[0]
    kept = regression("float32", torch.bfloat16, 700)[0]
    exact = regression(None, torch.float32, 700)[0]
    assert kept < 2 * exact + 1e-3 < 0.2 * alone


@pytest.mark.slow
@pytest.mark.usefixtures("eight")
def test_eight_bits_learn_as_well() -> None:
    small, full = (regression(moments, torch.bfloat16) for moments in ("8bit", "float32"))
    assert small[0] < 1.5 * full[0] + 1e-3
    assert float((small[1] - full[1]).abs().max()) < 0.1


@pytest.mark.slow
@pytest.mark.usefixtures("eight")
@pytest.mark.parametrize("settings", [HALF, ModelSettings(device="cpu", dtype="float32")])
def test_an_update_with_eight_bits_is_close_to_the_full_one(settings: ModelSettings) -> None:
    """Each weight moves by about the rate; 8 bits turn no step round and shorten none by much."""
    start = weights(make_model())
    for updates in (1, 3):
        small, full = (weights(updated(m, settings, updates)[0]) for m in ("8bit", "full"))
        moved = torch.cat([(full[n].float() - start[n]).flatten() for n in start])
        apart = torch.cat([(small[n].float() - full[n].float()).flatten() for n in start])
        assert float(moved.norm()) > 0
        # Rounded moments act from the second update on, and then the gradients differ, too.
        assert float(apart.norm()) < (0.1 if updates == 1 else 0.2) * float(moved.norm()), updates


@pytest.mark.usefixtures("eight")
def test_eight_bits_update_as_bitsandbytes_own_optimizer() -> None:
    """Float32 weights, three updates: the very same numbers, also where a scale's block is cut."""
    theirs_of: Any = pytest.importorskip("bitsandbytes").optim.AdamW8bit

    def after(make: Any) -> torch.Tensor:
        generator = torch.Generator().manual_seed(3)
        weight = nn.Parameter(torch.randn(37, 61, generator=generator))
        optimizer = make([{"params": [weight], "weight_decay": 0.1}])
        for _ in range(3):
            weight.grad = torch.randn(37, 61, generator=generator)
            optimizer.step()
        return weight.detach()

    ours = after(lambda groups: LeanAdamW(groups, 1e-2, "8bit"))
    assert torch.equal(ours, after(lambda groups: theirs_of(groups, lr=1e-2, min_8bit_size=1)))


def test_small_parameters_keep_float32_moments() -> None:
    pytest.importorskip("bitsandbytes", reason="8 bits: the extra 8bit")
    parameters = [nn.Parameter(torch.ones(n)) for n in (adamw.SMALL - 1, adamw.SMALL)]
    optimizer = LeanAdamW([{"params": parameters, "weight_decay": 0.0}], 1e-3, "8bit")
    for parameter in parameters:
        parameter.grad = torch.ones_like(parameter)
    optimizer.step()
    assert [optimizer.state[p]["first"].dtype for p in parameters] == [torch.float32, torch.uint8]


def test_missing_eight_bits_name_the_line_that_installs_them(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setitem(sys.modules, "bitsandbytes", None)
    with pytest.raises(PrerequisiteError, match=r"needs bitsandbytes: .*pip install -e .*8bit"):
        updated("8bit", HALF, 0)


def updated(mode: str, settings: ModelSettings, updates: int) -> tuple[Any, Any]:
    model = make_model()
    model = model.to(torch.bfloat16) if settings.dtype == "bfloat16" else model
    trainer = make_trainer(model, model_settings=settings, optimizer_memory=mode, lr=1e-3)
    groups = make_groups(make_model())
    for _ in range(updates):
        trainer.update(groups, make_scores(groups))
    return model, trainer


@pytest.mark.slow
def test_states_in_the_hosts_memory_change_nothing() -> None:
    for settings in (HALF, ModelSettings(device="cpu", dtype="float32")):
        a, b = updated("offload", settings, 3)[0], updated("full", settings, 3)[0]
        if settings is HALF:
            assert same(weights(a), weights(b))
        else:
            for name, value in weights(a).items():
                assert torch.allclose(value, weights(b)[name], atol=1e-6), name


@pytest.mark.slow
@pytest.mark.usefixtures("eight")
@pytest.mark.parametrize("mode", ["full", "8bit"])
def test_slices_change_nothing(mode: str, monkeypatch: pytest.MonkeyPatch) -> None:
    whole = updated(mode, HALF, 2)[0]
    monkeypatch.setattr(adamw, "SLICE", BLOCK)
    assert same(weights(whole), weights(updated(mode, HALF, 2)[0]))


def test_gradients_are_summed_in_float32_over_micro_batches() -> None:
    """Each of 600 equal parts is below half a unit of the last place of their sum."""
    layer = nn.Linear(1, 1, bias=False).to(torch.bfloat16)
    optimizer = LeanAdamW([{"params": [layer.weight], "weight_decay": 0.0}], 1e-3)
    for _ in range(600):
        layer(torch.ones(1, 1, dtype=torch.bfloat16)).sum().backward()
    assert layer.weight.grad is None
    assert float(optimizer.held[0].grad) == 600
    optimizer.zero_grad()
    assert optimizer.held[0].grad is None


@pytest.mark.usefixtures("eight")
@pytest.mark.parametrize(("mode", "rank"), [("full", 0), ("8bit", 2), ("offload", 0)])
@pytest.mark.slow
def test_a_resumed_run_equals_one_that_was_not_killed(tmp_path: Any, mode: str, rank: int) -> None:
    settings = HALF.model_copy(update={"lora_rank": rank})
    groups = make_groups(make_model())

    def start() -> Any:
        model = make_model().to(torch.bfloat16)
        return make_trainer(model, model_settings=settings, optimizer_memory=mode, lr=1e-3)

    through = start()
    for _ in range(4):
        through.update(groups, make_scores(groups))
    killed = start()
    for _ in range(2):
        killed.update(groups, make_scores(groups))
    killed.save(tmp_path / "checkpoint")
    resumed = start()
    resumed.load(tmp_path / "checkpoint")
    for _ in range(2):
        resumed.update(groups, make_scores(groups))
    assert same(weights(resumed.model), weights(through.model))
    assert not same(weights(killed.model), weights(through.model))


@pytest.mark.usefixtures("eight")
def test_a_checkpoint_holds_bfloat16_weights_and_one_optimizer_state(tmp_path: Any) -> None:
    model, trainer = updated("8bit", HALF, 1)
    trainer.save(tmp_path / "checkpoint")
    count = sum(p.numel() for p in model.parameters())
    assert (tmp_path / "checkpoint" / "model.safetensors").stat().st_size < 2 * count + 8_000
    state = torch.load(tmp_path / "checkpoint" / "optimizer.pt", weights_only=True)["state"]
    held = sum(
        v.numel() * v.element_size()
        for s in state.values()
        for v in s.values()
        if torch.is_tensor(v)
    )
    padding = 2 * BLOCK * len(state)
    assert held <= 4 * count + 8 * -(-count // BLOCK) + padding + 8 * len(state)


@pytest.mark.slow
@pytest.mark.usefixtures("eight")
def test_another_kind_of_state_is_refused(tmp_path: Any) -> None:
    updated("8bit", HALF, 1)[1].save(tmp_path / "checkpoint")
    with pytest.raises(StoreError, match=r"train\.local\.optimizer_memory"):
        updated("full", HALF, 0)[1].load(tmp_path / "checkpoint")
