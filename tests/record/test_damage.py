"""Whatever happens to the bytes of a trace, loading says so and loses nothing in silence.

Rank 0 of this one writes schema 1, rank 1 schema 2, rank 2 the current one, with short rows.
"""

import json
import random
import tempfile
import zlib
from collections import Counter
from dataclasses import fields, replace
from functools import cache
from itertools import accumulate
from pathlib import Path

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from tests import strategies as draw
from tests.record.samples import event, refusal, rows
from zerosim.base.errors import TraceError
from zerosim.record import Trace, load
from zerosim.schema.events import (
    Close,
    Failure,
    Metric,
    Occurrence,
    Op,
    Phase,
    Socket,
    Transfer,
    WireDelta,
    WireSample,
)
from zerosim.schema.memory import Holding, MemorySample, Moment, Role
from zerosim.schema.shortrows import (
    BEGIN,
    MARK,
    RECORD,
    SEAL,
    SIZE,
    begin_row,
    close_row,
    happened_row,
    memory_row,
    transfer_row,
)

NAMES = ("manifest.json", "rank-0.jsonl", "rank-1.jsonl", "rank-2.jsonl")
SHORT_RANK, SEALED_AFTER = 2, 3


def _written():
    extra = [
        ("socket", Socket(index=0, local="127.0.0.1:1", remote="127.0.0.1:2")),
        ("open", event(0, 7, tensors=("blocks.0.weight", "é\u2028"), source="train.py:4 in step")),
        (
            "wire",
            WireSample(
                iteration=0,
                micro_step=0,
                phase=Phase.UPDATE,
                time_ns=4,
                counters=(WireDelta(0, 100, 200),),
            ),
        ),
        ("metric", Metric(iteration=0, name="loss", value=2.5, time_ns=5)),
        (
            "failure",
            Failure(
                message="rank 1 is gone",
                iteration=0,
                phase=Phase.UPDATE,
                unit="",
                op=None,
                purpose=None,
                waiting_for=(1,),
                peer_lost=True,
                time_ns=6,
            ),
        ),
    ]
    first = [("header", replace(draw.header(0, 3), schema=1)), *rows(0, 3)[1:], *extra]
    header, *second = _said_once(rows(1, 3))
    second = [("header", replace(header[1], schema=2)), *second]
    third = draw.with_places([*_said_once(rows(2, 3)), *_frequent(3)])
    return draw.Written(draw.manifest(3), {0: first, 1: second, 2: third})


def _frequent(first):
    """Rows that fit short ones."""
    found = []
    for number, place in enumerate(range(first, first + 4)):
        one = Occurrence(template=0, id=place, iteration=number - 1, issue_ns=10 * place)
        sample = MemorySample(
            number=number,
            event=place,
            moment=Moment.BEGIN,
            iteration=number - 1,
            micro_step=0,
            phase=Phase.FORWARD,
            time_ns=10 * place + 2,
            changes=tuple(
                Holding(role, "blocks.0", 100 * number) for role in list(Role)[: number % 3]
            ),
        )
        end = Close(id=place, start_ns=10 * place + 1, end_ns=10 * place + 5)
        message = Transfer(
            id=place + 10,
            parent=place,
            op=Op.SEND,
            peer=1,
            elements=3,
            payload_bytes=12,
            start_ns=10 * place + 3,
            end_ns=10 * place + 4 if number % 2 else None,
            hop=number,
        )
        found += [("begin", one), ("memory", sample), ("transfer", message), ("close", end)]
    wait = Occurrence(template=0, id=30, parent=3, iteration=0, issue_ns=9, start_ns=9, end_ns=20)
    return [*found, ("happened", wait)]


def _said_once(whole):
    """The same rows as they are written by now."""
    ways = {"open": "begin", "event": "happened"}
    said = []
    for name, record in whole:
        if name in ways:
            template, occurrence = draw.said_once(record, number=record.id)
            said += [("template", template), (ways[name], occurrence)]
        else:
            said.append((name, record))
    return said


def _encoded(written):
    files = draw.trace_files(written)
    name = f"rank-{SHORT_RANK}.jsonl"
    rows = draw.ended(written.rows[SHORT_RANK])
    return files | {name: draw.encode_rows(rows, sealed_after=SEALED_AFTER)}


FILES = _encoded(_written())


def outcome(files, *, strict):
    """What loading these files gives: a trace, or a TraceError with a message of one line."""
    with tempfile.TemporaryDirectory() as folder:
        draw.write_files(Path(folder), files)
        try:
            return load(folder, strict=strict)
        except TraceError as error:
            message = str(error)
            assert len(message.splitlines()) == 1
            assert message.isprintable()
            return error


