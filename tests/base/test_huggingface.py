"""Models from a Hugging Face config.json: counts of parameters, and what is not understood.

`huggingface.json` holds configurations as published, cut to what decides sizes, each with the
parameters that its own code builds on the meta device (transformers 5.24.0).
"""

import json
from pathlib import Path

import pytest

from zerosim.base.config.huggingface import architecture, essential
from zerosim.base.config.model import trained_shape
from zerosim.base.config.shapes import LlamaConfig, parameters_of, shape_of
from zerosim.base.errors import ConfigError
from zerosim.theory.operators import Computing, model_flops
from zerosim.theory.saved import KeptActivations, Recompute, block_bytes
from zerosim.theory.transformer import BLOCK, LayerCut, pieces

MODELS = json.loads(Path(__file__).with_name("huggingface.json").read_text(encoding="utf-8"))


@pytest.mark.parametrize("name", MODELS)
def test_parameters_are_those_that_its_own_code_builds(name):
    shape = architecture(MODELS[name]["config"])
    assert shape.num_parameters == MODELS[name]["parameters"]
    assert sum(one.elements * one.times for one in pieces(shape)) == shape.num_parameters


@pytest.mark.parametrize("name", MODELS)
def test_parameters_are_those_of_transformers_here(name):
    transformers = pytest.importorskip("transformers")
    torch = pytest.importorskip("torch")
    config = transformers.AutoConfig.for_model(**MODELS[name]["config"])
    with torch.device("meta"):
        model = transformers.AutoModelForCausalLM.from_config(config)
    model.tie_weights()
    found = {id(one): one.numel() for one in model.parameters()}
    assert architecture(MODELS[name]["config"]).num_parameters == sum(found.values())


def test_active_parameters_are_what_cards_say():
    """12.9 B (Mixtral), 3.3 B (Qwen3-30B-A3B), 37 B (DeepSeek-V3), 6.6 B (Phi-3.5-MoE), 1.3 B
    (OLMoE), 3.6 B (gpt-oss-20b, which leaves its embedding out), as their cards round them.
    """
    for name, billions in (
        ("mistralai/Mixtral-8x7B-v0.1", 12.9),
        ("Qwen/Qwen3-30B-A3B", 3.35),
        ("deepseek-ai/DeepSeek-V3", 37.55),
        ("microsoft/Phi-3.5-MoE-instruct", 6.64),
        ("allenai/OLMoE-1B-7B-0924", 1.28),
        ("openai/gpt-oss-20b", 3.61 + 0.579),
    ):
        shape = architecture(MODELS[name]["config"])
        active = parameters_of(shape, active=True)
        assert active / 1e9 == pytest.approx(billions, abs=0.05)
        assert model_flops(shape, 1, 1) == pytest.approx(6 * active, rel=0.001)


def test_a_built_in_model_is_the_same_as_its_configuration():
    """Parameters, pieces, operators and activations, with and without tensor parallelism."""
    read = architecture(MODELS["meta-llama/Llama-3.1-8B"]["config"])
    built = shape_of("llama-3-8b")
    assert isinstance(built, LlamaConfig)
    for cut in (LayerCut(), LayerCut(8, sequence=True)):
        assert pieces(read, cut) == pieces(built, cut)
        theirs, ours = Computing(read, 2, 4096, cut), Computing(built, 2, 4096, cut)
        assert theirs.forward(BLOCK) == ours.forward(BLOCK)
        assert theirs.backward(BLOCK) == ours.backward(BLOCK)
        for recompute in Recompute:
            keeping = KeptActivations(recompute)
            assert block_bytes(theirs, keeping) == block_bytes(ours, keeping)


def test_what_is_not_understood_is_named():
    given = {**MODELS["meta-llama/Llama-3.1-8B"]["config"], "num_memory_tokens": 4}
    assert architecture(given).left_out == ("num_memory_tokens = 4",)
    left = architecture(MODELS["deepseek-ai/DeepSeek-V3"]["config"]).left_out
    assert [one.split(" = ")[0] for one in left] == [
        "num_nextn_predict_layers",
        "quantization_config",
    ]


def test_kinds_of_layers_that_nothing_counts_are_named():
    given = MODELS["Qwen/Qwen2-7B"]["config"]
    layers = given["num_hidden_layers"]
    usual = {**given, "layer_types": ["full_attention"] * layers}
    assert architecture(usual).left_out == architecture(given).left_out
    other = {**given, "layer_types": ["linear_attention"] * layers}
    assert "layer_types linear_attention" in architecture(other).left_out
    llama = MODELS["meta-llama/Llama-3.1-8B"]["config"]
    assert architecture({**llama, "layer_types": ["full_attention"] * 32}).left_out == ()


