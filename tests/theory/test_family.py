"""Laws of ZeRO-Offload, ZeRO-Infinity and ZeRO++: the papers' numbers, and every byte named."""

from fractions import Fraction

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.theory.workloads import FAMILIES, calls, copies, sent, traffic
from tests.theory.workloads import workload as make
from zerosim.base.config import DType, Offload
from zerosim.base.errors import ConfigError
from zerosim.base.tiers import Link, Tier
from zerosim.schema.events import STEP_PHASES, Algorithm, Op, Phase, Purpose
from zerosim.theory import (
    Activations,
    Cause,
    UnitSize,
    deviations,
    formula,
    law,
    law_bytes,
    ranks_of_node,
)

LINKS = (Link.NODE, Link.NETWORK)
TIERS = (Link.BUS, Link.STORAGE)


HOST, DISK = {"offload_optimizer": Offload.CPU}, {"offload_optimizer": Offload.NVME}
HOST_PARAMETERS = {"offload_param": Offload.CPU}


def workload(stage=3, size=16_384, num_ranks=4, **more):
    return make(stage, num_ranks, (UnitSize("all", size),), nvme_path="disk", **more)


def over(step, rank, link):
    """What the planned calls make a rank send over a link."""
    return moved(step, rank, link, calls(step, rank))


def moved(step, rank, link, movements):
    return sum(one.moved_by_link(rank, step.world_node_size).get(link, 0) for one in movements)


def of_node(step, node, link=Link.NETWORK):
    return sum(over(step, rank, link) for rank in ranks_of_node(step, node))


# ---- ZeRO++


