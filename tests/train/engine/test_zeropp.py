"""ZeRO++ on stage 3: what it sends to the byte, what it leaves as it was, what it may change.

What is expected is computed here from the manifest's units and buckets, block by block, and not by
zerosim's theory, which has tests of its own.
"""

from __future__ import annotations

import math
from collections import Counter
from dataclasses import replace
from functools import cache
from types import SimpleNamespace

import pytest
import torch
import torch.distributed as dist

import zerosim
from tests.ranks import run_ranks
from tests.train.collectives.test_quantization import by_hand
from tests.train.engine.samples import Case, build, engine_config, inputs, train
from zerosim.base.config import CollectivesKind, DType
from zerosim.base.errors import ConfigError
from zerosim.base.tiers import Link, link_of_message
from zerosim.record import load, match_collectives
from zerosim.schema.events import Kind, Op, Phase, Purpose
from zerosim.schema.manifest import BucketLayout, Segment
from zerosim.schema.memory import Moment, Role
from zerosim.train.collectives import InlineExecutor, Ring, world
from zerosim.train.collectives.quantization import Bits
from zerosim.train.engine import initialize
from zerosim.train.engine.zeropp import GRADIENT_ERROR, WEIGHT_ERROR, QuantizedReduction

pytestmark = pytest.mark.ranks

BLOCK = 64
E_BYTES = 2
STEPS = 2
BASE = engine_config(
    stage=3, dtype=DType.BF16, quantization_block=BLOCK, ranks_per_node=2, epsilon=1e-3
)
QWZ = {"quantize_weights": True}
HPZ = {"secondary_partition": 2}
QGZ = {"quantize_gradients": True}
ALL = QWZ | HPZ | QGZ
ODD = {"bucket_elements": 997, "accumulate": 2, "clip": 0.05, "prefetch": 2, "chunk_bytes": 512}
TRAFFIC = {
    "plain": {},
    "qwZ": QWZ,
    "hpZ": HPZ,
    "hpZ native": HPZ | {"collectives": CollectivesKind.NATIVE},
    "qgZ, nodes of 1": QGZ | {"ranks_per_node": 1},
    "qgZ, nodes of 2": QGZ,
    "qgZ, one node": QGZ | {"ranks_per_node": 0},
    "qwZ, hpZ": QWZ | HPZ,
    "qwZ, qgZ": QWZ | QGZ,
    "hpZ, qgZ": HPZ | QGZ,
    "all": ALL,
    "all, odd": ALL | ODD,
    "all, no overlap": ALL | ODD | {"overlap": False},
}
"""What is traced, by name."""
PAIRS = ("qwZ, hpZ", "qwZ, qgZ", "hpZ, qgZ")
"""Beside each alone and all together, what these show is the same."""
MODELS = {
    name: "mlp" if "bucket_elements" in changes else "gpt" for name, changes in TRAFFIC.items()
}

SAME = {
    ("mlp", "odd"): ODD,
    ("Tied", "odd"): ODD,
    ("Branches", "fp32"): {"dtype": DType.FP32, "prefetch": 2},
    ("UsedTwice", "fp32"): {"dtype": DType.FP32},
    ("CheckpointBlock", "fp32"): {"dtype": DType.FP32},
    ("FrozenTwice", "fp16"): {"dtype": DType.FP16, "initial_loss_scale": 1024.0},
    ("FrozenFirst", "native"): {"collectives": CollectivesKind.NATIVE},
    ("RootParameters", "no overlap"): {"overlap": False, "accumulate": 2},
}
"""Where hpZ must not change a bit."""
ELSEWHERE = {
    "optimizer on the host": {"offload_optimizer": "cpu"},
    "all on the host": {"offload_optimizer": "cpu", "offload_param": "cpu"},
    "all on a disk": {"offload_optimizer": "nvme", "offload_param": "nvme"},
    "in one place": {"contiguous_memory": True},
}
"""What must not change a bit of all three together."""


# what the ranks do


def _sizes(name, num_ranks, *, whole):
    """Partitions that change no bit: a node, and all ranks, once unless it is the whole."""
    return {2, num_ranks} if whole or name == "odd" else {2}


