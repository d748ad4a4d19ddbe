"""How somebody calls ranks that run, to hold them: the file that says where, and who may.

One rank of each host listens at a socket that only this user can open, and leaves its address and a
token beside the trace. Who is let in there has it call the ranks over the run's own store; each
comes to the door that the call names. What a call and a rank say of themselves is signed with the
run's token, which goes over no network.
"""

from __future__ import annotations

import hashlib
import hmac
import json
import os
import secrets
import socket
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import asdict, dataclass
from pathlib import Path

from zerosim.base.errors import EnvironmentFault

ATTACH_VARIABLE = "ZEROSIM_DEBUGGABLE"
"""The variable with the token of a run that can be held later."""
FILES = "attach-*.json"
_TOKEN_BYTES = 24
LONGEST_LINE = 65536


def new_token() -> str:
    """One that nobody guesses; that of the environment if it has one."""
    return os.environ.get(ATTACH_VARIABLE) or secrets.token_urlsafe(_TOKEN_BYTES)


def proof(token: str, *said: object) -> str:
    """That who said this knows the token."""
    return hmac.new(token.encode(), json.dumps(said).encode(), hashlib.sha256).hexdigest()


def is_proved(given: object, token: str, *said: object) -> bool:
    """Whether a proof is right."""
    return hmac.compare_digest(str(given).encode(errors="replace"), proof(token, *said).encode())


def machine() -> str:
    """Where processes reach each other's sockets: a kernel that runs, and its network."""
    boot = network = ""
    with suppress(OSError):
        boot = Path("/proc/sys/kernel/random/boot_id").read_text().strip()
    with suppress(OSError):
        network = str(Path("/proc/self/ns/net").readlink())
    return f"{boot or socket.gethostname()} {network}"


@dataclass(frozen=True, slots=True)
class AttachPoint:
    """Where a run can be called.

    Attributes:
        path: of the socket at which one of its ranks listens.
        machine: where that is; host: its name.
    """

    path: str
    token: str
    machine: str
    host: str

    def write(self, folder: Path, rank: int) -> Path:
        """Leave it beside the trace, for this user alone."""
        target = folder / FILES.replace("*", str(rank))
        target.unlink(missing_ok=True)
        target.touch(mode=0o600, exist_ok=False)
        target.write_text(json.dumps(asdict(self)))
        return target


def places(folder: Path) -> Iterator[AttachPoint]:
    """Where the run that is being recorded in a folder can be called.

    Raises:
        EnvironmentFault: a file that says so is damaged.
    """
    for path in sorted(folder.glob(FILES)):
        try:
            yield AttachPoint(**json.loads(path.read_text()))
        except (OSError, ValueError, TypeError):
            raise EnvironmentFault(
                f"{path} does not say where the run can be called: expected what its ranks wrote"
            ) from None


@dataclass(frozen=True, slots=True)
class Summons:
    """What ranks are told: whose door to come to.

    Attributes:
        path: of its socket, for ranks of the same machine.
        machine: where that is.
        address: host and port for the others; "" if they are not to come.
        nonce: what a rank signs that comes by it.
    """

    path: str
    machine: str
    address: str
    nonce: str

    def encode(self, token: str) -> str:
        """As it is put at the store."""
        said = asdict(self)
        return json.dumps(said | {"proof": proof(token, said)})

    @classmethod
    def decode(cls, text: str, token: str) -> Summons | None:
        """The inverse; None if somebody else has put it there."""
        try:
            said = json.loads(text)
            given = said.pop("proof")
            return cls(**said) if is_proved(given, token, said) else None
        except (ValueError, TypeError, KeyError, AttributeError):
            return None
