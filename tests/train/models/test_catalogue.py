import re
from contextlib import nullcontext

import pytest
import torch
from torch._subclasses.fake_tensor import FakeTensorMode

from zerosim.base.config import ModelName
from zerosim.base.errors import ConfigError
from zerosim.train.models import Batches, build, catalogue, context_of
from zerosim.train.models.catalogue import num_parameters_of

DTYPES = (torch.float32, torch.bfloat16, torch.float16)


def num_parameters(model):
    return sum(parameter.numel() for parameter in model.parameters())


MANY_LAYERS = {"gpt-3", "zero-128b", "zero-1t", "llama-3-70b", "llama-3-405b"}
"""Larger in every number than others of their class, which are built as well."""


def stated(name):
    """Parameters and context."""
    line = rf"^    {re.escape(name)} +([\d,]+) parameters.* context (\d+)$"
    found = re.search(line, catalogue.__doc__, re.MULTILINE)
    return int(found[1].replace(",", "")), int(found[2])


@pytest.mark.parametrize("name", ModelName)
def test_the_docstring_states_size_and_context(name):
    parameters, context = stated(name)
    assert context == context_of(name)
    if name.is_large:
        assert parameters == num_parameters_of(name)


@pytest.mark.parametrize(
    "name",
    [pytest.param(one, marks=[pytest.mark.long] * (one in MANY_LAYERS)) for one in ModelName],
)
def test_the_stated_size_is_the_real_one(name):
    with FakeTensorMode() if name.is_large else nullcontext():
        assert stated(name)[0] == num_parameters(build(name, 0))


@pytest.mark.parametrize("name", [name for name in ModelName if not name.is_large])
def test_the_same_seed_gives_the_same_weights(name):
    first, again, other = (build(name, seed).state_dict() for seed in (3, 3, 4))
    assert all(torch.equal(first[key], again[key]) for key in first)
    assert any(not torch.equal(first[key], other[key]) for key in first)
    assert {value.dtype for value in first.values()} == {torch.float32}
    assert {value.device.type for value in first.values()} == {"cpu"}


def test_building_leaves_the_generator_alone():
    torch.manual_seed(1)
    expected = torch.rand(3)
    torch.manual_seed(1)
    build(ModelName.MLP, 7)
    assert torch.equal(torch.rand(3), expected)


def test_the_default_device_does_not_matter():
    with torch.device("meta"):
        model = build(ModelName.MLP, 0)
    assert torch.equal(model.head.weight, build(ModelName.MLP, 0).head.weight)


@pytest.mark.parametrize("dtype", DTYPES, ids=str)
@pytest.mark.parametrize("name", [ModelName.GPT_TINY, ModelName.MLP])
def test_every_parameter_gets_a_finite_gradient_in_every_dtype(name, dtype):
    model = build(name, 0).to(dtype)
    tokens = Batches(seed=0, rank=0, num_ranks=1, batch=2, context=16).at(0)
    loss = model(tokens)
    assert loss.dtype == torch.float32
    assert loss.shape == ()
    assert model.logits(tokens).shape == (2, 17, 256)
    assert model.logits(tokens).dtype == dtype
    loss.backward()
    for key, parameter in model.named_parameters():
        assert parameter.grad is not None, key
        assert parameter.grad.isfinite().all(), key
        assert parameter.grad.dtype == dtype, key


@pytest.mark.parametrize("name", [ModelName.GPT_TINY, ModelName.MLP])
def test_a_guess_depends_on_earlier_bytes_only(name):
    model = build(name, 0)
    tokens = Batches(seed=0, rank=0, num_ranks=1, batch=2, context=23).at(0)
    changed = tokens.clone()
    changed[:, 15] = (changed[:, 15] + 1) % 256
    with torch.no_grad():
        before, after = model.logits(tokens), model.logits(changed)
    assert torch.equal(before[:, :15], after[:, :15])
    assert not torch.equal(before[:, 15], after[:, 15])
    assert not torch.equal(before[:, 16], after[:, 16])


@pytest.mark.parametrize("name", [ModelName.GPT_TINY, ModelName.MLP])
def test_the_first_guess_is_even(name):
    tokens = Batches(seed=0, rank=0, num_ranks=1, batch=4, context=context_of(name)).at(0)
    with torch.no_grad():
        assert build(name, 0)(tokens).item() == pytest.approx(5.545, abs=0.15)  # ln 256


def test_the_mlp_has_nothing_to_tie():
    with pytest.raises(ConfigError, match="try gpt-tiny"):
        build(ModelName.MLP, 0, tied=True)


def test_the_mlp_reads_its_window_and_no_more():
    model = build(ModelName.MLP, 0)
    tokens = Batches(seed=0, rank=0, num_ranks=1, batch=1, context=31).at(0)
    changed = tokens.clone()
    changed[:, 4] = 0
    with torch.no_grad():
        same = (model.logits(tokens) == model.logits(changed)).all(dim=2)[0]
    assert same.tolist() == [not 4 <= position < 12 for position in range(32)]
