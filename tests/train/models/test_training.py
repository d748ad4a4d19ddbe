import pytest
import torch

from zerosim.base.config import ModelName
from zerosim.train.models import Batches, build, context_of, unigram_loss, validation_text


@pytest.mark.usefixtures("one_thread")
@pytest.mark.parametrize(
    ("name", "steps", "batch", "rate"),
    [
        # that a small GPT learns is shown in tests/train/engine/test_stages.py
        pytest.param(ModelName.GPT_TINY, 60, 4, 1e-3, marks=pytest.mark.long),
        (ModelName.MLP, 60, 8, 2e-3),
    ],
)
def test_a_model_learns_more_than_the_frequency_of_bytes(name, steps, batch, rate):
    read = {"seed": 0, "rank": 0, "num_ranks": 1, "context": context_of(name)}
    train = Batches(**read, batch=batch)
    model = build(name, 0)
    optimizer = torch.optim.AdamW(model.parameters(), lr=rate, weight_decay=0.0)
    for step in range(steps):
        loss = model(train.at(step))
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
    held_out = Batches(**read, batch=4 * batch, text=validation_text()).at(0)
    with torch.no_grad():
        validation_loss = model(held_out).item()
    assert validation_loss < 2.7 < unigram_loss(validation_text()) - 0.4
