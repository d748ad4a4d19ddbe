"""The pytest plugin: a test asserts what its training step sends, calls and keeps.

    def test_my_step(zerosim_trace):
        train()
        zerosim_trace.assert_traffic("2Psi")

    fixture      the fixture of a test: the asserts
    recordings   its recordings
    options      their options, from the test's marker
    own          the trace of the test's own process so far
    meeting      synchronization of torchrun's ranks at an assert
    ranks, rank  call a function of the test on ranks; the work of each
    children     trace the programs that a test starts
    traffic, collectives, peak_memory   the three asserts
    failure      the message of a failure: the three ledgers, and the folder of the trace

pytest loads this module in every project with zerosim installed. It therefore imports only pytest
and the standard library; torch and the rest are imported when a test uses the fixture.
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
    """Add the option for the folder of traces."""
    group = parser.getgroup("zerosim", "traces of distributed training (zerosim)")
    group.addoption(
        "--zerosim-traces",
        metavar="DIR",
        help="keep the traces of zerosim_trace in this folder, a new one for each test, "
        "instead of pytest's temporary folder",
    )


def pytest_configure(config: pytest.Config) -> None:
    """Register the plugin's marker, so that --strict-markers accepts it."""
    config.addinivalue_line("markers", _MARKER)


def pytest_unconfigure() -> None:
    """Let ranks that synchronized for an assert exit together."""
    meeting = sys.modules.get("zerosim.pytest_plugin.meeting")
    if meeting is not None:
        meeting.part()


@pytest.fixture
def zerosim_trace(
    request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[Any]:
    """Records a test's communication, and asserts bounds on it."""
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
