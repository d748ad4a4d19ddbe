"""Ranks of one pytest under torchrun synchronize for an assert.

They use the rendezvous store of PyTorch's ranks, so no collective is added to their traces.
"""

from __future__ import annotations

import os
import sys
import time
from collections import Counter
from contextlib import suppress
from datetime import timedelta
from pathlib import Path

import torch.distributed as dist
from torch._C._distributed_c10d import Store, TCPStore
from torch.distributed import distributed_c10d

from zerosim.base.errors import ConfigError, RunError

_POLL_S = 0.02
_PART_S = 10.0
_met: list[tuple[Store, int, int]] = []
"""The store, once connected; the rank of this process, and the number of ranks."""
_visits: Counter[str] = Counter()
"""The number of times that each test was started in this process: a test may be rerun."""


class AssertMeeting:
    """The messages of one rank to the others during one test."""

    def __init__(self, name: str, rank: int, num_ranks: int, timeout_s: float) -> None:
        _visits[name] += 1
        self._prefix = f"zerosim-pytest/{name}/{_visits[name]}"
        self._rank = rank
        self._num_ranks = num_ranks
        self._timeout_s = timeout_s
        self._number = 0
        self._known: Store | None = None

    def share(self, folder: Path) -> Path:
        """The folder of rank 0, which collects all ranks' files.

        Args:
            folder: this rank's folder, used if it is rank 0.

        Raises:
            RunError: rank 0 did not arrive.
            ConfigError: it cannot be reached, or its folder is on another machine.
        """
        self._number += 1
        if self._num_ranks == 1:
            return folder
        if self._rank == 0:
            self._store().set(self._key("folder"), str(folder))
            return folder
        self._wait({0: self._key("folder")})
        found = Path(self._store().get(self._key("folder")).decode())
        if not found.is_dir():
            raise ConfigError(
                f"rank 0 writes to {found}, which rank {self._rank} cannot access: give "
                "--zerosim-traces a folder that all hosts share"
            )
        return found

    def wait_for_all(self, what: str) -> None:
        """Wait until every rank has arrived.

        Raises:
            RunError: one did not.
        """
        if self._num_ranks == 1:
            return
        self._store().set(self._key(f"{what}/{self._rank}"), "1")
        self._wait({rank: self._key(f"{what}/{rank}") for rank in range(self._num_ranks)})

    def leave(self) -> None:
        """Report to the others that this rank's test has ended."""
        if self._num_ranks > 1:
            # without a store there is no other rank to notify
            with suppress(ConfigError, RuntimeError):
                self._store().set(f"{self._prefix}/left/{self._rank}", "1")

    def _key(self, what: str) -> str:
        return f"{self._prefix}/{self._number}/{what}"

    def _wait(self, keys: dict[int, str]) -> None:
        """Wait for keys that ranks will set."""
        store = self._store()
        deadline = time.monotonic() + self._timeout_s
        missing = dict(keys)
        while missing:
            for rank, key in list(missing.items()):
                # check this first: a rank sets its key before it leaves
                has_left = store.check([f"{self._prefix}/left/{rank}"])
                if store.check([key]):
                    del missing[rank]
                elif has_left:
                    raise RunError(
                        f"rank {rank} ended this test before this assert: see its output; every "
                        "rank must call an assert of zerosim_trace"
                    )
            if missing and time.monotonic() > deadline:
                late = ", ".join(str(rank) for rank in missing)
                raise RunError(
                    f"rank {late} did not reach this assert within {self._timeout_s:g} s: "
                    "expected every rank to call it, as a collective; extend the timeout "
                    "with pytest.mark.zerosim(timeout_s=...)"
                )
            if missing:
                time.sleep(_POLL_S)

    def _store(self) -> Store:
        if self._known is None:
            self._known = _find_store(self._timeout_s)
            _met[:] = [(self._known, self._rank, self._num_ranks)]
        return self._known


def part() -> None:
    """Wait briefly until all ranks have printed: torchrun ends the others when one has failed."""
    if not _met:
        return
    store, rank, num_ranks = _met[-1]
    sys.stdout.flush()
    deadline = time.monotonic() + _PART_S
    # without a store there is no other rank to wait for
    with suppress(RuntimeError):
        store.set(f"zerosim-pytest/over/{rank}", "1")
        keys = [f"zerosim-pytest/over/{other}" for other in range(num_ranks)]
        while not store.check(keys) and time.monotonic() < deadline:
            time.sleep(_POLL_S)


def _find_store(timeout_s: float) -> Store:
    """The store of this job's ranks: torchrun's, else that of the process group."""
    if os.environ.get("TORCHELASTIC_USE_AGENT_STORE") == "True":
        host, port = os.environ["MASTER_ADDR"], int(os.environ["MASTER_PORT"])
        return TCPStore(host, port, is_master=False, timeout=timedelta(seconds=timeout_s))
    if dist.is_initialized():
        return distributed_c10d._get_default_store()  # noqa: SLF001 - it has no other name
    raise ConfigError(
        "the other ranks cannot be reached: expected torchrun, or an initialized process group "
        "when an assert is called"
    )
