"""Programs of users, dry: what they may know, what they are told, and what they call."""

from __future__ import annotations

import math
import sys
from dataclasses import replace

import pytest
import torch
import torch.distributed as dist

from tests.cli.command import command, process
from tests.predict.simulate.test_dry import ON_CPU, asked, peaks
from zerosim.base.errors import ConfigError, RunError, UnknownValue
from zerosim.predict.simulate.post import Letters
from zerosim.predict.simulate.rank import SimulatedRank, stand_in
from zerosim.predict.simulate.script import script_of
from zerosim.predict.simulate.turns import in_turn
from zerosim.record import load
from zerosim.schema.events import Kind
from zerosim.schema.manifest import Source
from zerosim.schema.memory import Role
from zerosim.view.replay import replay_document

pytestmark = pytest.mark.ranks

TRAINS = """
import torch
import torch.distributed as dist
from torch import nn
from torch.nn.parallel import DistributedDataParallel
from torch.utils.data import DataLoader, TensorDataset
from torch.utils.data.distributed import DistributedSampler


def main():
    dist.init_process_group("gloo")
    torch.manual_seed(0)
    data = TensorDataset(torch.randn(64, 8), torch.randint(0, 3, (64,)))
    loader = DataLoader(data, batch_size=8, sampler=DistributedSampler(data), num_workers=2)
    layers = nn.Linear(8, 16), nn.BatchNorm1d(16), nn.ReLU(), nn.Linear(16, 3)
    model = DistributedDataParallel(nn.Sequential(*layers))
    optimizer = torch.optim.Adam(model.parameters(), lr=1e-3)
    for step, (inputs, labels) in enumerate(loader):
        loss = nn.functional.cross_entropy(model(inputs), labels)
        optimizer.zero_grad()
        loss.backward()
        nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        optimizer.step()
        if dist.get_rank() == 0:
            print(f"step {step}: loss {loss.item():.3f}")
    dist.destroy_process_group()


main()
"""


@pytest.fixture(scope="module")
def program(tmp_path_factory):
    path = tmp_path_factory.mktemp("program") / "train.py"
    path.write_text(TRAINS)
    return path


def test_an_unchanged_program_calls_what_it_calls_for_real(program, tmp_path):
    torchrun = (sys.executable, "-m", "torch.distributed.run", "--nproc-per-node", 2, program)
    assert command("trace", "--out", tmp_path / "real", "--", *torchrun).code == 0
    answer = process("simulate", "--ranks", 2, "--out", tmp_path / "dry", "--", "python", program)
    assert answer.code == 0, answer.err
    assert answer.out.startswith("step 0: loss nan")
    (note,) = answer.err.strip().splitlines()
    assert "train.py:25 in main needs a value" in note
    real, dry = (load(tmp_path / name, strict=True) for name in ("real", "dry"))
    assert dry.manifest.source is Source.SIMULATED
    for ran, foreseen in zip(real.ranks, dry.ranks, strict=True):
        # by whom a call would be carried out is the machine's
        assert {one.ranks for one in ran.groups.values()} == {(0, 1)}
        for kinds in ((Kind.COLLECTIVE,), (Kind.COMPUTE,)):
            assert [_without_algorithm(one) for one in asked(ran, *kinds)] == [
                _without_algorithm(one) for one in asked(foreseen, *kinds)
            ]
        # how long a buffer of another thread lives depends on when that thread comes to it
        assert peaks(ran, {Role.BUFFERS}) == peaks(foreseen, {Role.BUFFERS})


def _without_algorithm(said):
    return (*said[:7], *said[8:])


def test_many_ranks_of_a_program_stand_for_each_other(program, tmp_path):
    answer = command("simulate", "--ranks", 16, "--out", tmp_path, "--", "python", program)
    assert answer.code == 0, answer.err
    trace = load(tmp_path, strict=True)
    assert [rank.rank for rank in trace.ranks] == [0]
    assert [(one.first, one.last) for one in trace.manifest.alike] == [(1, 15)]
    assert replay_document(trace)["stands_for"] == [16]


