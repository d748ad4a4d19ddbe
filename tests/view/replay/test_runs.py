"""Real runs: the frames keep every law, and agree with the memory ledger and `zerosim verify`."""

from __future__ import annotations

import re
from collections import Counter

import pytest

from tests.recorded import recorded
from zerosim.analysis.frames import ShardState
from zerosim.analysis.frames.waiting import SHORTEST_WAIT_NS
from zerosim.analysis.memory import timeline
from zerosim.record import iterations, load
from zerosim.schema.events import Kind
from zerosim.schema.memory import MODEL_STATES, Role
from zerosim.verify import verify, verify_memory
from zerosim.view.replay import replay_document

pytestmark = pytest.mark.ranks

STEPS = 2
VARIANTS = {
    "as it comes": {"ranks": 4},
    "three ranks": {"ranks": 3, "dtype": "fp32"},
    "micro-steps, small buckets, clipping": {
        "ranks": 2, "accumulate": 2, "bucket-elements": 50_000, "clip": 1.0, "dtype": "fp16",
    },
    "large buckets, far ahead": {"ranks": 2, "bucket-elements": 10_000_000, "prefetch": 3},
    "native collectives": {"ranks": 2, "collectives": "native"},
    "nothing at once": {"ranks": 2, "no-overlap": True, "prefetch": 0},
    "one rank": {"ranks": 1},
}  # fmt: skip


@pytest.mark.parametrize("variant", VARIANTS)
def test_frames_agree_with_what_was_measured(variant):
    folder, answer = recorded(STEPS, **VARIANTS[variant])
    assert answer.code == 0, answer.err
    for stage in range(4):
        trace = load(folder / f"stage-{stage}", strict=True)
        assert iterations(trace) == tuple(range(STEPS))
        for iteration in range(STEPS):
            document = replay_document(trace, iteration)
            assert document["broken"] is None
            assert document["notes"] == []
            assert_traffic(document, trace, iteration)
            assert_memory(document, trace)
            assert_waits(document, trace, iteration)
            assert_peaks(document, trace, iteration)


def assert_waits(document, trace, iteration) -> None:
    """Waits are told while what they wait for goes on, cut at steps, and none is lost."""
    steps, texts = document["steps"], document["texts"]
    assert "wait" not in {step["kind"] for step in steps}
    places = {call["unit_name"]: [] for call in document["collectives"]}
    for number, step in enumerate(steps):
        if step["collective"] >= 0:
            name = document["collectives"][step["collective"]]["unit_name"]
            places[name].append((number, step["until"]))
    told = Counter()
    for number, step in enumerate(steps):
        assert bool(step["waits"]) == (step["waiting"] >= 0)
        if step["waits"]:
            words = re.findall(r"for the (?:parameters|reduced gradients) of (bucket \d+|[\w.]*\w)",
                               texts[step["waiting"]])  # fmt: skip
            assert all(any(number <= until for _, until in places[unit]) for unit in words)
        for rank, start, end in zip(*[iter(step["waits"])] * 3, strict=True):
            assert end - start >= SHORTEST_WAIT_NS
            told[rank] += end - start
    for rank in trace.ranks:
        lengths = [
            event.end_ns - event.start_ns
            for event in rank.events
            if event.kind is Kind.WAIT and event.iteration == iteration
        ]
        # parts of a wait that are too short to be told are left out
        at_most = sum(length for length in lengths if length >= SHORTEST_WAIT_NS)
        assert at_most - len(steps) * SHORTEST_WAIT_NS <= told[rank.rank] <= at_most


