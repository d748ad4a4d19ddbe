"""Tensor parallel ranks under the engine: stages agree, P_a changes only what is kept."""

import gc
import time
from collections import Counter, defaultdict
from pathlib import Path

import pytest
import torch
import torch.distributed as dist

from tests.ranks import run_ranks
from tests.train.engine.samples import BATCH, CONTEXT, Case, Outcome, engine_config, gpt, oracle
from zerosim import trace
from zerosim.base.config import ModelName, RunConfig
from zerosim.base.errors import ConfigError
from zerosim.base.tiers import Tier
from zerosim.record import load
from zerosim.schema.events import Algorithm, Kind, Op, Phase, Purpose
from zerosim.schema.memory import Role
from zerosim.theory import cost, framing
from zerosim.train.collectives import RankGroup, world
from zerosim.train.device import DeviceMemory
from zerosim.train.engine import initialize
from zerosim.train.launch.parallel import require_divisible
from zerosim.train.models import Batches

NUM_RANKS, TOGETHER = 4, 2
NUM_DATA = NUM_RANKS // TOGETHER
STEPS = 2
LAYERS, WIDTH, HEADS = 2, 32, 2
LARGE_EPSILON = 1e-3
SETTLED_S = 0.3
"""Bytes that did not change for so long stay as they are."""
"""So that Adam's first steps, divisions by almost nothing, do not enlarge a difference of bits."""

KEPT = {"checkpoint_activations": True}
PARTITIONED = {**KEPT, "partition_activations": True}
ON_HOST = {**PARTITIONED, "cpu_checkpointing": True}
CASES = (
    {(stage, "none"): engine_config(stage=stage, epsilon=LARGE_EPSILON) for stage in range(4)}
    | {
        # those of stage 2 are below
        (stage, "on host"): engine_config(stage=stage, epsilon=LARGE_EPSILON, **ON_HOST)
        for stage in (0, 3)
    }
    | {
        (3, name): engine_config(stage=3, epsilon=LARGE_EPSILON, **changes)
        for name, changes in {
            "kept": KEPT,
            "partitioned": PARTITIONED,
            "arena": {**PARTITIONED, "contiguous_memory": True},
            "native": {**PARTITIONED, "collectives": "native"},
        }.items()
    }
)
TOGETHER_WITH = {
    "on a disk": {"stage": 3, "offload_optimizer": "nvme", "offload_param": "nvme", **ON_HOST},
    "an owner": {"stage": 3, "offload_param": "cpu", "owner_broadcast": "parameters", **ON_HOST},
    "a second copy": {"stage": 3, "secondary_partition": NUM_DATA, **PARTITIONED},
    "buffers": {"stage": 2, "bucket_elements": 2000, "constant_buffers": True, **ON_HOST},
}
"""What else moves memory about and changes no number."""
TWICE = {
    name: engine_config(stage=2, dtype="bf16", accumulate=2, **changes)
    for name, changes in {"none": {}, "on host": ON_HOST}.items()
}

BSH = BATCH * CONTEXT * WIDTH
ELEMENT_BYTES = 4
ALL_REDUCES = {Phase.FORWARD: 2, Phase.BACKWARD: 4}
"""Of a block: in backward two again, and two of gradients."""


def model(seed=0):
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(seed)
        return gpt()


def _divided():
    from torch.distributed.device_mesh import init_device_mesh

    from zerosim.train.models.parallel import divide_blocks

    mesh = init_device_mesh("cpu", (NUM_DATA, TOGETHER), mesh_dim_names=("data", "tensor"))
    found = model()
    divide_blocks(found, mesh["tensor"], source=None)
    data = mesh["data"]
    ranks = tuple(dist.get_process_group_ranks(data.get_group()))
    return found, RankGroup(data.get_local_rank(), ranks, data.get_group())


def _train(config, steps=STEPS):
    divided, group = _divided()
    engine = initialize(divided, config, group)
    batches = Batches(seed=0, rank=group.rank, num_ranks=group.size, batch=BATCH, context=CONTEXT)
    outcome = Outcome()
    for iteration in range(steps):
        losses = []
        for micro_step in range(config.accumulate):
            loss = engine(batches.at(iteration, micro_step))
            engine.backward(loss)
            losses.append(loss.item())
            if engine.is_boundary:
                outcome.losses.append(engine.average_loss(sum(losses) / len(losses)))
            engine.step()
    outcome.weights = engine.full_parameters()
    engine.close()
    return outcome


def _refusals():
    divided, data = _divided()
    found = {}
    for name, group, changes in (
        ("clip", data, {"clip": 1.0}),
        ("fp16", data, {"dtype": "fp16"}),
        ("group", world(), {}),
    ):
        try:
            initialize(divided, engine_config(**changes), group)
        except ConfigError as error:
            found[name] = str(error)
    return found


