"""All-to-all of our own on a world and on the groups of its nodes: results, messages, order."""

from collections import Counter

import pytest
import torch
import torch.distributed as dist

import zerosim
from tests.ranks import run_ranks
from zerosim.base.errors import ConfigError
from zerosim.record import load, match_collectives
from zerosim.schema.events import Algorithm, Kind, Op, Phase
from zerosim.trace import labels
from zerosim.train.collectives import BackgroundExecutor, InlineExecutor, RankGroup, world
from zerosim.train.collectives.nodes import counterparts, neighbours, node_size
from zerosim.train.collectives.pairwise import Pairwise
from zerosim.train.collectives.protocol import Carried

pytestmark = pytest.mark.ranks

NUM_RANKS, PER_NODE = 4, 2
COLUMNS = (0, 1, 7, 5000)
DTYPES = (torch.uint8, torch.float32)
CARRIED = Carried("int4", 12)
CASES = [(columns, dtype) for columns in COLUMNS for dtype in DTYPES]


def content(number, source, to):
    """What a rank sends to another in a case, by their global ranks."""
    columns, dtype = CASES[number]
    generator = torch.Generator().manual_seed(1000 * number + 10 * source + to)
    return torch.randint(0, 200, (columns,), generator=generator).to(dtype)


def exchange(pairwise, number, carried=None):
    """Ask for a case; returns its handle, and what must have come when it is over."""
    group = pairwise.group
    own = group.ranks[group.rank]
    columns, dtype = CASES[number]
    outgoing = torch.zeros(group.size, columns, dtype=dtype)
    incoming = torch.full((group.size, columns), 99).to(dtype)
    for position, rank in enumerate(group.ranks):
        outgoing[position] = content(number, own, rank)
    wanted = torch.stack([content(number, rank, own) for rank in group.ranks])
    return pairwise.all_to_all(outgoing, incoming, carried), incoming, wanted


def _exchange_all(folder):
    background = BackgroundExecutor(torch.device("cpu"))
    groups = {
        "world": world(),
        "node": neighbours(world(), PER_NODE),
        "across": counterparts(world(), PER_NODE),
    }
    wrong = []
    with zerosim.trace(folder):
        for position, (name, group) in enumerate(groups.items()):
            labels.enter(position, Phase.FORWARD)
            flights = [exchange(Pairwise(group, background), n) for n in range(len(CASES))]
            flights.append(exchange(Pairwise(group, background), 2, CARRIED))
            for handle, found, wanted in flights:
                handle.wait()
                if not torch.equal(found, wanted):
                    wrong.append((name, tuple(wanted.shape)))
        labels.enter(-1, Phase.OUTSIDE)
    background.close()
    again = [neighbours(world(), PER_NODE), counterparts(world(), PER_NODE)]
    same = again == [groups["node"], groups["across"]]
    trivial = [neighbours(world(), 1), neighbours(world(), NUM_RANKS), counterparts(world(), 1)]
    dist.barrier()
    return wrong, [group.ranks for group in groups.values()], same, [g.ranks for g in trivial]


@pytest.fixture(scope="module")
def exchanged(tmp_path_factory):
    folder = tmp_path_factory.mktemp("pairwise") / "trace"
    answers = run_ranks(_exchange_all, NUM_RANKS, str(folder))
    return load(folder, strict=True), answers


def test_every_part_comes_to_whom_it_is_meant_for(exchanged):
    for wrong, *_ in exchanged[1]:
        assert wrong == []


def test_groups_are_neighbours_and_those_at_the_same_place_of_their_nodes(exchanged):
    for rank, (_, groups, same, trivial) in enumerate(exchanged[1]):
        node, place = divmod(rank, PER_NODE)
        assert groups == [(0, 1, 2, 3), (2 * node, 2 * node + 1), (place, place + 2)]
        assert same, "PyTorch's groups are made once"
        assert trivial == [(rank,), (0, 1, 2, 3), (0, 1, 2, 3)]


