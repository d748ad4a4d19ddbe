"""Whatever is given wrongly gets one clear line and exit 2: never a traceback, nothing lost."""

from __future__ import annotations

import errno
import json
import os
import re
import resource
import shutil
import socket
import subprocess
import sys
from dataclasses import replace
from pathlib import Path

import pytest

from tests.cli.command import (
    Answer,
    apart,
    assert_one_line,
    command,
    contents,
    process,
    start,
)
from tests.cli.traces import engine_trace, write
from tests.deadlines import RANKS_S
from tests.ranks import free_port
from tests.strategies import header
from tests.verify import memory_traces
from zerosim.schema.attach import ATTACH_VARIABLE
from zerosim.train.launch import forkserver, launcher, loopback

NO_TEXT = os.fsdecode(b"no \xff text")


@pytest.mark.parametrize(
    ("args", "words"),
    [
        ("run --model bert", ("'bert'", "gpt-tiny, gpt-small, mlp")),
        ("run --ranks 0", ("ranks is 0", "1 or more")),
        ("run --ranks -3", ("ranks is -3", "1 or more")),
        ("run --model gpt-3", ("gpt-3", "174,604,259,328", "zerosim simulate")),
        ("simulate --model gpt-9", ("'gpt-9'", "gpt-3")),
        ("simulate --machine dgx-9", ("'dgx-9'", "dgx-h100")),
        ("simulate --ranks 12 --stage 3", ("ranks is 12", "a multiple of 8")),
        ("simulate --batch 0", ("batch is 0", "1 or more")),
        ("simulate --tensor-parallel 3 --ranks 8", ("tensor-parallel is 3", "divisor")),
        ("simulate --stage 3 --resume", ("resume", "leave it out")),
        ("simulate --system ddp9", ("'ddp9'", "fsdp2")),
        ("simulate --system ddp --clip 1", ("clip is given", "leave out one of the two")),
        ("simulate --system fsdp2 --stage 3", ("stage is given", "zerosim's engine")),
        ("simulate --system hsdp --ranks 3", ("hsdp", "two rows")),
        ("simulate --system 1f1b --ranks 3", ("1f1b", "2 or 4")),
        ("simulate -- make all", ("'make all'", "python train.py")),
        ("simulate -- python nowhere.py", ("nowhere.py", "no such file")),
        ("simulate --ranks 12 -- python setup.py", ("ranks is 12", "a multiple of 8")),
        ("simulate --clip 1 -- python setup.py", ("clip is given with a program", "leave it out")),
        ("run --ranks two", ("ranks is 'two'", "whole number", "zerosim run --help")),
        ("run --ranks 2.5", ("ranks is '2.5'", "whole number")),
        ("run --stage 4", ("stage is '4'", "0, 1, 2, 3")),
        ("run --stage x", ("stage is 'x'", "all")),
        ("run --stage 1,,2", ("stage is '1,,2'", "0,3")),
        ("run --dtype int8", ("'int8'", "fp32, bf16, fp16")),
        ("run --collectives mpi", ("'mpi'", "ring, native")),
        ("run --device tpu", ("'tpu'", "cpu, cuda")),
        ("run --clip 0", ("clip is 0", "positive")),
        ("run --clip -1", ("clip is -1", "positive")),
        ("run --clip nan", ("clip is nan", "positive")),
        ("run --clip big", ("clip is 'big'", "a number")),
        ("run --bucket-elements 0", ("bucket-elements is 0", "1 or more")),
        ("run --steps 0", ("steps is 0", "1 or more")),
        ("run --batch 0", ("batch is 0", "1 or more")),
        ("run --accumulate 0", ("accumulate is 0", "1 or more")),
        ("run --prefetch -1", ("prefetch is -1", "0 or more")),
        ("run --learning-rate -1", ("learning rate is -1", "0 or more")),
        ("run --seed -1", ("seed is -1", "0 to")),
        ("run --seed 99999999999999999999", ("seed is 9999", "0 to")),
        ("run --timeout 0", ("timeout is 0", "positive")),
        ("run --timeout 1e300", ("timeout is 1e+300", "at most 86400")),
        ("run --port 70000", ("port is 70000", "65535")),
        ("run --port -1", ("port is -1", "65535")),
        ("run --frob", ("--frob", "zerosim run --help")),
        ("run --steps", ("--steps", "argument", "--help")),
        ("run more", ("more", "zerosim run --help")),
        ("frobnicate", ("'frobnicate'", "zerosim --help")),
        ("--frob", ("--frob", "zerosim --help")),
        ("verify", ("folder", "zerosim verify --help")),
        ("verify nowhere", ("nowhere", "no such folder", "record a run")),
        ("show nowhere", ("nowhere", "no such folder", "record a run")),
        ("show", ("folder", "zerosim show --help")),
        ("doctor who", ("who", "zerosim doctor --help")),
    ],
)
def test_wrong_words(tmp_path, monkeypatch, no_ranks, args, words):
    monkeypatch.chdir(tmp_path)
    assert_one_line(command(*args.split()), *words)
    assert list(tmp_path.iterdir()) == []  # not even a folder was made