def _settled(device):
    """Its bytes in use, once threads of the backend have released the tensors of their calls.

    A thread does so after the call has ended, so its rank may be ahead of it.
    """
    found, since = device.used_bytes, time.monotonic()
    while time.monotonic() - since < SETTLED_S:
        time.sleep(0.01)
        if (now := device.used_bytes) != found:
            found, since = now, time.monotonic()
    return found


def _in_use(config):
    """Bytes of a limited device after the second forward, and after each step."""
    with DeviceMemory(1 << 30) as device:
        divided, group = _divided()
        engine = initialize(divided, config, group)
        batches = Batches(
            seed=0, rank=group.rank, num_ranks=group.size, batch=BATCH, context=CONTEXT
        )
        after_steps = []
        for iteration in range(2):
            loss = engine(batches.at(iteration))
            gc.collect()  # whenever Python would do so by itself
            if iteration == 1:
                after_forward = _settled(device)
            engine.backward(loss)
            del loss
            engine.step()
            gc.collect()
            after_steps.append(_settled(device))
        engine.close()
    return after_forward, after_steps


def _cut_layer(folder):
    """A layer cut by columns, by a program without an engine: autograd saves a DTensor."""
    from torch.distributed.device_mesh import init_device_mesh
    from torch.distributed.tensor.parallel import ColwiseParallel, parallelize_module

    mesh = init_device_mesh("cpu", (NUM_RANKS,))
    layer = parallelize_module(torch.nn.Linear(WIDTH, WIDTH), mesh, ColwiseParallel())
    with trace(folder):
        loss = layer(torch.ones(BATCH, WIDTH, requires_grad=True)).sum()
        loss.backward()


def _everything(folder):
    outcomes = {name: _train(config) for name, config in CASES.items()}
    outcomes |= {("twice", name): _train(config) for name, config in TWICE.items()}
    for name, changes in TOGETHER_WITH.items():
        config = engine_config(epsilon=LARGE_EPSILON, nvme_path=str(folder / "disk"), **changes)
        outcomes["together", name] = _train(config)
    for name in ("partitioned", "on host"):
        with trace(Path(folder, name)):
            _train(CASES[3, name], steps=2)
            dist.barrier()
    _cut_layer(Path(folder, "cut layer"))
    in_use = {name: _in_use(CASES[3, name]) for name in ("kept", "partitioned", "on host")}
    return outcomes, _refusals(), in_use


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    return tmp_path_factory.mktemp("traces")


@pytest.fixture(scope="module")
def answers(folder):
    return run_ranks(_everything, NUM_RANKS, folder)


pytestmark = pytest.mark.ranks


def test_stages_and_ways_to_keep_activations_train_alike_to_the_bit(answers):
    first = answers[0][0]
    for outcomes, *_ in answers:
        for name, outcome in outcomes.items():
            reference = first["twice", "none"] if name[0] == "twice" else first[0, "none"]
            assert not outcome.differs_from(reference), name


def test_each_rank_has_files_of_its_own(folder, answers):
    assert len(answers) == len(list((folder / "disk").glob("rank-*"))) == NUM_RANKS


def test_they_train_as_one_process_does(answers):
    outcome = answers[0][0][0, "none"]
    config = engine_config(epsilon=LARGE_EPSILON)
    # the oracle builds its model with seed 0 as well
    expected = oracle(Case("gpt", config, STEPS), NUM_DATA)
    from zerosim.train.models.parallel import by_heads

    for name, weight in expected.weights.items():
        if "query_key_value" in name:
            expected.weights[name] = weight[by_heads(WIDTH, HEADS)]
    # each matrix product that is cut is summed in two halves
    assert outcome.loss_distance(expected) < 1e-6
    assert outcome.weight_distance(expected) < 2e-6


def test_what_would_be_wrong_is_refused(answers):
    for _, refusals, _ in answers:
        assert "part of the gradient's norm" in refusals["clip"]
        assert "overflows" in refusals["fp16"]
        assert "compute blocks together" in refusals["group"]


def test_partitioning_leaves_that_much_more_room_on_a_device(answers):
    share = LAYERS * BSH * ELEMENT_BYTES // TOGETHER
    for *_, in_use in answers:
        after_forward = {name: forward for name, (forward, _) in in_use.items()}
        assert after_forward["kept"] - after_forward["partitioned"] == share
        assert after_forward["partitioned"] - after_forward["on host"] == share
        for _, after_steps in in_use.values():
            assert len(set(after_steps)) == 1, "nothing is left over from a step"


