"""Steps that others published, predicted in closed form: each record is what a file says.

Nothing here is fitted: constants are those of the files. What the fit gives anew, and all rows with
their reasons, `python -m tests.bench --only published` writes into docs/simulate.md.
"""

from collections import defaultdict
from dataclasses import replace
from pathlib import Path
from statistics import median

import pytest

from tests.bench.published import (
    DATA,
    Judged,
    RowKind,
    generations,
    kinds_table,
    predict,
    reason_of,
)
from zerosim.base.config import EngineConfig
from zerosim.base.config.shapes import GPTConfig
from zerosim.predict.placement.belief import (
    believed,
    known_software,
    largest_miss,
    load_software,
)
from zerosim.predict.placement.machine import load_machine
from zerosim.predict.placement.modelled import computation_ns
from zerosim.predict.plan.prices import Prices
from zerosim.predict.plan.schedule import step_times
from zerosim.theory.layout import Layout
from zerosim.theory.operators import Operator

DOCS = Path(__file__).parents[3] / "docs"
NEAR = 0.02
"""A constant in a file is rounded."""


@pytest.fixture(scope="module")
def offs():
    """How far each row is off, by software, with what was fitted to left out."""
    found = defaultdict(list)
    for generation in generations():
        machine = load_machine(generation.name)
        for row in generation.predicted:
            found[generation.software].append((row, predict(row, machine) / row.seconds - 1))
    return found


def test_the_record_of_each_software_is_what_comes_out(offs):
    for name in known_software():
        record, rows = load_software(name).record, [abs(off) for _, off in offs[name]]
        if record is None:
            assert not rows
            continue
        assert record.runs == len(rows), name
        assert record.median == pytest.approx(median(rows), abs=0.001), name
        assert record.most == pytest.approx(max(rows), abs=0.001), name


def test_how_a_software_divides_ranks_is_what_its_published_runs_do():
    """Each division of a file is one of its rows', with all that they compute again."""
    rows = defaultdict(list)
    for generation in generations():
        rows[generation.software] += [*generation.fitted, *generation.predicted]
    for name in known_software():
        software, found = load_software(name), defaultdict(set)
        if not software.gpus:
            assert software.measured == ()  # it is history: no plan stands on it
            continue
        for row in rows[name]:
            layout = row.layout
            divided = (layout.cut.tensor, layout.pipeline > 1, layout.data > 1)
            found[divided, row.stage].add(row.again)
        told = {
            ((one.tensor, one.pipeline, one.data), one.stage): set(one.again)
            for one in software.measured
        }
        # scores that attention never has need not be left out
        assert told == {key: again - {"none", "selective"} for key, again in found.items()}, name


RECIPES = {
    "torchtitan, Llama 3 8B": ("llama-3-8b", 8, "h100", 6667),
    "torchtitan, Llama 3 70B": ("llama-3-70b", 64, "a100-80", 331),
    "torchtitan, Llama 3 405B": ("llama-3-405b", 128, "h100", 109),
    "llm-foundry, MPT-7B": ("mpt-7b", 8, "a100-80", 4641),
    "llm-foundry, MPT-70B": ("mpt-70b", 64, "a100-80", 410),
    "Llama 3 405B": ("llama-3-405b", 16_384, "h100", 154),
}
"""Model, GPUs, and the tokens a second and GPU that its authors report."""


@pytest.mark.parametrize("name", RECIPES)
def test_a_plan_of_a_model_and_gpus_alone_is_what_their_recipe_reached(name):
    """Within 15 %, without a word of how they divided it; docs/plan.md has the table."""
    from zerosim.predict.plan import ask, make_plan

    model, gpus, gpu, reported = RECIPES[name]
    shape = None
    if model in DATA["models"]:
        given = {**DATA["models"][model]["shape"]}
        given["context"] = given.pop("context_length")
        shape = GPTConfig(**given, tied=True)
    tokens = 16_000_000 if gpus > 1000 else 4_000_000
    best = make_plan(ask(model, gpus, gpu, tokens, shape=shape)).best
    assert best.tokens_per_second / gpus == pytest.approx(reported, rel=0.15)


