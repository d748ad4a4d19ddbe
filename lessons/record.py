"""Make the committed traces anew: `python -m lessons.record`, or some: `... native/stage-2`."""

from __future__ import annotations

import sys

from lessons.recordings import COMMITTED, committed, record

if __name__ == "__main__":
    record(sys.argv[1:] or committed(), COMMITTED)
