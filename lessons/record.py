"""Make the committed traces anew: `python -m zerosim.lessons.record`; some: `... ring/stage-3`."""

from __future__ import annotations

import sys

from zerosim.lessons.recordings import COMMITTED, committed, record

if __name__ == "__main__":
    record(sys.argv[1:] or committed(), COMMITTED)
