"""Drawings: what is drawn has the places and widths that a run's numbers give it."""

from __future__ import annotations

from itertools import pairwise

import pytest

from tests.lessons.committed import facts
from zerosim.base.quantities import format_bytes
from zerosim.dashboards.figures.drawn import drawn
from zerosim.lessons.course import course
from zerosim.lessons.views import Drawing, view

DRAWN = {"two_cuts", "block", "slots", "addresses", "journey", "blocks", "tree"}
"""The views that are drawings, by name: each process that collects the tests reads this."""
VIEWS = {call.args for lesson in course() for call in lesson.calls("show")}
SHOWN = sorted(args for args in VIEWS if args[0] in DRAWN)
TENSOR = "parallel/tensor-parallel"
ROOM_FOR_A_LETTER = 8.2
"""Of a note, in a drawing's own units: DejaVu Sans is among the widest fonts."""


def shown(name, *runs) -> Drawing:
    found = view(facts(), name, *runs)
    assert isinstance(found, Drawing)
    return found


def test_of_all_that_lessons_show_these_are_drawings():
    found = {args[0] for args in VIEWS if isinstance(view(facts(), *args), Drawing)}
    assert found == {name for name, *_ in SHOWN} == DRAWN


@pytest.mark.parametrize("run", ["parallel/gpipe", "parallel/1f1b"])
def test_a_box_for_each_slot_says_what_a_rank_computes_in_it(run):
    count, boxes = facts().num_slots(run), iter(shown("slots", run).boxes)
    for tasks in facts().slots(run):
        for slot in range(count):
            box, task = next(boxes), tasks.get(slot)
            assert (box.label, box.look) == ((task.label, task.phase) if task else ("", ""))


@pytest.mark.parametrize("args", SHOWN, ids=" ".join)
def test_nothing_is_drawn_outside(args):
    one = shown(*args)
    for box in one.boxes:
        assert box.width > 0
        assert -0.01 <= box.x <= box.x + box.width <= one.width + 0.01
        assert 0 <= box.y <= box.y + box.height <= one.height
    for note in one.notes:
        wide = ROOM_FOR_A_LETTER * len(note.text)
        left = note.x - wide * {"start": 0, "middle": 0.5, "end": 1}[note.anchor]
        assert -0.01 <= left <= left + wide <= one.width
        assert 12 <= note.y <= one.height
    for arrow in one.arrows:
        assert 0 <= arrow.x < arrow.to_x <= one.width
        assert 0 <= arrow.y <= one.height
        assert 0 <= arrow.to_y <= one.height
    assert one.table.rows
    assert all(len(row) == len(one.table.columns) for row in one.table.rows)


@pytest.mark.parametrize("args", SHOWN, ids=" ".join)
def test_notes_of_a_line_do_not_touch(args):
    one = shown(*args)
    for line in {note.y for note in one.notes}:
        ends = []
        for note in (note for note in one.notes if note.y == line):
            wide = ROOM_FOR_A_LETTER * len(note.text)
            left = note.x - wide * {"start": 0, "middle": 0.5, "end": 1}[note.anchor]
            ends.append((left, left + wide))
        assert all(before[1] < after[0] for before, after in pairwise(sorted(ends)))


def test_a_tree_grows_by_the_messages_of_each_round():
    one = shown("tree", "collectives/stage-0")
    num_ranks = facts().num_ranks("collectives/stage-0")
    rows = [one.boxes[at : at + num_ranks] for at in range(0, len(one.boxes), num_ranks)]
    assert [sum(bool(box.look) for box in row) for row in rows] == [1, 2, 4, 8]
    assert len(one.arrows) == num_ranks - 1


@pytest.mark.parametrize(("first", "along"), [(1, "x"), (13, "y")])
def test_a_is_cut_into_equal_parts_beside_or_below_each_other(first, along):
    num = facts().num_ranks(TENSOR)
    boxes = shown("two_cuts", TENSOR).boxes  # x, A, x·A by columns; x, A, x·A by rows
    parts = boxes[first : first + num]
    assert [box.look for box in parts] == [f"rank {rank}" for rank in range(num)]
    assert len({(box.width, box.height) for box in parts}) == 1
    for before, after in pairwise(parts):
        right = before.x + (before.width if along == "x" else 0)
        below = before.y + (before.height if along == "y" else 0)
        assert (after.x, after.y) == pytest.approx((right, below))