def test_each_message_is_seen(exchanged):
    trace, answers = exchanged
    assert match_collectives(trace).mismatches == ()
    for rank in trace.ranks:
        for iteration, ranks in enumerate(answers[rank.rank][1]):
            events = [event for event in rank.events if event.iteration == iteration]
            calls = [event for event in events if event.kind is Kind.COLLECTIVE]
            # of seven elements there is a second one, that says what its bytes stand for
            assert len(calls) == len(CASES) + 1
            others = [other for other in ranks if other != rank.rank]
            for call, (columns, dtype) in zip(calls, [*CASES, CASES[2]], strict=True):
                is_carried = call is calls[-1]
                size = columns * dtype.itemsize
                assert (call.op, call.algorithm) == (Op.ALL_TO_ALL, Algorithm.PAIRWISE)
                assert call.peers == tuple(others)
                assert rank.groups[call.group].ranks == ranks
                assert call.payload_bytes == len(ranks) * size
                assert call.sent_bytes == call.received_bytes == len(others) * size
                assert (call.dtype, call.elements) == (
                    (CARRIED.dtype, CARRIED.elements)
                    if is_carried
                    else (str(dtype).removeprefix("torch."), len(ranks) * columns)
                )
                messages = [
                    event
                    for event in events
                    if event.kind is Kind.TRANSFER and event.parent == call.id
                ]
                assert Counter((m.op, m.peers) for m in messages) == (
                    Counter((op, (o,)) for o in others for op in (Op.SEND, Op.RECEIVE))
                    if columns
                    else Counter()
                )
                for message in messages:
                    position = ranks.index(message.peers[0] if message.op is Op.SEND else rank.rank)
                    assert message.shard == position
                    assert message.payload_bytes == size
                    away = ranks.index(message.peers[0]) - ranks.index(rank.rank)
                    sign = 1 if message.op is Op.SEND else -1
                    assert message.hop == (sign * away) % len(ranks) - 1
                    assert message.end_ns is not None


def test_a_group_of_one_copies():
    outgoing, incoming = torch.arange(5.0).view(1, 5), torch.zeros(1, 5)
    Pairwise(RankGroup(), InlineExecutor()).all_to_all(outgoing, incoming).wait()
    assert torch.equal(outgoing, incoming)


@pytest.mark.parametrize("wrong", [0, 1])
def test_a_buffer_without_a_row_for_each_rank_is_refused(wrong):
    buffers = [torch.zeros(3, 4), torch.zeros(3, 4)]
    buffers[wrong] = torch.zeros(2, 6)
    with pytest.raises(ConfigError, match=r"^all-to-all got a buffer of shape \(2, 6\): expected"):
        Pairwise(RankGroup(1, (0, 1, 2)), InlineExecutor()).all_to_all(*buffers)


@pytest.mark.parametrize(
    ("ranks", "configured", "launched", "expected"),
    [
        (range(4), 2, "4", 2),
        (range(4), 0, "2", 2),
        (range(4), 0, None, 4),
        (range(0, 8, 2), 0, "4", 2),
        (range(1, 4, 2), 2, "4", 1),
        (range(2, 4), 2, None, 2),
        (range(3), 1, None, 1),
    ],
)
def test_nodes_are_as_configured_or_as_launched(monkeypatch, ranks, configured, launched, expected):
    monkeypatch.delenv("LOCAL_WORLD_SIZE", raising=False)
    if launched is not None:
        monkeypatch.setenv("LOCAL_WORLD_SIZE", launched)
    assert node_size(RankGroup(0, tuple(ranks)), configured) == expected


@pytest.mark.parametrize(
    ("ranks", "configured", "launched", "message"),
    [
        (range(4), 3, "4", "expected a divisor of the 4 ranks"),
        (range(4), 0, "3", "expected a divisor of the 4 ranks"),
        (
            (0, 1, 2, 5),
            0,
            "2",
            "expected the same number of the 4 ranks on every node, not 2, 1, 1",
        ),
    ],
)
def test_nodes_that_are_not_filled_equally_are_refused(
    monkeypatch, ranks, configured, launched, message
):
    monkeypatch.setenv("LOCAL_WORLD_SIZE", launched)
    with pytest.raises(ConfigError) as caught:
        node_size(RankGroup(0, tuple(ranks)), configured)
    assert str(caught.value) == f"ranks-per-node is {configured or launched}: {message}"
