"""Layouts beyond zerosim's engine: what each adds to a step and to memory, by its formula."""

import json
import re
from dataclasses import replace
from fractions import Fraction
from itertools import product
from pathlib import Path

import pytest

from zerosim.base.config import EngineConfig
from zerosim.base.config.huggingface import architecture
from zerosim.base.config.shapes import shape_of
from zerosim.base.errors import ConfigError
from zerosim.base.language import Language, speaking
from zerosim.base.tiers import Link
from zerosim.predict.placement.belief import believed, load_software
from zerosim.predict.placement.machine import load_machine
from zerosim.predict.plan import ask
from zerosim.predict.plan.layouts import layouts
from zerosim.predict.plan.prices import Prices
from zerosim.predict.plan.schedule import TimeCategory, step_times
from zerosim.schema.events import Op
from zerosim.theory.footprint import footprints, peak, peak_bytes
from zerosim.theory.layout import FIRST, LAST, MIDDLE, Layout, native
from zerosim.theory.model_states import Role
from zerosim.theory.saved import KeptActivations, Recompute
from zerosim.theory.transformer import BLOCK, LayerCut

MODELS = json.loads(
    (Path(__file__).parents[2] / "base" / "huggingface.json").read_text(encoding="utf-8")
)
MIXTRAL = architecture(MODELS["mistralai/Mixtral-8x7B-v0.1"]["config"])
LLAMA = shape_of("llama-3-8b")


@pytest.fixture(scope="module")
def prices():
    return Prices(load_machine("dgx-h100"))


def layout_of(shape=LLAMA, *, stage=1, accumulate=8, **values):
    config = native(EngineConfig(stage=stage, accumulate=accumulate, dtype="bf16"))
    given = {"data": 8, "sequence": 8192, "ranks_per_node": 8, **values}
    return Layout(shape=shape, config=config, **given)


def test_interleaved_chunks_divide_the_bubble(prices):
    """(p - 1) / v micro-batches (Narayanan et al. 2021, section 2.2), but for more messages."""
    plain = layout_of(pipeline=4)
    bubble = step_times(prices, plain)[TimeCategory.BUBBLE]
    machine = replace(prices.machine, hidden_messages=1.0)
    for chunks in (1, 2, 4, 8):
        found = step_times(Prices(machine), replace(plain, chunks=chunks))[TimeCategory.BUBBLE]
        assert found == pytest.approx(bubble / chunks, rel=0.02)
    zero = step_times(prices, replace(plain, zero_bubble=True))[TimeCategory.BUBBLE]
    assert zero == pytest.approx(bubble / 3)


def test_interleaved_chunks_keep_a_few_more_activations():
    """1 + (p - 1) / (p v) of all layers' on the first stage (Korthikanti et al. 2022, 4.2.3)."""

    def kept(layout):
        return max(
            part.bytes
            for one in footprints(layout)
            for part in one.parts
            if part.role is Role.ACTIVATIONS and part.name == "activations"
        )

    plain = layout_of(pipeline=4)
    assert kept(replace(plain, chunks=2)) == pytest.approx(kept(plain) * (1 + 3 / 8))


@pytest.mark.parametrize(("shape", "sequence"), [(LLAMA, 8192), (MIXTRAL, 4096)])
def test_the_bytes_of_a_peak_are_those_of_its_parts(shape, sequence):
    """A plan adds them up without the parts, which are made for the few layouts that are read."""
    tokens = 1_000_000
    question = ask("mine", 16, "dgx-h100", tokens, shape=shape, sequence=sequence)
    found = list(layouts(question))
    assert len(found) > 500
    for layout in found[::3]:
        whole = peak(layout, question.margin)
        assert peak_bytes(layout, question.margin) == whole.bytes
        assert whole.moment in {one.moment for one in footprints(layout)}
        assert peak_bytes(layout) == max(one.bytes for one in footprints(layout))


def test_activations_of_each_kind_of_blocks_have_their_own_law():
    """DeepSeek-V3 has three dense blocks before its others: 3 and 58 of these."""
    shape = architecture(MODELS["deepseek-ai/DeepSeek-V3"]["config"])
    layout = layout_of(shape, stage=3, sequence=4096)
    parts = [part for part in footprints(layout)[0].parts if part.name == "activations"]
    first, second = parts[0].formula.split(" + ")
    each = [int(one.split("sb")[0].replace(",", "")) for one in (first, second)]
    assert (first.endswith("of 3 blocks"), second.endswith("of 58 blocks")) == (True, True)
    statistics = 61 * 4 * 4096 * shape.heads
    assert parts[0].bytes == 4096 * (3 * each[0] + 58 * each[1]) + statistics


