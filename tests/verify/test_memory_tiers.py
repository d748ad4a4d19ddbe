"""The verdict on memory by tier: it holds on a good trace, and a byte too many is found."""

from __future__ import annotations

import json
from dataclasses import replace

import pytest

from tests.cli.command import command
from tests.verify.memory_traces import change, memory_trace, position_of, samples, write
from tests.verify.test_memory_check import failed, report_of
from zerosim.base.tiers import Tier
from zerosim.schema.events import Event, Kind, Phase, Purpose
from zerosim.schema.manifest import Slot
from zerosim.schema.memory import Moment, Role

RANKS = 3
SYSTEMS = {
    "ZeRO-1 + cpu": (1, {"offload_optimizer": "cpu"}),
    "ZeRO-2 + cpu": (2, {"offload_optimizer": "cpu"}),
    "ZeRO-2 + nvme": (2, {"offload_optimizer": "nvme"}),
    "ZeRO-3 + cpu": (3, {"offload_optimizer": "cpu"}),
    "parameters cpu": (3, {"offload_param": "cpu"}),
    "both cpu": (3, {"offload_optimizer": "cpu", "offload_param": "cpu"}),
    "both nvme": (3, {"offload_optimizer": "nvme", "offload_param": "nvme"}),
    "owners": (
        3,
        {"offload_optimizer": "cpu", "offload_param": "cpu", "owner_broadcast": "parameters"},
    ),
    "owners nvme": (3, {"offload_param": "nvme", "owner_broadcast": "parameters"}),
}


@pytest.mark.parametrize("name", SYSTEMS)
@pytest.mark.parametrize(("dtype", "frozen"), [("bf16", False), ("fp32", True)])
def test_a_trace_that_is_as_theory_says_holds(tmp_path, name, dtype, frozen):
    stage, options = SYSTEMS[name]
    folder = write(tmp_path, memory_trace(stage, RANKS, dtype=dtype, frozen=frozen, **options))
    assert failed(folder) == {}
    report = report_of(folder)
    assert report.unexplained_bytes == 0
    assert {one.tier for one in report.tiers} == {
        tier for key, tier in TIERS.items() if key in options.values()
    } | ({Tier.HOST} if "offload_optimizer" in options else set())
    for one in report.tiers:
        assert one.law_bytes + sum(cause.bytes for cause in one.causes) == sum(
            row.measured_bytes[0] for row in one.rows
        )
        assert one.law in report.headline
    for top in report.peaks:
        assert top.bytes == report.law_bytes + sum(cause.bytes for cause in top.causes)
        assert all(cause.is_excused for cause in top.causes)


TIERS = {"cpu": Tier.HOST, "nvme": Tier.DISK}


def test_the_numbers_by_hand(tmp_path):
    """Rows of 11, 22, 22 and 14 parameters: ZeRO-2 with its optimizer on the host."""
    folder = write(tmp_path, memory_trace(2, RANKS, offload_optimizer="cpu"))
    report, row = report_of(folder), 11 + 22 + 22 + 14
    assert [(r.role, r.measured_bytes[1]) for r in report.rows] == [(Role.PARAMETERS, 2 * 3 * row)]
    (host,) = report.tiers
    assert [(r.role, r.measured_bytes[1]) for r in host.rows] == [
        (Role.GRADIENTS, 2 * row),
        (Role.MASTER, 4 * row),
        (Role.MOMENTUM, 4 * row),
        (Role.VARIANCE, 4 * row),
    ]
    assert host.peaks[0].bytes == 14 * row
    assert host.peaks[0].sentence.startswith("Rank 0 had at most 966 B on the host when ")
    assert "peaked on the device at" in report.peaks[0].sentence
    answer = command("memory", folder)
    for words in (
        "bytes on the host of each rank when the update of iteration 2 begins",
        "from the formula to the memory of rank 0 on the host",
        "live bytes on the host of rank 0: iteration 0",
        "model states  14Ψ/N",
        "Ranks 0-2 had at most 966 B on the host",
    ):
        assert words in answer.out
    plain = json.loads(command("memory", folder, "--json").out)
    assert [tier["tier"] for tier in plain["tiers"]] == ["host"]