def test_who_has_which_columns_and_rows():
    one, num = shown("two_cuts", TENSOR), facts().num_ranks(TENSOR)
    rows, columns = (facts().shape(TENSOR, "blocks.0.mlp.0", end)[2] for end in ("input", "output"))
    assert f"{rows:,} rows and {columns:,} columns among {num} ranks" in one.title
    last = one.table.rows[-1]
    assert last[0] == f"rank {num - 1}"
    assert last[1] == f"{columns - columns // num:,} to {columns - 1:,}"
    assert last[3] == f"{rows - rows // num:,} to {rows - 1:,}"


def test_a_block_is_cut_as_the_program_says():
    one, num = shown("block", TENSOR), facts().num_ranks(TENSOR)
    cuts = [facts().cut(TENSOR, f"blocks.0.mlp.{place}") for place in (0, 2)]
    assert cuts == ["column", "row"]
    said = {note.text for note in one.notes}
    assert {"A by columns", "B by rows"} <= said
    assert sum(box.is_partial for box in one.boxes) == num
    assert len(one.boxes) == 1 + 4 * num


@pytest.mark.parametrize("run", ["scattered/stage-2", "contiguous/stage-2"])
def test_addresses_are_all_of_the_device_and_what_is_free_is_what_was_measured(run):
    one = shown("addresses", run)
    boxes = sorted(one.boxes, key=lambda box: box.x)
    scale = one.width / facts().limit(run)
    assert boxes[0].x == 0
    for before, after in pairwise(boxes):
        assert after.x == pytest.approx(before.x + before.width)
        assert after.look != before.look
    assert boxes[-1].x + boxes[-1].width == pytest.approx(one.width)
    free = [box.width / scale for box in boxes if not box.look]
    assert sum(free) == pytest.approx(facts().free(run))
    assert max(free) == pytest.approx(facts().largest_free(run))
    (largest,) = (box for box in boxes if box.label)
    assert largest.width == pytest.approx(facts().largest_free(run) * scale)
    told = [int(size.replace(",", "")) for *_, size in one.table.rows]
    assert (sum(told), max(told)) == (facts().free(run), facts().largest_free(run))
    assert set(one.legend) == {box.look for box in boxes if box.look}


def test_a_unit_comes_as_it_was_copied_and_gathered():
    run, unit = "infinity/stage-3", "hidden.1"
    one = shown("journey", run, unit)
    for rank, row in enumerate(one.table.rows):
        from_disk, from_host, received, whole = (int(cell.replace(",", "")) for cell in row[1:])
        assert from_disk == facts().fetched(run, unit, rank, "host")
        assert from_host == facts().fetched(run, unit, rank)
        assert whole == from_host + received == 2 * from_host
        own = [box for box in one.boxes if box.y == one.boxes[4 * rank + rank].y]
        assert [box.label for box in own[:3]] == [format_bytes(from_disk)] * 2 + [
            format_bytes(from_host)
        ]
        assert {box.look for box in own[3:]} == {"rank 0", "rank 1"}


def test_a_block_shrinks_to_its_bytes():
    one = shown("blocks", "plusplus/stage-3")
    size = facts().config("plusplus/stage-3", "quantization_block")
    scale = one.width / (2 * size + facts().scale_bytes())
    lines = sorted({box.y for box in one.boxes})
    sums = [sum(box.width for box in one.boxes if box.y == line) / scale for line in lines]
    own = facts().scale_bytes()
    assert sums == pytest.approx([2 * size, size + own, size / 2 + own])
    assert [max(box.shrinks_from for box in one.boxes if box.y == line) for line in lines] == [
        *(1, 2, 4),
    ]
    assert [row[-1] for row in one.table.rows][1:] == [
        f"{facts().scale_share('plusplus/stage-3', bits):.1%}" for bits in (8, 4)
    ]


@pytest.mark.parametrize("args", SHOWN, ids=" ".join)
def test_the_page_has_a_colour_for_each_and_a_label_only_where_it_fits(args):
    page = drawn(shown(*args))
    for one in page.boxes:
        assert one.look.split()[0].startswith(("of-", "shard-", "cause-"))
        assert one.label in ("", one.box.label)
        assert not one.label or one.box.width > 10 * len(one.label)
    looks = [look for _, look in page.legend]
    assert len(set(looks)) == len(looks)
