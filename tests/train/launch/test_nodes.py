"""Several nodes: torchrun's agents on one machine, and two machines' networks joined by a cable.

A network namespace is all of a machine that its network sees: addresses, connections, interfaces
with counters of their own. Two of them, joined by a veth pair, are two nodes with a cable.
"""

from __future__ import annotations

import ctypes
import json
import os
import re
import shutil
import subprocess
import sys
import time
from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path

import pytest

from tests.cli.command import command
from tests.deadlines import RANKS_S
from tests.ranks import free_port
from zerosim.base.config import EngineConfig, RunConfig
from zerosim.cli.folders import RANK_FILES
from zerosim.record import RankTrace, Trace, load
from zerosim.schema.events import InterfaceSample, Kind, Op
from zerosim.schema.rows import MANIFEST_NAME
from zerosim.train.launch.forkserver import Work, keep, lent
from zerosim.train.launch.job import Job
from zerosim.train.launch.rendezvous import TCPStore
from zerosim.train.launch.worker import run_guarded
from zerosim.verify import verify

pytestmark = pytest.mark.ranks

NUM_NODES, RANKS_PER_NODE, STEPS = 2, 2, 2
NUM_RANKS = NUM_NODES * RANKS_PER_NODE
PORT = 29400
CLONE_NEWNET = 0x40000000
"""Of linux/sched.h."""
IP = shutil.which("ip")
HEADER_BYTES = 14 + 20 + 32
"""Before the data of a packet: Ethernet, IPv4, TCP with time stamps."""
STORE_BYTES = 4096
"""More than the ranks ever said at the store during a run; some hundred bytes of it were seen."""
CONFIGS = {
    "stage 3": {},
    "quantized weights": {"quantize_weights": True},
    "secondary partition": {"secondary_partition": RANKS_PER_NODE},
    "quantized gradients": {"quantize_gradients": True},
    "ZeRO++": {
        "quantize_weights": True,
        "secondary_partition": RANKS_PER_NODE,
        "quantize_gradients": True,
    },
    "optimizer on the host": {"offload_optimizer": "cpu"},
    "all on a disk": {"offload_optimizer": "nvme", "offload_param": "nvme"},
    "owner broadcasts": {"offload_param": "cpu", "owner_broadcast": "parameters"},
    "checkpoints on the host": {"checkpoint_activations": True, "cpu_checkpointing": True},
}
"""Systems on stage 3."""


@dataclass(frozen=True)
class Node:
    """Where a part of the ranks is started.

    Attributes:
        prefix: what a command begins with to run there.
        interface: the end of the cable that is plugged in there; "" without a cable.
    """

    number: int
    prefix: tuple[str, ...] = ()
    interface: str = ""
    environment: dict[str, str] = field(default_factory=dict)

    @property
    def namespace(self) -> str:
        """The file that stands for its network."""
        return self.prefix[-1].partition("=")[2]

    def says(self, *words: str) -> str:
        """What a command answers there."""
        done = subprocess.run((*self.prefix, *words), capture_output=True, text=True, check=True)
        return done.stdout

    def counters(self) -> dict[str, int]:
        """The interface's own counters."""
        (found,) = json.loads(self.says(IP, "-s", "-j", "link", "show", "dev", self.interface))
        return {
            f"{way}_{what}": found["stats64"][way][what]
            for way in ("tx", "rx")
            for what in ("bytes", "packets")
        }


def torchrun(node: Node, *words: object) -> subprocess.Popen[str]:
    agent = (*node.prefix, sys.executable, "-m", "torch.distributed.run", "--nnodes", NUM_NODES)
    return subprocess.Popen(
        tuple(map(str, (*agent, *words))),
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        env={**os.environ, "OMP_NUM_THREADS": "1", **node.environment},
    )


def finish(*started: subprocess.Popen[str]) -> list[str]:
    """Wait until both have ended well; returns what they said."""
    try:
        said = [each.communicate(timeout=RANKS_S)[0] for each in started]
    finally:
        for each in started:
            each.kill()
    assert [each.returncode for each in started] == [0] * len(started), said
    return said


def merged(target: Path, folders: Sequence[Path]) -> Trace:
    """The ranks' files in one folder, as a person copies them from the nodes."""
    target.mkdir()
    for folder in folders:
        for path in (folder / MANIFEST_NAME, *folder.glob(RANK_FILES)):
            shutil.copy(path, target)
    return load(target, strict=True)


def places(trace: Trace) -> list[tuple[int, int]]:
    """Node and position on it, by rank."""
    return [(rank.header.node, rank.header.local_rank) for rank in trace.ranks]


