"""What `make test-gpu` writes into docs/gpu.md."""

from __future__ import annotations

import json
from pathlib import Path

from tests import gpu
from tests.cli.command import command
from tests.recorded_gpu import recorded_on_gpu


def test_a_run_is_a_row_of_the_table(tmp_path):
    folder = recorded_on_gpu("stage-3", tmp_path)
    report = json.loads(command("verify", folder, "--json").out)
    row = gpu.row_of(report, 3, 2, "ring")
    assert row == gpu.Row(3, 2, "ring", True, 9_921_028, 700, 9_921_728, 0)
    document = Path("docs/gpu.md").read_text(encoding="utf-8")
    assert document.count(gpu.HEADING) == 1
    changed = gpu.written(document, [row], "a card")
    assert "| 3 | 2 | ring | 9,921,028 | 700 | 9,921,728 | 0 | holds |" in changed
    before, _, after = document.partition(gpu.HEADING)
    assert changed.startswith(before)
    assert changed.endswith(after[after.index("\n## ") :])


def test_a_run_that_failed_is_a_row_as_well(tmp_path, monkeypatch):
    monkeypatch.setattr(gpu, "_zerosim", lambda *words: "")
    row = gpu._run(tmp_path, 3, 4, "native")
    assert not row.holds
    changed = gpu.written(f"{gpu.HEADING}\n", [row], "a card")
    assert "| 3 | 4 | native | not measured | not measured | not measured |" in changed
