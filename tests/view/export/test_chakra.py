"""Chakra's files are read back by Protocol Buffers, with the fields of its schema."""

from __future__ import annotations

import json
from collections import Counter

import pytest
from google.protobuf import descriptor_pb2, descriptor_pool, message_factory
from google.protobuf.internal.decoder import _DecodeVarint32

from zerosim.analysis.graph import build_graph
from zerosim.lessons.recordings import COMMITTED
from zerosim.record import load
from zerosim.schema.events import Kind, Op
from zerosim.view.export import chakra

STRING, INT32, INT64, UINT64, BOOL, MESSAGE = 9, 5, 3, 4, 8, 11
SCHEMA = {  # mlcommons/chakra, schema/protobuf/et_def.proto
    "AttributeProto": {
        "name": (1, STRING),
        "int32_val": (7, INT32),
        "int64_val": (9, INT64),
        "uint64_val": (13, UINT64),
        "bool_val": (27, BOOL),
        "string_val": (29, STRING),
    },
    "GlobalMetadata": {"version": (1, STRING), "attr": (2, "AttributeProto")},
    "Node": {
        "id": (1, UINT64),
        "name": (2, STRING),
        "type": (3, UINT64),
        "data_deps": (5, UINT64),
        "start_time_micros": (6, UINT64),
        "duration_micros": (7, UINT64),
        "attr": (10, "AttributeProto"),
    },
}
REPEATED = ("attr", "data_deps")


@pytest.fixture(scope="module")
def messages():
    file = descriptor_pb2.FileDescriptorProto(name="et.proto", syntax="proto3")
    for name, fields in SCHEMA.items():
        message = file.message_type.add(name=name)
        for field, (number, kind) in fields.items():
            added = message.field.add(name=field, number=number)
            added.label = 3 if field in REPEATED else 1
            added.type = kind if isinstance(kind, int) else MESSAGE
            if isinstance(kind, str):
                added.type_name = kind
    pool = descriptor_pool.DescriptorPool()
    pool.Add(file)
    return {
        name: message_factory.GetMessageClass(pool.FindMessageTypeByName(name)) for name in SCHEMA
    }


def read(file, messages):
    """The version, and the nodes with their attributes as a dictionary."""
    raw, place, found = file.read_bytes(), 0, []
    while place < len(raw):
        size, place = _DecodeVarint32(raw, place)
        found.append(raw[place : place + size])
        place += size
    head = messages["GlobalMetadata"].FromString(found[0])
    nodes = [messages["Node"].FromString(one) for one in found[1:]]
    return head.version, [(node, {a.name: value_of(a) for a in node.attr}) for node in nodes]


def value_of(attribute):
    [(_, value)] = [one for one in attribute.ListFields() if one[0].name != "name"] or [(None, 0)]
    return value


def exported(name, folder):
    trace = load(COMMITTED / name)
    for file, content in chakra.chakra_files(build_graph(trace), 0, folder / "et").items():
        file.write_bytes(content)
    return trace


@pytest.mark.parametrize("name", ["ring/stage-3", "native/stage-2", "parallel/1f1b", "hpz/stage-3"])
def test_calls_and_bytes_are_those_of_the_trace(name, tmp_path, messages):
    trace = exported(name, tmp_path)
    groups = json.loads((tmp_path / "et.groups.json").read_text())
    for rank in trace.ranks:
        version, nodes = read(tmp_path / f"et.{rank.rank}.et", messages)
        assert version == chakra.VERSION
        wanted = Counter()
        for event in rank.events:
            if event.iteration != 0 or event.kind is not Kind.COLLECTIVE:
                continue
            ranks = rank.groups[event.group].ranks
            size = event.payload_bytes // (len(ranks) if event.op is Op.ALL_GATHER else 1)
            if event.op is Op.SEND:
                wanted[chakra.SEND, event.peers[0], size] += 1
            elif event.op is Op.RECEIVE:
                wanted[chakra.RECEIVE, event.peers[0], size] += 1
            else:
                wanted[chakra.COLLECTIVES[event.op], ranks, size] += 1
        found = Counter()
        for node, of in nodes:
            if node.type == chakra.COLLECTIVE:
                found[of["comm_type"], tuple(groups[of["pg_name"]]), of["comm_size"]] += 1
            elif node.type == chakra.SEND:
                assert of["comm_src"] == rank.rank
                found[chakra.SEND, of["comm_dst"], of["comm_size"]] += 1
            elif node.type == chakra.RECEIVE:
                assert of["comm_dst"] == rank.rank
                found[chakra.RECEIVE, of["comm_src"], of["comm_size"]] += 1
        assert found == wanted


@pytest.mark.parametrize("name", ["ring/stage-3", "overlap/stage-3", "infinity/stage-3"])
def test_what_follows_what_is_in_the_file(name, tmp_path, messages):
    """Each node follows only what comes before it; what computes waits for what was gathered."""
    for rank in exported(name, tmp_path).ranks:
        _, nodes = read(tmp_path / f"et.{rank.rank}.et", messages)
        seen, gathered = set(), 0
        names = {node.id: node.name for node, _ in nodes}
        for node, of in nodes:
            assert set(node.data_deps) <= seen
            seen.add(node.id)
            assert of["is_cpu_op"] == 0
            if node.name.startswith("forward of "):
                unit = node.name.removeprefix("forward of ")
                gathers = [one for one in node.data_deps if f"all-gather of {unit}" in names[one]]
                gathered += len(gathers)
        assert gathered == len({one for one in names.values() if one.startswith("forward of ")})


def test_a_message_has_one_tag_on_both_ranks(tmp_path, messages):
    ways = Counter()
    for rank in exported("parallel/1f1b", tmp_path).ranks:
        for node, of in read(tmp_path / f"et.{rank.rank}.et", messages)[1]:
            if node.type in (chakra.SEND, chakra.RECEIVE):
                ways[of["comm_src"], of["comm_dst"], of["comm_tag"], of["comm_size"]] += 1
    assert set(ways.values()) == {2}
    assert len({tag for _, _, tag, _ in ways}) == len(ways)


def test_copies_are_loads_and_stores_of_their_size(tmp_path, messages):
    [first, *_] = exported("infinity/stage-3", tmp_path).ranks
    copies = [e for e in first.events if e.iteration == 0 and e.kind is Kind.COPY]
    nodes = read(tmp_path / "et.0.et", messages)[1]
    found = [of["tensor_size"] for node, of in nodes if node.type in (chakra.LOAD, chakra.STORE)]
    assert sorted(found) == sorted(event.payload_bytes for event in copies)
    ups = [node.name for node, _ in nodes if node.type == chakra.LOAD]
    assert {name.rpartition(", ")[2] for name in ups} == {"disk to host", "host to device"}
