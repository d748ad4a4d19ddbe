"""What others can reach of a run of one host, and what they can do to it: disturb it, no more.

Each run is held alive while its doors are tried, over loopback alone.
"""

from __future__ import annotations

import base64
import contextlib
import os
import pickle
import signal
import socket
import time
from collections.abc import Callable, Iterator
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest

from tests.cli.command import command, start
from tests.deadlines import RANKS_S
from tests.growing import num_rows
from tests.ranks import free_port
from zerosim.cli import doctor
from zerosim.schema.rows import rank_file_name
from zerosim.train.launch import forkserver, reachable
from zerosim.train.launch.loopback import LOOPBACK
from zerosim.train.launch.reachable import beyond_loopback, listeners

STEPS = 40
RANKS = 2
_ACCEPTS = 0x10000
"""__SO_ACCEPTCON of linux/net.h, as /proc/net/unix writes it."""


def _tree(pid: int) -> list[int]:
    """A process and all that it started, and they."""
    found = [pid]
    for path in Path(f"/proc/{pid}/task").glob("*/children"):
        for child in path.read_text().split():
            found += _tree(int(child))
    return found


def _inodes(pids: list[int]) -> set[str]:
    links = []
    for pid in pids:
        for path in Path(f"/proc/{pid}/fd").iterdir():
            with contextlib.suppress(OSError):
                links.append(str(path.readlink()))
    return {link[len("socket:[") : -1] for link in links if link.startswith("socket:[")}


def _rows(name: str) -> Iterator[list[str]]:
    yield from (line.split() for line in Path("/proc/net", name).read_text().splitlines()[1:])


@contextlib.contextmanager
def _held(folder: Path, *args: object, **environment: str) -> Iterator[tuple[Any, list[int]]]:
    """A run whose ranks are stopped in the middle of it; yields it and the ids of its processes."""
    run = start(
        *("run", "--model", "mlp", "--ranks", RANKS, "--stage", 3, "--steps", STEPS, "--json"),
        *("--timeout", 60, "--out", folder, *args),
        **environment,
    )
    try:
        files = [folder / rank_file_name(rank) for rank in range(RANKS)]
        while not all(num_rows(file) > 20 for file in files):
            assert run.poll() is None, run.communicate()
            time.sleep(0.01)
        pids = _tree(run.pid)
        ranks = pids[-RANKS:]
        for pid in ranks:
            os.kill(pid, signal.SIGSTOP)
        yield run, pids
        for pid in ranks:
            with contextlib.suppress(ProcessLookupError):
                os.kill(pid, signal.SIGCONT)
    finally:
        run.kill()
        run.communicate()


def _ended(run: Any, pids: list[int]) -> tuple[int, list[str]]:
    """How a run goes on that was held: its exit code, and the lines that are our own."""
    for pid in pids[-RANKS:]:
        os.kill(pid, signal.SIGCONT)
    _, err = run.communicate(timeout=RANKS_S)
    assert "Traceback" not in err, err
    # Gloo and the store print by themselves, in brackets and with the frames of their code
    ours = [line for line in err.splitlines() if line.startswith(("zerosim: ", "rank ", "note: "))]
    return run.returncode, ours


class _Touch:
    """What someone else would have us run."""

    def __init__(self, file: Path) -> None:
        self.file = file

    def __reduce__(self) -> tuple[Callable[[str], int], tuple[str]]:
        return os.system, (f"touch '{self.file}'",)


def _throw_at(port: int, payload: bytes) -> None:
    """Say things at a port that only its own processes should say."""
    for words in (payload, b"\x00" * 64, b"\xff" * 64, b"GET / HTTP/1.0\r\n\r\n"):
        with socket.create_connection((LOOPBACK, port), timeout=5) as door:
            door.sendall(words)


