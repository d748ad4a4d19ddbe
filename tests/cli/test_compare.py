"""What `zerosim compare --brief` prints: what `make demo` ends with."""

from tests.cli.command import command
from zerosim.lessons.recordings import COMMITTED


def test_it_ends_in_one_sentence_and_a_bar_for_each():
    stages = [COMMITTED / "ring" / f"stage-{stage}" for stage in range(4)]
    said = command("compare", "--brief", *stages)
    assert said.code == 0
    sentence, _, *bars = said.out.splitlines()
    assert sentence.startswith("Compared with data parallel, ZeRO-3 sends 1.500 times as much")
    assert [line.count("█") for line in bars] == [40, 21, 17, 16]
    assert [line.rpartition("MB")[2].split() for line in bars] == [
        ["1.500", "Ψ"], ["1.500", "Ψ"], ["1.500", "Ψ"], ["2.250", "Ψ"],
    ]  # fmt: skip
