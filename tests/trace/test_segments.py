"""The file of a light trace: a window that is whole whenever its rank is killed."""

from __future__ import annotations

import multiprocessing
import os
import random
import shutil
import signal
import time
from pathlib import Path

import pytest

from zerosim.base.errors import TraceError
from zerosim.record import iterations, load, match_collectives
from zerosim.schema.events import (
    SCHEMA_VERSION,
    Algorithm,
    Close,
    Event,
    Group,
    Header,
    Kind,
    Metric,
    Op,
    Phase,
    WireSample,
)
from zerosim.schema.manifest import Manifest
from zerosim.schema.rows import MANIFEST_NAME, earlier_file_name, encode_manifest
from zerosim.trace import segments
from zerosim.trace.segments import SegmentedFile

KEEP = 3


def write_manifest(folder, num_ranks=1):
    manifest = Manifest(
        schema=SCHEMA_VERSION,
        created="",
        program="",
        num_ranks=num_ranks,
        backend="gloo",
        device="cpu",
    )
    (folder / MANIFEST_NAME).write_bytes(encode_manifest(manifest))


def begin(folder, rank=0, num_ranks=1, keep=KEEP):
    header = Header(
        schema=SCHEMA_VERSION,
        rank=rank,
        num_ranks=num_ranks,
        local_rank=rank,
        host="h",
        pid=1,
        device="cpu",
        clock_ns=0,
        wall_ns=0,
    )
    file = SegmentedFile(folder, header, keep=keep)
    file.write("group", Group(name="g", backend="gloo", ranks=tuple(range(num_ranks))))
    return file


def write_iteration(file, number, rank=0, calls=1):
    """A forward with some collectives, and what comes after it."""
    file.enters(number)
    sample = {"iteration": number, "micro_step": 0, "time_ns": number, "counters": ()}
    file.write("wire", WireSample(phase=Phase.FORWARD, **sample))
    for each in range(calls):
        place = number * calls + each
        event = Event(
            id=place,
            rank=rank,
            kind=Kind.COLLECTIVE,
            iteration=number,
            phase=Phase.FORWARD,
            op=Op.ALL_REDUCE,
            algorithm=Algorithm.GLOO,
            group="g",
            sequence=place,
            payload_bytes=4,
            issue_ns=number,
        )
        file.write("open", event)
        file.write("close", Close(id=place, start_ns=number, end_ns=number))
    file.write("wire", WireSample(phase=Phase.OUTSIDE, **sample))


def kept(trace, rank=0):
    return sorted({event.iteration for event in trace.ranks[rank].events})


