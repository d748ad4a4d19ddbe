"""A dry run asks for what the real run asked for, and holds what that held."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path

import pytest
import torch
from torch.distributed import distributed_c10d

from tests.cli.command import assert_one_line, command
from tests.predict.simulate.options import IN_ONE_NODE, ON_EIGHT, ON_THREE, SCHEDULE
from tests.recorded import recorded, recorded_family
from tests.verify.test_family_runs import ON_FOUR, ON_TWO, train
from tests.view.replay.test_runs import VARIANTS
from zerosim.analysis.memory import ROLES, timeline
from zerosim.analysis.memory.line import tiers_of
from zerosim.base.config import EngineConfig, RunConfig
from zerosim.base.errors import ConfigError
from zerosim.predict.placement.machine import load_machine
from zerosim.predict.simulate.rank import SimulatedRank, stand_in
from zerosim.predict.simulate.simulate import alike_of, run_dry, run_rank, simulate_job
from zerosim.record import RankTrace, Trace, load, match_collectives
from zerosim.record.rankfile import read_rank
from zerosim.schema.events import Event, Group, Kind, Phase
from zerosim.schema.manifest import Alike, Source
from zerosim.schema.memory import Role
from zerosim.schema.rows import rank_file_name
from zerosim.trace.holdings import hold, hold_file, holdings, release
from zerosim.train.launch.job import Job
from zerosim.verify import verify
from zerosim.view.reading import Run

pytestmark = pytest.mark.ranks

OVERFLOWS = "skipped"
"""Whether a step is left out depends on numbers, which a dry run does not have."""
BRIEF = {
    3: {*SCHEDULE, "stage 3, native", "states on disk", "qgZ", *IN_ONE_NODE},
    4: {"owners", "owners of all", "hpZ"},
    8: set(),
}
"""Of those on three ranks and more, what those on two do not have; the others take long. All stages
on three ranks are below: `test_every_stage_of_a_run`."""
FAMILIES = {2: ON_TWO, 3: ON_THREE, 4: ON_FOUR, 8: ON_EIGHT}
FAMILY = [
    pytest.param(
        *(num_ranks, name),
        marks=[pytest.mark.long] * (num_ranks in BRIEF and name not in BRIEF[num_ranks]),
    )
    for num_ranks, cases in FAMILIES.items()
    for name in cases
    if OVERFLOWS not in name
]
LONG = ("micro-steps, small buckets, clipping", "large buckets, far ahead", "nothing at once")
"""As in ON_THREE, in all stages."""


@pytest.fixture(autouse=True)
def first_group(monkeypatch: pytest.MonkeyPatch) -> None:
    """Groups are named by how many a process has made, and this one may have made some."""
    monkeypatch.setattr(distributed_c10d, "_group_count", 0)


def asked(rank: RankTrace, *kinds: Kind, updates: bool | None = None) -> list[tuple[object, ...]]:
    """All that is said of events of these kinds, in their order, but when they were.

    A group is told by its ranks: its name counts what its process made before, for another run.
    """
    return [
        said(event, rank.groups)
        for _, event in rank.events.of_kind(*kinds)
        if updates is None or (event.phase is Phase.UPDATE) is updates
    ]


def said(event: Event, groups: Mapping[str, Group] | None = None) -> tuple[object, ...]:
    group = (groups or {}).get(event.group)
    return (
        *(event.kind, event.iteration, event.micro_step, event.phase, event.unit, event.purpose),
        *(event.op, event.algorithm, event.group if group is None else group.ranks),
        *(event.sequence, event.peers, event.dtype),
        *(event.elements, event.payload_bytes, event.parts, event.received_parts),
        *(event.sent_bytes, event.received_bytes, event.source, event.tensors),
        *(event.hop, event.shard, event.origin, event.target),
    )


def peaks(rank: RankTrace, but: set[Role]) -> dict[tuple[str, str], int]:
    """The most that each role had in each tier."""
    found = {}
    for tier in tiers_of(rank):
        line = timeline(rank, tier)
        for row, role in enumerate(ROLES):
            if role not in but and (most := int(line.by_role[row].max())):
                found[tier, role] = most
    return found


def assert_alike(real: Trace, dry: Trace, but: set[Role]) -> None:
    assert (real.manifest.source, dry.manifest.source) == (None, Source.SIMULATED)
    assert dry.complete
    for ran, foreseen in zip(real.ranks, dry.ranks, strict=True):
        assert {one.ranks for one in ran.groups.values()} == {
            one.ranks for one in foreseen.groups.values()
        }
        assert asked(ran, Kind.COLLECTIVE, Kind.TRANSFER) == asked(
            foreseen, Kind.COLLECTIVE, Kind.TRANSFER
        )
        # several threads read and write files
        assert Counter(asked(ran, Kind.COPY)) == Counter(asked(foreseen, Kind.COPY))
        for updates in (False, True):  # another thread's, if they are delayed
            assert asked(ran, Kind.COMPUTE, updates=updates) == asked(
                foreseen, Kind.COMPUTE, updates=updates
            )
        assert peaks(ran, but) == peaks(foreseen, but)


ON_CPU = replace(load_machine("dgx-h100"), generation="", ranks_per_node=None)
"""Its ranks talk over Gloo, as the recorded ones did."""
BESIDE = {Role.BUFFERS}
"""How long a buffer of another thread lives depends on when that thread comes to it. And a process
that trains several times, as those of the family do, still has some of the engine before."""


RECORDED_ELSEWHERE = (2, 4)
"""Numbers of ranks whose whole family other tests want as well."""


def recorded_case(num_ranks: int, name: str) -> Path:
    """Where a case of a family is, which is recorded with others in one start of the ranks."""
    cases = FAMILIES[num_ranks]
    if num_ranks in RECORDED_ELSEWHERE:
        return recorded_family(num_ranks, train, cases) / name
    is_brief = name in BRIEF[num_ranks]
    cases = {one: case for one, case in cases.items() if (one in BRIEF[num_ranks]) is is_brief}
    return recorded_family(num_ranks, train, cases, "some" if is_brief else "others") / name


@pytest.mark.parametrize(("num_ranks", "name"), FAMILY)
def test_the_same_program_on_ranks_that_are_not_there(num_ranks, name, tmp_path):
    cases = FAMILIES[num_ranks]
    real = load(recorded_case(num_ranks, name), strict=True)
    for rank in range(num_ranks):
        place = SimulatedRank(rank, num_ranks, num_ranks, "gloo", "any")
        with stand_in(place) as dry, dry.without_memory():
            train(str(tmp_path), {name: cases[name]})
    assert_alike(real, load(tmp_path / name, strict=True), BESIDE)


@pytest.mark.parametrize(
    ("num_ranks", "options", "words"),
    [
        (3, {"stage": 3, "secondary_partition": 2}, "secondary-partition is 2"),
        (3, {"stage": 3, "quantize_gradients": True, "ranks_per_node": 2}, "ranks-per-node is 2"),
        (8, {"stage": 3, "secondary_partition": 3}, "secondary-partition is 3"),
    ],
)
def test_what_groups_cannot_share_evenly_is_refused_dry_as_for_real(
    num_ranks, options, words, tmp_path
):
    config = EngineConfig(**options)
    run = RunConfig(model="mlp", ranks=num_ranks, steps=1)
    with pytest.raises(ConfigError, match=words) as raised:
        Job(run, ((config, tmp_path),))
    flags = [
        part
        for name, value in options.items()
        for part in ([f"--{name.replace('_', '-')}"] + ([] if value is True else [value]))
    ]
    for asked_of in ("run", "simulate"):
        answer = command(asked_of, "--ranks", num_ranks, *flags, "--out", tmp_path / "none")
        assert_one_line(answer, str(raised.value))


@pytest.mark.parametrize(
    "variant",
    [
        *("three ranks", "native collectives"),
        *(pytest.param(name, marks=pytest.mark.long) for name in LONG),
    ],
)
def test_every_stage_of_a_run(variant, tmp_path):
    folder, answer = recorded(2, **VARIANTS[variant])
    assert answer.code == 0, answer.err
    reals = [load(folder / f"stage-{stage}", strict=True) for stage in range(4)]
    run = RunConfig.from_plain(reals[0].manifest.run)
    engines = [EngineConfig.from_plain(real.manifest.config) for real in reals]
    folders = [tmp_path / str(stage) for stage in range(4)]
    for engine, own in zip(engines, folders, strict=True):
        run_dry(Job(run, ((engine, own),)), engine, own, ON_CPU)
    for real, own in zip(reals, folders, strict=True):
        assert_alike(real, load(own, strict=True), BESIDE)


def test_a_file_that_stands_for_all_says_what_each_would(tmp_path):
    """Of ranks that do the same, what one did is what any other does in a dry run of its own."""
    config = EngineConfig(stage=2, collectives="native")
    run = RunConfig(model="mlp", ranks=9, steps=1, batch=1)
    job, machine = Job(run, ((config, tmp_path),)), replace(ON_CPU, ranks_per_node=None)
    run_dry(job, config, tmp_path / "all", machine)
    trace = load(tmp_path / "all", strict=True)
    assert [rank.rank for rank in trace.ranks] == [0]
    assert trace.manifest.alike == alike_of(run, config) == (Alike(rank=0, first=1, last=8),)
    assert match_collectives(trace).mismatches == ()
    elements = sum(unit.elements for unit in trace.manifest.units)
    assert verify(trace).num_parameters == elements
    assert "9 on 1 node, 8 of them represented by another" in repr(Run(trace))
    where = SimulatedRank(5, 9, 9, "gloo", machine.name)
    run_rank(job, config, tmp_path / "5", where)
    other = read_rank([tmp_path / "5" / rank_file_name(5)], 5, 9)[0]
    kinds = (Kind.COLLECTIVE, Kind.COMPUTE, Kind.WAIT)
    assert asked(trace.ranks[0], *kinds) == asked(other, *kinds)
    assert peaks(trace.ranks[0], set()) == peaks(other, set())


def test_a_rank_of_a_tensor_parallel_group_stands_for_those_of_all(tmp_path):
    """They do the same in groups of their own, which lie on nodes in the same way."""
    config = EngineConfig(stage=2, collectives="native")
    run = RunConfig(model="gpt-tiny", ranks=10, tensor_parallel=2, steps=1, batch=1)
    job, machine = Job(run, ((config, tmp_path),)), replace(ON_CPU, ranks_per_node=None)
    run_dry(job, config, tmp_path / "all", machine)
    trace = load(tmp_path / "all", strict=True)
    assert trace.manifest.alike == (Alike(rank=0, first=1, last=9),)
    assert match_collectives(trace).mismatches == ()
    assert verify(trace).unexplained_trace == 0
    run_rank(job, config, tmp_path / "5", SimulatedRank(5, 10, 10, "gloo", machine.name))
    other = read_rank([tmp_path / "5" / rank_file_name(5)], 5, 10)[0]
    assert in_groups_of(trace.ranks[0]) == in_groups_of(other)
    assert {size for size, _ in in_groups_of(other)} == {None, 2, 5}
    assert peaks(trace.ranks[0], set()) == peaks(other, set())
    assert alike_of(run, replace(config, ranks_per_node=2))
    assert not alike_of(run, replace(config, ranks_per_node=5)), "one group is on two nodes"


def in_groups_of(rank: RankTrace) -> list[tuple[int | None, tuple[object, ...]]]:
    """What is asked, with the size of its group and places in it instead of names and ranks."""
    found: list[tuple[int | None, tuple[object, ...]]] = []
    for _, event in rank.events.of_kind(Kind.COLLECTIVE, Kind.COMPUTE, Kind.WAIT):
        ranks = rank.groups[event.group].ranks if event.group else ()
        peers = tuple(ranks.index(one) for one in event.peers)
        found.append((len(ranks) or None, said(replace(event, group="", peers=peers))))
    return found


def test_memory_keeps_its_laws_where_nothing_waits(tmp_path):
    """Predicted times meet there: as one computation ends the next one begins."""
    config = EngineConfig(stage=3, collectives="native")
    run = RunConfig(model="gpt-tiny", ranks=16, steps=2, batch=512)
    simulate_job(Job(run, ((config, tmp_path / "run"),)), "dgx-h100")
    found = Run(load(tmp_path / "run", strict=True)).verify_memory()
    assert found.holds, found


def test_what_a_process_holds_beside_is_none_of_a_rank_that_is_stood_in_for(tmp_path):
    """A dry run in a notebook, say, whose own model has been traced before."""
    own = torch.zeros(1000)
    hold(own, Role.PARAMETERS, "own")
    hold_file("own", Role.MOMENTUM, "own", 1000)
    config = EngineConfig(stage=1)
    run = RunConfig(model="mlp", ranks=2, steps=1)
    try:
        run_dry(Job(run, ((config, tmp_path),)), config, tmp_path, ON_CPU)
        assert holdings.get(own.untyped_storage()) is not None
        assert holdings.files() == [(Role.MOMENTUM, "own", 1000)]
    finally:
        release(own)
        hold_file("own", Role.MOMENTUM, "own", 0)
    for rank in load(tmp_path, strict=True).ranks:
        assert "own" not in {one.unit for sample in rank.memory_samples for one in sample.changes}


def test_after_a_group_that_could_not_be_made_all_ranks_still_name_theirs_alike(
    tmp_path, monkeypatch
):
    monkeypatch.setattr(distributed_c10d, "_group_count", 2)
    options = ("--stage", 1, "--ranks", 2, "--model", "mlp", "--out", tmp_path / "trace")
    assert command("simulate", *options).code == 0
    groups = [list(rank.groups) for rank in load(tmp_path / "trace").ranks]
    assert groups == [["0"]] * 2


def test_what_computations_do_is_counted(tmp_path: Path):
    """A linear layer of w inputs and outputs: 2w^2 FLOPs a row forward, twice that backward."""
    config = EngineConfig(stage=3, dtype="fp32", overlap=False)
    run = RunConfig(model="mlp", ranks=2, steps=1, batch=4)
    run_dry(Job(run, ((config, tmp_path),)), config, tmp_path, ON_CPU)
    (rank, _) = load(tmp_path, strict=True).ranks
    flops = {
        event.phase: event.flops
        for event in rank.events
        if event.kind is Kind.COMPUTE and event.unit == "hidden.1"
    }
    rows, width = 4 * 64, 256
    assert flops[Phase.FORWARD] == 2 * rows * width**2
    assert flops[Phase.BACKWARD] == 2 * flops[Phase.FORWARD]
    assert flops[Phase.UPDATE] == 0
