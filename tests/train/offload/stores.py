"""What the tests of the disk share: small stores, and bytes that differ from name to name."""

from contextlib import contextmanager

import torch

from zerosim.train.offload import DiskFiles

BUFFER_BYTES = 9_000
NAMES = ("embedding", "blocks.0", "head")


def some_bytes(num_bytes, seed):
    generator = torch.Generator().manual_seed(seed)
    return torch.randint(0, 256, (num_bytes,), dtype=torch.uint8, generator=generator)


@contextmanager
def store(folder, rank=0, num_ranks=1, *, buffers=2, buffer_bytes=BUFFER_BYTES, **more):
    made = DiskFiles(folder, rank, num_ranks, buffers=buffers, buffer_bytes=buffer_bytes, **more)
    try:
        yield made
    finally:
        made.close()


def write_all(disk, step, num_bytes=5_000, names=NAMES):
    """The state of a step: other bytes for each name and step."""
    for index, name in enumerate(names):
        disk.write(name, some_bytes(num_bytes, 100 * step + index)).wait()


def commit_step(disk, step, **more):
    write_all(disk, step, **more)
    disk.commit({"iteration": step})


def read(disk, name, num_bytes=5_000):
    into = torch.zeros(num_bytes, dtype=torch.uint8)
    disk.read(name, into).wait()
    return into


def holds_step(disk, step, num_bytes=5_000, names=NAMES):
    return all(
        torch.equal(read(disk, name, num_bytes), some_bytes(num_bytes, 100 * step + index))
        for index, name in enumerate(names)
    )


def last_step(folder, num_ranks=1):
    state = DiskFiles.last_good(folder, num_ranks)
    return None if state is None else state.values["iteration"]


def resumed_holds(folder, step, rank=0, num_ranks=1):
    """Whether the last good state is that of this step, on this rank, byte for byte."""
    state = DiskFiles.last_good(folder, num_ranks)
    assert state is not None
    assert state.values == {"iteration": step}
    with store(folder, rank, num_ranks, state=state) as disk:
        return holds_step(disk, step)
