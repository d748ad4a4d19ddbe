"""`zerosim.run`: the command's work from Python."""

import pytest

import zerosim
from zerosim.base.errors import ConfigError, EnvironmentFault
from zerosim.view.reading import Source


@pytest.mark.ranks
def test_a_run_is_started_and_read(tmp_path, capfd):
    run = zerosim.run(tmp_path / "mine", stage=2, ranks=2, steps=1, model="mlp")
    assert run.source is Source.EXECUTED
    assert (run.ranks, run.iterations) == ((0, 1), (0,))
    assert run.configuration["stage"] == 2
    assert run.verify().holds
    assert not capfd.readouterr().out
    with pytest.raises(EnvironmentFault, match="already contains a trace"):
        zerosim.run(tmp_path / "mine", stage=2, ranks=2)


def test_an_option_that_does_not_exist_is_refused():
    with pytest.raises(ConfigError, match="option is 'stag': expected one of accumulate, batch"):
        zerosim.run(stag=3)
    with pytest.raises(ConfigError, match="stage"):
        zerosim.run(stage=4)


def test_a_rank_starts_no_run(monkeypatch):
    for name in ("RANK", "WORLD_SIZE", "MASTER_ADDR"):
        monkeypatch.setenv(name, "1")
    with pytest.raises(ConfigError, match="a launcher started"):
        zerosim.run(stage=3)
