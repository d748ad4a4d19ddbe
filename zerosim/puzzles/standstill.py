"""Ends deadlocked ranks at once, without waiting for a timeout.

A thread of each rank checks the kernel's data about its process. A rank is blocked if its main
thread has slept without interruption and no other thread was about to run: bytes in flight would
wake one. If all ranks are blocked, or have finished, nothing ever wakes them. On a busy machine,
threads that wait for a processor are runnable, so load alone ends no rank.
"""

from __future__ import annotations

import os
import threading
from contextlib import suppress
from pathlib import Path

STOOD_STILL = 75
"""The exit code of such a rank."""
_LOOK_S = 0.15
_MANY = 12
"""Number of consecutive checks, which are slower on a busier machine."""
_DONE, _STILL, _RUNS, _STUCK = "done", "still", "runs", "stuck"


class StandstillWatch:
    """Checks this rank, and the reports of the others."""

    def __init__(self, folder: Path, rank: int, num_ranks: int) -> None:
        """Begin to observe; the calling thread is the one that computes.

        Args:
            folder: a folder for this group of ranks only, with each rank's state.
        """
        self._folder, self._rank, self._num_ranks = folder, rank, num_ranks
        self._main = threading.get_native_id()
        self._said = ""
        self._program = 0
        self._is_done = True
        self._ended = threading.Event()
        self._lock = threading.Lock()
        self._say(_DONE)
        threading.Thread(target=self._look, name="standstill", daemon=True).start()

    def begins(self, program: int) -> None:
        """This rank begins a program."""
        with self._lock:
            self._program, self._is_done = program, False
            self._say(_RUNS)

    def finished(self) -> None:
        """The program has returned, or failed."""
        with self._lock:
            self._is_done = True
            self._say(_DONE)

    def end(self) -> None:
        """Stop observing."""
        self._ended.set()

    def failed(self) -> None:
        """The program has failed; if other ranks were ended as deadlocked, so is this one."""
        if any(one.endswith(_STUCK) for one in self._others()):
            self.give_up()

    def give_up(self) -> None:
        """End this rank, and report the reason to the others."""
        with self._lock:
            self._say(_STUCK)
        os._exit(STOOD_STILL)

    def _look(self) -> None:
        looks, before, confirmed = 0, "", 0
        while not self._ended.wait(_LOOK_S):
            switches = self._asleep_since()
            looks = looks + 1 if switches and switches == before else 0
            before = switches
            with self._lock:
                if not self._is_done:
                    self._say(_STILL if looks >= _MANY else _RUNS)
                mine = self._said
            told = [mine, *self._others()]
            stuck = _STILL in {one.split()[1] for one in told} and all(
                one in {f"{self._program} {_STILL}", f"{self._program} {_DONE}"} for one in told
            )
            confirmed = confirmed + 1 if stuck and len(told) == self._num_ranks else 0
            if confirmed >= 3 or _STUCK in {one.split()[1] for one in told}:
                self.give_up()

    def _asleep_since(self) -> str:
        """How often the main thread had slept, if all threads sleep now; "" if one is runnable."""
        own = threading.get_native_id()
        switches = ""
        for task in Path("/proc/self/task").iterdir():
            if task.name == str(own):
                continue
            with suppress(OSError):
                lines = dict(
                    line.partition(":")[::2] for line in (task / "status").read_text().splitlines()
                )
                if not lines["State"].strip().startswith("S"):
                    return ""
                if task.name == str(self._main):
                    switches = lines["voluntary_ctxt_switches"].strip()
        return switches

    def _others(self) -> list[str]:
        told = []
        for rank in range(self._num_ranks):
            if rank != self._rank:
                with suppress(OSError):
                    told.append((self._folder / f"state-{rank}").read_text())
        return told

    def _say(self, state: str) -> None:
        said = f"{self._program} {state}"
        if said == self._said:
            return
        self._said = said
        new = self._folder / f".state-{self._rank}"
        new.write_text(said)
        new.replace(self._folder / f"state-{self._rank}")
