"""One page steers, several watch; a page with the wrong key sees nothing."""

from __future__ import annotations

import json
import socket
import threading
import time
from contextlib import closing

import pytest

from tests.debug.programs import until
from zerosim.base.errors import ConfigError, EnvironmentFault
from zerosim.dashboards.app import make_app
from zerosim.dashboards.documents import Documents
from zerosim.dashboards.library import Library
from zerosim.debug import Controller, Door, Steering
from zerosim.debug.outcomes import StepEnd, Why
from zerosim.debug.steering import NotAllowedError
from zerosim.schema.attach import new_token, proof


class Stepped(Controller):
    """A controller of no ranks, whose steps last until they are let end."""

    def __init__(self):
        self.door = Door()
        self.may_end = threading.Event()
        super().__init__(self.door)

    def _step(self, goal, only):
        self.may_end.wait(600)
        return StepEnd(Why.REACHED, f"went {goal}")


class Silent(Controller):
    """A controller of ranks that answer nothing."""

    def why_waiting(self, rank):
        return f"rank {rank} waits"


@pytest.fixture
def controller():
    made = Stepped()
    yield made
    made.may_end.set()
    made.door.close()


def settled(steering, who):
    """The state once nothing goes any more; the test's own timeout is the limit."""
    while (state := steering.state(steering.key, who))["goes"] or not state["version"]:
        time.sleep(0.01)
    return state


def going(controller):
    """Wait until the step that was asked for is being taken, which is done by another thread."""
    while not controller.is_going:
        time.sleep(0.01)


def test_the_first_that_acts_steers_and_others_watch(controller):
    steering = Steering(controller)
    steering.act(steering.key, "one", "over")
    state = steering.state(steering.key, "two")
    assert (state["steers"], state["others_steer"]) == (False, True)
    with pytest.raises(NotAllowedError, match="another page controls the run"):
        steering.act(steering.key, "two", "over")
    going(controller)
    with pytest.raises(ConfigError, match="already running"):
        controller.run()
    controller.may_end.set()
    assert settled(steering, "one")["lines"] == ["went over"]
    assert steering.state(steering.key, "one")["steers"]
    with pytest.raises(ConfigError, match="command is 'jump': expected one of step, "):
        steering.act(steering.key, "one", "jump")
    steering.act(steering.key, "one", "detach")
    assert steering.state(steering.key, "two")["over"]


def test_who_watches_may_ask_and_not_say_where_ranks_stop(controller):
    steering = Steering(controller)
    controller.may_end.set()
    assert steering.act(steering.key, "one", "break phase=backward").said == [
        '  1: phase == "backward"'
    ]
    assert steering.state(steering.key, "two")["stops"] == {"1": 'phase == "backward"'}
    assert steering.act(steering.key, "two", "print rank").said == []  # of no ranks
    for refused in ("break rank=1", "delete 1", "watch replicas", "check sum", "only 1 over"):
        with pytest.raises(NotAllowedError, match="another page controls the run"):
            steering.act(steering.key, "two", refused)
    steering.act(steering.key, "one", "watch replicas")
    steering.act(steering.key, "one", "watch slow>2.5")
    assert [*steering.state(steering.key, "two")["stops"]] == ["1", "replicas", "slow"]
    for stop in ("1", "replicas", "slow"):
        steering.act(steering.key, "one", f"delete {stop}")
    assert steering.state(steering.key, "two")["stops"] == {}
    with pytest.raises(ConfigError, match=r"watch is 'slow>\.': expected nonfinite, replicas"):
        steering.act(steering.key, "one", "watch slow>.")
    with pytest.raises(ConfigError, match="the command has 2,001 characters"):
        steering.act(steering.key, "one", "x" * 2001)


def test_while_the_ranks_go_nothing_is_asked(controller):
    steering = Steering(controller)
    steering.act(steering.key, "one", "over")
    going(controller)
    with pytest.raises(ConfigError, match="the ranks are running: wait for them"):
        steering.act(steering.key, "two", "where")
    controller.may_end.set()
    settled(steering, "one")


def test_it_is_said_which_ranks_record_on_another_host(tmp_path):
    token = new_token()
    door = Door(token)
    port = int(door.listen_at("127.0.0.1").rpartition(":")[2])
    with (
        closing(door),
        socket.socket(socket.AF_UNIX) as near,
        socket.create_connection(("127.0.0.1", port)) as far,
    ):
        near.connect(str(door.path))
        for rank, one in enumerate((near, far)):
            said = {"rank": rank, "num_ranks": 2, "pid": 1, "folder": str(tmp_path)}
            said |= {"proof": proof(token, door.nonce, rank)}
            one.sendall(json.dumps(said).encode() + b"\n")
        controller = Silent(door, attaches=True)
        until(controller.is_whole)
        steering = Steering(controller)
        state = steering.state(steering.key, "one")
        assert (state["ranks"], state["elsewhere"]) == ([0, 1], [1])


def test_a_page_that_is_closed_steers_no_more(controller, monkeypatch):
    steering = Steering(controller)
    controller.may_end.set()
    steering.act(steering.key, "one", "over")
    monkeypatch.setattr("zerosim.debug.steering._AWAY_S", 0.0)
    settled(steering, "two")
    steering.act(steering.key, "two", "over")
    assert steering.state(steering.key, "two")["steers"]


def test_nothing_is_told_without_the_key(controller, tmp_path):
    steering = Steering(controller)
    app = make_app(Library([tmp_path]), Documents(), steering=steering)
    client = app.test_client()
    assert client.get("/debug?key=wrong").status_code == 403
    assert "the key in the address is wrong" in client.get("/debug").text
    assert client.get("/api/debug?key=wrong&who=a").status_code == 403
    refused = client.post("/api/debug", json={"key": "wrong", "who": "a", "what": "detach"})
    assert refused.status_code == 403
    assert controller.is_attached
    assert client.get(f"/debug?key={steering.key}").status_code == 200
    assert client.get(f"/api/debug?key={steering.key}&who=a").json["over"] is False
    other = {"Origin": "http://elsewhere.example"}
    sent = {"key": steering.key, "who": "a", "what": "detach"}
    assert client.post("/api/debug", json=sent, headers=other).status_code == 403
    assert (
        client.post("/api/debug", json=sent | {"what": "jump"})
        .json["error"]
        .startswith("command is 'jump': expected one of")
    )
    assert client.post("/api/debug", json=sent).status_code == 202
    assert not controller.is_attached


def test_without_held_ranks_there_is_no_such_page(tmp_path):
    client = make_app(Library([tmp_path]), Documents()).test_client()
    assert client.get("/debug").status_code == 404
    assert client.post("/api/debug", json={}).status_code in (404, 405)


def test_who_comes_after_all_were_let_go_is_not_held(controller):
    controller.detach()
    with socket.socket(socket.AF_UNIX) as rank:
        rank.connect(str(controller.door.path))
        hello = {"row": "hello", "rank": 0, "num_ranks": 1, "pid": 1, "folder": "/nowhere"}
        rank.sendall(json.dumps(hello).encode() + b"\n")
        assert json.loads(rank.makefile().readline()) == {"say": "open"}


def test_a_socket_that_cannot_be_made_is_a_line(monkeypatch, tmp_path):
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path / ("long" * 30)))
    (tmp_path / ("long" * 30)).mkdir()
    with pytest.raises(EnvironmentFault, match=r"cannot create a socket in .*try TMPDIR=/tmp"):
        Door()