def content(trace):
    return trace.manifest, trace.ranks, trace.warnings


@cache
def original():
    trace = outcome(FILES, strict=True)
    assert isinstance(trace, Trace)
    return content(trace)


@cache
def after(rank, num_rows):
    """The events of a rank whose file ends, in order, after so many rows."""
    written = _written()
    cut = {**written.rows, rank: written.rows[rank][:num_rows]}
    trace = outcome(_encoded(draw.Written(written.manifest, cut)), strict=True)
    assert isinstance(trace, Trace)
    return trace.ranks[rank]


def check(files):
    """No silent loss, and nothing but a TraceError."""
    strict = outcome(files, strict=True)
    if isinstance(strict, Trace):
        assert content(strict) == original()
    lenient = outcome(files, strict=False)
    if isinstance(lenient, TraceError):
        assert isinstance(strict, TraceError)
        return "refused"
    assert lenient.manifest == original()[0]
    if content(lenient) == original():
        assert isinstance(strict, Trace)
        return "unharmed"
    assert isinstance(strict, TraceError)
    by_rank = {rank.rank: rank for rank in lenient.ranks}
    for whole in original()[1]:
        found = by_rank.get(whole.rank)
        if found == whole:
            continue
        assert sum(line.startswith(f"rank {whole.rank}:") for line in lenient.warnings) == 1
        if found is not None:
            assert not found.complete
            assert found.num_rows < whole.num_rows
            kept = after(whole.rank, found.num_rows)
            for field in fields(found):
                if field.name not in ("num_rows", "complete"):
                    assert getattr(found, field.name) == getattr(kept, field.name)
    return "warned"


def damaged(name, change):
    return FILES | {name: change(FILES[name])}


def test_the_trace_itself_is_whole():
    assert check(FILES) == "unharmed"


@pytest.mark.parametrize("every", [7, pytest.param(1, marks=pytest.mark.long)])
@pytest.mark.parametrize("name", NAMES[1:])
def test_cut_at_any_byte(name, every):
    """At each where a row ends and at some within; `make test-long` cuts at all."""
    whole = FILES[name]
    ends = {at + near for at in accumulate(map(len, lines_of(name))) for near in (-2, -1, 0)}
    places = sorted({*range(0, len(whole), every), *ends} - {len(whole)})
    found = [check(damaged(name, lambda text, at=at: text[:at])) for at in places]
    assert set(found) == {"warned"}


def test_a_manifest_cut_at_any_byte():
    text = FILES["manifest.json"]
    found = [check(FILES | {"manifest.json": text[:at]}) for at in range(len(text))]
    # only the newline after the last brace can be missed
    assert found == ["refused"] * (len(text) - 1) + ["unharmed"]


@pytest.mark.parametrize("name", NAMES[1:])
@given(data=st.data())
def test_any_byte_flipped(name, data):
    at = data.draw(st.integers(0, len(FILES[name]) - 1))
    mask = data.draw(st.integers(1, 255))

    def flip(text):
        return text[:at] + bytes([text[at] ^ mask]) + text[at + 1 :]

    # a newline more or less at the very end looks like a file that was cut, and so does a zero
    last_line = len(FILES[name]) - len(lines_of(name)[-1]) - 1
    is_last = at > last_line or (at == last_line and mask == ord("\n"))
    assert check(damaged(name, flip)) in (("refused", "warned") if is_last else ("refused",))


@given(st.integers(0, len(FILES["manifest.json"]) - 1), st.integers(1, 255))
def test_any_byte_of_the_manifest_flipped(at, mask):
    text = bytearray(FILES["manifest.json"])
    text[at] ^= mask
    # another white space is no damage: the checksum covers what JSON says
    assert check(FILES | {"manifest.json": bytes(text)}) in ("refused", "unharmed")


@cache
def lines_of(name):
    """The rows and seals of a file."""
    text, found = FILES[name], []
    while text:
        size = SIZE if text[0] in range(BEGIN, SEAL + 1) else text.index(b"\n") + 1
        found.append(text[:size])
        text = text[size:]
    return found


@pytest.mark.parametrize("name", NAMES[1:])
def test_any_line_deleted(name):
    lines = lines_of(name)
    for at in range(len(lines)):
        found = check(FILES | {name: b"".join(lines[:at] + lines[at + 1 :])})
        assert found == ("warned" if at == len(lines) - 1 else "refused")