def test_what_was_not_measured_is_the_answer_where_it_is_far_faster():
    """FSDP of 2,048 x 8 ranks was measured on fewer: three-dimensional layouts are ahead by far."""
    from zerosim.predict.plan import ask, make_plan

    far = make_plan(ask("llama-3-405b", 16_384, "h100", 16_000_000))
    assert not far.best.is_measured
    measured = [one for one in far.fitting if one.is_measured]
    assert min(one.step_s for one in measured) > (1 + largest_miss()) * far.best.step_s
    assert far.beyond(3) == ()
    near = make_plan(ask("llama-3-70b", 64, "a100-80", 4_000_000))
    assert near.best.is_measured
    assert all(one.is_measured for one in near.fastest(5))
    beyond = near.beyond(3)
    assert len(beyond) == 3
    assert all(not one.is_measured and one.step_s < near.best.step_s for one in beyond)


GOALS = {
    RowKind.MEGATRON: 0.05,
    RowKind.SHARDED: 0.07,
    RowKind.SHARDED_TENSOR: 0.1,
    RowKind.CONTEXT: 0.1,
}
"""Three-dimensional layouts within 5 % in the median, ZeRO and FSDP within 7 %; the others are
further off, as docs/plan.md says of them, and shall not be more so."""


@pytest.mark.parametrize("kind", RowKind)
def test_goals_of_each_kind(offs, kind):
    """Each row has a kind, so that none is without a goal."""
    rows = [abs(off) for found in offs.values() for row, off in found if row.kind is kind]
    assert rows
    assert median(rows) <= GOALS[kind]


def test_the_documents_say_what_comes_out_of_each_kind(offs):
    rows = [
        Judged(row, False, (1 + off) * row.seconds) for one in offs.values() for row, off in one
    ]
    said = (DOCS / "simulate.md").read_text(encoding="utf-8")
    for line in kinds_table(rows):
        assert line in said


def test_what_is_off_by_more_than_15_percent_has_a_reason(offs):
    for found in offs.values():
        for row, off in found:
            assert abs(off) <= 0.15 or reason_of(row), (row, off)


def test_fitted_rows_come_out(offs):
    """One constant for one row: nothing is left over."""
    for generation in generations():
        if len(DATA["fits"][generation.software]) == len(generation.fitted) == 1:
            (row,) = generation.fitted
            found = predict(row, load_machine(generation.name))
            assert found == pytest.approx(row.seconds, rel=NEAR), row


def test_an_h100_is_not_twice_as_fast_as_torchtitan():
    """5,762 (eager) and 6,667 (compiled) tokens a second and GPU are published."""
    from zerosim.predict.plan import ask, make_plan

    best = make_plan(ask("llama-3-8b", 8, "h100", 1 << 17)).best
    per_gpu = best.tokens_per_second / 8
    assert per_gpu == pytest.approx(6667, rel=0.15)
    assert best.bound_s < best.step_s
    ideal = make_plan(ask("llama-3-8b", 8, "h100", 1 << 17, is_ideal=True)).best
    assert ideal.software is None
    assert ideal.tokens_per_second / 8 > 1.2 * per_gpu


def test_small_models_on_one_h100():
    """35.1 ms (GPT of 163 M, zerosim's engine) and 36.5 ms (255 M, AdamW in bf16) were measured.

    Data sheets alone said 15.1 ms of the first, 2.3 times too fast.
    """
    machine = believed(load_machine("dgx-h100"), load_software("torchtitan-2024-eager"))
    for width, heads, measured_ms in ((768, 12, 35.1), (1024, 8, 36.5)):
        shape = GPTConfig(layers=12, width=width, heads=heads, context=1024, vocabulary=50304)
        config = EngineConfig(stage=0, collectives="native")
        layout = Layout(shape=shape, config=config, data=1, batch=8, sequence=1024)
        times = step_times(Prices(machine), layout)
        assert sum(times.values()) / 1e6 == pytest.approx(measured_ms, rel=0.18)


def test_what_is_asked_for_more_slowly_than_it_computes_takes_as_long_as_asking():
    """A device that is done before the next kernel is launched waits for it."""
    machine = replace(load_machine("dgx-h100"), launch_ns=10_000.0)
    small, large = (Operator(3, flops, 1000) for flops in (1000, 10**12))
    assert computation_ns(machine, [small]) == 3 * 10_000
    alone = computation_ns(replace(machine, launch_ns=0.0), [large])
    assert computation_ns(machine, [large]) == alone > 30_000
    # what is small beside what is large is launched meanwhile
    assert computation_ns(machine, [small, large]) == pytest.approx(alone, rel=0.001)
