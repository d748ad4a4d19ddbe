"""The command line, inside this process and as one of its own."""

from __future__ import annotations

import contextlib
import io
import os
import re
import shutil
import subprocess
import sys
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from unittest import mock

from tests.deadlines import RANKS_S
from zerosim.cli import main
from zerosim.train.launch import forkserver

forkserver.keep()  # all runs in this process share it: each would import PyTorch again


@dataclass(frozen=True)
class Answer:
    """What a command said."""

    code: int
    out: str
    err: str


def command(*args: object) -> Answer:
    """Run `zerosim ARGS` in this process, its output going into a pipe."""
    out, err = (io.TextIOWrapper(io.BytesIO(), encoding="utf-8") for _ in range(2))
    code: object = None
    with (
        mock.patch.object(sys, "argv", ["zerosim", *map(str, args)]),
        contextlib.redirect_stdout(out),
        contextlib.redirect_stderr(err),
    ):
        try:
            main()
        except SystemExit as end:
            code = end.code
    assert isinstance(code, int)
    texts = []
    for stream in (out, err):
        stream.flush()
        texts.append(stream.buffer.getvalue().decode())
    return Answer(code, *texts)


def completed(words: Sequence[str]) -> subprocess.CompletedProcess[str]:
    """What `subprocess.run` returns of words that end in `zerosim ARGS`, run in this process."""
    answer = command(*words[words.index("zerosim") + 1 :])
    return subprocess.CompletedProcess(words, answer.code, answer.out, answer.err)


def start(*args: object, before: Sequence[str] = (), **environment: str) -> subprocess.Popen[str]:
    """Start `zerosim ARGS`, its output going into pipes; `before` it, a command that starts it."""
    return subprocess.Popen(
        (*before, sys.executable, "-m", "zerosim", *map(str, args)),
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        env={**os.environ, "TERM": "xterm", **environment},
    )


def process(*args: object, **environment: str) -> Answer:
    """Run `zerosim ARGS` as a process."""
    started = start(*args, **environment)
    try:
        out, err = started.communicate(timeout=RANKS_S)
    finally:
        started.kill()
    return Answer(started.returncode, out, err)


def assert_one_line(answer: Answer, *words: str) -> None:
    """The input was refused in one clear line that holds all of these words."""
    assert answer.code == 2, answer
    assert answer.out == "", answer
    lines = answer.err.splitlines()
    assert len(lines) == 1, answer
    assert lines[0].startswith("zerosim: "), answer
    assert "Traceback" not in lines[0]
    for word in words:
        assert word in lines[0], (word, lines[0])


def apart(*namespaces: str) -> tuple[str, ...]:
    """What a command begins with to run in namespaces of its own; () where there can be none."""
    words = (shutil.which("unshare") or "unshare", *namespaces)
    try:
        probe = subprocess.run((*words, "true"), capture_output=True, check=False)
    except OSError:
        return ()
    return words if probe.returncode == 0 else ()


def numbers_of(text: str) -> set[int]:
    """Every whole number that a text has, with commas or without."""
    return {int(number.replace(",", "")) for number in re.findall(r"\d[\d,]*", text)}


def plain_text(text: str) -> str:
    """A text without its colours."""
    return re.sub(r"\x1b\[[\d;]*m", "", text)


def contents(folder: Path) -> dict[str, bytes]:
    """Every file below a folder."""
    return {
        str(path.relative_to(folder)): path.read_bytes()
        for path in folder.rglob("*")
        if path.is_file()
    }
