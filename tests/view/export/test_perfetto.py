"""Perfetto's own classes read what was written: every slice, arrow and counter of the trace."""

from __future__ import annotations

from collections import Counter, defaultdict

import pytest
from perfetto.protos.perfetto.trace.perfetto_trace_pb2 import Trace as PerfettoTrace

from zerosim.analysis.graph import build_graph
from zerosim.analysis.graph.kinds import NodeKind
from zerosim.analysis.memory import ROLES, timeline
from zerosim.lessons.recordings import COMMITTED
from zerosim.record import load
from zerosim.schema.events import Kind
from zerosim.view.export.perfetto import perfetto_file

RUNS = ("ring/stage-3", "parallel/1f1b", "infinity/stage-3", "profiles/fsdp2", "one/stage-0")


@pytest.fixture(scope="module", params=RUNS)
def written(request):
    """The graph, and the packets that were read back, in a list for each track by name."""
    graph = build_graph(load(COMMITTED / request.param))
    content, num_slices = perfetto_file(graph)
    packets = PerfettoTrace.FromString(content).packet
    described = [one.track_descriptor for one in packets if one.HasField("track_descriptor")]
    ranks = {one.uuid: one.name for one in described if not one.parent_uuid}
    names = {one.uuid: (ranks[one.parent_uuid], one.name) for one in described if one.parent_uuid}
    tracks = defaultdict(list)
    for packet in packets:
        if packet.HasField("track_event"):
            tracks[names[packet.track_event.track_uuid]].append(packet)
    return graph, num_slices, tracks


def slices_of(packets):
    """(begin, end) of slices of one track, which neither overlap nor stay open."""
    found, open_ = [], None
    for packet in packets:
        event = packet.track_event
        if event.type == event.TYPE_SLICE_BEGIN:
            assert open_ is None
            open_ = packet
        elif event.type == event.TYPE_SLICE_END:
            found.append((open_, packet))
            open_ = None
    assert open_ is None
    return found


def test_each_event_is_a_slice(written):
    graph, num_slices, tracks = written
    found = Counter()
    for (rank, name), packets in tracks.items():
        if packets[0].track_event.type != packets[0].track_event.TYPE_COUNTER:
            found[rank, name.partition(" (")[0]] += len(slices_of(packets))
    assert num_slices == found.total()
    titles = {"collectives": NodeKind.CALL, "messages sent": NodeKind.SEND}
    titles |= {"computation": NodeKind.COMPUTE, "copies between tiers": NodeKind.COPY}
    for place, rank in enumerate(graph.trace.ranks):
        for title, kind in titles.items():
            wanted = int(((graph.place == place) & graph.is_kind(kind)).sum())
            assert found[f"rank {rank.rank}", title] == wanted


def test_a_collective_has_one_number_on_all_its_ranks(written):
    graph, _, tracks = written
    on_ranks = defaultdict(Counter)
    for (rank, name), packets in tracks.items():
        if name.startswith("collectives"):
            for begin, _ in slices_of(packets):
                on_ranks[begin.track_event.correlation_id][rank] += 1
    found = sorted(len(ranks) for ranks in on_ranks.values())
    assert found == sorted(len(one.events) for one in graph.matching.collectives)
    assert all(set(ranks.values()) == {1} for ranks in on_ranks.values())


def test_an_arrow_leads_from_each_message_to_its_arrival(written):
    graph, _, tracks = written
    begin, end = {}, {}
    for packets in tracks.values():
        for packet in packets:
            begin |= dict.fromkeys(packet.track_event.flow_ids, packet.timestamp)
            end |= dict.fromkeys(packet.track_event.terminating_flow_ids, packet.timestamp)
    assert begin.keys() == end.keys()
    assert len(begin) == len(graph.hops.sends)
    assert all(begin[flow] <= end[flow] for flow in begin)


def test_counters_are_the_ledger_and_what_was_sent(written):
    graph, _, tracks = written
    for rank in graph.trace.ranks:
        held, name = timeline(rank), f"rank {rank.rank}"
        for role, sizes in zip(ROLES, held.by_role.tolist(), strict=True):
            values = [one.track_event.counter_value for one in tracks[name, f"memory: {role}"]]
            assert (
                (max(values), values[-1]) == (max(sizes), sizes[-1]) if values else not any(sizes)
            )
        sent = [e.sent_bytes or 0 for e in rank.events if e.kind is Kind.COLLECTIVE]
        counted = tracks[name, "bytes sent so far"]
        assert sum(sent) == (counted[-1].track_event.counter_value if counted else 0)