def test_as_a_process_it_is_one_line_as_well(tmp_path):
    for args in (("run", "--ranks", "two"), ("verify", tmp_path)):
        assert_one_line(process(*args))


def test_no_command_prints_the_three_to_begin_with():
    answer = command()
    assert (answer.code, answer.err) == (2, "")
    lines = [line.split("  ")[1] for line in answer.out.splitlines() if line.startswith("  ")]
    assert lines == ["zerosim run --stage 3", "zerosim serve", "zerosim trace -- python train.py"]
    assert "zerosim --help" in answer.out


def test_no_gpu(tmp_path, monkeypatch, no_ranks):
    monkeypatch.setattr(launcher.torch.cuda, "is_available", lambda: False)
    answer = command("run", "--device", "cuda", "--out", tmp_path / "t")
    assert_one_line(answer, "device is cuda", "found none", "--device cpu")


def test_a_dtype_that_the_device_cannot_compute_in(tmp_path, monkeypatch, no_ranks):
    monkeypatch.setattr(launcher, "dtype_problem", lambda dtype, _: f"no kernel for {dtype}")
    answer = command("run", "--dtype", "fp16", "--out", tmp_path / "t")
    assert_one_line(answer, "dtype is fp16", "no kernel for fp16", "--dtype bf16")


def test_a_port_in_use(tmp_path, no_ranks):
    folder = write(tmp_path, engine_trace(1))
    before = contents(folder)
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        port = taken.getsockname()[1]
        answer = command(
            "run", "--stage", 1, "--port", port, "--out", folder, "--overwrite", "--ranks", 2
        )
    assert_one_line(answer, f"port {port} is in use", "leave --port out")
    assert contents(folder) == before


def test_too_few_open_files(tmp_path, monkeypatch, no_ranks):
    of_others, files = resource.getrlimit, resource.RLIMIT_NOFILE
    monkeypatch.setattr(
        launcher.resource, "getrlimit", lambda of: (24, 24) if of == files else of_others(of)
    )
    answer = command("run", "--out", tmp_path / "t")
    assert_one_line(answer, "open 24 files", "expected 40 or more for 4 ranks", "ulimit -n 40")
    assert not (tmp_path / "t").exists()


@pytest.mark.parametrize("has_port", [False, True])
def test_no_loopback(tmp_path, monkeypatch, no_ranks, has_port):
    def fails(*_: object) -> None:
        raise OSError(errno.ENETUNREACH, "Network is unreachable")

    monkeypatch.setattr(loopback.socket, "create_connection", fails)
    port = ("--port", free_port()) if has_port else ()
    answer = command("run", *port, "--out", tmp_path / "t")
    assert_one_line(answer, "127.0.0.1 (Network is unreachable)", "ip link set lo up")
    assert not (tmp_path / "t").exists()


def test_a_program_is_told_before_its_start_that_there_is_no_loopback(tmp_path, monkeypatch):
    """It is started all the same: it may need none."""

    def fails(*_: object, **__: object) -> None:
        raise OSError(errno.ENETUNREACH, "Network is unreachable")

    monkeypatch.setattr(loopback.socket, "create_connection", fails)
    answer = command("trace", "--out", tmp_path / "t", "--", "sh", "-c", "exit 7")
    assert answer.code == 7
    told, nothing = answer.err.splitlines()
    assert told.startswith("zerosim: ranks cannot communicate over 127.0.0.1 (Network is ")
    assert "the program starts without it" in told
    assert "nothing was recorded" in nothing


@pytest.mark.root
def test_a_loopback_that_is_down_is_seen():
    if not (own := apart("--net")):
        pytest.skip("needs root, for a network of its own (unshare --net)")
    look = "from zerosim.train.launch.loopback import require_loopback as look; look()"
    done = subprocess.run(
        (*own, sys.executable, "-c", look),
        capture_output=True,
        text=True,
        check=False,
    )
    assert "EnvironmentFault: ranks cannot communicate over 127.0.0.1" in done.stderr


def test_too_little_memory_for_pytorch(tmp_path):
    limited = ("sh", "-c", 'ulimit -v 400000; exec "$0" "$@"')
    done = start("run", "--out", tmp_path / "t", before=limited)
    out, err = done.communicate(timeout=RANKS_S)
    assert_one_line(
        Answer(done.returncode, out, err), "cannot load a library that zerosim needs", "ulimit -v"
    )


