"""Summons running ranks to stop them: the other side of `zerosim.trace.attached`."""

from __future__ import annotations

import json
import socket
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from zerosim.base.errors import ConfigError, EnvironmentFault
from zerosim.debug.link import Door
from zerosim.schema.attach import LONGEST_LINE, AttachPoint, Summons, machine, places

_ANSWER_S = 30.0
_COME_S = 30.0


@contextmanager
def called(folder: Path, host: str = "") -> Iterator[Door]:
    """The socket to which the ranks of a run were summoned, until it is closed.

    Args:
        folder: the folder in which the run is being recorded.
        host: an address of this machine for ranks of other hosts; "" for none.

    Raises:
        EnvironmentFault: there is no such run, or it cannot be reached from here.
        ConfigError: its ranks cannot be summoned, or a debugger is already attached.
    """
    place = _place(folder)
    door = Door(place.token)
    try:
        address = door.listen_at(host) if host else ""
        call = Summons(str(door.path), machine(), address, door.nonce)
        num_ranks = _told(folder, place, call)
        with door.changed:
            if not door.changed.wait_for(lambda: len(door.links) == num_ranks, _COME_S):
                late = sorted(set(range(num_ranks)) - set(door.links))
                raise EnvironmentFault(
                    f"rank {', '.join(map(str, late))} did not connect within {_COME_S:g} s: "
                    f"expected "
                    f"{'hosts that reach ' + address if address else 'running ranks'}"
                )
        yield door
    finally:
        door.close()


def _place(folder: Path) -> AttachPoint:
    if not folder.is_dir():
        raise EnvironmentFault(
            f"{folder} does not exist: expected the folder of a run that is being recorded"
        )
    found = list(places(folder))
    if not found:
        raise EnvironmentFault(
            f"no run in {folder} can be attached to: expected a running one that was started with "
            "--debuggable"
        )
    own = [one for one in found if one.machine == machine()]
    if not own:
        raise EnvironmentFault(
            f"the run in {folder} is on {found[0].host}, or was until that host restarted: run "
            "this command there"
        )
    return own[0]


def _told(folder: Path, place: AttachPoint, call: Summons) -> int:
    """Have one rank summon all; returns their number."""
    try:
        with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as connection:
            connection.settimeout(_ANSWER_S)
            connection.connect(place.path)
            connection.sendall(call.encode(place.token).encode() + b"\n")
            answer = json.loads(connection.makefile("r").readline(LONGEST_LINE) or "{}")
    except (OSError, ValueError):
        answer = {}
    if error := answer.get("error"):
        raise ConfigError(f"the ranks of {folder} answered: {error}")
    if "num_ranks" not in answer:
        raise EnvironmentFault(f"the run in {folder} has ended: expected a running one")
    return int(answer["num_ranks"])
