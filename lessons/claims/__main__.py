"""Every claim with its verdict and its numbers: `python -m lessons.claims`."""

from rich.console import Console

from lessons.claims import claims
from lessons.facts import Facts
from lessons.lab import print_view
from lessons.recordings import Recordings
from lessons.views import view

if __name__ == "__main__":
    facts, console = Facts(Recordings()), Console()
    for name in claims():
        print_view(console, view(facts, "claim", name))
        console.print(f"  {facts.judgement(name).because}")