@pytest.mark.ranks
def test_what_forks_ranks_cannot_load_pytorch(tmp_path, monkeypatch):
    """This process has."""
    monkeypatch.setattr(forkserver._KeptServer, "wanted", False)
    (tmp_path / "torch.py").write_text("raise MemoryError('no room')")
    monkeypatch.syspath_prepend(tmp_path)
    answer = command("run", "--model", "mlp", "--out", tmp_path / "t")
    assert_one_line(answer, "cannot load a library that zerosim needs (MemoryError: no room)")


@pytest.mark.parametrize("stage", ["2", "all"])
def test_a_folder_that_cannot_be_written(tmp_path, no_ranks, stage):
    (tmp_path / "file").write_text("mine")
    for folder in (tmp_path / "file" / "below", "/proc/zerosim", tmp_path / "file"):
        answer = command("run", "--stage", stage, "--out", folder, "--overwrite")
        assert_one_line(answer, f"cannot write to {folder}", "give an --out")
    assert (tmp_path / "file").read_text() == "mine"


@pytest.mark.parametrize("stages", ["1", "0,1"])
def test_a_folder_that_holds_a_trace_keeps_it(tmp_path, no_ranks, stages):
    folder = tmp_path if stages == "1" else tmp_path / "stage-1"
    write(folder, engine_trace(1))
    before = contents(tmp_path)
    answer = command("run", "--stage", stages, "--out", tmp_path)
    assert_one_line(answer, f"{folder} already contains a trace", "--overwrite")
    assert contents(tmp_path) == before


@pytest.mark.ranks
def test_overwrite_replaces_what_the_folder_held(tmp_path):
    write(tmp_path, engine_trace(1, num_ranks=4))
    (tmp_path / "notes.txt").write_text("mine")
    args = ("run", "--stage", "1", "--ranks", 2, "--model", "mlp", "--steps", 1, "--overwrite")
    assert command(*args, "--out", tmp_path).code == 0
    assert sorted(contents(tmp_path)) == [
        "manifest.json", "notes.txt", "rank-0.jsonl", "rank-1.jsonl",
    ]  # fmt: skip


def test_ranks_that_contradict_torchrun(tmp_path, monkeypatch, no_ranks):
    for name, value in {"RANK": "0", "WORLD_SIZE": "2", "MASTER_ADDR": "localhost"}.items():
        monkeypatch.setenv(name, value)
    answer = command("run", "--ranks", 3, "--out", tmp_path / "t")
    assert_one_line(answer, "ranks is 3", "started 2", "leave --ranks out")


def test_under_a_launcher_the_secret_stays_that_of_all_ranks(tmp_path, monkeypatch):
    for name, value in {"RANK": "0", "WORLD_SIZE": "2", "MASTER_ADDR": "localhost"}.items():
        monkeypatch.setenv(name, value)
    args = ("run", "--debuggable", "--out", tmp_path / "t")
    assert_one_line(command(*args), f"expected {ATTACH_VARIABLE}=SECRET")
    seen = []

    def join(*_, **__):
        seen.append(os.environ[ATTACH_VARIABLE])
        return 0

    monkeypatch.setattr(sys.modules["zerosim.cli.run"], "_join", join)
    monkeypatch.setenv(ATTACH_VARIABLE, "of all")
    assert command(*args).code == 0
    assert seen == ["of all"]


@pytest.fixture
def folder(tmp_path):
    return write(tmp_path / "t", engine_trace(3))


@pytest.mark.parametrize(
    ("args", "words"),
    [
        (("verify", "--iteration", 7), ("iteration 7", "0 to 1")),
        (("verify", "--iteration", -1), ("iteration -1", "0 to 1")),
        (("verify", "--iteration", "x"), ("iteration is 'x'", "whole number")),
        (("show", "--iteration", 7), ("iteration 7", "expected one of 0, 1")),
        (("show", "--iteration", "x"), ("iteration is 'x'", "a number, last or all")),
        (("show", "--rank", 2), ("rank 2", "expected one of 0, 1")),
        (("show", "--rank", "x"), ("rank is 'x'", "a number or all")),
        (("show", "--raw", "--rank", 7), ("rank 7", "expected one of 0, 1")),
        (("show", "--raw", "--unit", "block"), ("--raw shows whole files", "with --rank only")),
        (("show", "--phase", "dinner"), ("'dinner'", "forward, backward, update")),
        (("show", "--unit", "blok*"), ("'blok*'", "expected one of block", "*")),
    ],
)
def test_what_a_trace_does_not_hold(folder, args, words):
    assert_one_line(command(args[0], folder, *args[1:]), *words)


def test_a_folder_of_traces_names_them(tmp_path):
    for stage in (0, 3):
        write(tmp_path / f"stage-{stage}", engine_trace(stage))
    for name in ("verify", "show"):
        answer = command(name, tmp_path)
        assert_one_line(answer, "stage-0, stage-3", f"try {tmp_path / 'stage-3'}")


