"""What a collective sends: the trace and the kernel's counters against theory, to the byte."""

import pytest

from zerosim.events import Algorithm, Kind, Op
from zerosim.record import load, match_collectives, match_sockets, phase_wire
from zerosim.theory import Cost, cost, framing

pytestmark = pytest.mark.ranks


def theory(algorithm, case, rank, num_ranks):
    op = case.op
    if op is Op.SEND:
        if rank not in (case.root, (case.root + 1) % num_ranks):
            return Cost()
        op = Op.SEND if rank == case.root else Op.RECEIVE
    return cost(
        algorithm,
        op,
        num_ranks,
        rank,
        case.elements(num_ranks),
        case.element_bytes,
        case.root,
        case.chunk_bytes,
    )


def traced(events):
    """Bytes and messages of the calls of one case, from what was intercepted."""
    messages = [e for e in events if e.parent is not None or e.op in (Op.SEND, Op.RECEIVE)]
    calls = [event for event in events if event.parent is None]
    return Cost(
        sum(event.sent_bytes for event in calls),
        sum(event.received_bytes for event in calls),
        sum(event.op is Op.SEND for event in messages),
        sum(event.op is Op.RECEIVE for event in messages),
    )


def test_the_ring_is_asked_to_send_what_theory_says(launch):
    trace = load(launch.folder / "ring", strict=True)
    assert match_collectives(trace).mismatches == ()
    for rank in trace.ranks:
        for case in launch.cases:
            events = [event for event in rank.events if event.iteration == case.number]
            said = theory(Algorithm.RING, case, rank.rank, launch.num_ranks)
            assert traced(events) == said, (rank.rank, case)


@pytest.mark.parametrize("carrier", [Algorithm.RING, Algorithm.GLOO])
def test_the_kernel_counts_payload_and_framing_and_nothing_else(launch, carrier):
    name = "ring" if carrier is Algorithm.RING else "native"
    trace = load(launch.folder / name, strict=True)
    peers = match_sockets(trace)
    for rank in trace.ranks:
        phases = {phase.iteration: phase for phase in phase_wire(rank, peers)}
        for case in launch.cases:
            said = theory(carrier, case, rank.rank, launch.num_ranks)
            frames = framing("gloo", said)
            wire = phases[case.number]
            assert wire.sent_bytes == said.sent_bytes + frames.sent_bytes, (rank.rank, case)
            assert wire.received_bytes == said.received_bytes + frames.received_bytes, (
                rank.rank,
                case,
            )


def test_each_hop_carries_the_row_that_the_module_says(launch):
    num_ranks = launch.num_ranks
    for rank in load(launch.folder / "ring", strict=True).ranks:
        calls = {event.id: event for event in rank.events if event.kind is Kind.COLLECTIVE}
        hops = [event for event in rank.events if event.kind is Kind.TRANSFER]
        assert hops
        for event in hops:
            call = calls[event.parent]
            if call.op is Op.BROADCAST:
                continue
            reduces = event.hop < num_ranks - 1 and call.op is not Op.ALL_GATHER
            first = rank.rank - 1 if reduces else rank.rank
            index = event.hop % (num_ranks - 1)
            behind = 0 if event.op is Op.SEND else 1
            assert event.shard == (first - index - behind) % num_ranks
            beside = 1 if event.op is Op.SEND else -1
            assert event.peers == ((rank.rank + beside) % num_ranks,)
            assert call.start_ns <= event.start_ns <= event.end_ns <= call.end_ns
