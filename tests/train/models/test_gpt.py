import pytest
import torch
import torch.nn.functional as F

from zerosim.base.config import ModelName
from zerosim.train.models import GPT, GPTConfig, build
from zerosim.train.models.gpt import next_byte_loss


@pytest.mark.parametrize("tied", [False, True])
@pytest.mark.parametrize(("layers", "width", "context"), [(1, 8, 4), (3, 16, 5)])
def test_the_docstrings_count_parameters_right(layers, width, context, tied):
    config = GPTConfig(layers=layers, width=width, heads=2, context=context, tied=tied)
    model = GPT(config)

    def count(module):
        return sum(parameter.numel() for parameter in module.parameters())

    assert count(model.embedding) == (256 + context) * width
    assert count(model.blocks[0].attention) == 4 * width**2 + 4 * width
    assert count(model.blocks[0]) == 12 * width**2 + 13 * width
    assert count(model.head) == 2 * width + 256 * width
    whole = layers * (12 * width**2 + 13 * width) + (512 + context) * width + 2 * width
    assert count(model) == whole - 256 * width * tied == config.num_parameters


def test_every_parameter_belongs_to_embedding_blocks_or_head():
    names = {name.split(".")[0] for name, _ in build(ModelName.GPT_TINY, 0).named_parameters()}
    assert names == {"embedding", "blocks", "head"}


def test_a_tied_head_is_the_embedding():
    model = build(ModelName.GPT_TINY, 0, tied=True)
    assert model.head.linear.weight is model.embedding.token.weight
    tokens = torch.tensor([[1, 2, 3]])
    model(tokens).backward()
    gradient = model.embedding.token.weight.grad
    assert gradient[200].any()  # never read: this comes from the head
    model = build(ModelName.GPT_TINY, 0)
    model(tokens).backward()
    assert not model.embedding.token.weight.grad[200].any()


def test_attention_is_softmax_of_scaled_products_of_what_came_before():
    torch.manual_seed(0)
    attention = GPT(GPTConfig(layers=1, width=8, heads=2, context=6)).blocks[0].attention
    x = torch.randn(1, 6, 8)
    rows = attention.query_key_value(x)[0]
    later = torch.ones(6, 6, dtype=torch.bool).triu(1)
    mixed = []
    for head in range(2):
        columns = slice(4 * head, 4 * head + 4)
        query, key, value = (rows[:, 8 * part : 8 * part + 8][:, columns] for part in range(3))
        scores = (query @ key.T / 2).masked_fill(later, float("-inf"))
        mixed.append(scores.softmax(dim=1) @ value)
    expected = attention.output(torch.cat(mixed, dim=1))
    torch.testing.assert_close(attention(x)[0], expected)


def test_the_loss_is_of_the_next_byte():
    model = build(ModelName.GPT_TINY, 0)
    tokens = torch.tensor([[72, 105, 33, 10]])
    with torch.no_grad():
        scores = model.logits(tokens[:, :-1])
        guesses = F.log_softmax(scores, dim=2)[0, torch.arange(3), tokens[0, 1:]]
        assert model(tokens).item() == pytest.approx(-guesses.mean().item(), rel=1e-6)


def test_the_loss_is_computed_in_fp32():
    scores = torch.zeros(1, 1, 256, dtype=torch.bfloat16)
    assert next_byte_loss(scores, torch.tensor([[7]])).item() == pytest.approx(5.5451774, rel=1e-7)
