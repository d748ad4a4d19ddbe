"""Real runs of every system: a replay keeps its laws, and shows what was copied, sent and held."""

from __future__ import annotations

from collections import Counter

import pytest

from tests.recorded import recorded_family
from tests.verify.test_family_runs import ON_FOUR, ON_TWO, STEPS, train
from tests.view.replay.test_runs import phase_sample
from zerosim.analysis import budgets, critical_path
from zerosim.analysis.frames import ShardState
from zerosim.analysis.graph import build_graph, check_graph
from zerosim.analysis.memory import tiers_of, timeline
from zerosim.base.tiers import Tier, link_of_copy
from zerosim.record import load
from zerosim.schema.memory import MODEL_STATES, OPTIMIZER_STATES, Role
from zerosim.verify import verify
from zerosim.view.replay import graph_document, replay_document
from zerosim.view.replay.bands import OPTIMIZER_FILE

pytestmark = pytest.mark.ranks

ALL = [(2, name) for name in ON_TWO] + [(4, name) for name in ON_FOUR]
STEP_PHASES = ("forward", "backward", "update")


@pytest.mark.parametrize(("num_ranks", "name"), ALL)
def test_a_replay_agrees_with_what_was_measured(num_ranks, name):
    cases = {2: ON_TWO, 4: ON_FOUR}[num_ranks]
    trace = load(recorded_family(num_ranks, train, cases) / name, strict=True)
    for iteration in (0, STEPS - 1):  # the second is like the last
        document = replay_document(trace, iteration)
        assert document["broken"] is None
        assert document["notes"] == []
        if cases[name].get("collectives") != "native":  # of such calls no message is seen
            assert_moved(document, trace, iteration)
        if not cases[name].get("delayed_update"):  # it keeps two generations of gradients
            assert_held(document, trace)
    if "copies" in {step["kind"] for step in document["steps"]}:
        assert document["traffic"]["links"]


def assert_moved(document, trace, iteration) -> None:
    """What packets carry and ranks copy is what `zerosim verify` counts, and what theory says."""
    report = verify(trace, iteration)
    sent, copied = Counter(), Counter()
    for step in document["steps"]:
        if step["phase"] not in STEP_PHASES:
            continue
        numbers = step["packets"]
        for start in range(0, len(numbers), 6):
            sent[numbers[start]] += numbers[start + 3]
        for start in range(0, len(step["copies"]), 4):
            place, size = step["copies"][start : start + 2]
            copied[place, link_of_copy(Tier(step["origin"]), Tier(step["target"]))] += size
        if step["copy"] is not None:
            for column in ("theory", "trace"):
                taking = [step["copy"][column][place] for place in step["ranks"]]
                assert None not in taking, (step["purpose"], column)
            assert step["copy"]["theory"] == step["copy"]["trace"]
    ranks = range(len(trace.ranks))
    assert [sent[rank] for rank in ranks] == [report.total("trace", rank) for rank in ranks]
    for link in {row.link for row in report.copies}:
        assert [copied[rank, link] for rank in ranks] == [
            report.total("trace", rank, link) for rank in ranks
        ]
    for column in ("theory", "trace", "wire", "framing"):
        for rank in ranks:
            values = [
                one[column][rank] for one in document["collectives"] if one["phase"] in STEP_PHASES
            ]
            rows = [row.sent[rank] for row in report.rows]
            assert None not in values, column
            name = "kernel" if column == "wire" else column
            assert sum(values) == sum(getattr(row, name) for row in rows), column


def assert_held(document, trace) -> None:
    """As a phase begins, what the frames say lies in each tier is what was alive there.

    Not as the update begins: gradients are on their way to the host then.
    """
    cells = [int(digit) for digit in document["cells"]]
    lines = {
        (place, tier): timeline(rank, tier)
        for place, rank in enumerate(trace.ranks)
        for tier in tiers_of(rank)
    }
    for number, step in enumerate(document["steps"]):
        for place in range(0, len(step["cells"]), 2):
            cells[step["cells"][place]] = step["cells"][place + 1]
        if step["kind"] != "mark" or step["phase"] == "update":
            continue
        for (place, tier), line in lines.items():
            held = Counter()
            for (role, unit), size in line.at(phase_sample(line, document, step, number)).items():
                if role in (*MODEL_STATES, Role.GATHERED, Role.SECONDARY):
                    held[named(role, document, tier), unit] += size
            shown = in_frame(document, cells, place, tier)
            assert shown == dict(held), (place, tier, number, step["phase"])


def named(role, document, tier) -> str:
    """The name of a role in a document: on a disk the optimizer states are one."""
    roles = [state["role"] for state in document["states"] if state["tier"] == tier]
    return OPTIMIZER_FILE if role in OPTIMIZER_STATES and OPTIMIZER_FILE in roles else str(role)


def in_frame(document, cells, rank, tier) -> dict[tuple[str, str], int]:
    """Bytes by role and unit in one tier of a frame."""
    found = Counter()
    states, units, shards = document["states"], document["units"], document["num_shards"]
    for place, state in enumerate(states):
        if state["tier"] != tier:
            continue
        for number, unit in enumerate(units):
            start = ((rank * len(states) + place) * len(units) + number) * shards
            for shard in range(shards):
                code = cells[start + shard]
                if code in (ShardState.ABSENT, ShardState.ARRIVING):
                    continue
                is_gathered = code == ShardState.GATHERED and state["role"] == Role.PARAMETERS
                role = str(Role.GATHERED) if is_gathered else state["role"]
                size = state["bytes_per_parameter"] * unit["padded_elements"] // shards
                found[role, unit["name"]] += size
    return dict(found)


@pytest.mark.parametrize(("num_ranks", "name"), ALL)
def test_the_graph_of_every_system_is_sound(num_ranks, name):
    """Copies are in it, in order, and every rank's time adds up."""
    cases = {2: ON_TWO, 4: ON_FOUR}[num_ranks]
    trace = load(recorded_family(num_ranks, train, cases) / name, strict=True)
    graph = build_graph(trace)
    for check in check_graph(graph):
        assert check.violations == (), check.title
    part = graph.within(STEPS - 1)
    path = critical_path(part)
    assert sum(path.by_cause().values()) == path.duration_ns
    for budget in budgets(part).by_phase.values():
        parts = (
            budget.compute_ns, budget.exposed_ns, budget.copying_ns, budget.waiting_ns,
            budget.other_ns,
        )  # fmt: skip
        assert sum(parts) == budget.wall_ns
    document = graph_document(trace, STEPS - 1)
    assert document["holds"]
    links = {link for link in document["nodes"]["link"] if link >= 0}
    events = [event for rank in trace.ranks for event in rank.events if event.kind == "copy"]
    assert bool(links) == any(event.iteration == STEPS - 1 for event in events)
