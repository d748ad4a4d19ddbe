"""The kernel's counters of this process's connections."""

import os
import socket
import struct
from contextlib import contextmanager
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from zerosim.schema.events import Repeated, WireDelta
from zerosim.trace import wire as module
from zerosim.trace.wire import Connections, difference, supported

pytestmark = pytest.mark.skipif(not supported(), reason="this kernel shows no TCP counters")

HOSTS = {"127.0.0.1": socket.AF_INET, "::1": socket.AF_INET6}


@contextmanager
def pair(host="127.0.0.1"):
    """Both ends of a TCP connection over loopback."""
    with socket.socket(HOSTS[host]) as listener:
        try:
            listener.bind((host, 0))
        except OSError:
            pytest.skip(f"no address {host} here")
        listener.listen()
        with socket.create_connection(listener.getsockname()[:2]) as here:
            there, _ = listener.accept()
            with there:
                yield here, there


def index_of(found, end):
    host, port = end.getsockname()[:2]
    name = f"[{host}]:{port}" if ":" in host else f"{host}:{port}"
    (index,) = [each.index for each in found if each.local == name]
    return index


def send(source, target, size):
    source.sendall(b"x" * size)
    left = size
    while left:
        left -= len(target.recv(left))


def descriptors():
    return sorted(Path("/proc/self/fd").iterdir())


@pytest.mark.parametrize("host", HOSTS)
def test_bytes_are_counted_exactly_in_both_directions(host):
    with pair(host) as (here, there):
        send(here, there, 11)
        wire = Connections()
        found = wire.scan()
        mine, theirs = index_of(found, here), index_of(found, there)
        remote = {each.index: each.remote for each in found}
        local = {each.index: each.local for each in found}
        assert remote[mine] == local[theirs]
        assert wire.read()[mine] == (11, 0)
        assert wire.read()[theirs] == (0, 11)
        before = wire.read()
        send(here, there, 100_000)
        send(there, here, 3)
        moved = {delta.socket: delta for delta in difference(before, wire.read())}
        assert moved[mine] == WireDelta(mine, 100_000, 3)
        assert moved[theirs] == WireDelta(theirs, 3, 100_000)
        wire.close()


def test_bytes_that_wait_in_the_socket_are_sent():
    with pair() as (here, there):
        there.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
        here.setblocking(False)
        wire = Connections()
        mine = index_of(wire.scan(), here)
        handed = 0
        while True:
            try:
                handed += here.send(b"y" * 65536)
            except BlockingIOError:
                break
        assert wire.read()[mine] == (handed, 0)
        wire.close()


def test_what_was_sent_again_is_counted_by_itself(monkeypatch):
    info = struct.pack("=144xI52xQQ", 5, 100, 30)
    assert module._counters(info) == (75, 0)
    assert module._repeated(info) == 30
    wire = Connections()
    with pair() as (here, there):
        assert len(wire.scan()) == 2
        send(here, there, 10)
        again = iter((0, 7))
        monkeypatch.setattr(module, "_repeated", lambda _: next(again))
        wire.read()
        assert wire.repeated() == (Repeated(1, 7),)
        wire.close()


def test_what_was_found_is_not_found_again():
    with pair() as (here, there):
        wire = Connections()
        assert len(wire.scan()) == 2
        assert wire.scan() == []
        with pair() as (second, _):
            new = wire.scan()
            assert len(new) == 2
            assert index_of(new, second) not in (0, 1)
        wire.close()
        assert here.fileno() >= 0
        send(there, here, 5)


def test_a_closed_connection_is_forgotten_and_its_number_is_another_connection():
    wire = Connections()
    with pair() as (here, there):
        index = index_of(wire.scan(), here)
        number = here.fileno()
        send(here, there, 9)
        assert wire.read()[index] == (9, 0)
    assert index not in wire.read()
    with pair() as (here, there):
        if here.fileno() != number:
            os.dup2(here.fileno(), number)
        send(here, there, 4)
        assert index not in wire.read()
        fresh = wire.scan()
        assert index not in {each.index for each in fresh}
        assert wire.read()[index_of(fresh, here)] == (4, 0)
        wire.close()
        send(there, here, 1)
        if here.fileno() != number:
            os.close(number)


def test_a_number_that_is_reused_before_the_next_scan_is_not_the_old_connection():
    wire = Connections()
    with pair() as (here, there), pair() as (other, another):
        index = index_of(wire.scan(), here)
        send(here, there, 70)
        send(other, another, 7)
        os.dup2(other.fileno(), here.fileno())
        assert index not in wire.read()
        wire.close()
        send(other, another, 1)


def test_ignored_ports_are_left_out_at_either_end():
    with pair() as (here, there), pair() as (second, _):
        wire = Connections(frozenset({there.getsockname()[1]}))
        found = wire.scan()
        ports = {int(each.local.rpartition(":")[2]) for each in found}
        assert here.getsockname()[1] not in ports
        assert there.getsockname()[1] not in ports
        assert second.getsockname()[1] in ports
        wire.close()
        send(here, there, 1)


def test_only_connected_tcp_is_watched(tmp_path):
    with socket.socket() as listener, socket.socket(type=socket.SOCK_DGRAM) as udp:
        listener.bind(("127.0.0.1", 0))
        listener.listen()
        udp.connect(listener.getsockname())
        ends = socket.socketpair()
        with Path(tmp_path, "x").open("w") as file:
            before = descriptors()
            wire = Connections()
            assert wire.scan() == []
            assert descriptors() == before
            file.write("still open")
        for end in ends:
            end.close()


def test_nothing_is_duplicated_or_closed():
    with pair() as (here, there):
        before = descriptors()
        wire = Connections()
        wire.scan()
        wire.read()
        assert descriptors() == before
        wire.close()
        wire.close()
        assert descriptors() == before
        assert wire.read() == {}
        send(here, there, 2)


def test_a_connection_closes_for_its_peer_while_it_is_watched():
    wire = Connections()
    with pair() as (here, there):
        index = index_of(wire.scan(), here)
        here.close()
        assert there.recv(1) == b""
        wire.scan()
        assert index not in wire.read()
    wire.close()


totals = st.dictionaries(st.integers(0, 3), st.tuples(st.integers(0, 99), st.integers(0, 99)))


@given(totals, totals)
def test_a_difference_leaves_out_what_did_not_move(before, after):
    moved = {delta.socket: delta for delta in difference(before, after)}
    for index, (sent, received) in after.items():
        sent_before, received_before = before.get(index, (0, 0))
        delta = moved.pop(index, WireDelta(index, 0, 0))
        assert delta == WireDelta(index, sent - sent_before, received - received_before)
        assert index not in moved
    assert moved == {}


def test_addresses_of_both_kinds():
    assert module._address(("10.0.0.1", 80)) == "10.0.0.1:80"
    assert module._address(("::1", 80, 0, 0)) == "[::1]:80"
    assert module._address(("::ffff:10.0.0.1", 80, 0, 0)) == "10.0.0.1:80"
