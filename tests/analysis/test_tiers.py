"""What lies where: copies between tiers, step by step, and what they may not do."""

from __future__ import annotations

from dataclasses import replace
from itertools import count

import pytest

from zerosim.analysis.frames import Band, ShardLayout, ShardState, Step, cell_number, play
from zerosim.base.config import EngineConfig
from zerosim.base.tiers import Tier
from zerosim.schema.events import Event, Kind, Op, Phase, Purpose
from zerosim.schema.manifest import BucketLayout, Segment
from zerosim.schema.memory import MODEL_STATES, Role

UNIT = "block"
BUCKETS = [BucketLayout(name=UNIT, segments=(Segment(unit=UNIT, start=0, stop=1),))]
HOST, DISK, DEVICE = Tier.HOST, Tier.DISK, Tier.DEVICE
OPTIMIZER = MODEL_STATES[2:]


ALL_HOST = {"offload_optimizer": "cpu", "offload_param": "cpu"}
ALL_DISK = {"offload_optimizer": "nvme", "offload_param": "nvme", "nvme_path": "disk"}


def layout(options=ALL_HOST, **changes) -> ShardLayout:
    """Stage 3 on two ranks, everything on the host that can be."""
    states = [Band(role) for role in (Role.PARAMETERS, Role.GRADIENTS)]
    states += [Band(role, HOST) for role in (Role.PARAMETERS, Role.GRADIENTS, *OPTIMIZER)]
    fields = {
        "config": EngineConfig(stage=3, **options),
        "ranks": (0, 1),
        "num_ranks": 2,
        "trainable": {UNIT: True},
        "num_pieces": {UNIT: 1},
        "states": tuple(states),
        "first_update": True,
        "keeps_gradients": False,
    }
    return ShardLayout(**fields | changes)


class Script:
    """Steps one after another, each over when the next begins."""

    def __init__(self, ranks=(0, 1)) -> None:
        self.steps: list[Step] = []
        self.ranks = ranks
        self._ids = count()

    def add(self, kind, phase, *, ranks=None, groups=(), is_last_hop=False, **fields) -> None:
        place = len(self.steps)
        events = {
            rank: Event(
                id=next(self._ids), rank=rank, kind=kind, iteration=0, phase=phase, unit=UNIT,
                issue_ns=place, **fields,
            )
            for rank in (self.ranks if ranks is None else ranks)
        }  # fmt: skip
        self.steps.append(
            Step(
                kind=kind, phase=phase, micro_step=0, events=events, time_ns=place, start_ns=place,
                end_ns=place + 1, until=place, groups=groups, is_last_hop=is_last_hop,
            )
        )  # fmt: skip

    def copy(self, purpose, origin, target, phase, **fields) -> None:
        self.add(Kind.COPY, phase, purpose=purpose, origin=origin, target=target, **fields)

    def fetch(self, phase=Phase.FORWARD, **fields) -> None:
        self.copy(Purpose.FETCH_PARAMETERS, HOST, DEVICE, phase, **fields)

    def gather(self, phase=Phase.FORWARD, **fields) -> None:
        usual = {"op": Op.ALL_GATHER, "purpose": Purpose.GATHER_PARAMETERS, "is_last_hop": True}
        self.add(Kind.COLLECTIVE, phase, **usual | fields)

    def reduce(self) -> None:
        self.add(
            Kind.COLLECTIVE, Phase.BACKWARD, op=Op.REDUCE_SCATTER,
            purpose=Purpose.REDUCE_GRADIENTS, is_last_hop=True,
        )  # fmt: skip

    def offload(self) -> None:
        self.copy(Purpose.OFFLOAD_GRADIENTS, DEVICE, HOST, Phase.BACKWARD)

    def compute(self, phase) -> None:
        self.add(Kind.COMPUTE, phase)

    def mark(self, phase) -> None:
        self.add(Kind.MARK, phase, ranks=())


def iteration(**without) -> Script:
    """A whole one; what is named is left out."""
    script = Script()
    parts = {
        "fetch": script.fetch,
        "gather": script.gather,
        "forward": lambda: script.compute(Phase.FORWARD),
        "backward's fetch": lambda: script.fetch(Phase.BACKWARD),
        "backward's gather": lambda: script.gather(Phase.BACKWARD),
        "backward": lambda: script.compute(Phase.BACKWARD),
        "reduce": script.reduce,
        "offload": script.offload,
        "begin update": lambda: script.mark(Phase.UPDATE),
        "update": lambda: script.compute(Phase.UPDATE),
        "end": lambda: script.mark(Phase.OUTSIDE),
    }
    for name, part in parts.items():
        if name not in without:
            part()
    return script


