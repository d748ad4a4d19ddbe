"""Figures: drawn from tables, in the colours of the pages, nothing lost and nothing made up."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

import zerosim
from zerosim.base.tables import Column, Table
from zerosim.lessons.recordings import COMMITTED
from zerosim.verify.outcome import Outcome
from zerosim.view import plots
from zerosim.view.plots import theme

PLAYER = Path(__file__).parents[3] / "dashboards" / "player" / "colours.js"
RUNS = ("ring/stage-0", "ring/stage-3", "native/stage-2", "profiles/fsdp2", "offload/stage-2")
FIGURES = ("laws", "memory", "traffic", "timeline", "waterfall")


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


def test_a_waterfall_ends_at_what_was_sent(run):
    figure = run.plot.waterfall()
    assert figure.data[0].x[-1] == run.verify().report.total("kernel", 0)
    bars = sorted(
        (at, base, length, text)
        for one in figure.data
        for at, base, length, text in zip(one.y, one.base, one.x, one.text, strict=True)
    )
    assert [at for at, *_ in bars] == list(range(len(run.verify().causes) + 1))
    tops = [base + length for _, base, length, _ in bars]
    assert [base for _, base, _, _ in bars] == [0, *tops[:-2], 0]  # each begins where one ended
    assert tops[-1] == tops[-2]
    assert all(text.split()[-1] in {"B", "kB", "MB"} for *_, text in bars)


def test_what_differs_from_a_law_is_seen_without_colours():
    columns = tuple(map(Column, ("cause", "bytes", "outcome")))
    outcomes = ("", *(outcome.value for outcome in Outcome))
    ends, *bars = plots.waterfall(Table("", columns, tuple((one, 1, one) for one in outcomes))).data
    assert not ends.showlegend
    assert [one.name for one in bars] == list(outcomes[1:])
    assert len({one.marker.color for one in bars}) == len(Outcome)
    assert len({one.marker.pattern.shape for one in bars}) == len(Outcome)


def test_a_run_without_a_law_has_figures_without_bars():
    plot = zerosim.load(COMMITTED / "fused/stage-0").plot
    assert not plot.waterfall().data[0].x
    assert not plot.laws().data


def test_a_run_that_obeys_its_law_lies_on_its_curve(run):
    curves = {curve.name: curve for curve in run.plot.laws(rank=1).data}
    (point,) = (curve for name, curve in curves.items() if name.startswith("this run"))
    assert point.x[0] == len(run.ranks)
    (own,) = {row["curve"] for row in run.verify().laws(1) if row["kind"] == "own"}
    expected = dict(zip(curves[own].x, curves[own].y, strict=True))[point.x[0]]
    if run.verify().outcome is Outcome.AS_PREDICTED:
        assert point.y[0] == pytest.approx(expected, rel=0.01)  # message framing
    assert run.plot.laws().layout.yaxis.range[1] > max(point.y[0], *curves[own].y)


def test_curves_that_end_close_to_each_other_have_one_label():
    columns = tuple(Column(one) for one in ("curve", "kind", "ranks", "sent_psi"))
    rows = [(f"{k}x", "own" if k == 24 else "other", 64, float(k)) for k in (24, 2, 3, 4)]
    drawn = plots.laws(Table("laws", columns, tuple(rows)))
    assert [one.text for one in drawn.layout.annotations] == ["2x, 3x, 4x", "<b>24x</b>"]
    near = [("2x", "other", 64, 2.0), ("2.1x", "own", 64, 2.1)]
    drawn = plots.laws(Table("laws", columns, tuple(near)))
    assert [one.text for one in drawn.layout.annotations] == ["2x", "<b>2.1x</b>"]


def test_texts_of_a_trace_are_no_markup_of_a_figure():
    name = "<b>x</b> <a href='javascript:1'>y</a> &lt;"
    columns = (Column("cause"), Column("bytes"), Column("outcome"), Column("words"))
    table = Table(name, columns, ((name, 4, "", name), (name, 2, "explained", name)))
    drawn = plots.waterfall(table).layout
    shown = [drawn.title.text, *drawn.yaxis.ticktext[:2]]
    curves = tuple(Column(one) for one in ("curve", "kind", "ranks", "sent_psi"))
    drawn = plots.laws(Table(name, curves, ((name, "other", 2, 1.0), (name + "!", "run", 2, 1.0))))
    shown += [drawn.layout.title.text, drawn.layout.annotations[0].text, drawn.data[1].name]
    columns = ("phase", "purpose", "op", "theory_bytes", "trace_bytes", "wire_bytes")
    row = ("forward", name, name, 1, 1, 1)
    drawn = plots.traffic(Table(name, tuple(map(Column, columns)), (row,)))
    shown += [drawn.layout.title.text, *drawn.data[0].x[1]]
    for text in shown:
        assert "<" not in text.replace("<br>", "")
        assert "&amp;lt;" in text


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