def _train_all(folder, names, whole):
    found = {}
    for name in names:
        with zerosim.trace(f"{folder}/{name}"):
            config = replace(BASE, **TRAFFIC[name])
            found[name] = train(Case(MODELS[name], config, steps=STEPS))
    for (model, name), changes in SAME.items():
        for size in (1, *_sizes(name, dist.get_world_size(), whole=whole)):
            config = replace(BASE, **changes, secondary_partition=size)
            case = Case(model, config, steps=STEPS, evaluates=name not in ("odd", "no overlap"))
            found[model, name, size] = train(case)
    for name, changes in ({"at home": {}} | ELSEWHERE).items():
        config = replace(BASE, **ALL, **changes, nvme_path=folder)
        found[name] = train(Case("Stack", config, steps=STEPS))
    for model in ("FrozenFirst", "Branches", "RootParameters") if whole else ("Branches",):
        config = replace(BASE, **ALL, **ODD, dtype=DType.FP32)
        found[model, "all"] = train(Case(model, config, steps=STEPS, evaluates=True))
    return found, _gathered(), _reduced(), _overflowed(breaks=True), _overflowed(breaks=False)


def _gathered():
    """Weights as they are, as they are computed with by moment, and the units' layouts."""
    num_ranks = dist.get_world_size()
    engine = initialize(build("gpt", 0), replace(BASE, **QWZ))
    exact = engine.full_parameters()
    seen = {"forward": {}, "backward": {}, "evaluation": {}}
    for block, module in engine.model.blocks.named_children():
        parameters = {f"blocks.{block}.{name}": p for name, p in module.named_parameters()}

        def in_forward(*_, parameters=parameters):
            moment = "forward" if torch.is_grad_enabled() else "evaluation"
            seen[moment] |= {name: weight.clone() for name, weight in parameters.items()}

        module.register_forward_pre_hook(in_forward)
        for name, weight in parameters.items():

            def in_backward(_, name=name, weight=weight):
                seen["backward"][name] = weight.detach().clone()

            weight.register_hook(in_backward)
    batch = inputs("gpt", dist.get_rank(), num_ranks, 0, 0)
    with torch.no_grad():
        engine(*batch)
    engine.backward(engine(*batch))
    engine.close()
    return exact, seen, [flat.unit.layout(num_ranks) for flat in engine._units]


REDUCED = [(columns, per_node) for columns in (1, 7, 500) for per_node in (1, 2, 4)]