def cells_at(frames, position, role, tier=DEVICE, rank=0) -> list[ShardState]:
    band = Band(role, tier)
    at = frames.at(position)
    return [at[cell_number(frames.layout, rank, band, 0, shard)] for shard in range(2)]


A, KEPT, GATHERED = ShardState.ABSENT, ShardState.KEPT, ShardState.GATHERED
ARRIVING, REDUCED, STALE = ShardState.ARRIVING, ShardState.REDUCED, ShardState.STALE


def test_an_iteration_with_everything_on_the_host():
    frames = play(layout(), BUCKETS, iteration().steps)
    assert frames.broken is None
    parameters = [cells_at(frames, place, Role.PARAMETERS) for place in range(11)]
    assert parameters == [
        [ARRIVING, A],  # fetched
        [GATHERED, ARRIVING],
        [GATHERED, GATHERED],  # computed with
        [ARRIVING, A],
        [GATHERED, ARRIVING],
        [GATHERED, GATHERED],
        *[[A, A]] * 5,
    ]
    on_host = [cells_at(frames, place, Role.PARAMETERS, HOST) for place in range(11)]
    assert on_host == [[KEPT, A]] * 11
    gradients = [cells_at(frames, place, Role.GRADIENTS) for place in (6, 7, 8)]
    assert gradients == [[ARRIVING, ShardState.PARTIAL], [REDUCED, A], [A, A]]
    there = [cells_at(frames, place, Role.GRADIENTS, HOST) for place in (6, 7, 8, 9, 10)]
    assert there == [[A, A], [ARRIVING, A], [REDUCED, A], [REDUCED, A], [STALE, A]]
    moments = [cells_at(frames, place, Role.MOMENTUM, HOST) for place in (9, 10)]
    assert moments == [[A, A], [KEPT, A]]


@pytest.mark.parametrize(
    ("left_out", "reason"),
    [
        ("fetch", "rank 1 sends shard 1 of block, which it does not hold on its device"),
        ("gather", "rank 0 computes with shard 1 of block, which it does not hold on its device"),
        ("reduce", "rank 0 offloads the gradient of block, whose sum over all ranks is not on"),
        ("offload", "rank 0 updates block on its host with a gradient that has not left the dev"),
    ],
)
def test_a_law_is_broken_where_something_is_missing(left_out, reason):
    broken = play(layout(), BUCKETS, iteration(**{left_out: True}).steps).broken
    assert broken is not None
    assert broken.reason.startswith(reason)


def on_disk(**changes) -> ShardLayout:
    states = [Band(role) for role in (Role.PARAMETERS, Role.GRADIENTS)]
    states += [Band(role, HOST) for role in (Role.PARAMETERS, Role.GRADIENTS, Role.MASTER)]
    states += [Band(role, DISK) for role in (Role.PARAMETERS, Role.MASTER)]
    return layout(ALL_DISK, states=tuple(states), **changes)


def update_on_disk(*, fetches=True, stores=True) -> Script:
    """What is read from the disk, updated and written back; then the parameters are fetched."""
    script = Script()
    script.copy(Purpose.FETCH_PARAMETERS, DISK, HOST, Phase.BACKWARD)
    script.fetch(Phase.BACKWARD)
    script.gather(Phase.BACKWARD)
    script.compute(Phase.BACKWARD)
    script.reduce()
    script.offload()
    if fetches:
        script.copy(Purpose.FETCH_STATES, DISK, HOST, Phase.UPDATE)
    script.compute(Phase.UPDATE)
    if stores:
        script.copy(Purpose.STORE_STATES, HOST, DISK, Phase.UPDATE)
        script.copy(Purpose.STORE_PARAMETERS, HOST, DISK, Phase.UPDATE)
    script.copy(Purpose.FETCH_PARAMETERS, DISK, HOST, Phase.UPDATE)
    return script


def test_what_passes_through_the_host_does_not_stay_there():
    script = update_on_disk()
    script.mark(Phase.OUTSIDE)
    frames = play(on_disk(), BUCKETS, script.steps)
    assert frames.broken is None
    states = [cells_at(frames, place, Role.MASTER, HOST)[0] for place in range(6, 11)]
    assert states == [ARRIVING, GATHERED, GATHERED, A, A]
    on_the_disk = [cells_at(frames, place, Role.MASTER, DISK)[0] for place in range(6, 11)]
    assert on_the_disk == [KEPT, KEPT, ARRIVING, KEPT, KEPT]
    parameters = [cells_at(frames, place, Role.PARAMETERS, DISK)[0] for place in (7, 8, 9, 10)]
    assert parameters == [KEPT, STALE, ARRIVING, KEPT]


