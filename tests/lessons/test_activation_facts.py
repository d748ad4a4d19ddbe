"""Facts of activations: measured ones beside the law, laws by hand and as papers print them."""

from __future__ import annotations

import pytest

from tests.lessons.committed import facts
from zerosim.lessons.facts.activations import VARIANTS

GPT_3 = (96, 12288, 96, 1, 2048)
OF_1_5_BILLION = (48, 1600, 16, 32, 1024)
OF_100_BILLION = (125, 8192, 64, 32, 1024)


@pytest.mark.parametrize(
    ("run", "each"), [("one/stage-0", 32), ("ring/stage-0", 32), ("kept/stage-1", 8 + 24 / 2)]
)
def test_blocks_keep_what_the_law_says_and_statistics(run, each):
    elements = 4 * 64 * 256
    assert facts().sbh(run) == elements
    assert facts().block_law(run) == each * elements
    tokens, heads = 4 * 64, 4 // (2 if run.startswith("kept") else 1)
    statistics = 4 * tokens * heads + 2 * 2 * 2 * tokens  # of attention in fp32, of two norms
    for block in facts().blocks(run):
        assert facts().kept_by(run, block) == facts().block_law(run) + statistics


def test_checkpoints_keep_inputs_alone():
    run = "sums/stage-1"
    assert facts().kept_by(run, "blocks.1") == 0
    whole = facts().kept_law((4, 256, 4, 4, 64), variant="full")
    assert facts().checkpoints(run) == whole == 4 * 2 * 4 * 64 * 256


def test_laws_are_those_of_the_papers():
    sbh = 2048 * 12288
    assert facts().kept_law(GPT_3) == 96 * (34 * sbh + 5 * 96 * 2048**2)
    assert facts().kept_law(GPT_3, 8, "both") == 96 * 34 * sbh / 8
    assert facts().least_first(GPT_3, 8) == ["full", "both", "selective", "sequence", "none"]
    assert set(VARIANTS) == set(facts().least_first(GPT_3, 8))
    assert facts().activation_formula("one/stage-0") == "34sbh + 5as²b"
    assert facts().block_with_all("one/stage-0") == (34 + 5) * facts().sbh("one/stage-0")


def test_the_zero_paper_s_sixty_eight_thirty_three_and_two():
    assert facts().paper_kept(OF_1_5_BILLION) / 1e9 == pytest.approx(60, abs=1)
    assert facts().paper_kept(OF_1_5_BILLION) / 1e9 / 48**0.5 == pytest.approx(8, abs=1)
    one_byte = facts().kept_law(OF_100_BILLION, variant="full") / 2e9
    assert one_byte == pytest.approx(33, abs=1)
    assert one_byte / 16 == pytest.approx(2, abs=0.1)
