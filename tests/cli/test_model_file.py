"""`--model PATH`: the commands read a Hugging Face config.json alike, and refuse it alike."""

import json

import pytest

import zerosim
from tests.cli.command import assert_one_line, command
from zerosim.record import load

LLAMA = {
    "model_type": "llama",
    "hidden_size": 64,
    "intermediate_size": 160,
    "num_hidden_layers": 2,
    "num_attention_heads": 4,
    "num_key_value_heads": 2,
    "vocab_size": 256,
    "max_position_embeddings": 64,
}
PARAMETERS = 2 * (2 * 64 * 64 + 2 * 64 * 32 + 3 * 64 * 160 + 2 * 64) + 2 * 256 * 64 + 64
MIXTRAL = {**LLAMA, "model_type": "mixtral", "num_local_experts": 4, "num_experts_per_tok": 2}
ALL = (
    ("plan",),
    ("table", "model"),
    ("simulate",),
    ("fit", "--device-bytes", "4MB"),
    ("run",),
)


def written(folder, config):
    folder.mkdir()
    text = config if isinstance(config, str) else json.dumps(config)
    (folder / "config.json").write_text(text, encoding="utf-8")
    return folder


@pytest.fixture(scope="module")
def llama(tmp_path_factory):
    return written(tmp_path_factory.mktemp("models") / "small llama", {**LLAMA, "mystery": 7})


@pytest.mark.parametrize("words", ALL, ids=lambda words: words[0])
@pytest.mark.parametrize(
    ("config", "said"),
    [
        ("{", "it is not JSON"),
        ("[]", "expected a JSON object"),
        ({"model_type": "bert"}, "model_type is 'bert': expected one of llama, mistral"),
        ({"model_type": "llama"}, "hidden_size is missing"),
        ({**LLAMA, "hidden_size": "64"}, "hidden_size is '64': expected a whole number above 0"),
        ({**LLAMA, "num_key_value_heads": 3}, "num_key_value_heads is 3: expected a divisor"),
    ],
    ids=["no-json", "no-object", "unknown", "incomplete", "no-number", "unsound"],
)
def test_a_bad_configuration_is_one_line(tmp_path, words, config, said):
    folder = written(tmp_path / "model", config)
    assert_one_line(command(*words, "--model", folder), said)


@pytest.mark.parametrize("words", ALL, ids=lambda words: words[0])
def test_one_that_is_not_there_is_one_line(tmp_path, words):
    path = tmp_path / "none" / "config.json"
    assert_one_line(command(*words, "--model", path), f"{path}: cannot be read: No such file")


@pytest.mark.parametrize("words", ALL[2:], ids=lambda words: words[0])
def test_what_does_not_train_here_is_refused_with_what_it_has(tmp_path, words):
    folder = written(tmp_path / "experts", MIXTRAL)
    answer = command(*words, "--model", folder)
    assert_one_line(answer, "mixtral with 4 experts is for zerosim plan and zerosim table alone")
    assert command("table", "model", "--model", folder).code == 0


@pytest.mark.ranks
def test_it_is_done_dry_and_said_what_was_taken(tmp_path, llama):
    answer = command(
        *("simulate", "--stage", 3, "--model", llama, "--out", tmp_path / "trace"), "--json"
    )
    assert answer.code == 0
    assert answer.err == (
        f"zerosim: {llama} is built as a Llama (RMSNorm, rotary positions, SwiGLU): 2 layers, "
        f"width 64, 4 heads, 2 of keys, vocabulary 256, {PARAMETERS:,} parameters, sequences of 64 "
        "tokens; ignored: mystery = 7\n"
    )
    json.loads(answer.out)
    trace = load(tmp_path / "trace", strict=True)
    assert trace.manifest.run["model"] == str(llama)
    assert sum(unit.elements for unit in trace.manifest.units) == PARAMETERS


@pytest.mark.ranks
def test_a_trace_is_called_as_its_folder(tmp_path, llama, monkeypatch):
    monkeypatch.chdir(tmp_path)
    assert command("simulate", "--stage", 0, "--ranks", 2, "--model", llama).code == 0
    (found,) = (tmp_path / "traces").iterdir()
    assert found.name.startswith("small llama-on-dgx-h100-n2-")


@pytest.mark.ranks
def test_the_largest_of_it_that_fits(llama):
    words = ("fit", "--device-bytes", "4MB", "--ranks", 2, "--most-layers", 4, "--batch", 1)
    answer = command(*words, "--model", llama, "--json")
    assert answer.code == 0
    (found,) = json.loads(answer.out)["systems"]
    assert found["largest"]["layers"] == 4


@pytest.mark.ranks
def test_it_trains_for_real_from_python(llama):
    run = zerosim.run(model=str(llama), stage=3, ranks=2, steps=1)
    assert run.verify().outcome.value == "as predicted"
    assert sum(unit.elements for unit in run.trace.manifest.units) == PARAMETERS


def test_a_plan_s_command_simulates_its_configuration(llama):
    words = ("--gpus", 8, "--stage", 3, "--tensor-parallel", 1, "--pipeline-parallel", 1)
    answer = command("plan", "--model", llama, *words, "--tokens-per-batch", "8k")
    assert f"--model '{llama}'" in answer.out.splitlines()[-1]
    shorter = command(
        *("plan", "--model", llama, *words, "--tokens-per-batch", "8k", "--sequence", 32)
    )
    assert "--context-length 32" in shorter.out.splitlines()[-1]
    assert "mystery = 7, which the plan does not count" in " ".join(answer.out.split())
