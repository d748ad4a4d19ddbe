"""A peer that leaves or falls silent: the others say so, and what comes later fails as well."""

from datetime import timedelta

import pytest
import torch
import torch.distributed as dist

import zerosim
from tests.ranks import run_ranks
from zerosim.base.errors import CollectiveError
from zerosim.record import load
from zerosim.schema.events import Op, Phase, Purpose
from zerosim.trace import labels
from zerosim.train.collectives import BackgroundExecutor, InlineExecutor, Native, RankGroup, Ring

SILENT_S = 6
"""How long a silent peer is waited for; by so much less may it be late on a busy machine."""


def attempts(folder):
    """In a group of its own for each attempt, so that the ranks can leave together at the end."""
    rank = dist.get_rank()
    store = dist.distributed_c10d._get_default_store()
    messages = {}
    for peer in ("leaves", "is silent"):
        for kind in ("ring", "native"):
            name = f"{kind}, peer {peer}"
            process_group = dist.new_group([0, 1], timeout=timedelta(seconds=SILENT_S))
            dist.all_reduce(torch.ones(1), group=process_group)
            if rank == 1:
                if peer == "leaves":
                    dist.destroy_process_group(process_group)
                    del process_group
                store.wait([name])
                continue
            group = RankGroup(rank, (0, 1), process_group)
            executor = BackgroundExecutor(torch.device("cpu"))
            carrier = Ring(group, executor, 64) if kind == "ring" else Native(group, executor)
            messages[name] = fail(f"{folder}/{name}", carrier)
            executor.close()
            store.set(name, "over")
    dist.barrier()
    return messages


def fail(folder, carrier):
    said = []
    labels.enter(5, Phase.BACKWARD)
    try:
        with zerosim.trace(folder):
            with labels.scope(unit="blocks.2", purpose=Purpose.REDUCE_GRADIENTS):
                handles = [carrier.reduce_scatter(torch.ones(2, 100)) for _ in range(3)]
            for handle in handles[1:]:
                try:
                    handle.wait()
                except CollectiveError as error:
                    said.append(str(error))
            handles[0].wait()
    except CollectiveError as error:
        said.append(str(error))
    labels.enter(-1, Phase.OUTSIDE)
    return said


@pytest.mark.ranks
def test_a_lost_peer_is_an_error_at_wait_and_in_the_trace(tmp_path):
    messages, others = run_ranks(attempts, 2, str(tmp_path))
    assert others == {}
    assert len(messages) == 4
    for name, said in messages.items():
        assert len(said) == 3, name
        assert len(set(said)) == 1, name
        assert said[0].startswith(
            "reduce gradients of blocks.2 did not complete in backward of iteration 5: "
        )
        assert len(said[0].splitlines()) == 1
        reason = "losed by peer|reset by peer" if "leaves" in name else "imed out"
        with pytest.raises(AssertionError, match=reason):
            raise AssertionError(said[0])
        trace = load(tmp_path / name)
        (rank,) = trace.ranks
        assert rank.complete
        (call,) = [event for event in rank.events if event.op is Op.REDUCE_SCATTER]
        assert call.error
        assert call.error in said[0]
        assert rank.failure.message == f"CollectiveError: {said[0]}"
        assert rank.failure.peer_lost
        assert (rank.failure.unit, rank.failure.op) == ("blocks.2", Op.REDUCE_SCATTER)
        assert (rank.failure.iteration, rank.failure.phase) == (5, Phase.BACKWARD)
        assert rank.failure.waiting_for == ((1,) if "ring" in name else ())
        assert not any(event.error for event in rank.events if event.parent is not None)


def test_the_inline_executor_fails_each_time():
    tries = []

    def broken():
        tries.append(1)
        raise OSError("no route")

    executor = InlineExecutor()
    for _ in range(2):
        with pytest.raises(CollectiveError, match="no route"):
            executor.submit(broken)
    assert len(tries) == 2
