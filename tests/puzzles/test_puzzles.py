"""Each puzzle's reference passes; what students write wrongly fails for the right reason."""

from __future__ import annotations

import json
import shutil
from pathlib import Path

import pytest

from zerosim.analysis.frames import ShardState
from zerosim.base.language import Language, speaking
from zerosim.puzzles import find_puzzle, puzzles
from zerosim.puzzles.judge import judge, judge_all
from zerosim.puzzles.promised import BOUNDED, bounds_of
from zerosim.puzzles.rank import Limits
from zerosim.puzzles.running import Submission
from zerosim.record import load
from zerosim.train.launch.forkserver import keep
from zerosim.view.replay.document import replay_document

pytestmark = pytest.mark.ranks
NAMES = [puzzle.name for puzzle in puzzles()]
RARELY = {
    *("accumulation", "loss-scale", "tensor-parallel", "data-parallel-hook", "zero-1", "zero-2"),
    *("small-messages", "prefetch", "all-reduce"),
    *("bug-stops", "bug-order", "bug-accumulation", "bug-memory"),
}
"""Puzzles much like others: their references run with all wrong programs."""
OFTEN = [name for name in NAMES if name not in RARELY]
SAMPLE = (
    ("ring-reduce-scatter", "sends its own values on, not the sum"),
    ("ring-reduce-scatter", "calls the all-reduce of the library"),
    ("zero-2", "reduces when backward is over"),
    ("overlap", "waits at once"),
    ("one-f-one-b", "one micro-batch after the other"),
    ("hpz", "backward gathers from all ranks"),
    ("bug-edge", "as it is given"),
    ("bug-stops", "as it is given"),
    ("ring-reduce-scatter", "everybody receives first"),  # the last one: the ranks end with it
)
"""One of a kind: what is found in messages, in a standstill, in calls, in what is held, in time."""


def _judged(programs, home):
    """Verdicts of (puzzle, text) by key, all on the same ranks as long as these live."""
    keep()
    todo = []
    for number, (puzzle, text) in enumerate(programs.values()):
        folder = home / str(number)
        folder.mkdir(parents=True)
        file = folder / puzzle.file_name
        file.write_text(text)
        todo.append(Submission(puzzle, file, folder / "trace"))
    return dict(zip(programs, judge_all(todo), strict=True))


def _wrong(puzzle):
    given = () if puzzle.broken is None else (puzzle.broken,)
    return {wrong.name: wrong for wrong in (*given, *puzzle.wrong)}


@pytest.fixture(scope="module")
def verdicts(tmp_path_factory):
    """Of references and of some wrong programs, by puzzle and name."""
    programs = {(one, "reference"): (find_puzzle(one), find_puzzle(one).reference) for one in OFTEN}
    for name, wrong in SAMPLE:
        puzzle = find_puzzle(name)
        programs[name, wrong] = puzzle, puzzle.program_of(_wrong(puzzle)[wrong])
    return _judged(programs, tmp_path_factory.mktemp("puzzles"))


@pytest.mark.parametrize("name", OFTEN)
def test_the_reference_passes(verdicts, name):
    verdict = verdicts[name, "reference"]
    assert verdict.reason is None
    assert verdict.scores
    assert all(score.bound > 0 for score in verdict.scores)


@pytest.mark.parametrize(
    ("name", "final"),
    [
        ("ring-all-gather", {ShardState.KEPT, ShardState.GATHERED}),
        ("ring-reduce-scatter", {ShardState.REDUCED}),
    ],
)
def test_replay_draws_the_pieces_that_the_judge_knows(verdicts, name, final):
    trace = load(verdicts[name, "reference"].trace)
    document = replay_document(trace)
    rounds = [step for step in document["steps"] if step["hop"] >= 0]
    assert [document["texts"][beat["title"]] for beat in document["beats"]][:3] == [
        f"Round {number} of 3" for number in (1, 2, 3)
    ]
    for step in rounds:  # source, target, piece, bytes, from and to
        assert sorted(step["packets"][2::6]) == [0, 1, 2, 3]
    assert document["num_shards"] == 4
    assert {one["label"] for one in document["states"]} == {"pieces · fp32"}
    assert document["broken"] is None
    cells = dict(enumerate(map(int, document["cells"])))
    for step in document["steps"]:
        cells |= dict(zip(step["cells"][::2], step["cells"][1::2], strict=True))
    assert final <= set(cells.values()) <= final | {ShardState.ABSENT}


