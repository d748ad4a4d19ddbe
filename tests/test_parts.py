"""`make test` runs all parts and says so once; `make setup` finds or installs a browser."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from itertools import product
from pathlib import Path

from _pytest.mark.expression import Expression

from tests.__main__ import LONG, PARTS, Part

ROOT = Path(__file__).parent.parent
RUN = """
import sys
from tests.__main__ import Part, run
options = ("-c", "none.ini", "-p", "no:cacheprovider")
sys.exit(run([Part(name, (*options, name)) for name in sys.argv[1:]]))
"""


def start(folder, *files, **options):
    (folder / "none.ini").write_text("[pytest]\n")
    return subprocess.Popen(
        (sys.executable, "-c", RUN, *files),
        cwd=folder,
        env=os.environ | {"PYTHONPATH": str(ROOT), "PYTEST_DISABLE_PLUGIN_AUTOLOAD": "1"},
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        **options,
    )


def test_all_parts_run_whatever_becomes_of_one(tmp_path):
    (tmp_path / "test_fails.py").write_text("def test_a(): pass\ndef test_b(): assert False\n")
    (tmp_path / "test_dies.py").write_text("import os\ndef test_a(): os.kill(os.getpid(), 9)\n")
    (tmp_path / "test_good.py").write_text(
        "import pytest\ndef test_a(): pass\ndef test_b(): pytest.skip('no')\n"
    )
    process = start(tmp_path, "test_fails.py", "test_dies.py", "test_good.py")
    out, _ = process.communicate(timeout=600)
    assert process.returncode == 1, out
    head, fails, dies, good, total, *rest, last = out[out.rindex("\npart ") + 1 :].splitlines()
    assert head.split() == ["part", "passed", "failed", "skipped", "minutes"]
    assert fails.split()[:4] == ["test_fails.py", "1", "1", "0"]
    assert dies.split()[:4] == ["test_dies.py", "0", "1", "0"]
    assert dies.endswith("pytest ended with -9")
    assert good.split()[:4] == ["test_good.py", "1", "0", "1"]
    assert total.split()[:4] == ["all", "2", "2", "1"]
    assert rest[:3] == ["", " skipped  why", "       1  no"]
    assert rest[3:5] == ["", " seconds  slowest files"]
    assert {line.split()[-1] for line in rest[5:-1]} == {"test_fails.py", "test_good.py"}
    assert last == "2 passed, 2 failed"

    process = start(tmp_path, "test_good.py")
    out, _ = process.communicate(timeout=600)
    assert (process.returncode, out.splitlines()[-1]) == (0, "1 passed, 0 failed")


def test_ctrl_c_ends_the_part_and_begins_no_other(tmp_path):
    (tmp_path / "test_waits.py").write_text(
        "import os, pathlib, time\n"
        "def test_a():\n"
        "    pathlib.Path('new').write_text(str(os.getpid()))\n"
        "    pathlib.Path('new').rename('pid')\n"
        "    time.sleep(600)\n"
    )
    (tmp_path / "test_good.py").write_text("def test_a(): pass\n")
    # as a shell starts what is in the background
    process = start(
        tmp_path,
        "test_waits.py",
        "test_good.py",
        preexec_fn=lambda: signal.signal(signal.SIGINT, signal.SIG_IGN),
    )
    end = time.monotonic() + 600
    while not (tmp_path / "pid").exists():
        assert process.poll() is None
        assert time.monotonic() < end
        time.sleep(0.02)
    process.send_signal(signal.SIGINT)
    out, _ = process.communicate(timeout=600)
    assert process.returncode == 130, out
    assert "test_good.py              not run" in out
    assert out.splitlines()[-1] == "0 passed, 1 failed"
    assert not Path("/proc", (tmp_path / "pid").read_text()).exists()


def test_each_test_is_in_one_part():
    """Whatever its markers: in one part of `make test`, or in `make test-long`."""
    names = ("ranks", "browser", "quiet", "long", "gpu", "root", "deepspeed", "hypothesis")

    def chosen(part: Part, markers: set[str]) -> bool:
        expression = part.arguments[part.arguments.index("-m") + 1]
        return Expression.compile(expression).evaluate(lambda name, **_: name in markers)

    for flags in product((False, True), repeat=len(names)):
        markers = {name for name, flag in zip(names, flags, strict=True) if flag}
        assert sum(chosen(part, markers) for part in PARTS) == int("long" not in markers)
        assert any(chosen(part, markers) for part in LONG) == bool({"long", "hypothesis"} & markers)


def test_set_up_installs_a_browser_where_none_is_found(tmp_path):
    """The Makefile's own words, with a PATH on which there is no browser, and CHROMIUM unset.

    On it `id` says that we are root, and `apt-get` installs nothing.
    """
    tools = tmp_path / "bin"
    tools.mkdir()
    for name in ("sh", "touch", "true"):
        found = next(path for path in (Path("/bin", name), Path("/usr/bin", name)) if path.exists())
        (tools / name).symlink_to(found)
    _script(tools / "apt-get", f"echo $* >> {tmp_path}/asked")
    _script(tools / "id", "echo 0")
    stamp = tmp_path / ".chromium"

    def set_up(**environment):
        stamp.unlink(missing_ok=True)
        (tmp_path / "asked").unlink(missing_ok=True)
        make = next(path for path in (Path("/usr/bin/make"), Path("/bin/make")) if path.exists())
        subprocess.run(
            (make, "-s", "-o", ".venv/.installed", f"CHROMIUM_STAMP={stamp}", str(stamp)),
            cwd=ROOT,
            env={"PATH": str(tools), **environment},
            check=True,
            timeout=60,
            stdout=subprocess.DEVNULL,
        )
        asked = tmp_path / "asked"
        return stamp.exists(), asked.read_text().splitlines() if asked.exists() else []

    installs = ["update -qq", "install -qq --no-install-recommends chromium-headless-shell"]
    assert set_up() == (True, installs)
    assert set_up(CHROMIUM="") == (True, installs)
    assert set_up(CHROMIUM=str(tmp_path / "none")) == (True, installs)
    _script(tools / "google-chrome", "true")
    assert set_up() == (True, [])
    (tools / "google-chrome").unlink()
    _script(tmp_path / "mine", "true")
    assert set_up(CHROMIUM=str(tmp_path / "mine")) == (True, [])


def _script(path: Path, line: str) -> None:
    path.write_text(f"#!/bin/sh\n{line}\n")
    path.chmod(0o755)
