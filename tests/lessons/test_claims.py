"""What is said of ZeRO on the web: each claim has a verdict, and the numbers that made it."""

from __future__ import annotations

import runpy
from importlib.util import find_spec

import pytest

from tests.lessons import committed
from zerosim.lessons.claims import MOST_RANKS, ClaimVerdict, claims, judge
from zerosim.lessons.views import view

TRUTHS = {
    "saves": ClaimVerdict.ONLY_IF,
    "figure-one": ClaimVerdict.ONLY_IF,
    "seven-billion": ClaimVerdict.ONLY_IF,
    "wrong-way-round": ClaimVerdict.FALSE,
    "all-reduce": ClaimVerdict.ONLY_IF,
    "gathered-after": ClaimVerdict.ONLY_IF,
    "two-two-three": ClaimVerdict.ONLY_IF,
}
"""The results of a check by hand, from before the lesson existed."""
PROGRAM = find_spec("zerosim.lessons.claims.__main__").origin


@pytest.fixture(scope="module")
def facts():
    return committed.facts()


def numbers_of(judged):
    return [number for case in judged.tried for number in case.numbers]


def test_all_claims_have_the_verdicts_that_were_found_by_hand(facts):
    assert {name: facts.judgement(name).verdict for name in claims()} == TRUTHS


@pytest.mark.parametrize("name", TRUTHS)
def test_a_verdict_has_its_numbers_and_its_reason(facts, name):
    judged = facts.judgement(name)
    numbers = numbers_of(judged)
    assert numbers
    assert all(number.measured is not None for number in numbers)
    assert all(number.is_proved for number in numbers)
    assert any(character.isdigit() for character in judged.because)
    assert judged.claim.found
    assert bool(judged.condition) is (judged.verdict is ClaimVerdict.ONLY_IF)


def test_the_factors_are_limits_and_at_four_ranks_far_from_them(facts):
    judged = facts.judgement("saves")
    assert judged.condition == "N is 133 or more"
    assert [round(number.theory, 1) for number in numbers_of(judged)] == [2.3, 2.9, 4.0]
    # 8N / (N + 7) is 5 % below 8 where N is 133
    assert 0.95 * 8 <= 8 * 133 / 140
    assert 8 * 132 / 139 < 0.95 * 8


def test_the_first_figure_is_of_64_ranks(facts):
    assert facts.judgement("figure-one").condition == "N is 64 to 66"
    powers = [2**exponent for exponent in range(1, 11)]
    assert powers[-1] == MOST_RANKS
    same = [n for n in powers if abs(31.4 - (30 + 90 / n)) < 0.05 > abs(16.6 - (15 + 105 / n))]
    assert same == [64]


def test_seven_billion_parameters_need_112_gb_unless_nothing_is_kept_but_weights_and_moments(facts):
    judged = facts.judgement("seven-billion")
    assert [number.theory for number in numbers_of(judged)] == [14, 84, 112, 14, 56, 70]
    assert [case.holds for case in judged.tried] == [False, True]
    assert "frees each gradient" in judged.condition


def test_the_paper_is_right_of_payload_alone(facts):
    judged = facts.judgement("two-two-three")
    assert judged.condition == "payload is counted"
    measured = [round(number.measured, 1) for number in numbers_of(judged)]
    assert measured == [2, 2, 3, 1.5, 1.5, 2.3, 3, 4]


def test_an_all_reduce_is_true_of_gloo_and_of_deepspeed_as_it_comes(facts):
    judged = facts.judgement("all-reduce")
    assert [case.holds for case in judged.tried] == [False, True, True]
    assert "Gloo" in judged.condition
    assert "DeepSpeed" in judged.condition


def test_deepspeed_gathers_after_the_update_what_it_keeps_whole(facts):
    judged = facts.judgement("gathered-after")
    assert [case.holds for case in judged.tried] == [False, True]
    assert "DeepSpeed" in judged.condition
    assert [number.theory for number in numbers_of(judged)] == [0, 1]


def test_a_claim_says_where_it_was_found(facts):
    for name, claim in claims().items():
        shown = " ".join(map(str, view(facts, "claim", name).rows[0]))
        assert claim.found in shown
        assert claim.link in shown
        assert claim.link.startswith("https://") or "address was not kept" in claim.found


def test_another_law_makes_another_verdict(facts):
    """If stages saved what the sentence says, with any number of ranks, it would be true."""
    factors = {0: 1, 1: 4, 2: 8}
    names = {
        **facts.names(),
        "states": lambda stage, num_ranks, psi=1: 16 * psi / factors.get(stage, num_ranks),
        "held": lambda run: 16 / factors.get(int(run[-1]), 4),
    }
    judged = judge(claims()["saves"], names)
    assert (judged.verdict, judged.condition) == (ClaimVerdict.TRUE, "")
    names["states"] = lambda stage, num_ranks, psi=1: 16 * psi / (stage + 1)
    names["held"] = lambda run: 16 / (int(run[-1]) + 1)
    judged = judge(claims()["saves"], names)
    assert judged.verdict is ClaimVerdict.FALSE


def test_a_false_claim_turns_true_with_the_law_that_it_means(facts):
    meant = {0: lambda n: 16.0, 1: lambda n: 12 + 4 / n, 2: lambda n: 8 + 8 / n}
    names = {
        **facts.names(),
        "states": lambda stage, num_ranks, psi=1: psi * meant[stage](num_ranks),
        "held": lambda run: meant[int(run[-1])](4),
        "psi": lambda run: 1,
    }
    assert judge(claims()["wrong-way-round"], names).verdict is ClaimVerdict.TRUE


def test_a_run_that_does_not_agree_with_theory_leaves_the_question_open(facts):
    names = {**facts.names(), "held": lambda run, role="", rank=0: 1_000_000}
    for name in ("saves", "figure-one", "seven-billion", "wrong-way-round"):
        judged = judge(claims()[name], names)
        assert judged.verdict is ClaimVerdict.OPEN
        assert "disagree" in judged.words


def test_all_claims_are_printed_and_shown(facts, monkeypatch, capsys):
    monkeypatch.setattr("zerosim.lessons.facts.Facts", lambda _: facts)  # read already
    runpy.run_path(PROGRAM, run_name="__main__")
    words = " ".join(capsys.readouterr().out.split())
    table = view(facts, "verdicts")
    assert len(table.rows) == len(TRUTHS)
    for name, row in zip(claims(), table.rows, strict=True):
        judged = facts.judgement(name)
        assert judged.claim.said in words
        assert row[-1] == judged.words
        assert all(row)
