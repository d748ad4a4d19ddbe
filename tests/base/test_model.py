"""Which model is meant: names and files, and what of a configuration trains here."""

import json
import pickle
from pathlib import Path

import pytest

from zerosim.base.config import EngineConfig, ModelFile, ModelName, RunConfig, Shape
from zerosim.base.config.huggingface import architecture
from zerosim.base.config.model import called, model_named, sized, trained_shape
from zerosim.base.config.shapes import SHAPES, GPTConfig, LlamaConfig
from zerosim.base.errors import ConfigError
from zerosim.theory.layout import Layout
from zerosim.theory.operators import Computing
from zerosim.theory.transformer import BLOCK, pieces

MODELS = json.loads(Path(__file__).with_name("huggingface.json").read_text(encoding="utf-8"))
TRAINED = {
    "meta-llama/Llama-2-7b-hf": LlamaConfig,
    "meta-llama/Llama-2-70b-hf": LlamaConfig,
    "meta-llama/Llama-3.1-8B": LlamaConfig,
    "meta-llama/Llama-3.1-405B": LlamaConfig,
    "meta-llama/Llama-3.2-1B": LlamaConfig,
    "mistralai/Mistral-Nemo-Base-2407": LlamaConfig,
    "Qwen/Qwen2-7B": LlamaConfig,
    "Qwen/Qwen2.5-0.5B": LlamaConfig,
    "Qwen/Qwen3-8B": LlamaConfig,
    "google/gemma-7b": LlamaConfig,
    "openai-community/gpt2": GPTConfig,
    "openai-community/gpt2-xl": GPTConfig,
    "ibm-granite/granite-3.0-8b-base": LlamaConfig,
    "THUDM/glm-4-9b-hf": LlamaConfig,
}
"""Those whose parts are all parts of a model of this package."""
REFUSED = {
    "mistralai/Mistral-7B-v0.1": "attention windows of 4,096 tokens",
    "google/gemma-2-9b": "4 norms in a block",
    "microsoft/phi-2": "one norm in a block",
    "EleutherAI/pythia-1b": "rotary positions beside LayerNorm",
    "bigscience/bloom": "no table of positions",
    "mistralai/Mixtral-8x7B-v0.1": "8 experts",
    "deepseek-ai/DeepSeek-V3": "2 kinds of blocks, 256 experts, latent attention",
    "facebook/opt-1.3b": "biases of 6 matrices in a block, not of 4",
    "allenai/OLMo-2-1124-7B": "16,384 elements in a block's norms",
}


@pytest.mark.parametrize("name", MODELS)
def test_what_trains_is_the_configuration_s_model_or_nothing(name):
    shape = architecture(MODELS[name]["config"])
    if name not in TRAINED:
        with pytest.raises(ConfigError, match="is for zerosim plan") as refused:
            trained_shape(shape, name)
        assert REFUSED.get(name, "") in str(refused.value)
        return
    found = trained_shape(shape, name)
    assert isinstance(found, TRAINED[name])
    assert found.num_parameters == MODELS[name]["parameters"]
    assert pieces(found) == pieces(shape)
    ours, theirs = Computing(found, 1, 512), Computing(shape, 1, 512)
    assert ours.forward(BLOCK) == theirs.forward(BLOCK)
    assert found.context == shape.context


@pytest.mark.parametrize("name", [name for name, kind in TRAINED.items() if kind is LlamaConfig])
def test_what_is_built_has_as_many_parameters(name):
    torch = pytest.importorskip("torch")
    from zerosim.train.models.llama import Llama

    shape = trained_shape(architecture(MODELS[name]["config"]), name)
    assert isinstance(shape, LlamaConfig)
    with torch.device("meta"):
        model = Llama(sized(shape, Shape(layers=1)))
    model.head.linear.weight = model.embedding.weight if shape.tied else model.head.linear.weight
    assert (
        sum(one.numel() for one in model.parameters())
        == sized(shape, Shape(layers=1)).num_parameters
    )


def test_a_window_as_long_as_a_sequence_changes_nothing():
    shape = architecture(MODELS["mistralai/Mistral-7B-v0.1"]["config"])
    assert isinstance(trained_shape(shape, "mistral", 4096), LlamaConfig)
    with pytest.raises(ConfigError, match="windows"):
        trained_shape(shape, "mistral", 4097)


def test_built_in_models_are_their_own():
    for shape in SHAPES.values():
        assert trained_shape(shape, "") is shape
    assert Layout(shape=shape, config=EngineConfig(), data=1, sequence=1).num_ranks == 1


def test_a_name_or_a_path():
    assert model_named("gpt-2") is ModelName.GPT_2
    for path in ("config.json", "models/mine", "./mine", "/models/mine/config.json"):
        assert model_named(path) == path
        assert isinstance(model_named(path), ModelFile)
    for name in ("gpt-5", "", "mine.toml"):
        with pytest.raises(ConfigError, match=r"llama-3-405b, or a Hugging Face config\.json"):
            model_named(name)


def test_a_word_for_a_model():
    assert called(ModelName.GPT_2) == "gpt-2"
    assert called(ModelFile("/models/mine/config.json")) == "mine"
    assert called(ModelFile("/models/mine")) == "mine"
    assert called(ModelFile("models/small.json")) == "small"


def test_a_run_s_options_keep_the_path():
    run = RunConfig(model="models/mine")
    assert isinstance(run.model, ModelFile)
    assert RunConfig.from_plain(json.loads(json.dumps(run.to_plain()))) == run
    assert isinstance(pickle.loads(pickle.dumps(run)).model, ModelFile)  # noqa: S301 - our own


def test_sizes_that_may_be_others():
    llama = SHAPES[ModelName.LLAMA_3_8B]
    assert isinstance(llama, LlamaConfig)
    found = sized(llama, Shape(layers=2, context_length=128, vocabulary=256))
    assert (found.layers, found.context, found.vocabulary) == (2, 128, 256)
    with pytest.raises(ConfigError, match="width is 64 for a Llama"):
        sized(llama, Shape(width=64))
    with pytest.raises(ConfigError, match="heads is 2 for a Llama"):
        sized(llama, Shape(heads=2))
