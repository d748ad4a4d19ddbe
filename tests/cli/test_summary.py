"""What `zerosim run` says of several stages: what each sends, and what it keeps."""

from rich.console import Console

from zerosim.cli.run import _print
from zerosim.lessons.recordings import COMMITTED
from zerosim.view.reading import load


def test_each_stage_says_what_a_rank_keeps(capsys):
    runs = [load(COMMITTED / "ring" / f"stage-{stage}", strict=True) for stage in range(4)]
    _print(Console(width=140), runs, is_whole=False)
    said = capsys.readouterr().out
    for memory in ("16Ψ = 52.9 MB", "4Ψ + 12Ψ/N = 23.1 MB", "2Ψ + 14Ψ/N = 18.2 MB"):
        assert memory in said
    assert "16Ψ/N = 13.2 MB" in said
    assert "N = 4 ranks, Ψ = 3,307,008 parameters" in said
