"""The button for Perfetto: off unless it is asked for, and no door for anybody else."""

import pytest

from zerosim.base.errors import ConfigError
from zerosim.dashboards.perfetto import AT, origin_of

COOP = "Cross-Origin-Opener-Policy"
PERFETTO = "https://ui.perfetto.dev"


@pytest.mark.parametrize(
    ("address", "origin"),
    [
        (PERFETTO, PERFETTO),
        (f"{PERFETTO}/", PERFETTO),
        ("http://127.0.0.1:10000", "http://127.0.0.1:10000"),
        ("https://traces.example.org:8443", "https://traces.example.org:8443"),
    ],
)
def test_where_a_perfetto_may_be(address, origin):
    assert origin_of(address) == origin


@pytest.mark.parametrize(
    "address",
    [
        "http://ui.perfetto.dev",
        "https://",
        "https://a@b",
        "https://a/b",
        "https://a?b",
        "https://[",
        "https://a:99999",
        "javascript:1",
    ],
)
def test_where_it_may_not(address):
    with pytest.raises(ConfigError, match="expected the address of a Perfetto"):
        origin_of(address)


def test_it_is_off_unless_it_is_asked_for(client):
    for path in ("/replay", "/graph"):
        answer = client.get(path)
        assert answer.headers[COOP] == "same-origin"
        assert b"perfetto" not in answer.data
    assert client.get("/api/perfetto").status_code == 404


def test_it_changes_two_pages_and_not_what_they_may_load(client):
    before = {
        path: client.get(path).headers["Content-Security-Policy"] for path in ("/replay", "/graph")
    }
    client.application.config[AT] = PERFETTO
    for path, policy in before.items():
        answer = client.get(path)
        assert answer.headers["Content-Security-Policy"] == policy
        assert answer.headers[COOP] == "same-origin-allow-popups"
        assert f'<meta name="perfetto" content="{PERFETTO}">'.encode() in answer.data
        assert b"perfetto" not in client.get(f"{path}?embed=1").data
    assert client.get("/verify").headers[COOP] == "same-origin"
    answer = client.get("/api/perfetto?trace=stage-3")
    assert (answer.status_code, answer.mimetype) == (200, "application/octet-stream")
    assert answer.headers[COOP] == "same-origin"
    assert client.get("/api/perfetto?trace=../stage-3").status_code == 404
