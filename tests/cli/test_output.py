"""What the commands print: the same numbers as JSON and as text, into a pipe, a narrow terminal
or a stream that knows ASCII only."""

from __future__ import annotations

import contextlib
import io
import json
import os
import re
import subprocess
import sys
from dataclasses import replace
from pathlib import Path

import pytest
from rich.measure import Measurement

from tests.cli.command import assert_one_line, command, numbers_of, plain_text, process
from tests.cli.traces import engine_trace, write
from tests.deadlines import RANKS_S
from tests.strategies import header, said_once, write_trace
from tests.theory.programs import ddp, parameter
from tests.verify.program_traces import Program
from zerosim.base.errors import cannot_load
from zerosim.cli import doctor, main
from zerosim.cli.console import make_console, make_table, print_rows, print_table
from zerosim.cli.pages import require_pages
from zerosim.record import load
from zerosim.schema.events import Event, Kind, Phase
from zerosim.verify import Outcome, verify


@pytest.fixture
def folder(tmp_path):
    return write(tmp_path / "t", engine_trace(3, num_ranks=4, clip=1.0))


def test_verify_says_the_same_as_json_and_as_text(folder):
    text = command("verify", folder, "-v").out
    plain = json.loads(command("verify", folder, "--json").out)
    report = verify(load(folder))
    assert plain == json.loads(json.dumps(report.to_plain()))
    assert plain["outcome"] == "as predicted"
    assert plain["headline"] in text
    assert {verdict["id"] for verdict in plain["verdicts"]} >= {"sent-a-step", "planned", "matched"}
    for verdict in plain["verdicts"]:
        assert verdict["title"] in text
        assert verdict["measured"] in text
    shown = numbers_of(text)
    for row in plain["rows"]:
        assert {row["calls"][0], row["sent"][0]["theory"], row["sent"][0]["trace"]} <= shown
    total = sum(row["sent"][0]["trace"] for row in plain["rows"])
    assert total in shown
    assert total == report.total("trace", 0)


def test_verify_is_brief_where_all_is_as_predicted(folder):
    """Claims that hold are counted; what was not checked is told in any case."""
    verdicts = verify(load(folder)).verdicts
    text = command("verify", folder).out
    hold = [verdict for verdict in verdicts if verdict.outcome is Outcome.AS_PREDICTED]
    assert f"✓ {len(hold)} claims hold: -v prints all" in text
    told = [verdict for verdict in verdicts if verdict.measured in text]
    assert told == [verdict for verdict in verdicts if verdict not in hold]
    assert "from the formula to the wire" not in text
    whole = command("verify", folder, "-v").out
    assert "from the formula to the wire" in whole
    assert set(text.splitlines()[:-1]) <= set(whole.splitlines())


def test_ranks_that_sent_the_same_share_a_column(folder):
    header = next(line for line in command("verify", folder).out.splitlines() if "purpose" in line)
    assert header.split()[-3:] == ["wire,", "each", "rank"]


def test_verify_shows_what_was_received(folder):
    report = verify(load(folder))
    text = command("verify", folder, "--received").out
    assert "bytes received by each rank" in text
    for row in report.rows:
        assert {cell.trace for cell in row.received} <= numbers_of(text)


def test_show_says_the_same_as_json_and_as_text(folder):
    for args in ((), ("--hops",), ("--rank", "all", "--iteration", "0", "--phase", "backward")):
        events = json.loads(command("show", folder, *args, "--json").out)
        lines = command("show", folder, *args).out.splitlines()
        assert lines[-1].startswith(f"{len(events)} shown of ")
        assert len(lines) == len(events) + 3
        for event, line in zip(events, lines[1:], strict=False):
            assert line.startswith(str(event["rank"]))
            assert f"{event['payload_bytes']:,}" in line
            assert event["purpose"] in line or "hop 0" in line
    assert {event["phase"] for event in events} == {"backward"}
    assert {event["rank"] for event in events} == {0, 1, 2, 3}
    assert {event["iteration"] for event in events} == {0}