def test_two_agents_on_one_machine(tmp_path):
    """Each agent's ranks write to a folder of their own, as on machines that share none."""
    port = free_port()
    folders = [tmp_path / f"of-agent-{number}" for number in range(NUM_NODES)]
    said = finish(
        *(
            torchrun(
                Node(number), "--nproc-per-node", 1, "--rdzv-backend", "c10d",
                "--rdzv-endpoint", f"127.0.0.1:{port}", "--rdzv-id", "two-agents",
                "--local-addr", "127.0.0.1",
                "-m", "zerosim", "run", "--model", "mlp", "--stage", 3, "--steps", STEPS,
                "--out", folder,
            )
            for number, folder in enumerate(folders)
        )
    )  # fmt: skip
    assert sum("rank 0 wrote its trace to" in each for each in said) == 1
    # torchrun's store listens on every address, whatever its endpoint is
    (note,) = {line for each in said for line in each.splitlines() if line.startswith("note: ")}
    assert re.search(r"other machines can reach this run at port \d+ of every address", note)
    assert "docs/security.md" in note
    trace = merged(tmp_path / "merged", folders)
    assert places(trace) == [(0, 0), (1, 0)]
    answer = command("verify", tmp_path / "merged")
    assert (answer.code, answer.err) == (0, ""), answer
    assert verify(trace).unexplained_wire == 0
    # what crosses between these nodes crosses no interface but the loopback, which is not counted
    ends = {socket.local.rpartition(":")[0] for rank in trace.ranks for socket in sockets(rank)}
    assert ends == {"127.0.0.1"}
    for rank in trace.ranks:
        assert all("127.0.0.1" not in sample.addresses for sample in rank.interfaces)
        assert rank.header.local_rank == 0 or not rank.interfaces


def sockets(rank: RankTrace):
    return rank.sockets.values()


def unable() -> str:
    """Why two namespaces cannot be joined here; "" if they can."""
    if os.geteuid() != 0:
        return "needs root, to join two network namespaces"
    if IP is None:
        return "needs the command ip (Debian's iproute2)"
    name = f"zerosim-{os.getpid()}-probe"
    adding = (IP, "netns", "add", name)
    probe = subprocess.run(adding, capture_output=True, text=True, check=False)
    if probe.returncode:
        return f"no network namespaces here: {probe.stderr.strip()}"
    _ip("netns", "delete", name)
    return ""


def _ip(*words: str) -> None:
    subprocess.run((str(IP), *words), check=True)


def _prefix(name: str) -> tuple[str, ...]:
    """What a command begins with in a namespace.

    `ip netns exec` would also mount a /sys, which in a changed root it cannot.
    """
    return ("nsenter", f"--net=/run/netns/{name}")


def _within(name: str, *words: str) -> None:
    subprocess.run((*_prefix(name), *words), check=True)


@pytest.fixture(scope="module")
def nodes() -> Iterator[tuple[Node, Node]]:
    """Two network namespaces joined by a veth pair."""
    if why := unable():
        pytest.skip(why)
    with cabled() as both:
        yield both


@contextmanager
def cabled() -> Iterator[tuple[Node, Node]]:
    """The same, wherever it is wanted."""
    names = [f"zerosim-{os.getpid()}-{number}" for number in range(NUM_NODES)]
    quiet = "for f in /proc/sys/net/ipv6/conf/*/disable_ipv6; do test ! -e $f || echo 1 > $f; done"
    try:
        for name in names:
            _ip("netns", "add", name)
            # else an interface that comes up asks for routers
            _within(name, "sh", "-c", quiet)
        ends = ("link", "add", "cable0", "netns", names[0], "type", "veth")
        _ip(*ends, "peer", "name", "cable1", "netns", names[1])
        for number, name in enumerate(names):
            address = ("address", "add", f"10.0.0.{number + 1}/24", "dev", f"cable{number}")
            _within(name, str(IP), *address)
            for interface in ("lo", f"cable{number}"):
                _within(name, str(IP), "link", "set", interface, "up")
        yield tuple(
            Node(
                number,
                _prefix(name),
                f"cable{number}",
                {"GLOO_SOCKET_IFNAME": f"cable{number}"},
            )
            for number, name in enumerate(names)
        )
    finally:
        for name in names:
            subprocess.run((str(IP), "netns", "delete", name), check=False, capture_output=True)


@dataclass(frozen=True)
class Crossed:
    """The bytes over the cable, by each counter.

    Attributes:
        before, after: each interface's own counters, around all runs.
    """

    traces: dict[str, Trace]
    before: list[dict[str, int]]
    after: list[dict[str, int]]


