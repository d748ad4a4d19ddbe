"""What a trace says that it leaves out, by the tool that made it."""

from __future__ import annotations

from dataclasses import replace

import pytest

from zerosim.lessons.recordings import COMMITTED
from zerosim.record import left_out, load
from zerosim.schema.manifest import Source
from zerosim.view.replay import replay_document


@pytest.mark.parametrize(
    ("source", "said"),
    [
        (None, ()),
        (
            Source.SIMULATED,
            (("a simulated run: all times are predicted for dgx-h100, and nothing was sent"),),
        ),
        (
            Source.PREDICTED,
            ("a predicted run: all times are predicted, everything else is as recorded",),
        ),
        (Source.IMPORTED, ("an imported run: memory, waits and the wire are not recorded",)),
    ],
)
def test_who_made_a_run_says_what_of_it_was_not_measured(source, said):
    trace = load(COMMITTED / "one" / "stage-0")
    manifest = replace(trace.manifest, source=source, machine="dgx-h100")
    made = replace(trace, manifest=manifest)
    assert left_out(made) == said
    document = replay_document(made, None, "one")
    assert document["run"]["is_predicted"] is (source in (Source.SIMULATED, Source.PREDICTED))
    assert set(said) <= set(document["notes"])