@pytest.mark.parametrize("name", NAMES[1:])
def test_any_line_doubled(name):
    lines = lines_of(name)
    for at in range(len(lines)):
        assert check(FILES | {name: b"".join([*lines[: at + 1], *lines[at:]])}) == "refused"


@pytest.mark.parametrize("name", NAMES[1:])
def test_any_two_lines_swapped(name):
    for a in range(len(lines_of(name))):
        for b in range(a):
            lines = [*lines_of(name)]
            lines[a], lines[b] = lines[b], lines[a]
            found = check(FILES | {name: b"".join(lines)})
            # two messages of no duration may have equal second records
            assert found == ("unharmed" if lines[a] == lines[b] else "refused")


@pytest.mark.parametrize("name", NAMES)
def test_any_line_of_another_rank_inserted(name):
    other = lines_of("rank-1.jsonl" if name == "rank-0.jsonl" else "rank-0.jsonl")
    lines = lines_of(name)
    # the headers differ, so the checksums of all later lines do
    for at in range(1, len(lines) + 1):
        for line in other[1:]:
            found = check(FILES | {name: b"".join([*lines[:at], line, *lines[at:]])})
            assert found == "refused"


@pytest.mark.parametrize("name", NAMES)
@given(junk=st.binary(max_size=200), at=st.floats(0, 1), length=st.integers(0, 300))
@example(junk=b"", at=0.0, length=10**9)
@example(junk=b"\n", at=0.0, length=10**9)
@example(junk=b"\n", at=1.0, length=0)
def test_random_bytes_anywhere(name, junk, at, length):
    start = int(at * len(FILES[name]))
    check(damaged(name, lambda text: text[:start] + junk + text[start + length :]))


@given(st.dictionaries(st.sampled_from(NAMES), st.none() | st.binary(max_size=60), min_size=1))
def test_files_replaced_or_removed(replaced):
    files = {name: text for name, text in FILES.items() if replaced.get(name, b"") is not None}
    check(files | {name: text for name, text in replaced.items() if text is not None})


def _zeroed(text, start, end):
    return text[:start] + bytes(end - start) + text[end:]


RANDOM_DAMAGE = {
    "flip": lambda text, a, b, chance: (
        text[:a] + bytes([text[a] ^ chance.randint(1, 255)]) + text[a + 1 :]
    ),
    "drop": lambda text, a, b, chance: text[:a] + text[b:],
    "double": lambda text, a, b, chance: text[:b] + text[a:],
    "move": lambda text, a, b, chance: text[:a] + text[b:] + text[a:b],
    "cut": lambda text, a, b, chance: text[:a],
    "zeros at the end": lambda text, a, b, chance: _zeroed(text, a, len(text)),
    "zeros within": lambda text, a, b, chance: _zeroed(text, a, b),
    "room after a cut": lambda text, a, b, chance: text[:a] + bytes(chance.randint(1, 9999)),
}


def damage_at_random(seeds):
    """How often it was found in which way; `check` refuses a damage that passes in silence."""
    found = Counter()
    for seed in seeds:
        chance = random.Random(seed)  # noqa: S311 - any seed will do, but always the same
        name, what = chance.choice(NAMES[1:]), chance.choice(list(RANDOM_DAMAGE))
        text = FILES[name]
        a, b = sorted(chance.randrange(len(text) + 1) for _ in range(2))
        harmed = RANDOM_DAMAGE[what](text, min(a, len(text) - 1), b, chance)
        if harmed == text:
            continue
        try:
            ending = check(FILES | {name: harmed})
        except BaseException as error:
            error.add_note(f"seed {seed}: {what} {a} to {b} of {name}")
            raise
        # zeros after the whole of it say nothing
        assert ending != "unharmed" or harmed.rstrip(b"\0") == text
        found[ending] += 1
    return found


def test_random_damage_is_found():
    assert damage_at_random(range(60)).keys() == {"refused", "warned"}


@pytest.mark.long
@pytest.mark.timeout(3600)
def test_much_random_damage_is_found():
    assert damage_at_random(range(60, 1260)).total() > 1000


# -------------------------------------------------- rows with a right checksum, hostile content


def chained(bodies):
    """A rank's file whose checksums are right, whatever its rows say."""
    crc, lines = 0, []
    for body in bodies:
        crc = zlib.crc32(body, crc)
        lines.append(body + b',"crc":"%08x"}\n' % crc)
    return b"".join(lines)


