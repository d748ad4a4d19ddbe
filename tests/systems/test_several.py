"""What a rank keeps of several models, and under several optimizers."""

from functools import cache

import pytest

from tests.ranks import run_ranks
from tests.systems import programs_several as programs
from tests.systems.programs_questions import CLASSES, WIDTH
from zerosim.record import load as read
from zerosim.schema.memory import Role
from zerosim.verify import Outcome, verify, verify_memory

pytestmark = pytest.mark.ranks

load = cache(read)
MATRICES = 4 * WIDTH**2
ALL = 4 * (WIDTH + 1) * WIDTH + (WIDTH + 1) * CLASSES
OTHERS = ALL - MATRICES
CRITIC = (CLASSES + 1) * WIDTH + WIDTH + 1


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    found = tmp_path_factory.mktemp("several")
    run_ranks(programs.run_all, 2, str(found))
    return found


@pytest.mark.parametrize("name", programs.PROGRAMS)
def test_nothing_is_unexplained(folder, name):
    trace = load(folder / name)
    assert verify(trace).outcome is not Outcome.UNEXPLAINED
    report = verify_memory(trace)
    assert report.law, "there is a law"
    wrong = [one.measured for one in report.verdicts if one.holds is False]
    assert not [words for words in wrong if "no role" not in words]
    for iteration in report.iterations:
        causes = verify_memory(trace, iteration).causes
        assert not [one for one in causes if one.cause == "unexplained"], iteration


def sizes(folder, name):
    """Bytes of momentum and of variance in the last iteration, by rank."""
    rows = {row.role: row.measured_bytes for row in verify_memory(load(folder / name)).rows}
    return rows.get(Role.MOMENTUM, (0, 0)), rows[Role.VARIANCE]


@pytest.mark.parametrize(
    ("name", "momentum", "variance"),
    [
        ("ddp, sgd and adam", OTHERS, OTHERS),
        ("ddp, adafactor", OTHERS, OTHERS + 4 * 2 * WIDTH),  # a row's and a column's averages
        ("ddp, amsgrad", ALL, ALL + MATRICES),
        ("fsdp2, momentum and adam", ALL // 2, OTHERS // 2),
        ("zero and adam", OTHERS, OTHERS),
    ],
)
def test_each_optimizer_keeps_states_of_its_own_parameters(folder, name, momentum, variance):
    assert sizes(folder, name) == ((4 * momentum,) * 2, (4 * variance,) * 2)


@pytest.mark.parametrize(
    ("name", "of_all_ranks"),
    [
        ("fsdp1, momentum and adam", (ALL, OTHERS)),
        ("two of zero", (ALL, OTHERS)),
        ("zero and sgd", (MATRICES, MATRICES)),
    ],
)
def test_all_ranks_together_keep_each_state_once(folder, name, of_all_ranks):
    assert tuple(map(sum, sizes(folder, name))) == tuple(4 * one for one in of_all_ranks)


@pytest.mark.parametrize(
    ("name", "law"),
    [
        ("ddp, sgd and adam", f"{8 + 8 * OTHERS / ALL:.2f}Ψ"),
        ("fsdp2, momentum and adam", f"{12 + 4 * OTHERS / ALL:.2f}Ψ/N"),
        ("two of zero", f"8Ψ + {4 + 4 * OTHERS / ALL:.2f}Ψ/N"),
        ("zero and adam", f"{8 + 8 * OTHERS / ALL:.2f}Ψ"),
        ("ddp, adversaries", "16Ψ"),
        ("fsdp2, adversaries", "16Ψ/N"),
        ("ddp, a teacher in no system", "16Ψ"),
        ("fsdp2, a teacher in no system", "8Ψ + 8Ψ/N"),
        ("ddp, a teacher under fsdp2", "8Ψ + 8Ψ/N"),
    ],
)
def test_the_law_is_a_sum_over_models_and_optimizers(folder, name, law):
    report = verify_memory(load(folder / name))
    assert report.law == law
    is_pair = "adversaries" in name
    several = CRITIC if is_pair else ALL if "teacher" in name else 0
    assert report.num_parameters == ALL + several


@pytest.mark.parametrize("teacher", ["ddp, a teacher in no system", "ddp, a teacher under fsdp2"])
def test_what_a_frozen_teacher_need_not_keep_is_in_the_headline(folder, teacher):
    headline = verify_memory(load(folder / teacher)).headline
    assert f"{ALL:,} frozen parameters have no gradients and no optimizer states)" in headline


def test_two_zero_optimizers_are_one_law(folder):
    report = verify(load(folder / "two of zero"))
    assert [one.system for one in report.systems] == ["DDP + ZeroRedundancyOptimizer"]
    begin = (
        "DDP + ZeroRedundancyOptimizer sends 3Ψ(N-1)/N a step, not 2Ψ(N-1)/N: gradients are all-"
    )
    assert report.headline.startswith(begin)
