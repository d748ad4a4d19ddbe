"""Each document is made once, however many ask; what is kept is bounded; failures reach all."""

from __future__ import annotations

import gzip
import json
import secrets
import threading
from concurrent.futures import ThreadPoolExecutor

import pytest

from tests.dashboards.samples import entry_of
from zerosim.base.errors import TraceError
from zerosim.dashboards.documents import Documents

ASKING = 30


class Making:
    """Counts what is made; each may be held up."""

    def __init__(self, size: int = 10) -> None:
        self.made: list[tuple[str, int | None]] = []
        self.go_on = threading.Event()
        self.go_on.set()
        self.size = size
        self.problem: Exception | None = None

    def make(self, trace, iteration, name):
        self.made.append((name, iteration))
        assert self.go_on.wait(600)
        if self.problem is not None:
            raise self.problem
        # what cannot be compressed
        return {"name": name, "iteration": iteration, "noise": secrets.token_hex(self.size)}

    def documents(self, most_bytes: int = 10**6) -> Documents:
        return Documents(self.make, lambda folder: folder, most_bytes)


def test_thirty_ask_at_once_and_it_is_made_once(tmp_path):
    making = Making()
    making.go_on.clear()
    documents = making.documents()
    together = threading.Barrier(ASKING + 1)

    def ask():
        together.wait()
        return documents.get(entry_of(tmp_path))

    with ThreadPoolExecutor(ASKING) as pool:
        asked = [pool.submit(ask) for _ in range(ASKING)]
        together.wait()
        making.go_on.set()
        bodies = [one.result() for one in asked]
    assert making.made == [("t", None)]
    assert {id(body) for body in bodies} == {id(bodies[0])}
    assert json.loads(gzip.decompress(bodies[0].packed))["name"] == "t"
    assert documents.get(entry_of(tmp_path)) is bodies[0]


def test_another_iteration_another_trace_and_another_state_are_made_anew(tmp_path):
    making = Making()
    documents = making.documents()
    first, other = entry_of(tmp_path), entry_of(tmp_path / "other", name="other")
    for entry, iteration in ((first, None), (first, 0), (first, 1), (other, 0), (first, 0)):
        documents.get(entry, iteration)
    assert making.made == [("t", None), ("t", 0), ("t", 1), ("other", 0)]
    documents.get(entry_of(tmp_path, signature="2"), 0)
    documents.get(first, 1)  # what was kept of the older state is gone
    assert making.made[4:] == [("t", 0), ("t", 1)]


def test_a_failure_reaches_all_who_wait_and_is_not_kept(tmp_path):
    making = Making()
    making.go_on.clear()
    making.problem = TraceError("rank 1 is damaged")
    documents = making.documents()
    with ThreadPoolExecutor(4) as pool:
        asked = [pool.submit(documents.get, entry_of(tmp_path)) for _ in range(4)]
        making.go_on.set()
        for one in asked:
            with pytest.raises(TraceError, match="rank 1 is damaged"):
                one.result()
    making.problem = None
    assert json.loads(gzip.decompress(documents.get(entry_of(tmp_path)).packed))["name"] == "t"


def test_what_is_kept_is_bounded_by_its_bytes(tmp_path):
    making = Making(size=1000)
    documents = making.documents(most_bytes=5000)
    for iteration in range(8):
        documents.get(entry_of(tmp_path), iteration)
    documents.get(entry_of(tmp_path), 7)
    assert len(making.made) == 8
    documents.get(entry_of(tmp_path), 0)  # asked for longest ago
    assert len(making.made) == 9
    assert sum(len(body.packed) for body in documents._kept.values()) == documents._weight
    assert documents._weight <= 5000


def test_one_that_is_too_large_is_given_and_not_kept(tmp_path):
    making = Making(size=1000)
    documents = making.documents(most_bytes=100)
    for _ in range(2):
        assert documents.get(entry_of(tmp_path)).packed
    assert len(making.made) == 2
    assert documents._weight == 0


def test_a_number_that_json_has_not_is_our_mistake(tmp_path):
    documents = Documents(lambda *_: {"x": float("nan")}, lambda folder: folder)
    with pytest.raises(ValueError, match="not JSON compliant"):
        documents.get(entry_of(tmp_path))