_ids = st.integers(0, 12) | st.integers(0, 2**32 - 1)
_records = st.tuples(
    *(st.integers(BEGIN, SEAL - 1), st.integers(0, 2**16 - 1), _ids, _ids, _ids, _ids),
    *(st.integers(0, 2**64 - 1), st.just(MARK)),
)


@given(st.lists(_records, max_size=8))
def test_hostile_records_at_the_end_are_a_trace_or_refused(records):
    """No checksum follows, as if the rank had been killed."""
    name = f"rank-{SHORT_RANK}.jsonl"
    *rows, _ = lines_of(name)
    content = b"".join([*rows, *(RECORD.pack(*one) for one in records)])
    found = outcome(FILES | {name: content}, strict=False)
    assert isinstance(found, (Trace, TraceError))


ABSURD_ROWS = {
    "the peer": transfer_row((90, 3), Op.SEND, 7, (1, 4), (5, 6), (0, 0)),
    "the shard": transfer_row((90, 3), Op.SEND, 1, (1, 4), (5, 6), (0, 2**31)),
    "the bytes": transfer_row((90, 3), Op.SEND, 1, (1, 2**60), (5, 6), (0, 0)),
    "the collective": transfer_row((90, 91), Op.SEND, 1, (1, 4), (5, 6), (0, 0)),
    "the end of a message": transfer_row((90, 3), Op.SEND, 1, (1, 4), (5, 4), (0, 0)),
    "a late end of a message": transfer_row((90, 3), Op.SEND, 1, (1, 4), (5, 2**63), (0, 0)),
    "a late time of issue": begin_row(0, 90, 0, 0, None, 2**63),
    "the end of an event": begin_row(0, 90, 0, 0, None, 100) + close_row(90, 5, 50),
    "a late end of an event": begin_row(0, 90, 0, 0, None, 100) + close_row(90, 5, 2**63),
    "the end of a wait": happened_row(0, 90, 3, (0, 0), 100, 50),
    "the time of a sample": memory_row(4, 3, Moment.END, (0, 0, Phase.FORWARD), 2**63, []),
    "the size of a sample": memory_row(4, 3, Moment.END, (0, 0, Phase.FORWARD), 9, [(0, 2**60)]),
}


@pytest.mark.parametrize("what", ABSURD_ROWS)
def test_a_short_row_has_the_bounds_of_a_line(what):
    name = f"rank-{SHORT_RANK}.jsonl"
    *rows, _ = lines_of(name)
    found = outcome(FILES | {name: b"".join([*rows, ABSURD_ROWS[what]])}, strict=False)
    assert isinstance(found, TraceError)
    assert "expected" in str(found)


HEADER = lines_of("rank-0.jsonl")[0].rpartition(b',"crc"')[0]
EVENT = b'{"row":"event","id":1,"rank":0,"kind":"mark","iteration":0,"phase":"setup","issue_ns":5'
MEMORY = (
    b'{"row":"memory","number":%d,"event":%s,"moment":"phase","iteration":0,"micro_step":0,'
    b'"phase":"setup","time_ns":5,"changes":[]'
)
ALLOCATIONS = b'{"row":"allocations","numbers":[0]'
HOSTILE = {
    "nested": EVENT + b',"x":' + b"[" * 100_000,
    "nested in a field": EVENT + b',"peers":' + b"[" * 100_000 + b"]" * 100_000,
    "huge number": EVENT + b',"id":' + b"9" * 5000,
    "huge float": EVENT + b',"id":1e999999',
    "a fraction": EVENT + b',"payload_bytes":1.5',
    "a boolean for a number": EVENT + b',"payload_bytes":true',
    "a string for a number": EVENT + b',"payload_bytes":"7"',
    "null": EVENT + b',"payload_bytes":null',
    "no text": EVENT + b',"source":"\xff\xfe"',
    "half a surrogate": EVENT + b',"source":"\\ud800"',
    "a zero byte": EVENT + b',"source":"\x00"',
    "unknown kind": EVENT + b',"kind":"teleport\\n\\u2028"',
    "not closed": EVENT + b',"source":"abc',
    "array": b'{"row":"event",[1]',
    "only a row": b'{"row":"event"',
    "unknown row": b'{"row":"surprise","id":1',
    "row not first": b'{"id":1,"row":"event"',
    "no row": b"{",
    "nothing": b"",
    "two rows in one": EVENT + b'{"row":"metric"',
    "bad wire": EVENT + b',"wire":[{"socket":0}]',
    "carriage return": EVENT + b',"source":"a\rb"',
    "metric of words": b'{"row":"metric","iteration":0,"name":"x","value":"much","time_ns":0',
    "memory out of order": MEMORY % (7, b"null"),
    "memory of an unknown event": MEMORY % (0, b"5"),
    "memory for nothing": MEMORY % (0, b"null")
    + b',"changes":[{"role":"fun","unit":"","bytes":1}]',
    "allocations without samples": ALLOCATIONS + b',"allocated_bytes":[1],"peak_bytes":[1]',
    "allocations of two lengths": ALLOCATIONS + b',"allocated_bytes":[],"peak_bytes":[1]',
    "a template of nothing": b'{"row":"template","number":0',
    "a template of no kind": b'{"row":"template","number":0,"phase":"setup","kind":7',
    "a template without a number": b'{"row":"template","phase":"setup","kind":"mark"',
    "an occurrence of nothing": b'{"row":"begin","template":0,"id":1,"iteration":0,"issue_ns":5',
    "end without count": b'{"row":"end","time_ns":0',
}


