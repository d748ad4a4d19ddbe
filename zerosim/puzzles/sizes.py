"""Writes the sizes of each case: `python -m zerosim.puzzles.sizes`.

Every reference runs once, on real ranks.
"""

from __future__ import annotations

import json
import tempfile
from pathlib import Path

from zerosim.puzzles.promised import SIZES
from zerosim.puzzles.puzzle import puzzles
from zerosim.puzzles.running import Submission, run_submissions


def main() -> None:
    """Run all references."""
    with tempfile.TemporaryDirectory(prefix="zerosim-sizes-") as folder:
        todo = [
            Submission(one, one.folder / "reference.py", Path(folder, one.name, "trace"))
            for one in puzzles()
        ]
        found = {}
        for ran in run_submissions(todo):
            said = ran.said[0]
            assert said is not None
            assert not said.error, said.error
            found[ran.submission.puzzle.name] = said.sizes
    SIZES.write_text(json.dumps(found, indent=2) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
