"""The pytest plugin: a test says what its training step may send, call and keep.

    def test_my_step(zerosim_trace):
        train()
        zerosim_trace.assert_traffic("2Psi")

    fixture      what the test is given: the asserts
    recordings   and how it records
    options      how, as the test's marker says
    own          the trace of the test's own process, as far as it has come
    meeting      ranks that torchrun started come together for an assert
    ranks, rank  calling a function of the test on ranks; what each of them does
    children     tracing the programs that a test starts
    traffic, collectives, peak_memory   the three asserts
    failure      what a failure shows: the three ledgers, and where the trace is

pytest loads this module in every project where zerosim is installed. So it imports pytest and the
standard library; torch and all the rest come when a test asks for the fixture.
"""

from __future__ import annotations

import sys
from collections.abc import Iterator
from typing import Any

import pytest

_MARKER = (
    "zerosim(memory=True, wire=True, allocations=False, timeout_s=120): how the fixture "
    "zerosim_trace records this test"
)


def pytest_addoption(parser: pytest.Parser) -> None:
    """Where traces are kept."""
    group = parser.getgroup("zerosim", "traces of distributed training (zerosim)")
    group.addoption(
        "--zerosim-traces",
        metavar="DIR",
        help="keep the traces of zerosim_trace in this folder, a new one for each test, "
        "instead of pytest's temporary folder",
    )


def pytest_configure(config: pytest.Config) -> None:
    """The plugin's marker is known, also with --strict-markers."""
    config.addinivalue_line("markers", _MARKER)


def pytest_unconfigure() -> None:
    """Ranks that met for an assert leave together."""
    meeting = sys.modules.get("zerosim.pytest_plugin.meeting")
    if meeting is not None:
        meeting.part()


@pytest.fixture
def zerosim_trace(
    request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[Any]:
    """Records what this test communicates, and asserts how much it may be."""
    from zerosim.base.errors import ZerosimError
    from zerosim.pytest_plugin.fixture import ZerosimTrace
    from zerosim.pytest_plugin.options import read_marker
    from zerosim.pytest_plugin.recordings import new_folder

    node = request.node
    kept: str | None = request.config.getoption("--zerosim-traces")
    problem = ""
    try:
        options = read_marker(node.get_closest_marker("zerosim"))
        home = tmp_path_factory.mktemp("zerosim") if kept is None else new_folder(kept, node.name)
        found = ZerosimTrace(home, node.nodeid, options)
    except ZerosimError as error:
        problem = str(error)
    if problem:
        pytest.fail(f"zerosim_trace: {problem}", pytrace=False)
    try:
        yield found
    finally:
        found.close()
