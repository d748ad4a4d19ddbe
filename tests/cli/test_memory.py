"""`zerosim memory`: the same numbers as JSON and as text, a plot, and wrong input in one line."""

from __future__ import annotations

import json
import re
from dataclasses import replace

import pytest

from tests.cli.command import assert_one_line, command, numbers_of, plain_text, process
from tests.cli.traces import engine_trace
from tests.cli.traces import write as write_plain
from tests.theory.programs import fsdp, module, parameter
from tests.verify.memory_traces import UNITS, change, memory_trace, position_of, write
from tests.verify.program_traces import Program
from zerosim.record import load
from zerosim.schema.events import Phase
from zerosim.schema.memory import Moment, Role
from zerosim.verify import verify_memory


@pytest.fixture
def folder(tmp_path):
    return write(tmp_path / "t", memory_trace(3, 3))


@pytest.mark.parametrize("stage", range(4))
def test_json_and_text_say_the_same(tmp_path, stage):
    folder = write(tmp_path, memory_trace(stage, 3))
    answer = command("memory", folder, "-v")
    assert (answer.code, answer.err) == (0, "")
    text = answer.out
    plain = json.loads(command("memory", folder, "--json").out)
    assert plain == json.loads(json.dumps(verify_memory(load(folder)).to_plain()))
    assert text.splitlines()[0] == f"✓ {plain['headline']}"
    assert plain["law"] in text
    shown = numbers_of(text)
    for row in plain["rows"]:
        assert {row["theory_bytes"], *row["measured_bytes"]} <= shown
    for verdict in plain["verdicts"]:
        assert verdict["title"] in text
        assert verdict["measured"] in text
    for top in plain["peaks"]:
        assert top["when"] in text
        assert top["sentence"].partition(" peaked ")[2] in text
    assert "0 B in any role of any rank" in text


def plot_of(text: str) -> list[str]:
    """The drawn rows, without the axis and what is left of it."""
    return [re.split("[│|]", line, maxsplit=1)[1] for line in text.splitlines() if "│" in line]


def test_the_plot_stacks_roles_over_time(folder):
    rows = plot_of(command("memory", folder).out)
    assert len(rows) == 12
    # at the bottom the parameters, at the top what backward begins with
    assert set(rows[-1].strip()) <= set("pf")
    assert set(rows[0].strip()) <= set("aGo")
    assert any("╌" in row for row in rows)
    out = command("memory", folder).out
    assert re.search(r"^ +forward +backward +u", out, re.MULTILINE)
    assert f"theory for model states {16 * (11 + 22 + 22 + 14)} B" in out.replace(",", "")


