"""The kernel's counters of this machine's network interfaces."""

import socket
from pathlib import Path

import pytest

import zerosim
from zerosim.record import load
from zerosim.schema.events import InterfaceSample, Phase
from zerosim.trace import interfaces, labels
from zerosim.trace.interfaces import read_interfaces, spans_nodes

NAMES = [name for _, name in socket.if_nameindex()]


def own_counters(name):
    folder = Path("/sys/class/net") / name / "statistics"
    names = ("tx_bytes", "rx_bytes", "tx_packets", "rx_packets")
    return tuple(int((folder / each).read_text()) for each in names)


def counters(sample):
    return (
        sample.sent_bytes,
        sample.received_bytes,
        sample.sent_packets,
        sample.received_packets,
    )


def test_counters_are_those_of_the_interface():
    """Others use it meanwhile, so it is read before and after."""
    before = {name: own_counters(name) for name in NAMES}
    found = read_interfaces(7)
    after = {name: own_counters(name) for name in NAMES}
    for sample in found:
        assert sample.time_ns == 7
        bounds = zip(before[sample.name], counters(sample), after[sample.name], strict=True)
        assert all(low <= value <= high for low, value, high in bounds)


def test_the_loopback_and_what_is_down_are_left_out():
    found = {sample.name for sample in read_interfaces(0)}
    flags = {name: int((Path("/sys/class/net") / name / "flags").read_text(), 16) for name in NAMES}
    assert found == {name for name, value in flags.items() if value & 1 and not value & 8}


def test_what_is_shown_is_read(tmp_path, monkeypatch):
    """Counters on another place of the line would be another number."""
    shown = tmp_path / "dev"
    shown.write_text(
        "Inter-|   Receive  |  Transmit\n face |bytes packets ...\n"
        "    lo: 1 2 0 0 0 0 0 0 3 4 0 0 0 0 0 0\n"
        "cable0:11 12 0 0 0 0 0 0 13 14 0 0 0 0 0 0\n"
        " gone0: 21 22 0 0 0 0 0 0 23 24 0 0 0 0 0 0\n"
    )
    longer = tmp_path / "if_inet6"
    longer.write_text(f"{'fd' + '0' * 29 + '1'} 02 40 00 80   cable0\n")
    flags = {"lo": 0x49, "cable0": 0x1043}

    def ask(_, request, filled):
        name = filled[:16].rstrip(b"\0").decode()
        if name not in flags:
            raise OSError(19, "No such device")
        if request == interfaces._GET_FLAGS:
            return filled[:16] + flags[name].to_bytes(2, "little") + bytes(22)
        return filled[:16] + bytes(4) + socket.inet_aton("10.0.0.1") + bytes(16)

    monkeypatch.setattr(interfaces, "_COUNTERS", shown)
    monkeypatch.setattr(interfaces, "_ADDRESSES", longer)
    monkeypatch.setattr(interfaces.fcntl, "ioctl", ask)
    assert read_interfaces(5) == [
        InterfaceSample(
            time_ns=5,
            name="cable0",
            sent_bytes=13,
            received_bytes=11,
            sent_packets=14,
            received_packets=12,
            addresses=("10.0.0.1", "[fd00::1]"),
        )
    ]
    monkeypatch.setattr(interfaces, "_COUNTERS", tmp_path / "none")
    assert read_interfaces(5) == []


@pytest.mark.parametrize(
    ("environment", "samples"),
    [
        ({}, False),
        ({"GROUP_WORLD_SIZE": "1", "LOCAL_RANK": "0"}, False),
        ({"GROUP_WORLD_SIZE": "2", "LOCAL_RANK": "1"}, False),
        ({"GROUP_WORLD_SIZE": "2", "LOCAL_RANK": "0"}, True),
    ],
)
def test_the_first_rank_of_each_of_several_nodes_looks(environment, samples):
    assert spans_nodes(environment) is samples


@pytest.mark.parametrize(
    ("num_nodes", "rank", "looks"), [(2, 0, True), (2, 1, False), (1, 0, False)]
)
def test_a_trace_has_a_look_at_each_iterations_begin(
    tmp_path, monkeypatch, clock, num_nodes, rank, looks
):
    def read(time_ns):
        return [InterfaceSample(
            time_ns=time_ns, name="cable0", sent_bytes=time_ns, received_bytes=0, sent_packets=1,
            received_packets=0,
        )]  # fmt: skip

    monkeypatch.setattr("zerosim.trace.recorder.read_interfaces", read)
    monkeypatch.setenv("GROUP_WORLD_SIZE", str(num_nodes))
    monkeypatch.setenv("LOCAL_RANK", str(rank))
    with zerosim.trace(tmp_path / "t", clock=clock):
        for iteration, now in ((0, 2000), (1, 3000)):
            for phase in (Phase.FORWARD, Phase.BACKWARD, Phase.UPDATE):
                for micro_step in range(2):
                    clock.now = now + micro_step
                    labels.enter(iteration, phase, micro_step)
        clock.now = 4000
    (trace,) = load(tmp_path / "t", strict=True).ranks
    expected = [1000, 2000, 3000, 4000] if looks else []
    assert [sample.time_ns for sample in trace.interfaces] == expected
    assert [sample.sent_bytes for sample in trace.interfaces] == expected


def test_nothing_is_looked_at_where_the_wire_is_not(tmp_path, monkeypatch):
    monkeypatch.setenv("GROUP_WORLD_SIZE", "2")
    monkeypatch.setenv("LOCAL_RANK", "0")
    with zerosim.trace(tmp_path / "t", wire=False):
        pass
    (trace,) = load(tmp_path / "t", strict=True).ranks
    assert trace.interfaces == ()