@pytest.mark.parametrize(
    "changed",
    [{"num_pieces": 0}, {"num_pieces": 2}, {"num_pieces": 10**9}, {"rank": 7}, {"round": 10**6}],
)
def test_what_a_judge_said_of_another_run_is_not_drawn(verdicts, tmp_path, changed):
    trace = verdicts["ring-all-gather", "reference"].trace
    copy = shutil.copytree(trace, tmp_path / "trace")
    judged = json.loads((copy / "judged.json").read_text())
    for one in (judged, judged["messages"][0]):
        one |= {name: value for name, value in changed.items() if name in one}
    (copy / "judged.json").write_text(json.dumps(judged))
    document = replay_document(load(copy))
    assert document["states"] == []
    assert {step["op"] for step in document["steps"]} >= {"send"}


def test_ranks_that_wait_for_each_other_are_one_step(verdicts):
    document = replay_document(
        load(verdicts["ring-reduce-scatter", "everybody receives first"].trace)
    )
    (step,) = (one for one in document["steps"] if one["kind"] == "collective")
    assert step["ranks"] == [0, 1, 2, 3]
    ends = zip(step["packets"][::6], step["packets"][1::6], step["packets"][3::6], strict=True)
    assert sorted(ends) == [(0, 1, 0), (1, 2, 0), (2, 3, 0), (3, 0, 0)]  # 0 bytes: not sent
    title = document["texts"][document["beats"][0]["title"]]
    assert title == "Backward · deadlock: ranks wait for each other in a cycle"


def test_what_is_not_what_a_sum_should_be_is_not_drawn_as_one(verdicts):
    wrong = "sends its own values on, not the sum"
    document = replay_document(load(verdicts["ring-reduce-scatter", wrong].trace))
    rounds = [step for step in document["steps"] if step["hop"] >= 0]
    assert [set(step["packets"][2::6]) for step in rounds] == [{0, 1, 2, 3}, {-1}, {-1}]
    assert "without the parts that it received" in document["texts"][rounds[1]["why"]]


@pytest.mark.parametrize("name", OFTEN)
def test_what_a_page_promises_is_what_the_judge_holds_it_against(verdicts, name):
    _as_promised(verdicts[name, "reference"])


def _as_promised(verdict):
    promised = {one.check: one for one in bounds_of(verdict.puzzle)}
    assert {one.check for one in verdict.scores} == set(promised)
    for score in verdict.scores:
        assert promised[score.check].low <= score.bound <= promised[score.check].high
        assert promised[score.check].what == score.what


@pytest.mark.parametrize(("name", "wrong"), SAMPLE)
def test_a_wrong_program_fails_for_its_reason(verdicts, name, wrong):
    _fails_as_declared(verdicts[name, wrong], _wrong(find_puzzle(name))[wrong])


@pytest.mark.parametrize("name", NAMES)
def test_there_are_several_wrong_programs(name):
    wrong = find_puzzle(name).wrong
    assert len(wrong) >= 5
    assert all(one.check and (one.says or one.check in BOUNDED) for one in wrong)
    assert len({one.check for one in wrong}) > 1
    assert len({one.name for one in wrong}) == len(wrong)


@pytest.mark.long
@pytest.mark.parametrize("name", NAMES)
def test_a_puzzle_passes_and_fails_as_declared(tmp_path, name):
    puzzle = find_puzzle(name)
    wrong = _wrong(puzzle)
    programs = {name: (puzzle, puzzle.program_of(one)) for name, one in wrong.items()}
    programs |= {"reference": (puzzle, puzzle.reference), "task": (puzzle, puzzle.task)}
    verdicts = _judged(programs, tmp_path)
    assert verdicts["reference"].reason is None
    _as_promised(verdicts["reference"])
    assert not verdicts["task"].holds
    for one in wrong.values():
        _fails_as_declared(verdicts[one.name], one)