def test_zeropp_sends_a_quarter_across_nodes():
    """3M becomes 0.75M, M = 2 Psi bytes; scales beside it, 4 B for 256 elements."""
    plain = workload(ranks_per_node=2)
    three = {"quantize_weights": True, "secondary_partition": 2, "quantize_gradients": True}
    reduced = workload(ranks_per_node=2, **three)
    m = 2 * 16_384
    # a ring over 4 ranks crosses a node's border with 3/4 of each of the 3 payloads
    assert of_node(plain, 0) == of_node(plain, 1) == 3 * m * 3 // 4
    scales = 4 * 16_384 // 256 * 3 // 4  # int8, by the ring
    scales += 4 * 16_384 // 256 // 2  # int4: half of the gradients leave a node of two
    assert of_node(reduced, 0) == m // 2 * 3 // 4 + 0 + m // 4 // 2 + scales
    by_cause = {d.cause: d.bytes for d in deviations(reduced, 1, link=Link.NETWORK)}
    assert by_cause == {Cause.SCALES: 4 * 64 * 3 // 4 + 4 * 64 // 4}
    found = law(reduced)
    assert found.symbols == "0.5Ψ(N-1)/N + Ψ(S-1)/S + 0.25Ψ(P-1)/P + 0.125Ψ(K-1)/K"
    assert found.words.startswith("ZeRO-3 with qwZ, hpZ and qgZ: all-gather of int8 parameters in ")
    assert "2306.10209, section 3" in found.source


@pytest.mark.parametrize(
    ("options", "by_phase"),
    [
        ({}, (3 * 8192, 6 * 8192)),
        ({"quantize_weights": True}, (3 * 4160, 3 * 4160 + 3 * 8192)),
        ({"secondary_partition": 2}, (3 * 8192, 16384 + 3 * 8192)),
        ({"secondary_partition": 4}, (3 * 8192, 6 * 8192)),
        # a row of 4096: 2048 B and 16 scales; two rows within, then one across
        ({"quantize_gradients": True}, (3 * 8192, 3 * 8192 + 3 * 2112)),
    ],
)
def test_what_each_part_of_zeropp_makes_a_rank_send(options, by_phase):
    step = workload(ranks_per_node=2, **options)
    assert (sent(step, phase=Phase.FORWARD), sent(step, phase=Phase.BACKWARD)) == by_phase


def reductions(step, rank):
    return [one for one in calls(step, rank) if one.purpose is Purpose.REDUCE_GRADIENTS]


def test_calls_of_qgz():
    step = workload(size=4 * 1001, ranks_per_node=2, quantize_gradients=True, accumulate=3)
    first, second = reductions(step, 0)
    q = 501 + 4 * 4  # 1001 columns: half a byte more, and four blocks of 256
    assert (first.op, first.elements, first.buffer_bytes) == (Op.ALL_TO_ALL, 4004, 4 * q)
    assert (second.op, second.elements, second.buffer_bytes) == (Op.ALL_TO_ALL, 2002, 2 * q)
    assert (first.times, second.times) == (3, 3)
    for rank in range(4):
        first, second = reductions(step, rank)
        assert first.moved_by_link(rank, step.world_node_size) == {Link.NODE: 3 * 2 * q}
        assert second.moved_by_link(rank, step.world_node_size) == {Link.NETWORK: 3 * q}


@pytest.mark.parametrize(("node", "links"), [(1, [Link.NETWORK]), (4, [Link.NODE])])
def test_qgz_needs_one_exchange_where_nodes_are_ranks_or_all_ranks_one_node(node, links):
    step = workload(quantize_gradients=True, ranks_per_node=node)
    found = reductions(step, 3)
    assert [list(call.moved_by_link(3, step.world_node_size)) for call in found] == [links]
    assert [call.buffer_bytes for call in found] == [4 * (2048 + 4 * 16)]


def test_what_zeropp_cannot_group_is_refused():
    with pytest.raises(ConfigError, match="secondary-partition is 3: expected a divisor of the 4"):
        workload(secondary_partition=3)
    with pytest.raises(ConfigError, match="ranks of a node is 3: expected a divisor of the 4"):
        workload(quantize_gradients=True, ranks_per_node=3)


# ---- owners


def test_owners_of_all_states_broadcast_and_are_reduced_to():
    """3 Psi in the mean; a rank sends less the more often it is the last of a chain."""
    units = tuple(UnitSize(f"u{i}", 400) for i in range(3))
    step = make(3, 4, units, owner_broadcast="states")
    roots = [(call.op, call.root) for call in calls(step, 3)]
    broadcasts = [(Op.BROADCAST, rank) for rank in range(3)]
    assert roots == 2 * broadcasts + [(Op.REDUCE, rank) for rank in (2, 1, 0)]
    # a broadcast of unit i ends before rank i, a reduction on it: rank 3 ends two, and no reduction
    ends = [2 + 1, 2 + 1, 0 + 1, 2 + 0]
    assert [sent(step, rank=rank) for rank in range(4)] == [(9 - last) * 800 for last in ends]
    assert sum(sent(step, rank=rank) for rank in range(4)) == 3 * 3 * 1200 * 2


def test_owners_broadcast_and_are_sent_the_updated_rows():
    units = tuple(UnitSize(f"u{i}", 400) for i in range(3))
    step = make(3, 4, units, **HOST, **HOST_PARAMETERS, owner_broadcast="parameters")
    found = [[(c.op, c.root) for c in calls(step, rank)] for rank in range(4)]
    assert found[3][:6] == [(Op.BROADCAST, 0), (Op.BROADCAST, 1), (Op.BROADCAST, 2)] * 2
    assert found[3][-3:] == [(Op.SEND, 0), (Op.SEND, 1), (Op.SEND, 2)]
    assert found[1][-5:] == [
        (Op.SEND, 0),
        (Op.RECEIVE, 0),
        (Op.RECEIVE, 2),
        (Op.RECEIVE, 3),
        (Op.SEND, 2),
    ]
    # a chain ends before its root: rank 3 ends unit 0's, 0 unit 1's, 1 unit 2's, 2 none
    per_pass = [2, 2, 3, 2]
    rows = [2, 2, 2, 3]
    for rank in range(4):
        expected = 2 * per_pass[rank] * 800 + 3 * 600 + rows[rank] * 200
        assert sent(step, rank=rank) == expected
    found = law(step)
    assert found.payloads == 3 + Fraction(1, 4)
    unequal = [
        sum(d.bytes for d in deviations(step, rank) if d.cause is Cause.UNEQUAL_PARTS)
        for rank in range(4)
    ]
    assert sum(unequal) == 0
    assert any(unequal)


# ---- copies


def rows(step, rank=0):
    found = {}
    for one in copies(step, rank):
        key = (one.phase, one.purpose, one.origin, one.target)
        times, size = found.get(key, (0, 0))
        found[key] = (times + one.times, size + one.payload_bytes)
    return found


@pytest.mark.parametrize("stage", [1, 2, 3])
@pytest.mark.parametrize(("size", "each"), [(2, 4), (4, 8)])
def test_offload_copies_four_bytes_a_parameter_in_16_bits(stage, size, each):
    step = workload(stage, 1000, **HOST, dtype=DType.FP32 if size == 4 else DType.BF16)
    found = law(step, link=Link.BUS)
    assert found.sent_bytes == each * 1000 / 4
    assert found.symbols == f"{each}Ψ/N"
    assert formula(step, link=Link.BUS) == f"{each} B x 1,000 / 4 = {each * 250:,} B"
    assert "2101.06840" in found.source
    assert rows(step) == {
        (Phase.BACKWARD, Purpose.OFFLOAD_GRADIENTS, Tier.DEVICE, Tier.HOST): (1, size * 250),
        (Phase.UPDATE, Purpose.RETURN_PARAMETERS, Tier.HOST, Tier.DEVICE): (1, size * 250),
    }
    assert deviations(step, 2, link=Link.BUS) == ()
    assert law(step, link=Link.STORAGE).sent_bytes == 0


def test_accumulated_gradients_leave_once_in_stage_1_and_each_time_in_stages_2_and_3():
    of = {}
    for stage in (1, 2, 3):
        step = workload(stage, 1000, **HOST, accumulate=3)
        of[stage] = law(step, link=Link.BUS).sent_bytes
        assert sum(size for _, size in rows(step).values()) == of[stage]
    assert of == {1: 4 * 250, 2: 8 * 250, 3: 8 * 250}


def test_infinity_reads_and_writes_states_and_parameters():
    step = workload(3, 1001, **DISK, offload_param=Offload.NVME, accumulate=2)
    row = 2 * 251
    assert rows(step) == {
        (Phase.FORWARD, Purpose.FETCH_PARAMETERS, Tier.DISK, Tier.HOST): (2, 2 * row),
        (Phase.FORWARD, Purpose.FETCH_PARAMETERS, Tier.HOST, Tier.DEVICE): (2, 2 * row),
        (Phase.BACKWARD, Purpose.FETCH_PARAMETERS, Tier.DISK, Tier.HOST): (2, 2 * row),
        (Phase.BACKWARD, Purpose.FETCH_PARAMETERS, Tier.HOST, Tier.DEVICE): (2, 2 * row),
        (Phase.BACKWARD, Purpose.OFFLOAD_GRADIENTS, Tier.DEVICE, Tier.HOST): (2, 2 * row),
        (Phase.UPDATE, Purpose.FETCH_STATES, Tier.DISK, Tier.HOST): (1, 12 * 251),
        (Phase.UPDATE, Purpose.STORE_STATES, Tier.HOST, Tier.DISK): (1, 12 * 251),
        (Phase.UPDATE, Purpose.STORE_PARAMETERS, Tier.HOST, Tier.DISK): (1, row),
    }
    assert law(step, link=Link.STORAGE).sent_bytes == Fraction((4 * 2 + 24 + 2) * 1001, 4)
    assert law(step, link=Link.BUS).sent_bytes == Fraction((4 * 2 + 2 * 2) * 1001, 4)
    [padding] = deviations(step, 0, link=Link.STORAGE)
    assert (padding.cause, padding.bytes) == (Cause.PADDING, Fraction(3 * 34, 4))


def test_parameters_on_the_host_with_the_optimizer_on_the_device_are_stored():
    step = workload(3, 1000, **HOST_PARAMETERS)
    assert rows(step)[Phase.UPDATE, Purpose.STORE_PARAMETERS, Tier.DEVICE, Tier.HOST] == (1, 500)
    both = workload(3, 1000, **HOST_PARAMETERS, **HOST)
    assert all(phase is not Phase.UPDATE for phase, *_ in rows(both))


def test_backward_from_a_secondary_partition_fetches_nothing():
    step = workload(3, 1000, **HOST_PARAMETERS, secondary_partition=2)
    fetches = [phase for phase, purpose, *_ in rows(step) if purpose is Purpose.FETCH_PARAMETERS]
    assert fetches == [Phase.FORWARD]
    assert law(step, link=Link.BUS).sent_bytes == (2 + 2) * 250


def test_nothing_is_handed_on_after_an_overflow_or_in_the_first_delayed_step():
    for more, cause in (
        ({**DISK, "update_skipped": True}, Cause.SKIPPED_UPDATE),
        ({**HOST, "delayed_update": True, "has_pending_update": False}, Cause.DELAYED_UPDATE),
    ):
        step = workload(2, 1000, **more)
        assert [purpose for _, purpose, _, _ in rows(step)] == [Purpose.OFFLOAD_GRADIENTS]
        assert [(d.cause, d.bytes) for d in deviations(step, 0, link=Link.BUS)] == [(cause, -500)]
        on_disk = [(cause, -6000)] if "update_skipped" in more else []
        assert [(d.cause, d.bytes) for d in deviations(step, 0, link=Link.STORAGE)] == on_disk
        assert [(d.cause, d.bytes) for d in deviations(step, 0)] == [(cause, -1500)]


def test_checkpoints_on_the_host():
    kept = Activations(num_blocks=3, elements=1000)
    step = workload(
        3, 1000, activations=kept, tensor_parallel=2, accumulate=2, checkpoint_activations=True,
        partition_activations=True, cpu_checkpointing=True,
    )  # fmt: skip
    assert rows(step) == {
        (Phase.FORWARD, Purpose.OFFLOAD_ACTIVATIONS, Tier.DEVICE, Tier.HOST): (6, 6 * 1000),
        (Phase.BACKWARD, Purpose.FETCH_ACTIVATIONS, Tier.HOST, Tier.DEVICE): (6, 6 * 1000),
    }
    assert [(d.cause, d.bytes) for d in deviations(step, 0, link=Link.BUS)] == [
        (Cause.ACTIVATIONS, 12_000)
    ]


def test_gathering_partitioned_checkpoints_is_a_twelfth_of_tensor_parallel_traffic():
    kept = Activations(num_blocks=3, elements=960)
    step = workload(
        3, 1000, activations=kept, tensor_parallel=4, accumulate=2, checkpoint_activations=True,
        partition_activations=True,
    )  # fmt: skip
    sums, gathers = 0, 0
    for call in calls(step, 5):
        sent_bytes = call.cost(5, Algorithm.RING).sent_bytes
        sums += sent_bytes if call.purpose is Purpose.ACTIVATIONS else 0
        gathers += sent_bytes if call.purpose is Purpose.GATHER_ACTIVATIONS else 0
    # 2 in forward, 2 again, 2 for gradients; an all-reduce of b s h counts twice
    assert gathers == 3 * 2 * 960 * 2 * 3 // 4
    assert sums == pytest.approx(12 * gathers, rel=0.01)  # Gloo's segments are not quite equal
    assert law(step).sent_bytes == law(workload(3, 1000, accumulate=2)).sent_bytes
    plain = workload(3, 1000, activations=Activations(num_blocks=3, elements=960))
    assert all(call.purpose is not Purpose.ACTIVATIONS for call in calls(plain))


# ---- all of them


@given(FAMILIES, st.data())
def test_causes_explain_every_byte_in_every_link_class(step, data):
    rank = data.draw(st.integers(0, step.world_size - 1))
    for phase in (None, *STEP_PHASES):
        found = deviations(step, rank, Algorithm.RING, phase)
        expected = sent(step, rank=rank, phase=phase)
        assert sum((d.bytes for d in found), law(step, phase).sent_bytes) == expected
        assert len({d.cause for d in found}) == len(found)
        for link in LINKS:
            named = sum(d.bytes for d in deviations(step, rank, phase=phase, link=link))
            of_phase = [c for c in calls(step, rank) if phase in (None, c.phase)]
            actual = moved(step, rank, link, of_phase)
            assert law_bytes(step, rank, link, phase) + named == actual
    assert sum(over(step, rank, link) for link in LINKS) == sent(step, rank=rank)
    of_links = sum(law_bytes(step, rank, link) for link in LINKS)
    assert of_links == law(step).sent_bytes


@given(FAMILIES)
def test_what_is_sent_is_received_and_owners_differ_from_the_mean_by_nothing_in_all(step):
    of_ranks = [traffic(step, rank) for rank in range(step.world_size)]
    assert sum(c.sent_bytes for c in of_ranks) == sum(c.received_bytes for c in of_ranks)
    unequal = [
        deviation.bytes
        for rank in range(step.world_size)
        for deviation in deviations(step, rank)
        if deviation.cause is Cause.UNEQUAL_PARTS
    ]
    assert sum(unequal) == 0


@given(FAMILIES)
def test_causes_explain_every_copied_byte(step):
    for link in TIERS:
        unequal = Fraction(0)
        for rank in range(step.world_size):
            copied = sum(c.payload_bytes for c in copies(step, rank) if c.link is link)
            found = deviations(step, rank, link=link)
            named = sum((d.bytes for d in found), Fraction(0))
            assert law(step, link=link).sent_bytes + named == copied
            unequal += sum(d.bytes for d in found if d.cause is Cause.UNEQUAL_PARTS)
        assert unequal == 0