@pytest.fixture(scope="module")
def crossed(nodes, tmp_path_factory) -> Crossed:
    """All runs by one start of the ranks on both nodes.

    They are forked here and go to their nodes, where torchrun's agents and each rank would import
    PyTorch again.
    """
    home = tmp_path_factory.mktemp("nodes")
    before = [node.counters() for node in nodes]
    keep()
    with ThreadPoolExecutor(1) as aside, lent() as server:
        store = aside.submit(_store_of, nodes[0]).result()
        work = Work(f"{__name__}:{be_on_a_node.__name__}", str(home))
        server.start(work, [_rank_of(rank, nodes) for rank in range(NUM_RANKS)])
        until = time.monotonic() + RANKS_S
        while len(codes := server.exit_codes()) < NUM_RANKS and time.monotonic() < until:
            time.sleep(0.02)
        server.end_ranks()
        del store
    assert codes == dict.fromkeys(range(NUM_RANKS), 0), server.errors()
    after = [node.counters() for node in nodes]
    traces = {
        name: merged(home / name, [home / str(node.number) / name for node in nodes])
        for name in CONFIGS
    }
    return Crossed(traces, before, after)


def _enter(namespace: str) -> None:
    """Have this thread go to a node."""
    with Path(namespace).open() as file:
        assert ctypes.CDLL(None).setns(file.fileno(), CLONE_NEWNET) == 0


def _store_of(node: Node) -> TCPStore:
    """Where the ranks meet, as torchrun's agent has it: at a port of the first node."""
    _enter(node.namespace)
    return TCPStore("10.0.0.1", PORT, is_master=True, wait_for_workers=False)


