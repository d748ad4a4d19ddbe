"""The server on a port: which requests it accepts, and the address that it prints."""

from __future__ import annotations

import json
import socket
import threading
import time
import urllib.request
from contextlib import ExitStack

import pytest

from zerosim.dashboards import server as module
from zerosim.dashboards.classroom import Classroom
from zerosim.dashboards.guard import OWN
from zerosim.dashboards.roomapi import HERE
from zerosim.dashboards.server import Patience, Server

HERE_ONLY = "127.0.0.1"
EVERYWHERE = "0.0.0.0"  # noqa: S104 - what is asked about
ELSEWHERE = "192.168.1.5"
PATIENCE_S = 60


@pytest.fixture
def serve(tmp_path):
    with ExitStack() as opened:

        def make(host=HERE_ONLY, patience=None):
            server = Server([tmp_path], host, 0, patience=patience)
            opened.callback(server.close)
            return server

        yield make


def test_requests_that_nobody_ends_keep_no_other_out(serve):
    server = serve(patience=Patience(most_connections=6, idle_s=1, look_every_s=1))
    thread = threading.Thread(target=server._answer, daemon=True)
    thread.start()
    place = (HERE_ONLY, int(server.url.rpartition(":")[2]))
    with ExitStack() as opened:
        for _ in range(12):
            idle = opened.enter_context(socket.create_connection(place, PATIENCE_S))
            idle.sendall(b"GET / HTTP/1.1\r\nHost: localhost\r\n")
        url = f"{server.url}/api/traces"
        with urllib.request.urlopen(url, timeout=PATIENCE_S) as answer:  # noqa: S310 - our own server
            assert json.load(answer)["traces"] is not None


def test_a_server_ends_when_what_it_makes_beforehand_has_ended(serve, monkeypatch):
    """A process that exits while a thread of its computes may be aborted."""
    made = []

    def slowly(one):
        while not one.has_ended:
            time.sleep(0.01)
        time.sleep(0.2)
        made.append(one)

    monkeypatch.setattr(module, "warm", slowly)
    server = serve()
    running = threading.Thread(target=server.run)
    running.start()
    server._ended.set()
    running.join(PATIENCE_S)
    assert made == [server]


def test_who_asks_for_a_lesson_does_not_wait_for_others_to_be_written(serve, monkeypatch):
    classroom, may_go_on, asked = serve().classroom, threading.Event(), threading.Event()
    write, written = Classroom._write, []

    def slowly(room, lesson, job):
        written.append(lesson.id)
        if lesson.id == "memory":
            asked.set()
            assert may_go_on.wait(PATIENCE_S)
        return write(room, lesson, job)

    monkeypatch.setattr(Classroom, "_write", slowly)
    threads = [threading.Thread(target=classroom.teach, args=("memory",)) for _ in range(2)]
    for thread in threads:
        thread.start()
    assert asked.wait(PATIENCE_S)
    assert classroom.teach("zero3").lesson.id == "zero3"
    assert not may_go_on.is_set()
    may_go_on.set()
    for thread in threads:
        thread.join(PATIENCE_S)
    assert sorted(written) == ["memory", "zero3"]


def test_a_server_at_one_address_is_asked_from_its_own_machine_there(serve):
    """As with --host 192.168.1.5: nothing listens at localhost."""
    client = serve().app.test_client()
    client.application.config |= {OWN: (ELSEWHERE,), HERE: f"http://{ELSEWHERE}:8050/room"}

    def ask(by, host):
        options = {"headers": {"Host": host}, "environ_overrides": {"REMOTE_ADDR": by}}
        page = client.get("/room", **options)
        slot = (
            'id="room-slot" class="room-slot" data-lecturer'
            in client.get("/lessons", **options).text
        )
        assert slot == (page.status_code == 200)
        return client.post("/api/rooms", json={}, **options), page

    opened, page = ask(ELSEWHERE, f"{ELSEWHERE}:8050")
    assert (opened.status_code, page.status_code) == (201, 200)
    for by, host in (("192.168.1.9", ELSEWHERE), (ELSEWHERE, "192.168.1.9")):
        refused, page = ask(by, host)
        assert (refused.status_code, page.status_code) == (403, 403)
        assert refused.json["error"].endswith(f"at http://{ELSEWHERE}:8050/room")
        assert f"at http://{ELSEWHERE}:8050/room" in page.text


def test_where_a_server_says_that_a_room_is_opened(serve):
    one, every = serve(), serve(EVERYWHERE)
    assert one.app.config[OWN] == (HERE_ONLY, HERE_ONLY)
    assert one.app.config[HERE] == f"{one.url}/room"
    assert OWN not in every.app.config
    assert every.app.config[HERE] == f"{every.url}/room"
    assert every.url.startswith(f"http://{HERE_ONLY}:")
