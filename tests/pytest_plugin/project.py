"""A small project of its own with tests in it, and pytest run on them in another process."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from importlib.metadata import entry_points
from pathlib import Path

from tests.deadlines import RANKS_S

PAGE = Path(__file__).parents[2] / "docs" / "pytest.md"
_BLOCK = re.compile(r"```python\n# (\S+)\n(.*?)```", re.DOTALL)
# a plugin cannot be registered by its module and by its entry point
_NAME = "zerosim" if entry_points(group="pytest11", name="zerosim") else "zerosim.pytest_plugin"


def examples():
    """The files that the page shows."""
    return dict(_BLOCK.findall(PAGE.read_text()))


def write(folder, **files):
    for name, text in files.items():
        (folder / f"{name}.py").write_text(text)


def run_pytest(folder, *args, torchrun=0):
    """Run pytest where every warning is an error, and nothing but our plugin and xdist is loaded.

    Returns:
        Its exit code and all it printed.
    """
    (folder / "pytest.ini").write_text("[pytest]\nfilterwarnings = error\n")
    start = [sys.executable, "-m"]
    if torchrun:
        start += ["torch.distributed.run", "--standalone", f"--nproc-per-node={torchrun}", "-m"]
        # two of them tidy one folder up: pytest leaves an iterator open where the other was first
        args = (*args, "-p", "no:unraisableexception")
    ended = subprocess.run(
        [*start, "pytest", "-p", "no:cacheprovider", "-p", _NAME, *args],
        cwd=folder,
        env=os.environ
        | {"PYTEST_DISABLE_PLUGIN_AUTOLOAD": "1", "OMP_NUM_THREADS": "1", "COLUMNS": "150"},
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        timeout=RANKS_S,
        check=False,
    )
    return ended.returncode, ended.stdout
