"""The ranks of one run: started together, watched with patience, and ended with haste.

When a rank fails, the others are given a few seconds to notice and to write down where they were;
what is left is killed: a trace holds whatever was written, so there is nothing to wait for.
PyTorch's elastic agent is not used: its rendezvous keeps a state that it unpickles at a store that
listens on every address, and one host needs neither. Imports torch, zerosim's L0
and the modules beside it.
"""

from __future__ import annotations

import errno
import time
from collections.abc import Iterator
from contextlib import contextmanager

from torch._C._distributed_c10d import TCPStore

from zerosim.errors import EnvironmentFault, RunError
from zerosim.launch.doors import LOOPBACK, MEETING, Meeting, own_interface, require_loopback, take
from zerosim.launch.job import Job
from zerosim.launch.nursery import Nursery

_POLL_S = 0.05
_GRACE_S = 4.0
"""How long the other ranks have to notice that one is gone, and to write down where they were."""


class PatientAgent:
    """Who starts the ranks of one run on this host, and notices how they end.

    Attributes:
        job: what each rank does.
        begins_anew: each rank imports PyTorch for itself.
    """

    def __init__(self, job: Job, nursery: Nursery, *, begins_anew: bool) -> None:
        self.job = job.encode()
        self.begins_anew = begins_anew
        self._num_ranks = job.run.ranks
        self._timeout_s = job.run.timeout_s
        self._nursery = nursery

    def run(self, meeting: dict[str, str]) -> dict[int, int]:
        """Start the ranks and wait until all have ended, or one failed and the others had time.

        Args:
            meeting: of `open_meeting`.

        Returns:
            The exit codes of those that ended by themselves, by rank; negative for a signal.

        Raises:
            RunError: what forks them stood still for as long as a rank may.
            EnvironmentFault: it cannot fork them.
        """
        count = str(self._num_ranks)
        environments = [
            {
                "RANK": str(rank),
                "LOCAL_RANK": str(rank),
                "WORLD_SIZE": count,
                "LOCAL_WORLD_SIZE": count,
                **meeting,
                **own_interface(),
            }
            for rank in range(self._num_ranks)
        ]
        try:
            self._nursery.start(self.job, environments, begins_anew=self.begins_anew)
            return self._watch()
        finally:
            self._nursery.end_ranks()

    def _watch(self) -> dict[int, int]:
        deadline: float | None = None
        went_on = time.monotonic()
        while True:
            time.sleep(_POLL_S)
            codes = self._nursery.exit_codes()
            now = time.monotonic()
            if not self._nursery.is_stopped:
                went_on = now
            elif now - went_on >= self._timeout_s:
                raise RunError(
                    f"process {self._nursery.pid}, which starts the ranks and hears how they end, "
                    f"stood still for {self._timeout_s:g} s (SIGSTOP): all were ended; what the "
                    f"ranks recorded is kept"
                )
            if deadline is None and any(codes.values()):
                deadline = now + _GRACE_S
            is_late = deadline is not None and now >= deadline
            if is_late or len(codes) == self._num_ranks:
                return codes


@contextmanager
def open_meeting(port: int) -> Iterator[dict[str, str]]:
    """Where ranks of this host meet, whatever becomes of any of them: their variables for it.

    Args:
        port: of the loopback address; 0 for no port at all.

    Raises:
        EnvironmentFault: the port cannot be had, or there is no loopback.
    """
    require_loopback()
    found = {"MASTER_ADDR": LOOPBACK, "MASTER_PORT": str(port)}
    if not port:
        with Meeting() as meeting:
            yield found | {MEETING: meeting.address}
        return
    try:
        door = take(port)
    except OSError as error:
        used = error.errno == errno.EADDRINUSE
        raise EnvironmentFault(
            f"port {port} {'is in use' if used else f'cannot be had ({error.strerror})'}: expected "
            f"a free one; leave --port out to do without"
        ) from None
    # it is told which socket to use, as it would listen on every address by itself
    store = TCPStore(
        LOOPBACK, port, is_master=True, wait_for_workers=False, master_listen_fd=door.detach()
    )
    yield found | {MEETING: "env://", "TORCHELASTIC_USE_AGENT_STORE": "True"}
    del store