def test_states_are_fetched_before_an_update_and_stored_before_a_fetch():
    broken = play(on_disk(), BUCKETS, update_on_disk(fetches=False).steps).broken
    assert broken is not None
    assert broken.reason == (
        "rank 0 updates block on its host, where it does not hold the fp32 master"
    )
    broken = play(on_disk(), BUCKETS, update_on_disk(stores=False).steps).broken
    assert broken is not None
    assert broken.reason == (
        "rank 0 is to fetch parameters of block from the disk, where it holds only a pre-update "
        "copy of the parameters"
    )


def test_an_owner_fetches_all_of_its_units_and_broadcasts_them():
    script = Script()
    script.fetch(ranks=(0,))
    script.gather(op=Op.BROADCAST, peers=(0,))
    script.compute(Phase.FORWARD)
    frames = play(layout({**ALL_HOST, "owner_broadcast": "parameters"}), BUCKETS, script.steps)
    assert frames.broken is None
    assert cells_at(frames, 0, Role.PARAMETERS, HOST) == [KEPT, KEPT]
    assert cells_at(frames, 0, Role.PARAMETERS, HOST, rank=1) == [A, A]
    assert cells_at(frames, 2, Role.PARAMETERS, rank=1) == [GATHERED, GATHERED]
    alone = play(layout({**ALL_HOST, "owner_broadcast": "parameters"}), BUCKETS, script.steps[1:])
    assert alone.broken is not None
    assert alone.broken.reason.startswith("rank 0 sends shard 0 of block")


def of_nodes() -> ShardLayout:
    """Four ranks in nodes of two, with a secondary partition."""
    states = [Band(r) for r in (Role.PARAMETERS, Role.SECONDARY, Role.GRADIENTS, *OPTIMIZER)]
    options = {"secondary_partition": 2}
    return layout(options, states=tuple(states), ranks=(0, 1, 2, 3), num_ranks=4)


NODES, PLACES = ((0, 1), (2, 3)), ((0, 2), (1, 3))


def zero_plus_plus() -> Script:
    script = Script(ranks=(0, 1, 2, 3))
    script.gather()
    script.compute(Phase.FORWARD)
    script.gather(Phase.BACKWARD, groups=NODES)
    script.compute(Phase.BACKWARD)
    exchange = {"op": Op.ALL_TO_ALL, "purpose": Purpose.REDUCE_GRADIENTS, "is_last_hop": True}
    for groups in (NODES, PLACES):
        script.add(Kind.COLLECTIVE, Phase.BACKWARD, groups=groups, **exchange)
    script.compute(Phase.UPDATE)
    return script


def test_groups_gather_what_they_keep_and_add_up_in_two_exchanges():
    script = zero_plus_plus()
    script.mark(Phase.OUTSIDE)
    frames = play(of_nodes(), BUCKETS, script.steps)
    assert frames.broken is None

    def cells(position, role, rank):
        at, band = frames.at(position), Band(role)
        return [at[cell_number(frames.layout, rank, band, 0, shard)] for shard in range(4)]

    assert [cells(2, Role.SECONDARY, rank) for rank in (0, 3)] == [
        [GATHERED, GATHERED, A, A],
        [A, A, GATHERED, GATHERED],
    ]
    # backward: the own secondary part is there at once, what a rank owns stays, the rest arrives
    assert [cells(2, Role.PARAMETERS, rank) for rank in (0, 1)] == [
        [KEPT, GATHERED, ARRIVING, ARRIVING],
        [ARRIVING, KEPT, GATHERED, GATHERED],
    ]
    own, partial, summed = A, ShardState.PARTIAL, ShardState.SUMMED
    assert cells(5, Role.GRADIENTS, 1) == [partial, ARRIVING, partial, summed]
    assert cells(6, Role.GRADIENTS, 1) == [own, REDUCED, own, own]


def test_an_update_after_one_of_two_exchanges_breaks_the_law():
    steps = zero_plus_plus().steps
    broken = play(of_nodes(), BUCKETS, [*steps[:5], replace(steps[6], until=5)]).broken
    assert broken is not None
    assert "the gradient of rank 2 is not in it" in broken.reason
