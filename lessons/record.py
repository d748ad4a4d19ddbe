"""Make the committed traces anew: `python -m zerosim.lessons.record`; some: `... ring/stage-3`."""

from __future__ import annotations

import sys

from zerosim.lessons.recordings import COMMITTED, committed, is_given, record

if __name__ == "__main__":
    record(sys.argv[1:] or [run for run in committed() if not is_given(run)], COMMITTED)
