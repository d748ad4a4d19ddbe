"""`zerosim serve`: starts, answers, ends quietly; what is wrong is one line."""

from __future__ import annotations

import json
import re
import signal
import socket
import time
import urllib.request

import pytest

from tests.cli.command import assert_one_line, command, start
from tests.cli.traces import engine_trace, write
from tests.deadlines import RANKS_S

ANYWHERE = "0.0.0.0"  # noqa: S104 - what is warned of


@pytest.mark.parametrize(
    ("args", "words"),
    [
        ("serve nowhere", ("nowhere: there is no such folder", "zerosim run")),
        ("serve nowhere --port 70000", ("port is 70000", "0 to 65535")),
        ("serve . --port -1", ("port is -1", "65535")),
        ("serve . --port x", ("port is 'x'", "whole number")),
        ("serve . --host no.such.host.invalid --port 0", ("no.such.host.invalid", "this machine")),
        ("serve . --host 203.0.113.7 --port 0", ("203.0.113.7", "this machine")),
        ("serve . --frob", ("--frob", "zerosim serve --help")),
        ("replay nowhere", ("nowhere: there is no such folder", "check the path")),
        ("replay .", ("it has no manifest.json", "check the path")),
    ],
)
def test_wrong_words(tmp_path, monkeypatch, args, words):
    monkeypatch.chdir(tmp_path)
    assert_one_line(command(*args.split()), *words)


def test_without_a_folder_the_lessons_are_served(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    process = start("serve", "--port", 0)
    try:
        url = re.search(r"http://127\.0\.0\.1:\d+", process.stdout.readline())[0]
        with urllib.request.urlopen(f"{url}/lessons/zero3") as answer:  # noqa: S310 - our own server
            assert b"ZeRO-3" in answer.read()
        write(tmp_path / "traces" / "t", engine_trace(3))
        names = []
        end = time.monotonic() + RANKS_S
        while names != ["t"] and time.monotonic() < end:
            with urllib.request.urlopen(f"{url}/api/traces") as answer:  # noqa: S310 - likewise
                names = [one["name"] for one in json.load(answer)["traces"]]
        assert names == ["t"]
    finally:
        process.terminate()
        _, err = process.communicate(timeout=RANKS_S)
    assert "no trace in traces yet" in err


def test_one_iteration_of_a_run_is_replayed(tmp_path):
    folder = write(tmp_path / "t", engine_trace(3))
    assert_one_line(
        command("replay", folder, "--iteration", 7), "iteration is 7: expected one of 0 to 1"
    )
    process = start("replay", folder, "--iteration", 0, "--no-open")
    try:
        line = process.stdout.readline()
        address = re.search(r"http://127\.0\.0\.1:\d+/replay\?trace=t&iteration=0", line)[0]
        with urllib.request.urlopen(address) as answer:  # noqa: S310 - our own server
            assert b"Replay" in answer.read()
    finally:
        process.terminate()
        process.communicate(timeout=RANKS_S)


def test_a_file_is_no_folder(tmp_path):
    (tmp_path / "file").write_text("")
    assert_one_line(command("serve", tmp_path / "file"), "this is a file")


def test_a_port_that_is_taken(tmp_path):
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        port = taken.getsockname()[1]
        answer = command("serve", tmp_path, "--port", port)
    assert_one_line(answer, f"port {port} is in use", "--port 0")


@pytest.mark.parametrize("stop", [signal.SIGINT, signal.SIGTERM])
def test_it_serves_until_it_is_stopped(tmp_path, stop):
    # as a shell starts what a script has in the background: with Ctrl-C ignored
    ignoring = ("sh", "-c", "trap '' INT; exec \"$@\"", "sh")
    process = start(
        *("serve", tmp_path, "--port", 0, "--open"),
        before=ignoring,
        DISPLAY="",
        WAYLAND_DISPLAY="",
    )
    try:
        line = process.stdout.readline()
        url = re.fullmatch(r"serving 0 traces on (http://127\.0\.0\.1:\d+) \(Ctrl-C .*\)\n", line)[
            1
        ]
        write(tmp_path / "t", engine_trace(3))
        end = time.monotonic() + RANKS_S
        names = []
        while names != ["t"] and time.monotonic() < end:
            with urllib.request.urlopen(f"{url}/api/traces") as answer:  # noqa: S310 - our own server
                names = [one["name"] for one in json.load(answer)["traces"]]
        assert names == ["t"]
        with urllib.request.urlopen(url) as answer:  # noqa: S310 - likewise
            assert answer.url == f"{url}/replay?trace=t"
            assert "Server" not in answer.headers
    finally:
        process.send_signal(stop)
        out, err = process.communicate(timeout=RANKS_S)
    assert out == ""
    assert "Traceback" not in err
    assert err.strip() == (
        f"note: no trace in {tmp_path} yet: runs appear here once recorded; the lessons' runs "
        "are shown until then"
    )
    assert process.returncode in (0, -stop)


def test_who_serves_a_network_is_told(tmp_path):
    process = start("serve", tmp_path, "--port", 0, "--host", ANYWHERE)
    try:
        assert "http://127.0.0.1:" in process.stdout.readline()
    finally:
        process.terminate()
        _, err = process.communicate(timeout=RANKS_S)
    assert "note: served on 0.0.0.0: anyone who can reach this machine can read" in err
    assert re.search(r"at http://[^/ ]+:\d+$", err.splitlines()[0])
