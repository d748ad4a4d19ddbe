"""Every claim with its verdict and its numbers: `python -m zerosim.lessons.claims`."""

from rich.console import Console

from zerosim.lessons.claims import claims
from zerosim.lessons.facts import Facts
from zerosim.lessons.lab import print_view
from zerosim.lessons.recordings import LessonRecordings
from zerosim.lessons.views import view

if __name__ == "__main__":
    facts, console = Facts(LessonRecordings()), Console()
    for name in claims():
        print_view(console, view(facts, "claim", name))
        console.print(f"  {facts.judgement(name).because}")