def _rank_of(rank: int, nodes: Sequence[Node]) -> dict[str, str]:
    """What torchrun's agents tell a rank."""
    node = nodes[rank // RANKS_PER_NODE]
    return {
        "RANK": str(rank),
        "LOCAL_RANK": str(rank % RANKS_PER_NODE),
        "GROUP_RANK": str(node.number),
        "GROUP_WORLD_SIZE": str(NUM_NODES),
        "WORLD_SIZE": str(NUM_RANKS),
        "LOCAL_WORLD_SIZE": str(RANKS_PER_NODE),
        "MASTER_ADDR": "10.0.0.1",
        "MASTER_PORT": str(PORT),
        "TORCHELASTIC_USE_AGENT_STORE": "True",
        "NODE": node.namespace,
        **node.environment,
    }


def be_on_a_node(home: str) -> int:
    """Be a rank, as its environment says."""
    _enter(os.environ["NODE"])
    if error := run_guarded(_job(Path(home, os.environ["GROUP_RANK"]))):
        raise error
    return 0


def _job(folder: Path) -> Job:
    run = RunConfig(model="mlp", ranks=NUM_RANKS, steps=STEPS)
    engines = tuple(
        (EngineConfig(stage=3, **config, nvme_path=str(folder / name / "disk")), folder / name)
        for name, config in CONFIGS.items()
    )
    return Job(run, engines)


@pytest.mark.root
@pytest.mark.parametrize("name", CONFIGS)
def test_ranks_on_two_nodes_are_proved(crossed, name):
    trace = crossed.traces[name]
    assert places(trace) == [divmod(rank, RANKS_PER_NODE) for rank in range(NUM_RANKS)]
    report = verify(trace)
    assert (report.holds, report.unexplained_wire) == (True, 0)
    assert report.num_ranks == NUM_RANKS


@pytest.mark.root
@pytest.mark.parametrize("name", CONFIGS)
def test_the_cable_carried_what_the_trace_says(crossed, name):
    """`zerosim.trace.interfaces` says which bytes are whose."""
    trace = crossed.traces[name]
    for number in range(NUM_NODES):
        first, last = _samples(trace, number)
        sent, repeated = _sent(trace, number)
        packets = last.sent_packets - first.sent_packets
        counted = last.sent_bytes - first.sent_bytes
        asked = _asked(trace, number)
        rest = counted - sent - repeated - packets * HEADER_BYTES
        assert asked > 100 * STORE_BYTES, "a run so small that the store hides it"
        assert sent >= asked
        assert -STORE_BYTES < rest < STORE_BYTES, (number, counted, sent, repeated, packets)
    # and what one node sent the other received
    (first, first_end), (second, second_end) = (_samples(trace, each) for each in range(NUM_NODES))
    assert _sent(trace, 0)[0] == _received(trace, 1)
    assert _sent(trace, 1)[0] == _received(trace, 0)
    for one, one_end, other, other_end in (
        (first, first_end, second, second_end),
        (second, second_end, first, first_end),
    ):
        arrived = other_end.received_bytes - other.received_bytes
        assert abs(one_end.sent_bytes - one.sent_bytes - arrived) < STORE_BYTES


@pytest.mark.root
def test_zeropp_sends_a_quarter_between_nodes(crossed):
    """From 3 Psi to 0.75 Psi (Wang et al., arXiv 2306.10209, section 3), by the cable's counters.

    Alone, its parts leave 2 (qwZ in both gathers), 2 (hpZ) and 2.25 (qgZ) of the 3 Psi.
    """
    sent = {name: _sent_in_last_iteration(trace) for name, trace in crossed.traces.items()}
    plain = sent["stage 3"]
    assert 0.20 < sent["ZeRO++"] / plain < 0.25
    alone = {"quantized weights", "secondary partition", "quantized gradients"}
    for name in sent.keys() & alone:
        assert 0.6 < sent[name] / plain < 0.75


def _sent_in_last_iteration(trace: Trace) -> int:
    samples = [_rank(trace, node).interfaces[-2:] for node in range(NUM_NODES)]
    return sum(end.sent_bytes - begin.sent_bytes for begin, end in samples)


@pytest.mark.root
def test_samples_are_the_interfaces_own_counters(crossed):
    last = [crossed.before[number] for number in range(NUM_NODES)]
    for trace in crossed.traces.values():
        for number in range(NUM_NODES):
            samples = _rank(trace, number).interfaces
            assert {sample.name for sample in samples} == {f"cable{number}"}
            assert {sample.addresses for sample in samples} == {(f"10.0.0.{number + 1}",)}
            # as the trace begins, as each iteration begins, as it ends
            assert len(samples) == STEPS + 2
            times = [sample.time_ns for sample in samples]
            assert times == sorted(times)
            for sample in samples:
                found = {
                    "tx_bytes": sample.sent_bytes,
                    "rx_bytes": sample.received_bytes,
                    "tx_packets": sample.sent_packets,
                    "rx_packets": sample.received_packets,
                }
                assert all(last[number][name] <= value for name, value in found.items())
                last[number] = found
        for rank in trace.ranks:
            assert rank.header.local_rank == 0 or not rank.interfaces
    for number in range(NUM_NODES):
        assert all(last[number][name] <= value for name, value in crossed.after[number].items())
    # at rest, what left one end is what came in at the other
    sides = [
        (crossed.after[0][f"tx_{what}"], crossed.after[1][f"rx_{what}"])
        for what in ("bytes", "packets")
    ]
    assert all(sent == received for sent, received in sides)


def _rank(trace: Trace, node: int) -> RankTrace:
    return trace.ranks[node * RANKS_PER_NODE]


def _samples(trace: Trace, node: int) -> tuple[InterfaceSample, InterfaceSample]:
    samples = _rank(trace, node).interfaces
    return samples[0], samples[-1]


def _of_node(trace: Trace, node: int) -> list[RankTrace]:
    return [rank for rank in trace.ranks if rank.header.node == node]


def _asked(trace: Trace, node: int) -> int:
    """Bytes of the messages that this node's ranks sent to ranks of the other."""
    away = {rank.rank for rank in trace.ranks if rank.header.node != node}
    return sum(
        event.payload_bytes
        for rank in _of_node(trace, node)
        for event in rank.events
        if event.kind is Kind.TRANSFER and event.op is Op.SEND and event.peers[0] in away
    )


def _sent(trace: Trace, node: int) -> tuple[int, int]:
    """What this node's sockets sent to the other from the first look to the last; and again."""
    totals = [0, 0]
    for rank in _of_node(trace, node):
        away = _away(trace, rank)
        for sign, sample in ((-1, rank.wire_samples[0]), (1, rank.wire_samples[-1])):
            totals[0] += sign * sum(d.sent_bytes for d in sample.counters if d.socket in away)
            totals[1] += sign * sum(d.sent_bytes for d in sample.repeated if d.socket in away)
    return totals[0], totals[1]


def _received(trace: Trace, node: int) -> int:
    return sum(
        sign * delta.received_bytes
        for rank in _of_node(trace, node)
        for sign, sample in ((-1, rank.wire_samples[0]), (1, rank.wire_samples[-1]))
        for delta in sample.counters
        if delta.socket in _away(trace, rank)
    )


def _away(trace: Trace, rank: RankTrace) -> set[int]:
    """This rank's connections to the other node."""
    there = {
        socket.local
        for other in trace.ranks
        if other.header.node != rank.header.node
        for socket in sockets(other)
    }
    return {socket.index for socket in sockets(rank) if socket.remote in there}