def test_stages_that_cannot_be_shared_evenly():
    layout = layout_of(pipeline=5)  # of 32 layers
    assert [layout.blocks_of(place) for place in (FIRST, MIDDLE, LAST)] == [7, 7, 6]
    with pytest.raises(ConfigError, match="expected 1 to the 32 layers"):
        layout_of(pipeline=33)
    with pytest.raises(ConfigError, match="micro-batches in a multiple of its 4 stages, not 6"):
        layout_of(pipeline=4, chunks=2, accumulate=6)


def test_ranks_that_share_a_sequence(prices):
    """Each has a c-th part of the tokens, and waits for the keys and values of all."""
    alone, shared = layout_of(stage=3), layout_of(stage=3, cut=LayerCut(context=4))
    assert shared.tokens * 4 == alone.tokens
    mine, theirs = (
        next(one for one in prices.units(layout, LAST) if one.name == BLOCK)
        for layout in (shared, alone)
    )
    assert mine.forward == pytest.approx(theirs.forward / 4, rel=0.1)
    (moved,) = mine.sums_forward
    payload = 2 * (1024 + 1024) * 8192  # keys and values of 8 heads of 128, bf16
    group = prices.on_nodes((0, 1, 2, 3), 8)
    gather = prices.collective(Op.ALL_GATHER, payload, group).ns
    assert moved.ns == gather
    # backward gathers them once more, and each rank has a gradient of all
    scatter = prices.collective(Op.REDUCE_SCATTER, payload, group).ns
    (moved,) = mine.sums_backward
    assert moved.ns == gather + scatter


RINGS = {Recompute.NONE: 1, Recompute.OPERATORS: 1, Recompute.FULL: 2}
"""What keeps the output of attention does not gather for it again."""


@pytest.mark.parametrize("recompute", RINGS)
def test_a_compiled_ring_of_torchtitan(recompute):
    """Keys and values of all 32 heads, and their gradients in fp32 in a message to each rank."""
    machine = believed(load_machine("dgx-h100"), load_software("torchtitan-2024"))
    prices = Prices(machine)
    cut, keeping = LayerCut(context=4), KeptActivations(recompute)
    unit = next(
        one
        for one in prices.units(layout_of(stage=3, cut=cut, keeping=keeping), LAST)
        if one.name == BLOCK
    )
    elements = 2 * 4096 * 8192 // 4
    group = prices.on_nodes((0, 1, 2, 3), 8)
    gather = prices.collective(Op.ALL_GATHER, 4 * 2 * elements, group).ns
    (moved,) = unit.sums_forward
    assert moved.ns == gather
    (moved,) = unit.sums_backward
    message = prices.copy(4 * elements, Link.NODE).ns
    assert moved.ns == pytest.approx(RINGS[recompute] * gather + 4 * message)


def test_ranks_that_share_experts(prices):
    """Parameters of experts are divided among them; tokens go to them and come back."""
    alone = layout_of(MIXTRAL, stage=1, sequence=4096)
    shared = replace(alone, cut=LayerCut(experts=8))
    (block,) = MIXTRAL.blocks

    def held(layout):
        parts = footprints(layout)[0].parts
        return {part.role: part.bytes for part in parts if part.role is not None}

    # parameters and gradients: all of attention, an eighth of the experts
    less = 2 * block.layers * block.expert_elements() * 7 // 8
    assert held(alone)[Role.PARAMETERS] - held(shared)[Role.PARAMETERS] == less
    # optimizer states are divided among all eight in either way
    assert held(shared)[Role.MOMENTUM] == pytest.approx(held(alone)[Role.MOMENTUM], rel=1e-6)
    unit = next(one for one in prices.units(shared, LAST) if one.name == BLOCK)
    (moved,) = unit.sums_forward
    payload = 2 * 2 * 4096 * 4096  # k b s h, bf16
    group = prices.on_nodes(tuple(range(8)), 8)
    assert moved.ns == 2 * prices.collective(Op.ALL_TO_ALL, payload, group).ns
    with pytest.raises(ConfigError, match="the model has no experts"):
        layout_of(cut=LayerCut(experts=8))
    with pytest.raises(ConfigError, match="expected a divisor of the 8 experts"):
        layout_of(MIXTRAL, sequence=4096, data=16, cut=LayerCut(experts=16))