def assert_peaks(document, trace, iteration) -> None:
    """Page and report show the same peak, and the drawn line reaches it."""
    memory, report = document["memory"], verify_memory(trace, iteration)
    assert [rank["peak_bytes"] for rank in memory["ranks"]] == [peak.bytes for peak in report.peaks]
    for rank, top in zip(memory["ranks"], report.peaks, strict=True):
        drawn = [sum(column) for column in zip(*rank["bytes"], strict=True)]
        assert drawn[rank["times_ns"].index(rank["peak_ns"])] == top.bytes
        assert max(drawn) == top.bytes
        assert sum(part.bytes for part in top.parts) + (top.other_bytes or 0) == top.bytes
        assert top.when.startswith(texts_until(document["texts"][rank["cause"]]))


def texts_until(cause: str) -> str:
    """The moment that a peak's words begin with."""
    return cause.partition(": ")[0].partition(" in iteration")[0]


def assert_traffic(document, trace, iteration) -> None:
    """What the packets carry, rank by rank, is what `zerosim verify` counts."""
    sent = Counter()
    for step in document["steps"]:
        numbers = step["packets"]
        for start in range(0, len(numbers), 6):
            sent[numbers[start]] += numbers[start + 3]
        sent.update(dict(enumerate(step["sent"])))
    report = verify(trace, iteration)
    expected = [
        sum(row.sent[rank].trace for row in report.rows) for rank in range(len(trace.ranks))
    ]
    assert [sent[rank] for rank in range(len(trace.ranks))] == expected
    assert document["traffic"]["total"] == expected
    assert float(report.law_bytes) == document["traffic"]["law_bytes"]
    assert report.headline == document["verdict"]["headline"]
    for column in ("theory", "trace", "wire", "framing"):
        for rank in range(len(trace.ranks)):
            values = [one[column][rank] for one in document["collectives"]]
            rows = [row.sent[rank] for row in report.rows]
            name = "kernel" if column == "wire" else column
            assert sum(values) == sum(getattr(row, name) for row in rows), column


def assert_memory(document, trace) -> None:
    """At each phase's begin, what the frames say a rank holds is what was alive, unit by unit."""
    cells = [int(digit) for digit in document["cells"]]
    lines = [timeline(rank) for rank in trace.ranks]
    for number, step in enumerate(document["steps"]):
        for place in range(0, len(step["cells"]), 2):
            cells[step["cells"][place]] = step["cells"][place + 1]
        if step["kind"] != "mark":
            continue
        for rank, line in enumerate(lines):
            sample = phase_sample(line, document, step, number)
            held = {
                (role, unit): size
                for (role, unit), size in line.at(sample).items()
                if role in MODEL_STATES or role is Role.GATHERED
            }
            assert shown(document, cells, rank) == held, (rank, number, step["phase"])


def phase_sample(line, document, step, number):
    """The sample that shows what was alive as a phase began."""
    iteration = document["run"]["iteration"]
    last = -1
    for sample in line.samples:
        is_update = sample.phase == "update"
        position = (sample.iteration, sample.phase, 0 if is_update else sample.micro_step)
        is_end = step["phase"] == "outside" and number > 0
        wanted = (iteration, step["phase"], step["micro_step"])
        after_end = sample.iteration > iteration or (
            sample.iteration == iteration and sample.phase == "outside"
        )
        if (is_end and after_end) or (not is_end and position == wanted):
            return sample.number if sample.event is None else sample.number - 1
        if sample.iteration > iteration:
            break
        last = sample.number
    return last


def shown(document, cells, rank) -> dict[tuple[Role, str], int]:
    """Bytes by role and unit in a frame."""
    found = Counter()
    states, units, shards = document["states"], document["units"], document["num_shards"]
    for place, state in enumerate(states):
        for number, unit in enumerate(units):
            start = ((rank * len(states) + place) * len(units) + number) * shards
            for shard in range(shards):
                code = cells[start + shard]
                if code in (ShardState.ABSENT, ShardState.ARRIVING):
                    continue
                role = Role.GATHERED if code == ShardState.GATHERED else Role(state["role"])
                size = state["bytes_per_parameter"] * unit["padded_elements"] // shards
                found[role, unit["name"]] += size
    return dict(found)