def test_a_text_model_in_a_wrapper():
    inner = MODELS["google/gemma-3-1b-pt"]["config"]
    outer = {"model_type": "gemma3", "text_config": inner, "vision_config": {"hidden_size": 1152}}
    found = architecture(outer)
    assert found.num_parameters == MODELS["google/gemma-3-1b-pt"]["parameters"]
    assert any("vision_config" in one for one in found.left_out)


def test_windows_are_in_the_operations():
    shape = architecture(MODELS["google/gemma-2-9b"]["config"])
    (block,) = shape.blocks
    # of 42 layers 21 see 4,096 of 8,192 tokens: 2w - w^2/s = 6,144 as the papers count
    assert block.attended(8192) == (8192 + 6144) / 2
    assert block.attended(4096) == 4096


@pytest.mark.parametrize(
    ("values", "said"),
    [
        ([], "expected a JSON object"),
        ({}, "model_type is missing"),
        ({"model_type": "mamba"}, "expected one of llama, mistral"),
        ({"model_type": "llama", "hidden_size": 64}, "num_attention_heads is missing"),
        ({"model_type": "gpt2", "n_embd": "wide"}, "n_embd is 'wide'"),
        ({"model_type": "gpt2", "n_embd": -4}, "expected a whole number above 0"),
    ],
)
def test_what_is_wrong_is_said(values, said):
    with pytest.raises(ConfigError, match=said):
        architecture(values)


@pytest.mark.parametrize(
    ("name", "key", "value", "said"),
    [
        ("microsoft/phi-2", "qk_layernorm", True, "expected false"),
        ("CohereForAI/c4ai-command-r7b-12-2024", "use_parallel_block", False, "expected true"),
        ("stabilityai/stablelm-2-1_6b", "use_parallel_residual", True, "expected false"),
    ],
)
def test_a_design_that_is_not_the_familys_is_refused(name, key, value, said):
    with pytest.raises(ConfigError, match=f"{key} is .*: {said}"):
        architecture({**MODELS[name]["config"], key: value})


def test_layers_without_rotary_positions_are_a_kind_of_their_own():
    """A quarter of SmolLM3's layers; those of Command-R7B that read all tokens. Neither trains."""
    for name, window in (
        ("HuggingFaceTB/SmolLM3-3B", ()),
        ("CohereForAI/c4ai-command-r7b-12-2024", (4096,)),
    ):
        shape = architecture(MODELS[name]["config"])
        rotary, without = shape.blocks
        assert rotary.layers == 3 * without.layers
        assert (rotary.has_rotary, without.has_rotary) == (True, False)
        assert tuple(tokens for tokens, _ in rotary.windows) == window
        assert without.windows == ()
        with pytest.raises(ConfigError, match="2 kinds of blocks"):
            trained_shape(shape, name)


def test_heads_that_do_not_divide_are_refused():
    given = {**MODELS["meta-llama/Llama-3.1-8B"]["config"], "num_key_value_heads": 5}
    with pytest.raises(ConfigError, match="num_key_value_heads is 5: expected a divisor"):
        architecture(given)


def test_a_folder_and_a_file_are_read(tmp_path):
    path = tmp_path / "config.json"
    path.write_text(json.dumps(MODELS["openai-community/gpt2"]["config"]), encoding="utf-8")
    assert shape_of(str(tmp_path)) == shape_of(str(path))
    path.write_text("{", encoding="utf-8")
    with pytest.raises(ConfigError, match="it is not JSON"):
        shape_of(str(path))
    with pytest.raises(ConfigError, match="cannot be read: No such file"):
        shape_of(str(tmp_path / "nothing.json"))


@pytest.mark.parametrize("name", MODELS)
def test_what_is_essential_of_a_configuration_says_the_same_in_fewer_words(name):
    given = {**MODELS[name]["config"], "mystery": 7, "hidden_act": "silu", "use_cache": True}
    short = essential(given)
    assert architecture(short) == architecture(given)
    assert short["mystery"] == 7
    assert set(short) <= set(given)
    assert "use_cache" not in short
    assert essential(short) == short


def test_the_text_of_several_towers_stays_whole():
    inner = MODELS["google/gemma-3-1b-pt"]["config"]
    given = {"model_type": "gemma3", "text_config": inner, "vision_config": None}
    short = essential(given)
    assert architecture(short) == architecture(given)
    assert "vision_config" not in short
