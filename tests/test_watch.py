"""A test that hangs says where, and so does each process that it started."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path

from tests import watch
from tests.deadlines import RANKS_S

ROOT = Path(__file__).parent.parent
STARTS = """
import subprocess, sys
def test_hangs():
    subprocess.run([sys.executable, "-c", "import time\\ndef asleep(): time.sleep(600)\\nasleep()"])
"""
STUCK = """
import ctypes
def test_never_comes_back():
    lock, library = ctypes.create_string_buffer(128), ctypes.CDLL(None)
    for _ in range(2):
        library.pthread_mutex_lock(lock)
"""


def said_of(folder, test, *, late_s=watch._LATE_S):
    """What pytest says of a test that has a second."""
    (folder / "test_one.py").write_text(test)
    (folder / "none.ini").write_text("[pytest]\n")
    start = f"""
import sys, pytest
from tests import watch
watch._LATE_S = {late_s}
arguments = ["-c", "none.ini", "--timeout", "1", "test_one.py"]
sys.exit(pytest.main(arguments, ["pytest_timeout", watch]))
"""
    done = subprocess.run(
        (sys.executable, "-c", start),
        cwd=folder,
        env=os.environ | {"PYTHONPATH": str(ROOT), "PYTEST_DISABLE_PLUGIN_AUTOLOAD": "1"},
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        timeout=RANKS_S,
        check=False,
    )
    assert done.returncode == 1, done.stdout
    return done.stdout


def test_each_process_that_it_started_is_named(tmp_path):
    said = said_of(tmp_path, STARTS)
    assert "Timeout (>1.0s)" in said
    assert re.search(r"process \d+: \S+ -c import time", said)
    assert re.search(r"asleep \(<string>:2\)|no stack: .*permi", said, re.IGNORECASE), said


def test_one_that_does_not_come_back_to_python_is_ended(tmp_path):
    assert "in test_never_comes_back" in said_of(tmp_path, STUCK, late_s=0.5)


def test_a_process_that_is_gone_is_no_failure():
    done = subprocess.Popen([sys.executable, "-c", ""])
    done.wait()
    assert watch.stacks([done.pid]).startswith(f"process {done.pid}: gone\n  no stack")