@pytest.mark.parametrize("last", [1, KEEP - 1, KEEP, 2 * KEEP, 2 * KEEP + 1, 10 * KEEP + 2])
def test_the_last_iterations_are_kept_whole(tmp_path, last):
    write_manifest(tmp_path)
    file = begin(tmp_path)
    for number in range(last + 1):
        write_iteration(file, number)
    file.close(0)
    trace = load(tmp_path, strict=True)
    first = max(0, last // KEEP - 1) * KEEP
    assert kept(trace) == list(range(first, last + 1))
    assert iterations(trace) == tuple(range(first, last + 1))
    assert trace.ranks[0].begins == (first or None)
    assert not match_collectives(trace).mismatches


def test_a_call_that_began_in_what_is_gone_is_left_out(tmp_path):
    write_manifest(tmp_path)
    file = begin(tmp_path)
    long = Event(id=10**6, rank=0, kind=Kind.MARK, iteration=0, phase=Phase.FORWARD, issue_ns=0)
    file.enters(0)
    file.write("open", long)
    for number in range(1, 3 * KEEP):
        write_iteration(file, number)
    file.write("close", Close(id=long.id, start_ns=0, end_ns=1))
    file.close(0)
    trace = load(tmp_path, strict=True)
    assert long.id not in {event.id for event in trace.ranks[0].events}


class Killed(BaseException):
    """In place of a signal."""


@pytest.mark.parametrize("stage", ["create", "write", "earlier", "move"])
@pytest.mark.parametrize("is_done", [False, True])
def test_a_rank_that_is_killed_while_a_segment_begins_leaves_all_it_had(
    tmp_path, monkeypatch, stage, is_done
):
    write_manifest(tmp_path)
    file = begin(tmp_path)
    for number in range(3 * KEEP):
        write_iteration(file, number)

    def killed(function):
        def call(*args, **kwargs):
            if is_done:
                function(*args, **kwargs)
            raise Killed

        return call

    place, name = {
        "create": (segments.RowFile, "__init__"),
        "write": (segments.RowFile, "append"),
        "earlier": (Path, "replace"),
        "move": (segments.RowFile, "move"),
    }[stage]
    with monkeypatch.context() as patched:
        patched.setattr(place, name, killed(getattr(place, name)))
        with pytest.raises(Killed):
            file.enters(3 * KEEP)
    left = tmp_path / "left"
    shutil.copytree(tmp_path, left)
    trace = load(left)
    assert trace.warnings
    first = KEEP if stage in ("create", "write") or (stage == "earlier" and not is_done) else None
    expected = range(first or 2 * KEEP, 3 * KEEP)
    assert kept(trace) == list(expected)


def write_until_killed(folder):
    file = begin(folder)
    number = 0
    while True:
        file.enters(number)
        file.write("metric", Metric(iteration=number, name="n", value=number, time_ns=0))
        number += 1


ENOUGH, MOST = 30, 100
"""Kills, as soon as one came late enough; and in any case."""


def test_kills_at_random_moments(tmp_path):
    fork = multiprocessing.get_context("fork")
    chance = random.Random(0)  # noqa: S311 - moments, no secrets
    longest = 0
    for attempt in range(MOST):
        if attempt >= ENOUGH and longest > 2 * KEEP:
            break
        folder = tmp_path / str(attempt)
        folder.mkdir()
        write_manifest(folder)
        child = fork.Process(target=write_until_killed, args=(folder,))
        child.start()
        while not list(folder.glob("rank-*")):
            time.sleep(0.001)
        time.sleep(chance.random() * 0.02)
        os.kill(child.pid, signal.SIGKILL)
        child.join()
        if not any(path.read_bytes().strip(b"\0") for path in folder.glob("rank-*")):
            continue  # before its first row
        trace = load(folder)
        numbers = [metric.iteration for metric in trace.ranks[0].metrics]
        assert numbers == list(range(numbers[0], numbers[-1] + 1)) if numbers else True
        begins = trace.ranks[0].begins
        if begins is not None:
            assert numbers[0] == begins
            assert len(numbers) >= KEEP
            longest = max(longest, numbers[-1])
    assert longest > 2 * KEEP


def test_ranks_that_kept_different_iterations_are_cut_to_those_of_all(tmp_path):
    write_manifest(tmp_path, 2)
    for rank, last in ((0, 3 * KEEP + 1), (1, 3 * KEEP - 1)):
        file = begin(tmp_path, rank, 2)
        for number in range(last + 1):
            write_iteration(file, number, rank)
    trace = load(tmp_path)
    assert kept(trace, 0) == list(range(2 * KEEP, 3 * KEEP + 2))
    assert kept(trace, 1) == list(range(2 * KEEP, 3 * KEEP))
    # of its last iteration the second rank did not say that it is over
    assert iterations(trace) == tuple(range(2 * KEEP, 3 * KEEP - 1))
    matching = match_collectives(trace)
    assert {mismatch.kind.name for mismatch in matching.mismatches} == {"STOPPED"}
    assert len(matching.collectives) == KEEP + 2


def test_a_program_without_iterations_is_bounded_too(tmp_path, monkeypatch):
    monkeypatch.setattr(segments, "_MOST_BYTES", 20_000)
    write_manifest(tmp_path, 2)
    for rank, more in ((0, 0), (1, 7)):
        file = begin(tmp_path, rank, 2)
        for _ in range(more):  # so that one throws rows away earlier than the other
            file.write("metric", Metric(iteration=-1, name="n", value=0.0, time_ns=0))
        for number in range(1000):
            event = Event(
                id=number,
                rank=rank,
                kind=Kind.COLLECTIVE,
                iteration=-1,
                phase=Phase.OUTSIDE,
                op=Op.ALL_REDUCE,
                algorithm=Algorithm.GLOO,
                group="g",
                sequence=number,
                payload_bytes=4,
                issue_ns=number,
            )
            file.write("open", event)
            file.write("close", Close(id=number, start_ns=number, end_ns=number))
        file.close(0)
    assert sum(path.stat().st_size for path in tmp_path.iterdir()) < 2 * 2 * 21_000
    trace = load(tmp_path, strict=True)
    matching = match_collectives(trace)
    assert not matching.mismatches
    assert 0 < len(matching.collectives) < 1000
    assert max(one.key.sequence for one in matching.collectives) == 999


def test_what_is_missing_or_damaged_is_found(tmp_path):
    write_manifest(tmp_path)
    file = begin(tmp_path)
    for number in range(2 * KEEP + 1):
        write_iteration(file, number)
    file.close(0)
    earlier = tmp_path / earlier_file_name(0)
    content = earlier.read_bytes()
    earlier.write_bytes(content[: content.rindex(b"\n", 0, -1) + 1])
    with pytest.raises(TraceError, match="it follows a file that ends with checksum"):
        load(tmp_path)
    earlier.write_bytes(content.replace(b'"payload_bytes":4', b'"payload_bytes":5', 1))
    with pytest.raises(TraceError, match="checksum"):
        load(tmp_path)
    earlier.unlink()
    assert kept(load(tmp_path, strict=True)) == [2 * KEEP]
