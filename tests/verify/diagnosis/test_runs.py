"""Real ranks, and a fault on one of them: a sample of `python -m tests.schema.faults`."""

from __future__ import annotations

import pytest

from tests.cli.command import assert_one_line, command
from tests.schema.faults.judge import Case, run_case
from zerosim.base.errors import ConfigError
from zerosim.schema.faults import Fault, FaultKind, read_faults


@pytest.mark.ranks
@pytest.mark.parametrize(
    ("system", "fault", "seed"),
    [
        ("ddp", "skip,rank=1,iteration=2", 1),
        ("fsdp2", "nan,rank=2,iteration=2", 1),
        ("engine", "flip-message,rank=1,iteration=2", 3),  # the seed is the stage
        ("pipeline", "peer,rank=1,iteration=2,op=receive", 1),
        ("pipeline", "swap,rank=0,iteration=2,op=send,call=1", 1),
        ("ddp", None, 1),
    ],
)
def test_who_did_it(system, fault, seed, tmp_path):
    told = run_case(Case(system, fault, seed), tmp_path)
    assert told.culprit, told.sentence
    assert told.event is not False, told.sentence
    assert told.line is not False, told.sentence


@pytest.mark.long
@pytest.mark.ranks
@pytest.mark.timeout(7200)
def test_all_faults(tmp_path):
    from tests.schema.faults.__main__ import cases

    wrong = []
    for number, case in enumerate(cases(range(1, 2), range(1, 5))):
        told = run_case(case, tmp_path / str(number))
        if not told.culprit:
            wrong.append((case, told.happened, told.sentence))
    assert len(wrong) <= number // 100, wrong


def test_a_fault_is_read_and_written():
    text = "skip,rank=2,iteration=3,unit=blocks.1,op=all-reduce"
    assert str(Fault.read(text)) == text
    assert Fault.read("slow,rank=1,times=x3").times == 3
    assert [one.kind for one in read_faults([f"{kind},rank=0" for kind in FaultKind])] == [
        *FaultKind
    ]


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("skipp,rank=1", "expected one of slow"),
        ("skip", "expected a rank, such as"),
        ("skip,rank=one", "rank is 'one'"),
        ("skip,rank=1,op=allreduce", "op is 'allreduce'"),
        ("skip,rank=1,when=2", "'when' is not one of"),
        ("skip,rank=-1", "expected 0 or more"),
    ],
)
def test_what_is_no_fault_is_refused_in_a_line(text, words):
    with pytest.raises(ConfigError, match="fault") as caught:
        Fault.read(text)
    assert words in str(caught.value)
    assert len(str(caught.value).splitlines()) == 1


def test_what_the_seam_does_not_allow_is_refused(tmp_path):
    out = tmp_path / "trace"
    trace = ("trace", "--out", out, "--fault")
    assert_one_line(command(*trace, "slow-link,rank=0", "--", "true"), "slow-link", "zerosim run")
    assert_one_line(command(*trace, "skip", "--", "true"), "expected a rank, such as")
    run = ("run", "--stage", 0, "--ranks", 2, "--out", out, "--fault")
    assert_one_line(command(*run, "group,rank=0"), "one group")
    assert_one_line(command(*run, "peer,rank=0"), "no message", "zerosim trace")
    assert_one_line(command(*run, "skip,rank=2"), "expected 0 to 1")
    assert not out.exists()