@pytest.fixture(scope="module", params=["partitioned", "on host"])
def recorded(request, folder, answers):
    return request.param, load(folder / request.param, strict=True)


def _events(rank, kind):
    return [event for event in rank.events if event.kind is kind and event.iteration == 1]


def test_each_block_calls_what_the_docstring_says(recorded):
    name, recording = recorded
    for rank in recording.ranks:
        called, payloads = defaultdict(Counter), set()
        for event in _events(rank, Kind.COLLECTIVE):
            if event.purpose in {Purpose.ACTIVATIONS, Purpose.GATHER_ACTIVATIONS}:
                called[event.unit][event.phase, event.purpose, event.op, event.algorithm] += 1
                payloads.add(event.payload_bytes)
                together = next(g for g in rank.groups.values() if g.name == event.group)
                assert len(together.ranks) == TOGETHER
        expected = {
            (phase, Purpose.ACTIVATIONS, Op.ALL_REDUCE, Algorithm.GLOO): times
            for phase, times in ALL_REDUCES.items()
        } | {(Phase.BACKWARD, Purpose.GATHER_ACTIVATIONS, Op.ALL_GATHER, Algorithm.RING): 1}
        assert called == {f"blocks.{number}": expected for number in range(LAYERS)}
        assert payloads == {BSH * ELEMENT_BYTES}
        copies = Counter((e.purpose, e.payload_bytes) for e in _events(rank, Kind.COPY))
        part = BSH * ELEMENT_BYTES // TOGETHER
        there_and_back = {
            (Purpose.OFFLOAD_ACTIVATIONS, part): LAYERS,
            (Purpose.FETCH_ACTIVATIONS, part): LAYERS,
        }
        assert copies == (there_and_back if name == "on host" else {})


def test_gathering_adds_a_twelfth_and_each_call_has_the_wire_for_itself(recorded):
    _, recording = recorded
    for rank in recording.ranks:
        sent = Counter()
        for event in _events(rank, Kind.COLLECTIVE):
            position = rank.rank % TOGETHER
            on_wire = sum(delta.sent_bytes for delta in event.wire)
            if event.purpose is Purpose.ACTIVATIONS:
                by_gloo = cost(
                    Algorithm.GLOO, Op.ALL_REDUCE, TOGETHER, position, BSH, ELEMENT_BYTES
                )
                added = framing("gloo", by_gloo)
                assert on_wire == by_gloo.sent_bytes + added.sent_bytes
                sent[event.purpose] += by_gloo.sent_bytes
            elif event.purpose is Purpose.GATHER_ACTIVATIONS:
                sent[event.purpose] += event.sent_bytes
        assert 12 * sent[Purpose.GATHER_ACTIVATIONS] == sent[Purpose.ACTIVATIONS] > 0


def test_each_rank_keeps_its_share_of_the_inputs(recorded):
    name, recording = recorded
    home = Tier.HOST if name == "on host" else Tier.DEVICE
    for rank in recording.ranks:
        kept, at_backward = {}, []
        for sample in rank.memory_samples:
            kept |= {
                (h.tier, h.unit): h.bytes for h in sample.changes if h.role is Role.CHECKPOINTS
            }
            if sample.event is None and sample.phase is Phase.BACKWARD:
                at_backward.append({place: size for place, size in kept.items() if size})
        share = BSH * ELEMENT_BYTES // TOGETHER
        assert at_backward == 2 * [{(home, f"blocks.{n}"): share for n in range(LAYERS)}]


@pytest.mark.parametrize(
    ("run", "message"),
    [
        (RunConfig(model=ModelName.MLP, tensor_parallel=2), "the mlp"),
        (RunConfig(ranks=3, tensor_parallel=3), "a divisor of gpt-tiny's 4 heads"),
        (RunConfig(tensor_parallel=2, tiles=2), "one of tiles and tensor-parallel"),
    ],
)
def test_a_model_that_cannot_be_cut_is_refused_before_ranks_start(run, message):
    with pytest.raises(ConfigError, match=message):
        require_divisible(run, engine_config())


def test_what_autograd_saves_of_a_cut_layer_is_counted(folder, answers):
    assert len(answers) == NUM_RANKS
    for rank in load(folder / "cut layer", strict=True).ranks:
        border = next(s for s in rank.memory_samples if s.phase is Phase.BACKWARD)
        saved = [
            change.bytes
            for sample in rank.memory_samples[: border.number + 1]
            for change in sample.changes
            if change.role is Role.ACTIVATIONS
        ]
        assert saved == [BATCH * WIDTH * 4], "its input; the weights are parameters"