def test_show_raw_prints_what_each_row_says_with_its_template(tmp_path):
    """Of a rank of the current schema and of one of schema 1."""
    mark = Event(
        id=4, rank=0, kind=Kind.COMPUTE, iteration=2, phase=Phase.FORWARD, unit="a\x1bb", issue_ns=7
    )
    template, occurrence = said_once(mark, number=9)
    now = [("header", header(0, 2)), ("template", template), ("begin", occurrence)]
    before = [("header", replace(header(1, 2), schema=1)), ("open", replace(mark, rank=1))]
    write_trace(tmp_path, {0: now, 1: before})
    lines = command("show", tmp_path, "--raw", "--rank", "all").out.splitlines()
    assert [line.split(" ", 2)[:2] for line in lines] == [
        ["0:1", "header:"], ["0:2", "template:"], ["0:3", "begin:"], ["0:4", "end:"],
        ["1:1", "header:"], ["1:2", "open:"], ["1:3", "end:"],
    ]  # fmt: skip
    said = 'kind "compute", phase "forward", unit "a\\u001bb"'
    assert lines[2] == f"0:3 begin: template 9, id 4, iteration 2, issue_ns 7, {said}"
    rows = json.loads(command("show", tmp_path, "--raw", "--json").out)
    assert {row["rank"] for row in rows} == {0}
    assert (rows[2]["line"], rows[2]["name"], rows[2]["values"]["unit"]) == (3, "begin", "a\x1bb")
    own = {"template": 9, "id": 4, "iteration": 2, "issue_ns": 7}
    assert rows[2]["values"] == {**own, **_said(template)}
    (opened,) = json.loads(command("show", tmp_path, "--raw", "--rank", "1", "--json").out)[1:2]
    assert opened["values"].items() >= _said(template).items()


def _said(template):
    return {"kind": template.kind.value, "phase": template.phase.value, "unit": template.unit}


def test_show_raw_prints_rows_up_to_a_damage(folder):
    file = folder / "rank-0.jsonl"
    lines = file.read_bytes().splitlines(keepends=True)
    file.write_bytes(b"".join([*lines[:4], *lines[5:]]))
    answer = command("show", folder, "--raw")
    assert answer.code == 2
    assert len(answer.out.splitlines()) == 4
    assert "rank-0.jsonl, row 5: checksum" in answer.err


def test_rows_are_printed_as_a_table_is_without_laying_each_cell_out(capsys, monkeypatch):
    rows = [(f"é{'x' * (n % 3)}\x1b", "", str(10**n)) for n in range(3)]

    def table():
        return make_table("name", "longer heading", "number", left=2)

    whole = table()
    for row in rows:
        whole.add_row(*row)
    print_table(make_console(), whole)
    expected = [line.rstrip() for line in capsys.readouterr().out.splitlines()]
    monkeypatch.setattr(Measurement, "get", None)  # what takes rich a millisecond a row
    print_rows(make_console(), table(), iter(rows))
    assert capsys.readouterr().out.splitlines() == expected


def test_show_lays_no_cell_out(folder, monkeypatch):
    monkeypatch.setattr(Measurement, "get", None)
    assert "sent B" in command("show", folder).out


def test_show_chooses_units_by_pattern(folder):
    for pattern, some in (("bl*", True), ("block", True), ("b?ock", True)):
        assert bool(json.loads(command("show", folder, "--unit", pattern, "--json").out)) is some


def test_a_phase_without_events_is_empty_and_no_error(folder):
    answer = command("show", folder, "--phase", "setup")
    assert (answer.code, answer.err) == (0, "")
    assert "0 shown of" in answer.out