def _fails_as_declared(verdict, wrong):
    reason = verdict.reason
    assert reason is not None, wrong.name
    assert reason.check == wrong.check, f"{wrong.name}: {reason}"
    assert wrong.says in reason.sentence, f"{wrong.name}: {reason}"


@pytest.mark.parametrize(
    ("loop", "limits"),
    [
        ("while True: pass", Limits(processor_s=1)),
        pytest.param(
            "import time\n    while True: time.sleep(0.05)",
            Limits(wall_s=5),
            marks=pytest.mark.long,
        ),
    ],
)
def test_a_program_without_an_end_is_ended(tmp_path, loop, limits):
    puzzle = find_puzzle("ring-reduce-scatter")
    file = Path(tmp_path, puzzle.file_name)
    file.write_text(f"def reduce_scatter(pieces, rank, ranks):\n    {loop}\n")
    verdict = judge(Submission(puzzle, file, tmp_path / "trace"), limits)
    assert verdict.reason is not None
    assert verdict.reason.check == "ends"


def test_a_send_that_is_not_waited_for_is_named(tmp_path):
    """Gloo tries for ever to send what nothing holds any more: without this it was only slow."""
    puzzle = find_puzzle("ring-all-gather")
    file = Path(tmp_path, puzzle.file_name)
    file.write_text(
        "import torch.distributed as dist\n"
        "def all_gather(piece, rank, ranks):\n"
        "    dist.isend(piece, (rank + 1) % ranks)\n"
        "    while True: pass\n"
    )
    verdict = judge(Submission(puzzle, file, tmp_path / "trace"), Limits(processor_s=1))
    assert verdict.reason is not None
    assert "it never waited for the message that it sends to rank" in verdict.reason.sentence
    assert verdict.reason.line.endswith(":3 in all_gather")


def test_a_wrong_message_is_shown_in_replay_where_it_is_sent(verdicts):
    verdict = verdicts["ring-reduce-scatter", "sends its own values on, not the sum"]
    assert verdict.trace is not None
    assert verdict.step is not None
    document = replay_document(load(verdict.trace), 0)
    assert not [one for one in document["texts"] if "several units" in one]  # it is of none
    step = document["steps"][verdict.step - 1]
    assert (step["op"], step["hop"]) == ("reduce-scatter", 1)
    said = document["texts"][step["why"]]
    assert said == f"The first illegal step: {verdict.reason.sentence}."
    assert verdict.reason.line.endswith("in reduce_scatter")


def test_a_verdict_is_said_in_the_language_that_is_spoken(tmp_path):
    puzzle = find_puzzle("zero-3")
    wrong = {one.name: one for one in puzzle.wrong}["sums and does not divide"]
    with speaking(Language.CHINESE):
        verdict = _judged({"wrong": (puzzle, puzzle.program_of(wrong))}, tmp_path)["wrong"]
        plain = verdict.to_dict()
    assert "第 0 层的 2304 个元素中有 " in plain["reason"]
    assert [one["words"] for one in plain["checks"]][:3] == [
        *("每个 rank 都能加载它", "发送与接收一一对应", "每个 rank 都运行到结束"),
    ]
    values = next(one for one in plain["checks"] if one["outcome"] == "fails")
    assert (values["check"], "元素 " in values["found"]) == ("values", True)


@pytest.mark.parametrize("name", ["bug-edge", "bug-stops"])
def test_what_is_to_be_mended_is_shown_in_replay(verdicts, name):
    verdict = verdicts[name, "as it is given"]
    document = replay_document(load(verdict.trace), verdict.reason.event.iteration)
    step = document["steps"][verdict.step - 1]
    assert document["texts"][step["why"]].startswith("The first illegal step: rank 0 ")


def test_the_bound_is_that_of_theory(verdicts):
    scores = {one.what: one for one in verdicts["ring-reduce-scatter", "reference"].scores}
    sent = scores["bytes sent"]
    assert sent.found == sent.bound == 3 * 64 * 4  # (N-1)/N of 4 pieces of 64 floats
    assert scores["rounds"].found == scores["rounds"].bound == 3