def test_files_are_a_tier_of_their_own(tmp_path):
    folder = write(tmp_path, memory_trace(3, RANKS, offload_optimizer="nvme", offload_param="nvme"))
    assert {one.tier: one.law for one in report_of(folder).tiers} == {
        Tier.HOST: "2Ψ/N",
        Tier.DISK: "14Ψ/N",
    }
    out = command("memory", folder).out
    assert "bytes in files on the disk of rank 0" in out
    assert "in files" in out


@pytest.mark.parametrize(
    ("name", "role", "tier", "size"),
    [
        ("ZeRO-2 + cpu", Role.GRADIENTS, Tier.HOST, 2 * 22 + 1),
        ("ZeRO-2 + cpu", Role.GRADIENTS, Tier.DEVICE, 1),
        ("both nvme", Role.VARIANCE, Tier.DISK, 4 * 22 + 1),
        ("both nvme", Role.VARIANCE, Tier.HOST, 1),
        ("owners", Role.PARAMETERS, Tier.HOST, 1),
    ],
)
def test_a_byte_too_many_in_any_tier(tmp_path, name, role, tier, size):
    stage, options = SYSTEMS[name]
    written = memory_trace(stage, RANKS, **options)
    begin = position_of(written, 1, 2, Phase.UPDATE, Moment.PHASE)
    change(written, 1, begin, role, "blocks.1", size, tier)
    words = f"{size} B of {role} for blocks.1 on the {tier}"
    found = failed(write(tmp_path, written))
    identity = "model-states" if tier is Tier.DEVICE else f"model-states-{tier}"
    assert f"rank 1 keeps {words} when the update of iteration 2 begins" in found[identity]
    assert found.keys() <= {identity, "whole-gradients", "allocated"}
    assert report_of(tmp_path).unexplained_bytes == 1
    assert "does not keep model states of" in report_of(tmp_path).headline


def test_a_part_for_backward_is_kept_until_the_update(tmp_path):
    written = memory_trace(3, RANKS, frozen=True, secondary_partition=3)
    folder = write(tmp_path / "good", written)
    assert failed(folder) == {}
    verdict = next(v for v in report_of(folder).verdicts if v.id == "secondary-parameters")
    assert "2Ψ/3" in verdict.title
    parts = 2 * (11 + 22 + 22 + 14 + 4)
    assert verdict.measured == f"{parts} B"
    top = report_of(folder).peaks[0]
    assert {c.cause: c.bytes for c in top.causes}["secondary parameters"] == parts
    begin = position_of(written, 2, 1, Phase.UPDATE, Moment.PHASE)
    change(written, 2, begin, Role.SECONDARY, "head", 0)
    found = failed(write(tmp_path / "bad", written))
    assert (
        "rank 2 when update of iteration 1 begins: 0 B of head, expected 28 B"
        in found["secondary-parameters"]
    )


def test_without_other_tiers_none_is_named(tmp_path):
    folder = write(tmp_path, memory_trace(3, RANKS))
    assert report_of(folder).tiers == ()
    out = command("memory", folder).out
    for words in ("on the device", "on the host", "on the disk", "tier"):
        assert words not in out


def verdict_of(folder, identity):
    return next(verdict for verdict in report_of(folder).verdicts if verdict.id == identity)


def test_buckets_pass_through_two_buffers_that_do_not_grow(tmp_path):
    """Buckets of at most 40 elements on 3 ranks: 13 columns, so two buffers of 39 elements."""
    options = {"constant_buffers": True, "bucket_elements": 40}
    written = memory_trace(2, RANKS, **options)
    for rank in range(RANKS):
        change(written, rank, 1, Role.BUFFERS, "", 2 * 39 * 2 + 100)
    folder = write(tmp_path / "good", written)
    assert verdict_of(folder, "constant-buffers").holds is True
    assert "2 x 39 elements: 156 B" in verdict_of(folder, "constant-buffers").formula
    begin = position_of(written, 1, 2, Phase.UPDATE, Moment.PHASE)
    change(written, 1, begin, Role.BUFFERS, "", 300)
    verdict = verdict_of(write(tmp_path / "grows", written), "constant-buffers")
    assert verdict.holds is False
    assert "rank 1 has 300 B of shared buffers; at first it had 256 B" in verdict.measured
    change(written, 1, begin, Role.BUFFERS, "", 256)
    change(written, 1, begin, Role.BUFFERS, "head", 84)
    verdict = verdict_of(write(tmp_path / "own", written), "constant-buffers")
    own = "rank 1 when update of iteration 2 begins: bucket head has its own memory"
    assert own in verdict.measured
    small = memory_trace(2, RANKS, **options)
    verdict = verdict_of(write(tmp_path / "small", small), "constant-buffers")
    assert "has 0 B of shared buffers" in verdict.measured