def test_doctor_says_the_same_as_json_and_as_text(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    plain = json.loads(process("doctor", "--json").out)
    # what is free on the disk changes: the same findings are printed, not the next ones
    found = [doctor.HealthCheck(**finding) for finding in plain["findings"]]
    monkeypatch.setattr(doctor, "_examine", lambda: iter(found))
    answer = command("doctor")
    assert answer.code == 0
    assert answer.err == ""
    assert plain["able"] is True
    for finding in plain["findings"]:
        mark = "✓" if finding["works"] else "-"
        assert f"{mark} {finding['what']}: {finding['found']}" in answer.out
        assert finding["works"] or not finding["is_needed"]


def test_doctor_says_what_serve_lacks_and_that_all_else_works(monkeypatch):
    assert doctor._try("pages", require_pages, is_needed=False).works
    monkeypatch.setitem(sys.modules, "waitress", None)
    finding = doctor._try("pages", require_pages, is_needed=False)
    assert (finding.works, finding.is_needed) == (False, False)
    assert "waitress, not installed here; try pip install 'zerosim[pages]'" in finding.found
    assert_one_line(command("serve"), finding.found)


def test_doctor_fails_without_what_is_needed(monkeypatch):
    broken = doctor.HealthCheck("gloo", works=False, found="this PyTorch was built without it")
    monkeypatch.setattr(doctor, "_examine", lambda: iter([broken]))
    answer = command("doctor")
    assert answer.code == 2
    assert "✗ gloo: this PyTorch was built without it" in answer.out
    assert json.loads(command("doctor", "--json").out)["able"] is False


@pytest.mark.ranks
def test_run_says_the_same_as_json_and_as_text(tmp_path):
    args = ("run", "--model", "mlp", "--ranks", 2, "--steps", 2, "--out", tmp_path)
    answer = command(*args, "--stage", "0,3", "--json")
    assert (answer.code, answer.err) == (0, "")
    plain = json.loads(answer.out)
    assert [report["stage"] for report in plain] == [0, 3]
    for report in plain:
        folder = tmp_path / f"stage-{report['stage']}"
        losses = report.pop("losses")
        assert report == json.loads(command("verify", folder, "--json").out)
        assert losses == [m.value for m in load(folder).ranks[0].metrics if m.name == "loss"]
        assert len(losses) == 2
    text = command(*args, "--stage", "3", "--overwrite")
    assert text.code == 0
    again = verify(load(tmp_path))
    assert again.headline in text.out
    assert text.out.endswith(f"next: zerosim replay {tmp_path}\n")
    assert numbers_of(command("verify", tmp_path).out) <= numbers_of(text.out)


def test_a_pipe_gets_whole_lines_without_colours(folder):
    answer = process("verify", folder, COLUMNS="40")
    assert "…" not in answer.out
    assert "\x1b" not in answer.out
    assert answer.out == command("verify", folder).out


@pytest.fixture
def terminal(monkeypatch):
    """What a command of this process writes to is one, which says how wide it is."""
    for name in ("NO_COLOR", "COLUMNS"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("TERM", "xterm")
    monkeypatch.setenv("FORCE_COLOR", "1")
    return monkeypatch


@pytest.mark.parametrize("name", ["verify", "show"])
def test_a_narrow_terminal_cuts_no_number(folder, terminal, name):
    terminal.setenv("COLUMNS", "40")
    narrow = command(name, folder).out
    terminal.delenv("FORCE_COLOR")
    terminal.delenv("COLUMNS")
    piped = command(name, folder).out
    assert "…" not in narrow
    assert "\x1b" in narrow
    assert numbers_of(plain_text(narrow)) >= numbers_of(piped) - {0, 1, 2, 3}


def test_no_color_is_respected(folder, terminal):
    coloured = command("verify", folder).out
    assert re.search(r"\x1b\[[\d;]*3[12]m", coloured)
    terminal.setenv("NO_COLOR", "1")
    bare = command("verify", folder).out
    assert not re.search(r"\x1b\[[\d;]*3\dm", bare)
    terminal.delenv("NO_COLOR")
    terminal.delenv("FORCE_COLOR")
    assert "\x1b" not in command("verify", folder).out


@pytest.mark.parametrize("args", ["verify", "show --hops", "show --json"])
def test_ascii_only_output_stays_readable(folder, args):
    answer = process(*args.split(), folder, PYTHONIOENCODING="ascii", PYTHONUTF8="0", LC_ALL="C")
    assert (answer.code, answer.err) == (0, "")
    assert answer.out.isascii()
    assert "?" not in answer.out
    if args == "verify":
        assert answer.out.startswith("ok This run of ZeRO-3 sends 3Psi(N-1)/N a step")


@pytest.mark.parametrize(
    ("args", "holds", "code"),
    [
        ("verify", True, 0),
        ("verify --json", False, 1),
        ("show --hops", True, 0),
    ],
)
def test_a_reader_that_is_gone_changes_not_the_verdict(tmp_path, args, holds, code):
    good, other = engine_trace(3), engine_trace(2)
    rows = good.rows if holds else other.rows
    folder = write(tmp_path, replace(good, rows=rows))
    reader, writer = os.pipe()
    started = subprocess.Popen(
        (sys.executable, "-m", "zerosim", *args.split(), str(folder)),
        stdout=writer,
        stderr=subprocess.PIPE,
        text=True,
    )
    os.close(reader)
    os.close(writer)
    _, err = started.communicate(timeout=RANKS_S)
    assert (started.returncode, err) == (code, "")


def test_version_and_help_name_the_same_program():
    assert re.fullmatch(r"zerosim \d+\.\d+\.\d+\S*\n", command("--version").out)
    assert process("--version").out == command("--version").out  # python -m zerosim
    for name in ("run", "verify", "show", "doctor"):
        answer = command(name, "--help")
        assert answer.code == 0
        assert f"Usage: zerosim {name}" in answer.out
        assert name in command("--help").out


@pytest.mark.parametrize("name", ["verify", "show"])
def test_what_a_trace_says_steers_no_terminal(tmp_path, name):
    said = "\x1b[31m\x9b2J\u202enwod\u202c\u2028 \x07end"
    program = Program(ddp(2, parameter("w", 12, 10)))
    program.add(1, program.calls[1, 0][0][0], source=f"train.py:9 in {said}", unit=said)
    program.write(tmp_path / "t")
    answer = command(name, tmp_path / "t")
    assert "nwod" in answer.out
    assert all(one.isprintable() for one in answer.out + answer.err if one != "\n"), answer
    assert r"\x1b[31m\x9b2J\u202enwod\u202c\u2028 " in answer.out


READING = [
    ("verify",),
    ("verify", "--json"),
    ("show", "--json"),
    ("show", "--raw"),
    ("graph",),
    ("diagnose",),
    ("--help",),
]


def printed_to(monkeypatch, file, *words):
    """Exit code and complaints of a command whose standard output goes into a file."""
    complaints = io.StringIO()
    with contextlib.redirect_stdout(file), contextlib.redirect_stderr(complaints):
        monkeypatch.setattr(sys, "argv", ["zerosim", *map(str, words)])
        with pytest.raises(SystemExit) as ended:
            main()
        sys.stdout.flush()  # what the interpreter does last
    return ended.value.code, complaints.getvalue().splitlines()


@pytest.mark.parametrize("words", READING, ids=" ".join)
def test_output_that_cannot_be_written_is_told_in_one_line(monkeypatch, folder, words):
    """Whether a command prints all at once or bit by bit, and whatever it prints with."""
    given = words if words == ("--help",) else (words[0], folder, *words[1:])
    for buffering in (1, -1):
        with Path("/dev/full").open("w", buffering) as full:
            code, complaints = printed_to(monkeypatch, full, *given)
        assert code == 2
        (line,) = complaints
        assert line.startswith("zerosim: standard output cannot be written: No space left")


@pytest.mark.parametrize("words", READING, ids=" ".join)
def test_a_reader_that_is_gone_is_no_failure(monkeypatch, folder, words):
    given = words if words == ("--help",) else (words[0], folder, *words[1:])
    reading, writing = os.pipe()
    os.close(reading)
    with os.fdopen(writing, "w") as unread:
        assert printed_to(monkeypatch, unread, *given) == (0, [])


@pytest.mark.parametrize("unbuffered", ["", "1"])
def test_what_is_said_before_a_program_comes_before_what_it_says(unbuffered):
    """Whatever standard error is, and however Python was started."""
    words = (
        "own_streams('replace'); sys.stderr.write('first\\n'); run(['sh', '-c', 'echo second >&2'])"
    )
    program = f"import sys; from subprocess import run; from zerosim.cli.streams import *; {words}"
    environment = os.environ | {"PYTHONUNBUFFERED": unbuffered}
    command = (sys.executable, "-c", program)
    said = subprocess.run(command, stderr=subprocess.PIPE, text=True, check=True, env=environment)
    assert said.stderr.split() == ["first", "second"]


def test_complaints_that_nobody_can_be_told_change_no_exit_code(tmp_path):
    words = ("-m", "zerosim", "show", tmp_path)
    with Path("/dev/full").open("w") as full:
        assert subprocess.run((sys.executable, *words), stderr=full, check=False).returncode == 2


def test_too_little_memory_to_read_is_told_in_one_line(folder):
    """Between little and enough, NumPy's own libraries end the process, or try for minutes."""
    for limit in (60_000, 90_000):
        words = f"ulimit -v {limit}; exec {sys.executable} -m zerosim verify {folder}"
        shell = ("/bin/sh", "-c", words)
        ended = subprocess.run(shell, capture_output=True, text=True, check=False)
        assert (ended.returncode, ended.stdout) == (2, "")
        (line,) = ended.stderr.splitlines()
        assert line.startswith(f"zerosim: ulimit -v allows {limit:,} KiB: expected at least ")


def test_of_a_page_of_advice_the_reason_is_told():
    """As NumPy writes one, where its library cannot be loaded."""
    advice = ImportError("\n\nIMPORTANT: PLEASE READ THIS\n")
    advice.__cause__ = ImportError("libopenblas.so: failed to map segment from shared object")
    said = cannot_load(advice)
    assert "(ImportError: libopenblas.so: failed to map segment from shared object)" in said
