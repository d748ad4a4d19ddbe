"""Every record that can be written is read back as it was."""

import dataclasses
import json
import math
import zlib

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests import strategies as draw
from zerosim.record.schema import (
    DECODERS,
    OtherSchemaError,
    check_header_schema,
    decode_manifest,
)
from zerosim.schema.events import End, Group, Socket
from zerosim.schema.manifest import Manifest
from zerosim.schema.rows import (
    ROW_TYPES,
    check_line,
    encode_manifest,
    encode_row,
    row_text,
    row_writer,
)
from zerosim.schema.rowtext import plain

ROWS = st.one_of(
    st.builds(draw.header, draw.small, draw.small, draw.texts).map(lambda r: ("header", r)),
    st.builds(Group, name=draw.texts, backend=draw.texts, ranks=st.just((0, 3))).map(
        lambda r: ("group", r)
    ),
    st.builds(Socket, index=draw.small, local=draw.texts, remote=draw.texts).map(
        lambda r: ("socket", r)
    ),
    draw.events().map(lambda r: ("event", r)),
    draw.events().map(lambda r: ("open", r)),
    draw.events().map(lambda r: ("template", draw.said_once(r, 3)[0])),
    draw.events().map(lambda r: ("begin", draw.said_once(r, 3)[1])),
    draw.events().map(lambda r: ("happened", draw.said_once(r, 3)[1])),
    draw.closes().map(lambda r: ("close", r)),
    draw.transfers(7, [1, 2], 8).map(lambda r: ("transfer", r)),
    draw.wire_samples.map(lambda r: ("wire", r)),
    draw.interface_samples.map(lambda r: ("interface", r)),
    draw.memory_samples(3, st.none() | draw.small).map(lambda r: ("memory", r)),
    draw.allocations(3).map(lambda r: ("allocations", r)),
    draw.address_maps.map(lambda r: ("addresses", r)),
    draw.metrics.map(lambda r: ("metric", r)),
    draw.failures(8).map(lambda r: ("failure", r)),
    st.builds(End, time_ns=draw.times, num_rows=draw.counts).map(lambda r: ("end", r)),
)


def same(a, b):
    """Equality in which nan equals nan."""
    pairs = zip(dataclasses.astuple(a), dataclasses.astuple(b), strict=True)
    return type(a) is type(b) and all(
        x == y or (isinstance(x, float) and math.isnan(x) and math.isnan(y)) for x, y in pairs
    )


@given(ROWS, st.integers(0, 2**32 - 1))
def test_a_record_comes_back_from_its_row(row, crc):
    name, record = row
    line, expected_crc = encode_row(name, record, crc)
    assert check_line(line[:-1], crc) == (name, expected_crc)
    assert same(DECODERS[name](line), record)


@given(ROWS)
def test_a_row_is_what_the_standard_library_makes_of_its_fields(row):
    name, record = row
    values = {
        field.name: plain(getattr(record, field.name))
        for field in dataclasses.fields(record)
        if getattr(record, field.name) != field.default
    }
    text = json.dumps({"row": name, **values}, separators=(",", ":"))
    assert encode_row(name, record, 0)[0].startswith(text[:-1].encode() + b',"crc":"')


@given(ROWS)
def test_a_row_of_values_is_the_row_of_their_record(row):
    name, record = row
    names = [field.name for field in dataclasses.fields(record)]
    write = row_writer(name, *names)
    assert write(*(getattr(record, one) for one in names)) == row_text(name, record)


@pytest.mark.parametrize("value", [True, 2.5, "7", None, (1, 2), float("inf")])
def test_a_value_of_another_type_than_its_field_is_written_as_it_is(value):
    line, _ = encode_row("end", End(time_ns=value, num_rows=1), 0)
    assert json.loads(line)["time_ns"] == json.loads(json.dumps(plain(value)))


def test_there_is_a_decoder_for_every_row():
    assert DECODERS.keys() == ROW_TYPES.keys()


@given(draw.manifests(st.integers(1, 9)))
def test_a_manifest_comes_back(manifest):
    assert decode_manifest(encode_manifest(manifest)) == manifest


@pytest.mark.parametrize("found", [0, 4, -1, 10**18])
def test_another_schema_is_named(found):
    other = dataclasses.replace(draw.manifest(1), schema=found)
    with pytest.raises(
        OtherSchemaError, match=f"schema {found}; this version reads schemas 1, 2 and 3"
    ):
        decode_manifest(encode_manifest(other))
    line, _ = encode_row("header", dataclasses.replace(draw.header(0, 1), schema=found), 0)
    with pytest.raises(
        OtherSchemaError, match=f"schema {found}; this version reads schemas 1, 2 and 3"
    ):
        check_header_schema(line)


@pytest.mark.parametrize("found", [True, "1", None, 1.0, [1]])
def test_a_manifests_schema_is_a_whole_number(found):
    plain = json.loads(encode_manifest(draw.manifest(1)))
    del plain["crc"]
    plain["schema"] = found
    text = json.dumps(plain, sort_keys=True, separators=(",", ":")).encode()
    plain["crc"] = f"{zlib.crc32(text):08x}"
    with pytest.raises(OtherSchemaError):
        decode_manifest(json.dumps(plain).encode())


@pytest.mark.parametrize("num_ranks", [0, -4])
def test_a_manifest_has_at_least_one_rank(num_ranks):
    text = encode_manifest(draw.manifest(num_ranks))
    with pytest.raises(ValueError, match=f"num_ranks is {num_ranks}, expected 1 to 1048576"):
        decode_manifest(text)


def test_a_manifest_without_a_field_is_refused():
    plain = {"schema": 1}
    text = json.dumps(plain, separators=(",", ":")).encode()
    plain["crc"] = f"{zlib.crc32(text):08x}"
    with pytest.raises(ValueError, match="created"):
        decode_manifest(json.dumps(plain).encode())


def test_manifest_fields_are_all_compared():
    # what the round trip above proves depends on dataclass equality covering each field
    assert all(field.compare for field in dataclasses.fields(Manifest))