def test_the_line_of_theory_is_where_the_model_states_end(tmp_path):
    """Without activations to speak of, model states reach it and nothing is above."""
    rows = plot_of(command("memory", write(tmp_path, memory_trace(0, 2)), "--iteration", 2).out)
    height = len(rows)
    mark = next(height - 1 - place for place, row in enumerate(rows) if "╌" in row)
    states = 16 * sum(-(-elements // 2) * 2 for elements in UNITS.values())
    top = states + 24 + 16 + 1000 + 1010 + 1020 + 1030
    assert mark == states * height // top
    update = [row.ljust(80)[-12] for row in reversed(rows)]
    assert all(letter in "pfmvg" for letter in update[:mark])
    assert all(letter not in "pfmvg" for letter in update[mark:])


def test_a_column_shows_the_most_that_was_alive_in_it(tmp_path):
    written = memory_trace(0, 1, counts_allocations=False)
    position = position_of(written, 0, 1, Phase.BACKWARD, Moment.PHASE)
    change(written, 0, position, Role.ACTIVATIONS, "", 1_000_000)
    change(written, 0, position + 1, Role.ACTIVATIONS, "", 16)
    rows = written.rows[0]
    first = next(row for name, row in rows if name == "memory" and row.iteration == 1)
    for place, (name, row) in enumerate(rows):
        if name == "memory" and row.iteration == 1 and row.phase is not Phase.OUTSIDE:
            rows[place] = (name, replace(row, time_ns=first.time_ns))  # all in one column
    text = command("memory", write(tmp_path, written), "--iteration", 1).out
    assert "1.01 MB│a" in text
    assert "a activations 1.00 MB" in text


def test_a_rank_and_an_iteration(folder):
    text = command("memory", folder, "--rank", 1, "--iteration", 1).out
    assert "live bytes on rank 1: iteration 1" in text
    assert "iteration 1 of 0..2" in text
    assert text.count(" peaked at ") == 1
    assert "Rank 1 peaked at" in text


def test_ranks_that_are_alike_are_told_once(folder, tmp_path):
    assert "Ranks 0-2 peaked at" in command("memory", folder, "-v").out
    written = memory_trace(3, 3)
    begin = position_of(written, 1, 1, Phase.BACKWARD, Moment.PHASE)
    change(written, 1, begin, Role.ACTIVATIONS, "", 5000)
    other = write(tmp_path / "other", written)
    text = command("memory", other, "-v").out
    assert "Ranks 0, 2 peaked at" in text
    assert "Rank 1 peaked at" in text
    brief = command("memory", other).out
    assert "Ranks 0, 2 peaked at" not in brief
    assert "Rank 1 peaked at" in brief
    assert "the highest of 3 ranks; --rank shows any other" in brief


def test_a_false_claim_is_exit_1(tmp_path):
    written = memory_trace(2, 2)
    begin = position_of(written, 0, 1, Phase.UPDATE, Moment.PHASE)
    change(written, 0, begin, Role.MASTER, "head", 3)
    folder = write(tmp_path, written)
    for args in ((), ("--json",)):
        assert command("memory", folder, *args).code == 1
    assert command("memory", folder).out.startswith("✗ This run of ZeRO-2 does not keep")


def test_a_trace_cut_short_is_shown_as_far_as_it_goes(folder):
    file = folder / "rank-1.jsonl"
    lines = file.read_bytes().splitlines(keepends=True)
    file.write_bytes(b"".join(lines[: 4 * len(lines) // 5]))
    answer = command("memory", folder)
    assert (answer.code, answer.err) == (0, "")
    assert "iteration 1 of 0..1" in answer.out
    assert answer.out.splitlines()[0].endswith("up to the last step that all ranks reached.")
    assert "note: rank 1: the trace stops after" in answer.out
    file.write_bytes(b"".join(lines[: len(lines) // 4]))
    answer = command("memory", folder, "-v")
    assert answer.code == 0
    headline = answer.out.splitlines()[0]
    assert headline.startswith("- This run of ZeRO-3 finished no iteration on all ranks")
    assert "✓" not in answer.out
    assert "not checked, since no iteration was finished" in answer.out
    assert json.loads(command("memory", folder, "--json").out)["outcome"] is None
    assert "no law was checked for this trace" in answer.out
    assert "Rank 1 peaked at" in answer.out


def test_a_program_without_iterations_is_drawn_whole(tmp_path):
    written = memory_trace(0, 1)
    written.manifest.config.clear()
    for place, (name, row) in enumerate(written.rows[0]):
        if hasattr(row, "iteration"):
            changed = replace(row, iteration=-1, phase=Phase.OUTSIDE)
            written.rows[0][place] = (name, changed)
    answer = command("memory", write(tmp_path, written))
    assert answer.code == 0
    assert "live bytes on rank 0: everything recorded" in answer.out
    assert len(plot_of(answer.out)) == 12


@pytest.mark.parametrize(
    ("args", "words"),
    [
        (("--rank", 3), ("rank 3", "expected one of 0, 1, 2")),
        (("--rank", "x"), ("rank is 'x'", "whole number")),
        (("--iteration", 9), ("iteration 9 is not complete", "0 to 2")),
        (("--iteration", "last"), ("iteration is 'last'", "whole number")),
        (("--frob",), ("--frob", "zerosim memory --help")),
    ],
)
def test_what_a_trace_does_not_hold(folder, args, words):
    assert_one_line(command("memory", folder, *args), *words)


def test_a_trace_without_memory_and_no_trace(tmp_path):
    folder = write_plain(tmp_path / "t", engine_trace(1))
    assert_one_line(
        command("memory", folder),
        f"{folder} was recorded without memory: record it again without --no-memory",
    )
    assert_one_line(command("memory", tmp_path / "nowhere"), "no such folder")
    assert_one_line(command("memory"), "folder", "zerosim memory --help")
    assert_one_line(command("memory", tmp_path), "is not a trace, but contains some (t)")


def test_a_manifest_that_is_whole_but_no_use(tmp_path):
    written = memory_trace(1)
    written.manifest.config["stage"] = 9
    assert_one_line(command("memory", write(tmp_path, written)), "stage is 9", "0, 1, 2 or 3")


def test_80_columns_with_and_without_colour(folder):
    environment = {"FORCE_COLOR": "1", "COLUMNS": "80"}
    coloured = process("memory", folder, NO_COLOR="", **environment).out
    bare = process("memory", folder, NO_COLOR="1", **environment).out
    assert re.search(r"\x1b\[[\d;]*3\dm█", coloured)
    assert not re.search(r"\x1b\[[\d;]*3\dm", bare)
    for text in (plain_text(coloured), plain_text(bare)):
        assert max(len(line) for line in text.splitlines() if "│" in line) <= 80
        assert "…" not in text
    assert "█" not in bare
    piped = process("memory", folder).out
    assert "\x1b" not in piped
    assert numbers_of(plain_text(bare)) >= numbers_of(piped) - {0, 1, 2, 3}


def test_ascii_only_output_stays_readable(folder):
    answer = process("memory", folder, PYTHONIOENCODING="ascii", PYTHONUTF8="0", LC_ALL="C")
    assert (answer.code, answer.err) == (0, "")
    assert answer.out.isascii()
    assert "?" not in answer.out
    assert answer.out.startswith("ok This run of ZeRO-3 keeps 16Psi/N bytes of model states")
    assert re.search(r"^ +[\d.]+ kB\|.*a", answer.out, re.MULTILINE)


@pytest.mark.parametrize("dims", [[], [2, 0], ["0", "0"]])
def test_a_program_that_tells_its_rows_wrongly_is_refused_in_one_line(tmp_path, dims):
    whole = module("root", parameter("w", 12, 10), parameter("b", 8), shard_dims=dims)
    program = Program(fsdp(2, whole))
    program.parameter_bytes = 512
    program.write(tmp_path / "t")
    assert_one_line(command("memory", tmp_path / "t"), "option 'shard_dims' of 'root'", str(dims))