def gradient(rank, num_ranks, columns, *, breaks=False):
    generator = torch.Generator().manual_seed(10 * columns + rank)
    found = torch.randn(num_ranks, columns, generator=generator).to(torch.float16)
    if breaks and rank == 1:
        found[2, columns // 2] = math.inf
    return found


def _reduced():
    """Own rows, by columns, ranks in a node, and whether a rank's gradient has overflowed."""
    found, group = {}, world()
    executor = InlineExecutor()
    for columns, per_node in REDUCED if group.size == 4 else ():
        segment = Segment(unit="u", start=0, stop=columns)
        reduction = QuantizedReduction(
            SimpleNamespace(
                config=replace(BASE, quantization_block=8, ranks_per_node=per_node),
                collectives=Ring(group, executor, 1 << 20),
                executor=executor,
                units=[SimpleNamespace(flat=torch.empty(0))],
                buckets=[BucketLayout(name="u", segments=(segment,))],
            )
        )
        for breaks in (False, True):
            wide = torch.full((group.size, columns + 2), 5.0, dtype=torch.float16)
            matrix = wide[:, 1:-1]
            matrix.copy_(gradient(group.rank, group.size, columns, breaks=breaks))
            reduction.reduce(matrix).wait()
            border_is_left = bool((wide[:, [0, -1]] == 5).all())
            found[columns, per_node, breaks] = matrix[group.rank].clone(), border_is_left
    return found


def _overflowed(*, breaks):
    """fp16: what one rank's overflow, or a scale that is too large, does to steps and weights."""
    scale = 1024.0 if breaks else 2.0**40
    config = replace(BASE, **ALL, dtype=DType.FP16, initial_loss_scale=scale)
    engine = initialize(build("Stack", 0), config)
    step, skipped, weights = 0, [], []

    def spoil(_, gradients, __):
        is_broken = breaks and dist.get_rank() == 1 and step == 1
        return tuple(g * math.inf if is_broken and g is not None else g for g in gradients)

    engine.model.blocks[1].down.register_full_backward_hook(spoil)
    for step in range(3):
        engine.backward(engine(*inputs("Stack", dist.get_rank(), dist.get_world_size(), step, 0)))
        engine.step()
        skipped.append(engine.skipped_steps)
        weights.append(torch.cat([w.view(-1) for w in engine.full_parameters().values()]))
    engine.close()
    return skipped, weights


ON_FOUR = (4, tuple(name for name in TRAFFIC if name not in PAIRS), False)
WHOLE_ON_TWO, WHOLE_ON_FOUR = ((num_ranks, tuple(TRAFFIC), True) for num_ranks in (2, 4))
"""Ranks, what is traced, and whether all else is trained that could be."""


def _said(launch):
    num_ranks, _, whole = launch
    return f"{num_ranks} ranks{', whole' * whole}"


@pytest.fixture(scope="module")
def launched(tmp_path_factory):
    """Starts ranks once for all tests."""

    @cache
    def launch(num_ranks, names, whole):
        folder = tmp_path_factory.mktemp("zeropp")
        ranks = run_ranks(_train_all, num_ranks, str(folder), names, whole)
        return SimpleNamespace(num_ranks=num_ranks, folder=folder, ranks=ranks, whole=whole)

    return launch


@pytest.fixture(
    params=[
        ON_FOUR,
        *(pytest.param(one, marks=pytest.mark.long) for one in (WHOLE_ON_TWO, WHOLE_ON_FOUR)),
    ],
    ids=_said,
)
def ran(request, launched):
    return launched(*request.param)


TWO_NODES = pytest.mark.parametrize("ran", [ON_FOUR], indirect=True, ids=_said)
"""What needs two nodes of two ranks."""


def each_traced(*but):
    """Each launch with each name that it traces."""
    return pytest.mark.parametrize(
        ("ran", "name"),
        [
            pytest.param(one, name, marks=marks, id=f"{_said(one)}-{name}")
            for one, marks in (
                (ON_FOUR, ()),
                (WHOLE_ON_TWO, pytest.mark.long),
                (WHOLE_ON_FOUR, pytest.mark.long),
            )
            for name in one[1]
            if name not in but
        ],
        indirect=["ran"],
    )


# traffic


def int8_bytes(elements):
    return elements + 4 * math.ceil(elements / BLOCK)


def int4_bytes(elements):
    return math.ceil(elements / 2) + 4 * math.ceil(elements / BLOCK)


def neighbours(rank, size):
    return tuple(range(rank // size * size, rank // size * size + size))


def expected_calls(manifest, config, rank):
    """One micro-step's gathers and reductions: phase, unit, op, dtype, elements, bytes, ranks."""
    num_ranks = manifest.num_ranks
    everyone = tuple(range(num_ranks))
    per_node, size = config.ranks_per_node or num_ranks, config.secondary_partition
    calls = []
    for unit in manifest.units:
        whole = unit.padded_elements
        exact = (Op.ALL_GATHER, "bfloat16", whole, E_BYTES * whole)
        forward = exact
        if config.quantize_weights:
            forward = (Op.ALL_GATHER, "int8", whole, num_ranks * int8_bytes(whole // num_ranks))
        calls.append((Phase.FORWARD, unit.name, *forward, everyone))
        if size > 1:
            calls.append((Phase.BACKWARD, unit.name, *exact, neighbours(rank, size)))
        else:
            calls.append((Phase.BACKWARD, unit.name, *forward, everyone))
    for bucket in manifest.buckets:
        columns = sum(segment.stop - segment.start for segment in bucket.segments)
        rows, begin = num_ranks, (Phase.BACKWARD, bucket.name)
        if not config.quantize_gradients:
            whole = rows * columns
            calls.append((*begin, Op.REDUCE_SCATTER, "bfloat16", whole, E_BYTES * whole, everyone))
            continue
        across = tuple(range(rank % per_node, num_ranks, per_node))
        for ranks in (neighbours(rank, per_node), across):
            if len(ranks) > 1:
                packed = rows * int4_bytes(columns)
                calls.append((*begin, Op.ALL_TO_ALL, "int4", rows * columns, packed, ranks))
                rows //= len(ranks)
    return calls


def traced_calls(rank, iteration):
    return [
        event
        for event in rank.events
        if event.kind is Kind.COLLECTIVE
        and event.iteration == iteration
        and event.phase is not Phase.OUTSIDE  # where the test asks for the weights
        and event.purpose in (Purpose.GATHER_PARAMETERS, Purpose.REDUCE_GRADIENTS)
    ]


def traced(ran, name):
    return load(ran.folder / name, strict=True)


@each_traced()
def test_payloads_are_what_the_paper_says_to_the_byte(ran, name):
    trace, config = traced(ran, name), replace(BASE, **TRAFFIC[name])
    assert match_collectives(trace).mismatches == ()
    for rank in trace.ranks:
        once = Counter(expected_calls(trace.manifest, config, rank.rank))
        for iteration in range(STEPS):
            calls = traced_calls(rank, iteration)
            found = Counter(
                (
                    call.phase,
                    call.unit,
                    call.op,
                    call.dtype,
                    call.elements,
                    call.payload_bytes,
                    rank.groups[call.group].ranks,
                )
                for call in calls
            )
            assert found == Counter({k: config.accumulate * n for k, n in once.items()})
            for call in calls:
                others = len(rank.groups[call.group].ranks) - 1
                if config.collectives is CollectivesKind.RING:
                    share = call.payload_bytes * others // (others + 1)
                    assert call.sent_bytes == call.received_bytes == share, call


def crossing(trace, iteration, link):
    """Bytes of parameters and gradients that all ranks together send over a link."""
    total = 0
    for rank in trace.ranks:
        calls = {call.id for call in traced_calls(rank, iteration)}
        total += sum(
            event.payload_bytes
            for event in rank.events
            if event.kind is Kind.TRANSFER
            and event.op is Op.SEND
            and event.parent in calls
            and link_of_message(rank.rank, event.peers[0], BASE.ranks_per_node) is link
        )
    return total


@TWO_NODES
def test_less_crosses_between_nodes(ran):
    plain, together = traced(ran, "plain"), traced(ran, "all")
    rows = [unit.padded_elements // 4 for unit in plain.manifest.units]
    # one rank of each node sends what a ring brings across: 3 rows in each of 3 passes
    assert crossing(plain, 1, Link.NETWORK) == sum(2 * 3 * 3 * E_BYTES * row for row in rows)
    # int8 by that ring in forward, nothing for backward, then each rank a quarter of the gradient
    assert crossing(together, 1, Link.NETWORK) == sum(
        2 * 3 * int8_bytes(row) + 4 * int4_bytes(row) for row in rows
    )
    # within nodes the other two ranks of the ring; the neighbours' gather; the first all-to-all
    assert crossing(plain, 1, Link.NODE) == crossing(plain, 1, Link.NETWORK)
    assert crossing(together, 1, Link.NODE) == sum(
        2 * 3 * int8_bytes(row) + 4 * 2 * E_BYTES * row + 4 * 2 * int4_bytes(row) for row in rows
    )


# what is computed


def test_all_ranks_end_with_the_same_weights(ran):
    for rank, (found, *_) in enumerate(ran.ranks):
        for name, outcome in found.items():
            assert not outcome.differs_from(ran.ranks[0][0][name]), (rank, name)


def test_a_secondary_partition_changes_no_bit(ran):
    found = ran.ranks[0][0]
    assert not found["hpZ"].differs_from(found["plain"])
    for model, name in SAME:
        for size in _sizes(name, ran.num_ranks, whole=ran.whole):
            difference = found[model, name, size].differs_from(found[model, name, 1])
            assert not difference, (model, name, size)


@each_traced("plain", "hpZ native")
def test_quantization_moves_losses_a_little(ran, name):
    found = ran.ranks[0][0]
    changes = TRAFFIC[name]
    plain = found["mlp", "odd", 1] if MODELS[name] == "mlp" else found["plain"]
    distance = found[name].loss_distance(plain)
    quantizes = "quantize_weights" in changes or "quantize_gradients" in changes
    assert (distance > 0) == quantizes
    assert distance < 2e-3


def test_how_it_is_overlapped_changes_no_bit(ran):
    found = ran.ranks[0][0]
    assert not found["all, no overlap"].differs_from(found["all, odd"])


@pytest.mark.parametrize("name", ELSEWHERE)
def test_where_things_are_kept_changes_no_bit(ran, name):
    found = ran.ranks[0][0]
    assert not found[name].differs_from(found["at home"])


def test_every_rank_computes_with_the_same_weights_its_own_among_them(ran):
    exact, seen, layouts = ran.ranks[0][1]
    wanted = {}
    for layout in layouts:
        flat = torch.zeros(layout.padded_elements)
        for slot in layout.slots:
            flat[slot.offset : slot.offset + slot.elements] = exact[slot.name].float().view(-1)
        rows, _ = by_hand(flat.view(ran.num_ranks, -1), Bits.INT8, BLOCK)
        for slot in layout.slots:
            part = rows.view(-1)[slot.offset : slot.offset + slot.elements]
            wanted[slot.name] = part.view(slot.shape).to(torch.bfloat16)
    assert len(seen["forward"]) > 10
    assert seen["forward"].keys() == seen["backward"].keys() == seen["evaluation"].keys()
    for _, (_, weights, _), *_ in ran.ranks:
        for name, weight in weights["forward"].items():
            assert torch.equal(weight, wanted[name]), name
            assert torch.equal(weights["backward"][name], weight), name
            assert torch.equal(weights["evaluation"][name], exact[name]), name
    assert any(not torch.equal(exact[name], wanted[name]) for name in seen["forward"])


@TWO_NODES
@pytest.mark.parametrize(("columns", "per_node"), REDUCED)
def test_gradients_are_added_as_the_paper_says_to_the_bit(ran, columns, per_node):
    given = [gradient(rank, 4, columns).float() for rank in range(4)]

    def quantized(rows):
        return by_hand(rows, Bits.INT4, 8)[0].float()

    for rank in range(4):
        node, place = divmod(rank, per_node)
        sums = given
        if per_node > 1:
            sums = [
                sum(quantized(given[other]) for other in neighbours(first, per_node))
                for first in range(4)
            ]
        total = sums[rank][rank]
        if per_node < 4:
            across = range(place, 4, per_node)
            total = sum(quantized(sums[other][rank : rank + 1])[0] for other in across)
        found, border_is_left = ran.ranks[rank][2][columns, per_node, False]
        assert torch.equal(found, total.to(torch.float16)), (rank, node)
        assert border_is_left


@TWO_NODES
@pytest.mark.parametrize(("columns", "per_node"), REDUCED)
def test_an_overflow_survives_both_quantizations(ran, columns, per_node):
    block = columns // 2 // 8
    for rank in range(4):
        found, _ = ran.ranks[rank][2][columns, per_node, True]
        is_wrong = ~torch.isfinite(found)
        wanted = torch.zeros(columns, dtype=torch.bool)
        if rank == 2:
            wanted[8 * block : 8 * block + 8] = True
        assert torch.equal(is_wrong, wanted)


def test_an_overflow_of_one_rank_is_skipped_by_all(ran):
    for *_, (skipped, weights), (all_skipped, unchanged) in ran.ranks:
        assert skipped == [0, 1, 1]
        assert torch.equal(weights[0], weights[1])
        assert not torch.equal(weights[1], weights[2])
        assert torch.isfinite(weights[2]).all()
        assert all_skipped == [1, 2, 3]
        assert torch.equal(unchanged[0], unchanged[2])


# what is kept, and what is said


def test_the_secondary_partition_lives_from_forward_to_update(ran):
    for name in ("hpZ", "all, odd"):
        trace = traced(ran, name)
        wanted = {u.name: u.padded_elements // 2 * E_BYTES for u in trace.manifest.units}
        for rank in trace.ranks:
            held, seen = {}, Counter()
            for sample in rank.memory_samples:
                held |= {c.unit: c.bytes for c in sample.changes if c.role is Role.SECONDARY}
                alive = {unit: size for unit, size in held.items() if size}
                if sample.moment is Moment.PHASE and sample.iteration >= 0:
                    seen[sample.phase] += 1
                    if sample.phase in (Phase.BACKWARD, Phase.UPDATE):
                        assert alive == wanted
                    elif sample.phase is Phase.OUTSIDE or sample.micro_step == 0:
                        assert alive == {}
            assert seen[Phase.BACKWARD] >= STEPS
            assert seen[Phase.OUTSIDE] >= STEPS


@each_traced()
def test_errors_are_reported_once_a_step(ran, name):
    config = replace(BASE, **TRAFFIC[name])
    for rank in traced(ran, name).ranks:
        for metric, wants, most in (
            (WEIGHT_ERROR, config.quantize_weights, 0.01),
            (GRADIENT_ERROR, config.quantize_gradients, 0.2),
        ):
            values = [(m.iteration, m.value) for m in rank.metrics if m.name == metric]
            assert [iteration for iteration, _ in values] == list(range(STEPS)) * wants
            assert all(most / 10 < value < most for _, value in values)


# what is refused


def _refuse():
    found = []
    for changes in (
        {"secondary_partition": 3},
        {"quantize_gradients": True, "ranks_per_node": 4},
    ):
        with pytest.raises(ConfigError) as caught:
            initialize(build("Stack", 0), replace(BASE, **changes))
        found.append(str(caught.value))
    return found


def test_ranks_that_cannot_be_grouped_are_refused():
    for found in run_ranks(_refuse, 2):
        assert found == [
            "secondary-partition is 3: expected a divisor of the 2 ranks",
            "ranks-per-node is 4: expected a divisor of the 2 ranks",
        ]


@pytest.mark.parametrize("name", ["quantize_weights", "quantize_gradients"])
def test_native_collectives_carry_no_quantized_bytes(name):
    with pytest.raises(ConfigError, match=r"^collectives is native with quantize-\w+: expected"):
        engine_config(stage=3, collectives=CollectivesKind.NATIVE, **{name: True})


@pytest.mark.parametrize("changes", [QWZ, HPZ])
def test_an_owners_broadcast_is_neither_quantized_nor_kept(changes):
    with pytest.raises(ConfigError, match="is asked for with owner-broadcast: expected one of"):
        engine_config(stage=3, offload_param="cpu", owner_broadcast="parameters", **changes)


# a hundred steps

LONG = {"plain": {}, "qwZ": QWZ, "qgZ": QGZ, "all": ALL}
LONG_STEPS = 100
LONG_BASE = replace(BASE, quantization_block=256, epsilon=1e-8)
BOUNDS = {"qwZ": 0.004, "qgZ": 0.05, "all": 0.05}
"""Largest relative difference of a loss in any of the steps: twice to three times what was measured
with 2 and 4 ranks, 0.0014, 0.023 and 0.023. At the last step it was below 0.0001, 0.005 and 0.005.
"""


def _train_long():
    return {
        name: train(Case("gpt", replace(LONG_BASE, **changes), steps=LONG_STEPS)).losses
        for name, changes in LONG.items()
    }


@pytest.mark.long
@pytest.mark.parametrize("num_ranks", [2, 4])
def test_a_hundred_steps_end_where_plain_stage_3_does(num_ranks):
    losses = run_ranks(_train_long, num_ranks)[0]
    plain = losses["plain"]
    for name, bound in BOUNDS.items():
        off = [abs(a - b) / b for a, b in zip(losses[name], plain, strict=True)]
        assert 0 < max(off) <= bound, name
        assert off[-1] <= bound / 2, name