def test_of_a_trace_cut_short_what_all_ranks_finished_is_verified(folder):
    file = folder / "rank-1.jsonl"
    file.write_bytes(file.read_bytes()[:-60])
    answer = command("verify", folder)
    assert answer.code == 0
    assert "note: rank 1: the trace stops" in answer.out
    assert "the run ended early: the checks cover iteration 0, which all ranks" in answer.out
    shown = command("show", folder, "--rank", "all")
    assert shown.code == 0
    assert shown.err.startswith("note: rank 1")
    assert "all-gather (ring): gather parameters" in shown.out


def test_a_run_without_a_complete_iteration_is_not_verified(tmp_path):
    written = engine_trace(1, num_ranks=1)
    folder = write(tmp_path, replace(written, rows={0: [("header", header(0, 1))]}))
    assert_one_line(command("verify", folder), "no iteration is complete", "zerosim show")
    assert command("show", folder).code == 0


def test_damage_is_one_line(folder):
    """Whatever it is: `tests/record/test_damage.py` has all that can happen to the bytes."""
    file = folder / "rank-0.jsonl"
    file.write_bytes(
        re.sub(rb'"sent_bytes":(\d)', rb'"sent_bytes":9\1', file.read_bytes(), count=1)
    )
    for name in ("verify", "verify --json", "show", "graph"):
        assert_one_line(command(*name.split(), folder), "rank-0.jsonl", "checksum")


def test_a_manifest_that_is_whole_but_no_use(tmp_path):
    good = engine_trace(3)
    bad = replace(good, manifest=replace(good.manifest, config={"stage": 9, "collectives": "ring"}))
    assert_one_line(command("verify", write(tmp_path, bad)), "stage is 9", "0, 1, 2 or 3")


@pytest.mark.skipif(os.geteuid() == 0, reason="root may write anywhere")
def test_a_folder_of_someone_else(tmp_path, no_ranks):
    tmp_path.chmod(0o500)
    answer = command("run", "--stage", 1, "--out", tmp_path / "t")
    assert_one_line(answer, "Permission denied", "give an --out")


def test_a_folder_whose_name_is_no_text_is_one_like_any_other(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    folder = write(tmp_path / NO_TEXT, engine_trace(3))
    below = shutil.copytree(folder, folder / "some" / NO_TEXT)
    with_memory = memory_traces.write(
        tmp_path / f"{NO_TEXT} either", memory_traces.memory_trace(3, 3)
    )
    for name in ("verify", "show", "graph", "memory"):
        for args in ((), ("--json",)):
            answer = command(name, with_memory if name == "memory" else folder, *args)
            assert (answer.code, answer.err) == (0, ""), name
            assert answer.out
        assert_one_line(command(name, below.parent), "is not a trace, but contains some")
        assert_one_line(command(name, folder / "no"), "no such folder")
    for args in ((), ("--json",)):
        assert command("compare", folder, below, *args).code == 0
    assert command("graph", folder, "--graphml", folder / "x", "--nodelink", folder / "y").code == 0
    page = folder / f"{NO_TEXT}.html"
    assert command("export", folder, "--html", page).code == 0
    assert "<title>no \ufffd text · zerosim</title>" in page.read_text()
    assert_one_line(command("export", folder, "--html", page), "already exists")
    assert_one_line(command("run", "--stage", 3, "--out", folder), "already contains a trace")
    assert_one_line(command("trace", "--out", folder, "--", "true"), "already contains a trace")
    assert_one_line(command("serve", folder / "no"), "no such folder")


@pytest.mark.ranks
def test_a_trace_is_recorded_into_a_folder_whose_name_is_no_text(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    args = ("--model", "mlp", "--ranks", 2, "--steps", 1, "--stage", 1)
    disk = ("--offload-optimizer", "nvme", "--nvme-path", f"{NO_TEXT}/disk")
    assert command("run", *args, *disk, "--out", NO_TEXT).code == 0
    assert json.loads(command("verify", NO_TEXT, "--json").out)["outcome"] == "as predicted"
    manifest = json.loads(Path(NO_TEXT, "manifest.json").read_text())
    assert manifest["config"]["nvme_path"].endswith("no ? text/disk")
    program = Path(f"{NO_TEXT}.py")
    program.write_text(
        "import tempfile, torch, torch.distributed as dist\n"
        "meeting = 'file://' + tempfile.mktemp()\n"
        "dist.init_process_group('gloo', init_method=meeting, rank=0, world_size=1)\n"
        "dist.all_reduce(torch.ones(1))\n"
    )
    traced = process("trace", "--out", f"{NO_TEXT}/t", "--", sys.executable, tmp_path / program)
    assert traced.code == 0, traced
    shown = command("show", f"{NO_TEXT}/t")
    assert (shown.code, "all-reduce" in shown.out) == (0, True)
