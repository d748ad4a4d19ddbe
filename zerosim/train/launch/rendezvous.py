"""The rendezvous of the ranks of one host, and barriers between them.

PyTorch's store and Gloo do not authenticate, so anyone who reaches them is trusted. Ranks of one
host therefore meet in memory that only this user's processes can open, or at a loopback port on
request, and communicate over loopback alone. docs/security.md lists the remaining risks.
"""

from __future__ import annotations

import errno
import os
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import timedelta
from typing import Any

import torch.distributed as dist
from torch._C._distributed_c10d import TCPStore

from zerosim.base.errors import CollectiveError, EnvironmentFault, first_line
from zerosim.train.launch.loopback import LOOPBACK, own_interface, require_loopback, take

_METHOD = "ZEROSIM_RENDEZVOUS"
"""The environment variable with the rendezvous address, for `init_process_group`."""


@contextmanager
def open_memory() -> Iterator[str]:
    """Memory that only processes of this user can open, as a file; it has no name.

    Yields:
        Its address for `init_process_group`, in any process of this host.
    """
    memory = os.memfd_create("zerosim ranks")
    try:
        os.fchmod(memory, 0o600)
        yield f"file:///proc/{os.getpid()}/fd/{memory}"
    finally:
        os.close(memory)


@contextmanager
def open_rendezvous(port: int | None = None) -> Iterator[dict[str, str]]:
    """The rendezvous of this host's ranks, independent of the life of any of them.

    Args:
        port: of the loopback address, 0 for a free one; None for memory, without any port.

    Yields:
        The environment variables of the ranks for it.

    Raises:
        EnvironmentFault: the port is not available, or there is no loopback.
    """
    require_loopback()
    found = own_interface() | {"MASTER_ADDR": LOOPBACK}
    if port is None:
        with open_memory() as address:
            yield found | {"MASTER_PORT": "0", _METHOD: address}
        return
    try:
        door = take(port)
    except OSError as error:
        used = error.errno == errno.EADDRINUSE
        raise EnvironmentFault(
            f"port {port} {'is in use' if used else f'cannot be used ({error.strerror})'}: "
            f"expected a free one; leave --port out to use none"
        ) from None
    taken = door.getsockname()[1]
    # the store gets the socket, because by itself it would listen on every address
    store = TCPStore(
        LOOPBACK, taken, is_master=True, wait_for_workers=False, master_listen_fd=door.detach()
    )
    yield found | {"MASTER_PORT": str(taken), "TORCHELASTIC_USE_AGENT_STORE": "True"}
    del store


@dataclass(frozen=True, slots=True)
class JoinedRanks:
    """The ranks that this process has joined, even after its process groups are destroyed."""

    store: Any
    num_ranks: int

    def meet(self, moment: str) -> None:
        """Wait until all ranks have arrived, over the store and not over the ranks' connections.

        Between two such moments nothing is in flight, so the bytes sent by all ranks are those
        received.

        Args:
            moment: a new name each time.

        Raises:
            CollectiveError: another rank did not arrive.
        """
        key = f"zerosim: {moment}"
        try:
            if self.store.add(f"{key}, count", 1) == self.num_ranks:
                self.store.set(key, "all")
            self.store.wait([key])
        except RuntimeError as error:
            if not _is_late(error):
                raise
            raise CollectiveError(f"the other ranks did not arrive: {first_line(error)}") from error


def joined() -> JoinedRanks:
    """The ranks of the default process group."""
    store = dist.distributed_c10d._get_default_store()  # noqa: SLF001 - it has no public name
    return JoinedRanks(store, dist.get_world_size())


def join(backend: str | None, timeout_s: float) -> JoinedRanks:
    """Join the ranks that this process's environment names.

    Raises:
        CollectiveError: another rank did not arrive.
    """
    try:
        dist.init_process_group(
            backend,
            init_method=os.environ.get(_METHOD, "env://"),
            timeout=timedelta(seconds=timeout_s),
            rank=int(os.environ["RANK"]),
            world_size=int(os.environ["WORLD_SIZE"]),
        )
    except RuntimeError as error:
        if not _is_late(error):
            raise
        raise CollectiveError(f"the other ranks did not join: {first_line(error)}") from error
    return joined()


def _is_late(error: RuntimeError) -> bool:
    """Whether a store timed out; an in-memory store shows this only in its message."""
    return isinstance(error, dist.DistError) or "timeout" in str(error).lower()
