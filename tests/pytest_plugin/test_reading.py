"""What a test may write, and what it is told when it writes something else."""

import subprocess
import sys
from fractions import Fraction
from types import SimpleNamespace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from zerosim.base.errors import ConfigError
from zerosim.pytest_plugin.collectives import parse_counts
from zerosim.pytest_plugin.options import Options, read_marker
from zerosim.pytest_plugin.own import close_rows
from zerosim.pytest_plugin.peak_memory import parse_role
from zerosim.schema.events import End, Metric, Op, Phase, Purpose
from zerosim.schema.memory import MODEL_STATES, Role
from zerosim.schema.rows import check_line, encode_row
from zerosim.view.reading.law import LedgerName, choose_ledger, num_parameters
from zerosim.view.reading.quantity import parse_quantity, parse_tolerance
from zerosim.view.reading.selection import names_of


def test_loading_the_plugin_costs_nothing_and_warns_of_nothing():
    heavy = ["torch", "msgspec", "numpy", "networkx", "rich", "typer", "dash", "plotly", "waitress"]
    program = (
        f"import sys; import zerosim.pytest_plugin; print(sorted({heavy} & sys.modules.keys()))"
    ).replace(str(heavy), str(set(heavy)))
    ended = subprocess.run(
        [sys.executable, "-W", "error", "-c", program], capture_output=True, text=True, check=True
    )
    assert (ended.stdout, ended.stderr) == ("[]\n", "")


@pytest.mark.parametrize(
    ("text", "for_four"),
    [
        ("2Psi", 2),
        ("2Ψ", 2),
        ("psi", 1),
        ("1.5 Psi", Fraction(3, 2)),
        ("3/2 * Psi", Fraction(3, 2)),
        ("2Psi (N-1)/N", Fraction(3, 2)),
        ("2 Ψ * ( N - 1 ) / N", Fraction(3, 2)),
        ("4Psi + 12Psi/N", 7),
        ("0.1Psi", Fraction(1, 10)),
    ],
)
def test_quantities_in_psi_are_exact(text, for_four):
    quantity = parse_quantity(text)
    assert not quantity.is_bytes
    assert quantity.in_psi(4) == for_four


@pytest.mark.parametrize(("text", "size"), [("12 MB", 12_000_000), (4096, 4096), ("1 KiB", 1024)])
def test_quantities_in_bytes(text, size):
    assert parse_quantity(text).num_bytes == size


@pytest.mark.parametrize(
    "given_", ["2Pi", "", "Psi^2", "2Psi-1Psi", "1/0Psi", "2Psi/M", "1.5 B", -1, 1.5, None, True]
)
def test_what_is_no_quantity_is_one_line(given_):
    with pytest.raises(ConfigError) as error:
        parse_quantity(given_)
    assert "\n" not in str(error.value)
    assert "expected" in str(error.value)


@given(st.text(max_size=30))
def test_any_text_is_a_quantity_or_refused(text):
    try:
        quantity = parse_quantity(text)
    except ConfigError as error:
        assert len(str(error).splitlines()) == 1  # noqa: PT017 - either may happen
    else:
        assert quantity.in_psi(2) >= 0


def test_tolerances():
    assert parse_tolerance(0) == 0
    assert parse_tolerance(0.1) == Fraction(1, 10)
    for wrong in (-0.1, "2 %", None, True, float("nan"), float("inf")):
        with pytest.raises(ConfigError, match="tolerance is"):
            parse_tolerance(wrong)


def test_the_ledger_is_what_the_quantity_speaks_of():
    for text, ledger in (("2Psi", "payload"), ("2Psi (N-1)/N", "trace"), (8, "trace")):
        assert choose_ledger(parse_quantity(text), None) is LedgerName(ledger)
    assert choose_ledger(parse_quantity("2Psi"), "wire") is LedgerName.WIRE
    with pytest.raises(ConfigError, match="payload counts whole buffers"):
        choose_ledger(parse_quantity("2Psi (N-1)/N"), "payload")
    with pytest.raises(ConfigError, match="ledger is 'kernel': expected one of"):
        choose_ledger(parse_quantity("2Psi"), "kernel")


def test_counts_by_operation_purpose_and_phase():
    assert parse_counts({"all-reduce": 3}) == {(Op.ALL_REDUCE,): 3}
    assert parse_counts({"reduce gradients": 1}) == {(Purpose.REDUCE_GRADIENTS,): 1}
    both = (Phase.FORWARD, Op.ALL_GATHER)
    assert parse_counts({("all-gather", "forward"): 2}) == {both: 2}
    for wrong, words in (
        ({"allreduce": 1}, "not an operation, purpose or phase"),
        ({"all-reduce": -1}, "expected 0 or more"),
        ({"all-reduce": 1, "backward": 1}, "keys of different kinds"),
        ({("all-reduce", "all-gather"): 1}, "two of one kind"),
        ({("forward", "send"): 1, ("send", "forward"): 1}, "given twice"),
        ({(): 1}, "a key is empty"),
        (["all-reduce"], "are not counts"),
    ):
        with pytest.raises(ConfigError, match=words):
            parse_counts(wrong)


def test_roles_phases_and_psi():
    assert parse_role("model states") == MODEL_STATES
    assert parse_role("activations") == (Role.ACTIVATIONS,)
    assert names_of(Phase, ("forward", "outside"), "phase") == (Phase.FORWARD, Phase.OUTSIDE)
    for wrong in ("weights", 3):
        with pytest.raises(ConfigError, match=r"role is .* expected one of"):
            parse_role(wrong)
        with pytest.raises(ConfigError, match=r"phase is .* expected one of"):
            names_of(Phase, wrong, "phase")
        with pytest.raises(ConfigError, match=r"psi is .*: expected a model"):
            num_parameters(None, str(wrong))


def test_markers():
    assert read_marker(None) == Options()
    given_ = SimpleNamespace(args=(), kwargs={"timeout_s": 3, "wire": False})
    assert read_marker(given_) == Options(timeout_s=3, wire=False)
    for args, kwargs in (
        ((True,), {}),
        ((), {"memori": True}),
        ((), {"memory": 1}),
        ((), {"timeout_s": True}),
    ):
        with pytest.raises(ConfigError, match=r"the marker zerosim was given .*: expected"):
            read_marker(SimpleNamespace(args=args, kwargs=kwargs))


def test_rows_that_are_still_written_are_closed_where_they_are_whole():
    rows, crc = b"", 0
    for number in range(3):
        line, crc = encode_row(
            "metric", Metric(iteration=number, name="loss", value=1.5, time_ns=number), crc
        )
        rows += line
    closed = close_rows(rows + b'{"row":"metric","iter')
    assert closed.startswith(rows)
    assert close_rows(closed) == closed
    crc, names = 0, []
    for line in closed.splitlines():
        name, crc = check_line(line, crc)
        names.append(name)
    assert names == ["metric", "metric", "metric", "end"]
    ended = encode_row("end", End(time_ns=1, num_rows=3), 0)[0].split(b',"num_rows"')[1]
    assert closed.splitlines()[-1].split(b',"num_rows"')[1][:2] == ended[:2]
