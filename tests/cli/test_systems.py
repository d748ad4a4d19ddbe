"""`zerosim systems`: rows of the family, each proved, and names that there are not."""

import json

import pytest

from tests.cli.command import assert_one_line, command


@pytest.mark.ranks
def test_rows_are_proved_and_say_where_bytes_lie(tmp_path):
    only = "infinity-nvme,zero-3"
    answer = command(
        *("systems", "--only", only, "--ranks", 2, "--model", "mlp", "--steps", 2),
        *("--out", tmp_path, "--json"),
    )
    assert answer.code == 0, answer.err
    plain, on_disk = json.loads(answer.out)
    assert plain["losses"] == on_disk["losses"]
    assert plain["outcome"] == "as predicted"
    assert on_disk["outcome"] == "as predicted"
    psi = 271_360
    assert plain["moved_bytes"]["bus"] == plain["held_bytes"]["disk"] == 0
    assert on_disk["moved_bytes"]["bus"] == 6 * psi // 2
    assert on_disk["moved_bytes"]["storage"] == 30 * psi // 2
    assert on_disk["held_bytes"]["disk"] == 14 * psi // 2


@pytest.mark.parametrize("name", ["profiles", "systems"])
def test_unknown_names_are_refused(name):
    assert_one_line(command(name, "--only", "nothing"), "only is 'nothing'", "zero")
