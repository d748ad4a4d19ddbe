"""NCCL on a GPU: the same interception, and no number without a measurement."""

import pytest
import torch
import torch.distributed as dist

import zerosim
from zerosim.record import load
from zerosim.schema.events import Algorithm, Kind, Op


@pytest.mark.gpu
@pytest.mark.skipif(not torch.cuda.is_available(), reason="needs a CUDA device")
def test_an_nccl_all_reduce_is_traced(tmp_path):
    device = torch.device("cuda", 0)
    dist.init_process_group("nccl", store=dist.HashStore(), rank=0, world_size=1, device_id=device)
    try:
        buffer = torch.ones(1000, device="cuda", dtype=torch.bfloat16)
        with zerosim.trace(tmp_path / "t"):
            dist.all_reduce(buffer)
            dist.barrier()
            torch.cuda.synchronize()
    finally:
        dist.destroy_process_group()
    trace = load(tmp_path / "t", strict=True)
    assert (trace.manifest.backend, trace.manifest.device) == ("nccl", "cuda")
    (rank,) = trace.ranks
    all_reduce, barrier = (one for one in rank.events if one.kind is Kind.COLLECTIVE)
    assert (all_reduce.op, barrier.op) == (Op.ALL_REDUCE, Op.BARRIER)
    assert all_reduce.algorithm is Algorithm.NCCL
    assert (all_reduce.dtype, all_reduce.payload_bytes) == ("bfloat16", 2000)
    assert all_reduce.sent_bytes is None
    assert all_reduce.wire == ()
    assert all_reduce.issue_ns <= all_reduce.device_begin_ns <= all_reduce.device_end_ns
    assert rank.device_clock.uncertainty_ns < 1_000_000
    assert buffer.float().sum().item() == 1000
