"""Which line of the program a call or an error belongs to."""

from __future__ import annotations

import json
import sys
from pathlib import Path

from zerosim.trace.source import program_lines, raised_below


def test_an_error_within_the_standard_library_is_of_the_line_that_called_it():
    try:
        Path("/there/is/none").read_text()
    except OSError as error:
        found = raised_below(error.__traceback__)
    assert found.startswith("trace/test_source.py:")
    assert found.endswith(
        " in test_an_error_within_the_standard_library_is_of_the_line_that_called_it"
    )


def test_functions_of_the_standard_library_are_no_lines_of_a_program():
    seen = []

    class Looks:
        def __index__(self):
            raise AssertionError

    def default(_):
        seen.extend(program_lines(sys._getframe()))

    json.dumps(Looks(), default=default, indent=1)
    assert seen[0].startswith("trace/test_source.py:")
    assert not any("json/encoder.py" in line for line in seen)
    assert any("_pytest" in line or "pluggy" in line for line in seen)  # installed packages are
