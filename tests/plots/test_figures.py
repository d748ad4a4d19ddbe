"""Figures: drawn from tables, in the colours of the pages, nothing lost and nothing made up."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

import zerosim
from zerosim.lessons.recordings import COMMITTED
from zerosim.plots import theme

PLAYER = Path(__file__).parents[2] / "dashboards" / "player" / "colours.js"
RUNS = ("ring/stage-0", "ring/stage-3", "native/stage-2", "profiles/fsdp2", "offload/stage-2")
FIGURES = ("memory", "traffic", "timeline", "waterfall")


@pytest.fixture(params=RUNS)
def run(request):
    return zerosim.load(COMMITTED / request.param)


def test_every_figure_of_every_kind_of_run_can_be_drawn(run):
    for name in FIGURES:
        figure = getattr(run.plot, name)()
        assert figure.data
        assert figure.layout.title.text
        assert figure.layout.font.size >= theme.SMALLEST_TEXT_PX
        assert figure.to_json()


def test_memory_adds_up_at_every_sample(run):
    table = run.memory("every sample", "role")
    figure = run.plot.memory()
    totals = {}
    for row in table:
        totals[row["time_ns"]] = totals.get(row["time_ns"], 0) + row["bytes"]
    drawn = [sum(heights) for heights in zip(*(one.y for one in figure.data), strict=True)]
    assert drawn == [totals[time] for time in sorted(totals)]


def test_traffic_shows_the_three_ledgers(run):
    figure = run.plot.traffic(rank=1)
    ledger = run.verify().ledger(rank=1)
    for name in ("theory", "trace", "wire"):
        drawn = [size for bars in figure.data if bars.name == name for size in bars.y]
        assert tuple(drawn) == ledger[f"{name}_bytes"]


def test_a_timeline_holds_all_of_each_ranks_time(run):
    pieces = run.pieces()
    lanes = {}
    for bars in run.plot.timeline().data:
        for lane, length in zip(bars.y, bars.x, strict=True):
            lanes[lane] = lanes.get(lane, 0) + length
    for rank in run.ranks:
        whole = sum(row["duration_ns"] for row in pieces if row["rank"] == rank)
        assert lanes[f"rank {rank}"] == pytest.approx(whole / 1e6)


def test_a_waterfall_ends_at_what_was_sent():
    run = zerosim.load(COMMITTED / "ring/stage-3")
    (figure,) = run.plot.waterfall().data
    assert figure.y[-1] == run.verify().report.total("kernel", 0)
    assert figure.measure[0] == "absolute"


def test_the_colours_are_those_of_the_pages():
    light = PLAYER.read_text().partition("dark: {")[0]
    named = dict(re.findall(r"(\w+): \"(#\w{6})\"", light))
    assert (named["text"], named["muted"], named["line"]) == (theme.TEXT, theme.MUTED, theme.LINE)
    assert (named["card"], named["wait"], named["path"]) == (theme.CARD, theme.WAIT, theme.PATH)
    for group, colours in (("phases", theme.PHASES), ("communication", theme.COMMUNICATION)):
        (block,) = re.findall(rf"{group}: {{(.*?)}}", light, re.DOTALL)
        assert dict(re.findall(r"(\w+): \"(#\w{6})\"", block)) == {
            phase.value: colour for phase, colour in colours.items()
        }
    roles = re.findall(r'\["(\w*)", "(#\w{6})", "#\w{6}"\]', PLAYER.read_text())
    for role, colour in theme.ROLES.items():
        assert colour == next(light for part, light in roles if part in role.value)