@pytest.mark.ranks
@pytest.mark.parametrize("has_port", [False, True])
def test_a_run_is_reached_from_its_own_host_alone_and_obeys_nobody(tmp_path, has_port):
    """Listening sockets of each kind, then a pickle and garbage at each of them."""
    from torch.distributed import TCPStore

    port = free_port() if has_port else 0
    mark = tmp_path / "was here"
    payload = base64.b64encode(pickle.dumps(_Touch(mark)))
    # wherever a user's machines are joined, a run of one of them is not
    elsewhere = {"GLOO_SOCKET_IFNAME": "cable7"}
    args = ("--port", port) if has_port else ()
    with _held(tmp_path / "t", *args, **elsewhere) as (run, pids):
        assert len(pids) == 2 + RANKS  # the launcher, the process that forks ranks, and the ranks
        own = _inodes(pids)
        open_ports = [one.port for one in listeners() if one.inode in own]
        assert len(open_ports) == RANKS + has_port  # Gloo's, and the store's
        assert (port in open_ports) is has_port
        assert beyond_loopback(pids) == []
        # connected pairs have no name that anyone could call; nothing receives packets unasked
        assert not [row for row in _rows("unix") if row[6] in own and int(row[3], 16) & _ACCEPTS]
        assert not [row for row in _rows("unix") if row[6] in own and len(row) > 7]
        assert not [row for name in ("udp", "udp6") for row in _rows(name) if row[9] in own]
        # nor does anything lie where others look for shared memory
        mapped = "".join(Path(f"/proc/{pid}/maps").read_text() for pid in pids)
        assert "/dev/shm" not in mapped  # noqa: S108 - looked for, not written
        for each in open_ports:
            _throw_at(each, payload)
        if has_port:
            store = TCPStore(LOOPBACK, port, timeout=timedelta(seconds=5))
            known = store.list_keys()
            assert any("zerosim: run 0 has begun" in key for key in known)
            for key in [*known, "torch.rendezvous.x", "/torch.rendezvous.x"]:
                store.set(key, payload)
            prefix = next(key for key in known if "zerosim: " in key).partition("zerosim: ")[0]
            store.set(f"{prefix}zerosim: run 0 ends, count", payload)  # what the ranks ask for next
        code, lines = _ended(run, pids)
    assert not mark.exists()
    if has_port:  # the ranks believed that the others do not come, and said so
        assert (code, lines[0].split(" failed: ")[0]) == (3, "zerosim: rank 0"), lines
        assert "the other ranks did not arrive" in lines[0]
    else:
        assert (code, lines) == (0, [])


@pytest.mark.ranks
def test_an_agent_that_cannot_go_on_says_so_in_a_line(tmp_path, monkeypatch):
    monkeypatch.setattr(forkserver._KeptServer, "wanted", False)
    seen = forkserver.ForkServer.exit_codes

    def breaks(self: forkserver.ForkServer) -> dict[int, int]:
        if seen(self):
            return seen(self)
        raise ValueError("unheard of\nin two lines")

    monkeypatch.setattr(forkserver.ForkServer, "exit_codes", breaks)
    answer = command("run", "--model", "mlp", "--ranks", 2, "--steps", 2, "--out", tmp_path / "t")
    assert answer.code == 3
    assert answer.err.startswith("zerosim: the ranks could no longer be monitored, and were killed")
    assert "ValueError: unheard of" in answer.err
    assert len(answer.err.splitlines()) == 1


def test_what_listens_beyond_loopback_is_found():
    with socket.create_server((LOOPBACK, 0)) as near, socket.create_server(("", 0)) as far:
        port = far.getsockname()[1]
        found = beyond_loopback([os.getpid()])
        assert [(one.port, str(one)) for one in found] == [(port, f"port {port} of every address")]
        assert beyond_loopback([], port) == found
        assert beyond_loopback([], near.getsockname()[1]) == []
    assert beyond_loopback([os.getpid()], port) == []


@pytest.mark.parametrize(
    ("text", "address"),
    [
        ("0100007F", "127.0.0.1"),
        ("020200C0", "192.0.2.2"),
        ("00000000000000000000000001000000", "::1"),
        ("0000000000000000FFFF00000100007F", "::ffff:127.0.0.1"),
        ("B80D0120000000000000000001000000", "2001:db8::1"),
    ],
)
def test_the_kernel_s_words_are_read(text, address):
    found = reachable.ListeningSocket(reachable._address(text), 80, "1")
    assert str(found.address) in (address, "::ffff:7f00:1")
    assert found.is_private is ("127.0.0.1" in address or address == "::1")


def test_doctor_says_what_a_rank_listens_on(monkeypatch):
    assert doctor._doors().works
    open_to_all = reachable.ListeningSocket(reachable._address("00000000"), 4567, "1")
    monkeypatch.setattr(reachable, "listeners", lambda: iter([open_to_all]))
    monkeypatch.setattr(reachable, "_sockets", lambda _: iter("1"))
    finding = doctor._doors()
    assert not finding.works
    assert not finding.is_needed
    assert "port 4567 of every address" in finding.found
    assert "docs/security.md" in finding.found