@pytest.mark.parametrize("strict", [False, True])
@pytest.mark.parametrize("what", HOSTILE)
def test_a_row_that_is_no_record(what, strict, tmp_path):
    files = FILES | {"rank-0.jsonl": chained([HEADER, HOSTILE[what]])}
    message = refusal(draw.write_files(tmp_path, files), strict=strict)
    assert "rank-0.jsonl, row 2: " in message
    assert len(message) <= 600


def test_the_row_that_the_hostile_ones_vary_is_good(tmp_path):
    files = FILES | {"rank-0.jsonl": chained([HEADER, EVENT, EVENT.replace(b'"id":1', b'"id":2')])}
    trace = load(draw.write_files(tmp_path, files))
    assert [found.id for found in trace.ranks[0].events] == [1, 2]


def manifest_of(plain):
    text = json.dumps(plain, sort_keys=True, separators=(",", ":")).encode()
    return json.dumps(plain | {"crc": f"{zlib.crc32(text):08x}"}).encode()


GOOD = json.loads(FILES["manifest.json"])
del GOOD["crc"]
BAD_MANIFESTS = {
    "empty": b"",
    "binary": bytes(range(256)),
    "utf-16": FILES["manifest.json"].decode().encode("utf-16"),
    "nested": b"[" * 200_000,
    "nested objects": b'{"a":' * 200_000,
    "huge number": b'{"schema":' + b"1" * 5000 + b"}",
    "array": b"[]",
    "number": b"1",
    "null": b"null",
    "no checksum": json.dumps(GOOD).encode(),
    "wrong checksum": json.dumps(GOOD | {"crc": "00000000"}).encode(),
    "checksum of another type": json.dumps(GOOD | {"crc": ["x"]}).encode(),
    "ranks as words": manifest_of(GOOD | {"num_ranks": "two"}),
    "ranks as a boolean": manifest_of(GOOD | {"num_ranks": True}),
    "negative ranks": manifest_of(GOOD | {"num_ranks": -1}),
    "config of another type": manifest_of(GOOD | {"config": [1]}),
    "bad unit": manifest_of(GOOD | {"units": [{"name": "x"}]}),
    "without fields": manifest_of({"schema": 1}),
    "without schema": manifest_of({k: v for k, v in GOOD.items() if k != "schema"}),
    "another schema": manifest_of(GOOD | {"schema": 99}),
    "a nested schema": manifest_of(GOOD | {"schema": [[[["x\n"]]]]}),
}


@pytest.mark.parametrize("what", BAD_MANIFESTS)
def test_a_manifest_that_is_none(what, tmp_path):
    files = FILES | {"manifest.json": BAD_MANIFESTS[what]}
    if what == "utf-16":
        # JSON in another encoding says the same
        assert content(load(draw.write_files(tmp_path, files))) == original()
        return
    assert "manifest.json: " in refusal(draw.write_files(tmp_path, files))


def test_text_that_cannot_be_printed_is_no_obstacle(tmp_path):
    files = FILES | {"manifest.json": manifest_of(GOOD | {"program": "\ud800", "new": 1})}
    assert load(draw.write_files(tmp_path, files)).manifest.program == "\ud800"


def test_a_name_with_line_ends_stays_on_one_line(tmp_path):
    folder = draw.write_files(tmp_path / "a\nb\u2028c", FILES | {"manifest.json": b""})
    assert "a\\nb\\u2028c/manifest.json" in refusal(folder)