@pytest.mark.parametrize("on_host", [False, True])
def test_the_inputs_of_all_blocks_are_kept_and_nothing_is_more(tmp_path, on_host):
    """Two blocks whose inputs are 4 sequences of 8 tokens of width 3, in bf16."""
    written = memory_trace(
        3, RANKS, checkpoint_activations=True, cpu_checkpointing=on_host, frozen=True
    )
    each, tier = 2 * 4 * 8 * 3, Tier.HOST if on_host else Tier.DEVICE
    positions = Slot(name="embedding.position.weight", shape=(8, 3), offset=0, elements=24)
    units = [replace(unit, slots=(positions,)) for unit in written.manifest.units[:1]]
    described = replace(
        written.manifest, units=(*units, *written.manifest.units[1:]), run={"batch": 4}
    )
    written = replace(written, manifest=described)
    for rank in range(RANKS):
        for unit in ("blocks.0", "blocks.1"):
            begin = position_of(written, rank, 0, Phase.BACKWARD, Moment.PHASE)
            change(written, rank, begin, Role.CHECKPOINTS, unit, each, tier)
    verdict = verdict_of(write(tmp_path / "good", written), "checkpoints")
    assert (verdict.holds, verdict.measured) == (True, f"{2 * each} B")
    assert f"on the {tier}" in verdict.title
    begin = position_of(written, 2, 1, Phase.BACKWARD, Moment.PHASE)
    change(written, 2, begin, Role.CHECKPOINTS, "blocks.1", each + 2, tier)
    verdict = verdict_of(write(tmp_path / "large", written), "checkpoints")
    assert verdict.holds is False
    assert f"{each + 2} B of blocks.1, expected {each} B" in verdict.measured
    change(written, 2, begin, Role.CHECKPOINTS, "blocks.1", 0, tier)
    verdict = verdict_of(write(tmp_path / "few", written), "checkpoints")
    assert "inputs of 1 of 2 blocks (blocks.0)" in verdict.measured


def test_inputs_of_a_model_that_is_not_known_prove_nothing(tmp_path):
    folder = write(tmp_path, memory_trace(3, RANKS, checkpoint_activations=True))
    assert verdict_of(folder, "checkpoints").holds is None
    assert "unknown for this model" in verdict_of(folder, "checkpoints").measured


def test_a_copy_has_its_name_in_a_peak(tmp_path):
    written = memory_trace(3, 2, offload_param="cpu", counts_allocations=False)
    copy = Event(
        id=9000, rank=0, kind=Kind.COPY, iteration=1, phase=Phase.UPDATE, unit="head",
        purpose=Purpose.STORE_PARAMETERS, origin=Tier.DEVICE, target=Tier.HOST, issue_ns=1,
        start_ns=1, end_ns=2,
    )  # fmt: skip
    position = position_of(written, 0, 1, Phase.UPDATE, Moment.PHASE)
    rows = written.rows[0]
    place = samples(written, 0)[position]
    rows[place] = ("memory", replace(rows[place][1], event=copy.id, moment=Moment.BEGIN))
    rows.insert(place, ("event", copy))
    change(written, 0, position, Role.BUFFERS, "", 10_000_000)
    change(written, 0, position + 1, Role.BUFFERS, "", 0)
    words = report_of(write(tmp_path, written)).peaks[0].when
    assert words == "when the copy of head (store parameters) began in update in iteration 1"
