"""What all tests share: how Hypothesis draws, and what Ctrl-C does."""

import os
import signal
import sys
import tempfile
from pathlib import Path

import pytest
from hypothesis import settings

from tests.deadlines import RANKS_TEST_S

HERE = Path(__file__).parent

pytest_plugins = ["tests.watch"]

# The same examples each time, so that what was green stays green; `make test-long` draws new ones.
settings.register_profile("default", deadline=None, derandomize=True, max_examples=40)
settings.register_profile("long", deadline=None, print_blob=True, max_examples=1000)
settings.load_profile("default")

# A shell starts what is in the background with Ctrl-C ignored, and so would be what tests start.
if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
    signal.signal(signal.SIGINT, signal.default_int_handler)

LONGEST = (
    "lessons/test_scripts.py",
    "browser/test_plan_page.py",
    "train/launch/test_trace_command.py",
    "browser/test_hostile.py",
    "browser/test_replay.py",
    "browser/test_lessons.py",
    "train/launch/test_killed.py",
    "predict/simulate/test_dry.py",
    "systems/test_programs.py",
    "puzzles/test_puzzles.py",
    "browser/test_debug.py",
    "debug/test_held.py",
    "debug/test_attach.py",
    "browser/test_files.py",
    "browser/test_compare.py",
    "cli/test_debug.py",
    "pytest_plugin/test_ways.py",
    "browser/test_puzzles.py",
    "browser/test_plan.py",
    "train/engine/test_stages.py",
    "browser/test_graph_page.py",
    "browser/test_room.py",
    "browser/test_languages.py",
    "browser/test_magnifier.py",
    "verify/test_runs.py",
    "train/launch/test_nodes.py",
    "predict/simulate/test_systems.py",
    "train/engine/test_zeropp.py",
    "debug/test_systems.py",
    "browser/test_published.py",
    "browser/test_layout.py",
    "browser/test_perfetto.py",
    "browser/test_verify.py",
    "systems/test_local_sgd.py",
    "test_packages.py",
    "trace/test_session.py",
    "browser/test_take.py",
    "train/engine/test_offload.py",
    "dashboards/test_plan_page.py",
)
"""Files that take half a minute or more, as `make test` says at its end."""


def pytest_collection_modifyitems(config, items):
    """The longest files come first, so that none of them is left alone at the end."""
    places = {HERE / name: place for place, name in enumerate(LONGEST)}
    assert all(path.is_file() for path in places), "LONGEST names a file that is gone"
    items.sort(key=lambda item: places.get(item.path, len(LONGEST)))
    texts = {path: path.read_text() for path in {item.path for item in items}}
    for item in items:
        names = {mark.name for mark in item.iter_markers()}
        for name in names & {"ranks", "quiet"}:  # `make test` chooses the files of a part by them
            assert f"mark.{name}" in texts[item.path], f"{item.nodeid}: its file names no {name}"
        if config.getoption("timeout") is None and "ranks" in names and "timeout" not in names:
            item.add_marker(pytest.mark.timeout(RANKS_TEST_S))


_READ = ("ZEROSIM", "RANK", "LOCAL_", "GROUP_", "WORLD_", "MASTER_", "TORCHELASTIC", "OMP_")
"""How variables begin that zerosim and ranks read; libraries set some of their own."""


def left_behind():
    """What all tests of a process share, and each must leave as it was."""
    torch, labels = (sys.modules.get(name) for name in ("torch", "zerosim.trace.labels"))
    return {
        "folder": Path.cwd(),
        "group": torch is not None and torch.distributed.is_initialized(),
        "dtype": "torch.float32" if torch is None else str(torch.get_default_dtype()),
        "trace": None if labels is None else labels.attached(),
        "environment": {name: it for name, it in os.environ.items() if name.startswith(_READ)},
    }


@pytest.fixture(autouse=True)
def fresh_process():
    """Where a process is, and what its engine was, is one thing for all tests that share it.

    An engine that an earlier test left open no longer describes this process.
    """
    if "zerosim.trace.labels" in sys.modules:
        from zerosim.schema.events import Phase
        from zerosim.trace import labels
        from zerosim.trace.sink import Description

        labels.describe(Description())
        labels.enter(-1, Phase.OUTSIDE)
    before = left_behind()
    yield
    after = left_behind()
    environment = before.pop("environment").items() ^ after.pop("environment").items()
    assert not sorted(environment), "of the environment"
    assert after == before


# Two processes that write to one pipe then write whole lines.
os.environ.pop("PYTHONUNBUFFERED", None)

# Ranks share the processors with the tests beside them.
os.environ.setdefault("OMP_NUM_THREADS", "1")

# Where `tests.recorded` keeps runs for the processes that this one starts; removed as it ends.
if "ZEROSIM_TESTS_RECORDED" not in os.environ:
    recordings = tempfile.TemporaryDirectory(prefix="zerosim-recorded-")
    os.environ["ZEROSIM_TESTS_RECORDED"] = recordings.name