def dry_rank(rank=0, letters=None, num_ranks=2):
    return stand_in(SimulatedRank(rank, num_ranks, num_ranks, "gloo", "any"), letters or Letters())


def test_whole_numbers_are_known_and_what_is_computed_is_not():
    with dry_rank() as rank, rank.without_memory():
        order = torch.randperm(5)
        assert sorted(order.tolist()) == list(range(5))
        scores = torch.randn(4, 3)
        assert scores.untyped_storage().nbytes() == 48
        assert torch.tensor(2.5).item() == 2.5
        value = scores.sum().item()
        assert math.isnan(value)
        order.copy_(scores.argmax(1)[0])  # written from what is not known
        assert not rank.known.has(order)
        assert [line.rpartition(" in ")[2] for line in rank.known.asked] == [
            "test_whole_numbers_are_known_and_what_is_computed_is_not"
        ]
        with pytest.raises(UnknownValue, match=r"test_programs.py:\d+ .* depends on computed"):
            scores[scores > 0]


def test_what_ranks_tell_each_other_arrives(tmp_path):
    heard = {}

    def do(rank, letters):
        with dry_rank(rank, letters, 3) as dry, dry.without_memory():
            said = [f"from {rank}"]
            dist.broadcast_object_list(said, src=2)
            heard[rank] = said
            sizes = [None] * 3
            dist.all_gather_object(sizes, {"same": 1})
            assert sizes == [{"same": 1}] * 3
            one = torch.tensor([7])
            dist.all_reduce(one)
            assert one.item() == 21

    in_turn(range(3), tmp_path, do)
    assert heard == {rank: ["from 2"] for rank in range(3)}


def test_ranks_that_wait_for_each_other_say_so(tmp_path):
    def do(rank, letters):
        with dry_rank(rank, letters) as dry, dry.without_memory():
            dist.recv(torch.zeros(1, dtype=torch.int64), src=1 - rank)

    with pytest.raises(UnknownValue, match="rank 0 waits for a message that rank 1 has not sent"):
        in_turn(range(2), tmp_path, do)


def test_what_a_command_has_python_run(program):
    of_torchrun = script_of(["torchrun", "--nproc-per-node", "2", str(program), "--lr", "1"])
    assert (of_torchrun.name, of_torchrun.arguments) == (str(program), ("--lr", "1"))
    of_module = script_of(["python", "-m", "torch.distributed.run", "-m", "train", "--lr", "1"])
    assert (of_module.name, of_module.is_module) == ("train", True)
    with pytest.raises(ConfigError, match="'make all'"):
        script_of(["make", "all"])


@pytest.mark.parametrize(
    ("lines", "code", "words"),
    [
        (
            "dist.init_process_group('gloo', rank=0, world_size=4)",
            2,
            ("joins 4 ranks", "--ranks 4"),
        ),
        ("dist.init_process_group(); x = torch.randn(3); x[x > 0]", 2, ("train.py:1", "shape")),
        ("dist.init_process_group(); torch.randn(3).numpy()", 3, ("train.py:1", "zerosim trace")),
        ("pass", 3, ("rank 0 never joined", "init_process_group")),
    ],
)
def test_a_program_that_cannot_be_dry_is_one_line(lines, code, words, tmp_path):
    from zerosim.predict.simulate import DryProgram, simulate_program

    program = tmp_path / "train.py"
    program.write_text(f"import torch, torch.distributed as dist; {lines}\n")
    what = DryProgram(script=script_of(["python", str(program)]), num_ranks=2, memory=True)
    with pytest.raises((ConfigError, UnknownValue, RunError)) as raised:
        simulate_program(what, tmp_path / "out", replace(ON_CPU))
    assert raised.value.exit_code == code
    assert len(str(raised.value).splitlines()) == 1
    for word in words:
        assert word in str(raised.value)