def test_replicas_of_all_states(prices):
    """HSDP: gathers stay in the node, and the part of each rank is added up over nodes."""
    sharded = layout_of(stage=3, data=32, accumulate=1)
    hybrid = replace(sharded, replicas=4)
    assert hybrid.shards == 8
    one, other = (
        next(each for each in prices.units(layout, LAST) if each.name == BLOCK)
        for layout in (hybrid, sharded)
    )
    assert one.moved.gather_forward.ns < other.moved.gather_forward.ns
    within, across = one.moved.reduce
    part = 2 * -(-LLAMA.blocks[0].elements() // 8)
    group = prices.on_nodes((0, 8, 16, 24), 8)
    assert across.ns == prices.collective(Op.ALL_REDUCE, part, group).ns
    assert within.ns > 0
    with pytest.raises(ConfigError, match="which partition states"):
        layout_of(stage=0, replicas=2)


def test_half_of_the_products_is_between_none_and_all(prices):
    took = {
        recompute: step_times(prices, layout_of(stage=3, keeping=KeptActivations(recompute))).get(
            TimeCategory.AGAIN, 0.0
        )
        for recompute in Recompute
    }
    assert took[Recompute.NONE] == took[Recompute.SELECTIVE] == 0  # no scores are kept
    assert 0.3 < took[Recompute.OPERATORS] / took[Recompute.FULL] < 0.7


def test_float8_is_faster_by_less_than_its_products():
    machine = load_machine("dgx-h100")
    wide, narrow = (
        step_times(Prices(machine), layout_of(stage=3, float8=float8))[TimeCategory.COMPUTE]
        for float8 in (False, True)
    )
    assert 1 / machine.float8_times < narrow / wide < 1


@pytest.mark.parametrize("gpus", [8, 32, 64])
@pytest.mark.parametrize("name", [name for name in MODELS if "expert" in str(MODELS[name])])
def test_experts_are_planned_for_on_any_number_of_nodes(name, gpus):
    """HSDP's replicas have all experts each: the two ways to divide them are not mixed."""
    shape = architecture(MODELS[name]["config"])
    question = ask(name, gpus, "dgx-h100", 64 * shape.context, shape=shape)
    found = list(layouts(question))
    assert found
    assert not any(one.replicas > 1 and one.cut.experts > 1 for one in found)
    assert (gpus > 8) == any(one.replicas > 1 for one in found)
    assert any(one.cut.experts > 1 for one in found)


def test_what_is_moved_is_priced_once_for_all_micro_batches(prices):
    """Only computing is another thing with another micro-batch, or where it is done again."""
    own = Prices(prices.machine)
    first = own.units(layout_of(stage=3), LAST)
    for recompute in (Recompute.NONE, Recompute.FULL):
        for batch in (1, 2, 4):
            layout = layout_of(stage=3, batch=batch, keeping=KeptActivations(recompute))
            again = own.units(layout, LAST)
            assert [one.moved.reduce for one in again] == [one.moved.reduce for one in first]
    assert len(own.moved) == len(first)
    assert own.units(layout_of(stage=3, data=16), LAST) != first
    assert len(own.moved) == 2 * len(first)


def test_formulas_are_said_in_the_language_that_is_spoken():
    """Parts are kept beyond one answer, and so are not kept in the words of the first."""
    cuts = (LayerCut(1), LayerCut(2), LayerCut(2, sequence=True))
    keepings = [KeptActivations(one) for one in (Recompute.NONE, Recompute.FULL)]

    def parts():
        for cut, keeping in product(cuts, keepings):
            for stage, bucket in ((1, 10**6), (3, None)):
                layout = layout_of(stage=stage, cut=cut, keeping=keeping)
                config = replace(layout.config, bucket_elements=bucket)
                for moment in footprints(replace(layout, config=config)):
                    yield from moment.parts
        yield from peak(layout_of(), Fraction(1, 20)).parts

    english, assumed = re.compile(r"[a-z]{4,}|\bof\b"), "an assumption, not a measurement"
    said = {part.formula for part in parts()}
    assert any("inside blocks" in one for one in said)
    assert any(english.search(one) for one in said)
    with speaking(Language.CHINESE):
        found = list(parts())
        assert not [one for one in {part.formula for part in found} if english.search(one)]
        assert assumed not in {part.source for part in found}
    assert {part.formula for part in found} == said
    assert assumed in {part.source for part in found}
