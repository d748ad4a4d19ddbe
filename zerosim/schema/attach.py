"""How a debugger attaches to running ranks: the file with the socket's address and the token.

One rank of each host listens on a socket that only this user can open, and writes its address and a
token beside the trace. A client that it admits makes it summon the ranks through the run's
own store; each rank connects to the address in the summons. Summons and ranks authenticate with the
run's token, which is never sent over a network.
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
"""The environment variable with the token of a run to which a debugger can attach later."""
FILES = "attach-*.json"
_TOKEN_BYTES = 24
LONGEST_LINE = 65536


def new_token() -> str:
    """The token in the environment if set, else a random one."""
    return os.environ.get(ATTACH_VARIABLE) or secrets.token_urlsafe(_TOKEN_BYTES)


def proof(token: str, *said: object) -> str:
    """A signature of these values with the token."""
    return hmac.new(token.encode(), json.dumps(said).encode(), hashlib.sha256).hexdigest()


def is_proved(given: object, token: str, *said: object) -> bool:
    """Whether a signature is valid."""
    return hmac.compare_digest(str(given).encode(errors="replace"), proof(token, *said).encode())


def machine() -> str:
    """Identifies a running kernel and its network namespace: processes there share sockets."""
    boot = network = ""
    with suppress(OSError):
        boot = Path("/proc/sys/kernel/random/boot_id").read_text().strip()
    with suppress(OSError):
        network = str(Path("/proc/self/ns/net").readlink())
    return f"{boot or socket.gethostname()} {network}"


@dataclass(frozen=True, slots=True)
class AttachPoint:
    """The address at which a debugger can attach to a run.

    Attributes:
        path: path of the socket on which one of its ranks listens.
        machine: the machine of that socket; host: its host name.
    """

    path: str
    token: str
    machine: str
    host: str

    def write(self, folder: Path, rank: int) -> Path:
        """Write it beside the trace, readable only by this user."""
        target = folder / FILES.replace("*", str(rank))
        target.unlink(missing_ok=True)
        target.touch(mode=0o600, exist_ok=False)
        target.write_text(json.dumps(asdict(self)))
        return target


def places(folder: Path) -> Iterator[AttachPoint]:
    """The addresses at which a debugger can attach to the run being recorded in a folder.

    Raises:
        EnvironmentFault: a file with an address is damaged.
    """
    for path in sorted(folder.glob(FILES)):
        try:
            yield AttachPoint(**json.loads(path.read_text()))
        except (OSError, ValueError, TypeError):
            raise EnvironmentFault(
                f"{path} has no address of the run: expected the file as its ranks wrote it"
            ) from None


@dataclass(frozen=True, slots=True)
class Summons:
    """The message that summons ranks: the address to connect to.

    Attributes:
        path: path of the debugger's socket, for ranks on the same machine.
        machine: the machine of that socket.
        address: host and port for ranks on other machines; "" if those are not summoned.
        nonce: the value that a rank signs when it connects.
    """

    path: str
    machine: str
    address: str
    nonce: str

    def encode(self, token: str) -> str:
        """The string that is put into the store."""
        said = asdict(self)
        return json.dumps(said | {"proof": proof(token, said)})

    @classmethod
    def decode(cls, text: str, token: str) -> Summons | None:
        """The inverse of `encode`; None if the signature is not valid."""
        try:
            said = json.loads(text)
            given = said.pop("proof")
            return cls(**said) if is_proved(given, token, said) else None
        except (ValueError, TypeError, KeyError, AttributeError):
            return None
