"""Memory in a replay, tier by tier: each series lies somewhere, and the device's come first."""

from __future__ import annotations

from tests.verify.memory_traces import UNITS, memory_trace, write
from zerosim.base.tiers import Tier
from zerosim.record import load
from zerosim.schema.memory import OPTIMIZER_STATES, Role
from zerosim.view.replay import replay_document

RANKS = 3
ROW = 11 + 22 + 22 + 14


def memory_of(folder, stage, **options):
    written = write(folder, memory_trace(stage, RANKS, **options))
    return replay_document(load(written, strict=True), 1)["memory"]


def test_what_is_kept_where(tmp_path):
    memory = memory_of(tmp_path, 3, offload_optimizer="nvme", offload_param="cpu")
    series = list(zip(memory["roles"], memory["tiers"], strict=True))
    tiers = [tier for _, tier in series]
    assert tiers == sorted(tiers, key=list(Tier).index)
    for rank in memory["ranks"]:
        last = {place: row[-1] for place, row in zip(series, rank["bytes"], strict=True)}
        assert last[Role.PARAMETERS, Tier.HOST] == last[Role.GRADIENTS, Tier.HOST] == 2 * ROW
        for role in OPTIMIZER_STATES:
            assert last[role, Tier.DISK] == 4 * ROW
        assert {len(row) for row in rank["bytes"]} == {len(rank["times_ns"])}
        on_device = [sum(column) for column in zip(*_device(series, rank), strict=True)]
        assert rank["peak_bytes"] == max(on_device)
    laws = {one["tier"]: one["law"] for one in memory["laws"]}
    assert laws == {"device": "0", "host": "4Ψ/N", "disk": "12Ψ/N"}
    assert (memory["law"], memory["law_bytes"]) == ("0", 0.0)


def _device(series, rank):
    return [
        row for (_, tier), row in zip(series, rank["bytes"], strict=True) if tier == Tier.DEVICE
    ]


def test_a_run_that_keeps_all_on_the_device_has_no_other_tier(tmp_path):
    memory = memory_of(tmp_path, 2)
    assert set(memory["tiers"]) == {"device"}
    assert memory["laws"] == [
        {"tier": "device", "law": "2Ψ + 14Ψ/N", "law_bytes": (2 + 14 / RANKS) * sum(UNITS.values())}
    ]
    assert memory["law_bytes"] == memory["laws"][0]["law_bytes"]
