"""PyTorch execution traces: joined with the profiler's, and alone."""

import io
import json
import tarfile
from pathlib import Path

import pytest

from tests.cli.command import assert_one_line, command
from tests.record.importing.profiles import Made
from zerosim.record import load
from zerosim.record.importing import import_run
from zerosim.schema.events import Kind, Op
from zerosim.verify import verify

REPOSITORY = Path(__file__).parents[3]
REAL = (
    next(
        (
            one
            for one in (REPOSITORY.parent, REPOSITORY.parent.parent)
            if (one / "shared/traces").is_dir()
        ),
        REPOSITORY.parent,
    )
    / "shared/traces"
)
TENSOR = "Tensor(float)"
EXCHANGE, REDUCTION = "c10d::alltoall_base_", "c10d::allreduce_"


class Executed:
    """An execution trace under construction, as PyTorch 2.0 (old) or 2.4 wrote it."""

    def __init__(self, rank, *, old, num_ranks=4, pid=7):
        self.rank, self.old, self.num_ranks, self.pid = rank, old, num_ranks, pid
        self.nodes, self.sequence = [], 40
        if not old:
            config = {"pg_name": "0", "backend_config": "cuda:nccl", "ranks": []}
            config |= {"group_size": num_ranks}
            self.add("## process_group:init ##", [json.dumps([config])], [[]], ["String"])

    def add(self, name, values, shapes, types, *, parent=1, outputs=(), tid=1, **attributes):
        number = len(self.nodes) + 2
        one = {"id": number, "name": name}
        if self.old:
            one |= {"parent": parent, "rf_id": number, "tid": tid, "seq_id": -1, "fw_tid": 0}
            one |= {"inputs": values, "input_shapes": shapes, "input_types": types}
            one["outputs"] = list(outputs)
        else:
            one |= {"ctrl_deps": parent, "outputs": {"values": list(outputs)}}
            one["inputs"] = {"values": values, "shapes": shapes, "types": types}
            attributes |= {"rf_id": number, "tid": tid}
            one["attrs"] = [
                {"name": key, "type": "uint64", "value": value} for key, value in attributes.items()
            ]
        self.nodes.append(one)
        return number

    def call(self, operator, name, elements, parts=(), gotten=None):
        """A call with its record, as NCCL's have one."""
        tensor, other = ([9, 8, 0, size, 4, "cuda:0"] for size in (elements, gotten or elements))
        self.sequence += 1
        if operator == EXCHANGE:
            values, shapes = [other, tensor], [[gotten or elements], [elements]]
            outer = self.add(operator, values, shapes, [TENSOR, TENSOR])
        else:
            listed = f"GenericList[{TENSOR}]"
            outer = self.add(operator, [[tensor]], [[[elements]]], [listed])
        received = [8] * 4 if parts else []
        group = 94594108284448 + self.rank if self.old else ["0", "default_pg"]
        more = [] if self.old else [0, 1, self.num_ranks]
        values = [tensor, self.sequence, group, self.rank, name, list(parts), received, *more]
        types = [TENSOR, "Int", "Int", "Int", "String", "GenericList[]", "GenericList[]"]
        said = {"collective_name": name, "pg_name": "0", "pg_size": self.num_ranks}
        self.add(
            "record_param_comms", values, [[elements]], types + ["Int"] * len(more),
            parent=outer, outputs=[other], **({} if self.old else said),
        )  # fmt: skip

    def content(self):
        schema = "1.0.1" if self.old else "1.1.0-chakra.0.0.4"
        return json.dumps({"schema": schema, "pid": self.pid, "nodes": self.nodes})

    def save(self, folder):
        file = folder / f"et{self.rank}.json"
        file.write_text(self.content())
        return file


def executed(rank, *, old):
    one = Executed(rank, old=old, pid=70 + rank)
    one.call(EXCHANGE, "all_to_allv", 64, parts=[40, 8, 8, 8], gotten=32)
    one.call(REDUCTION, "allreduce", 1000)
    return one


def profiled(rank, *, linked):
    """A profile of the same calls that says neither sizes nor groups."""
    made = Made(rank=rank, groups=False)
    for name in (EXCHANGE, REDUCTION):
        made.call(name, {}, linked=False)
    for event in made.events:
        event["pid"] = 70 + rank if event["cat"] != "kernel" else 0
        if linked and event["name"].startswith("c10d::"):
            event["args"]["Record function id"] = 2 + 2 * [EXCHANGE, REDUCTION].index(event["name"])
    return made


def told(trace):
    return [
        [(e.op, e.payload_bytes, e.parts, e.group, e.sequence) for e in rank.events if e.op]
        for rank in trace.ranks
    ]


@pytest.mark.parametrize("old", [True, False])
@pytest.mark.parametrize("linked", [True, False])
def test_joined_calls_have_the_sizes_of_one_and_the_times_of_the_other(tmp_path, old, linked):
    for rank in range(4):
        profiled(rank, linked=linked and old).save(tmp_path)
        executed(rank, old=old).save(tmp_path)
    import_run([tmp_path], tmp_path / "out")
    trace = load(tmp_path / "out")
    group = "everyone" if old else "0"
    assert told(trace)[0] == [
        (Op.ALL_TO_ALL, 256, (40, 8, 8, 8), group, 41),
        (Op.ALL_REDUCE, 4000, (), group, 42),
    ]
    assert len({str(one) for one in told(trace)}) == 1
    calls = [e for e in trace.ranks[1].events if e.kind is Kind.COLLECTIVE]
    assert all(e.end_ns - e.start_ns == 25_000 for e in calls)
    assert trace.manifest.is_timed
    assert command("graph", tmp_path / "out").code == 0


@pytest.mark.parametrize("old", [True, False])
def test_alone_they_have_an_order_and_no_times(tmp_path, old):
    for rank in range(4):
        executed(rank, old=old).save(tmp_path)
    answer = command("import", tmp_path, "--out", tmp_path / "out")
    assert answer.code == 0
    assert "calls have an order but no times" in answer.err
    assert ("inferred from the parts of the largest exchange" in answer.err) == old
    trace = load(tmp_path / "out")
    assert told(trace)[3][1][:2] == (Op.ALL_REDUCE, 4000)
    answer = command("graph", tmp_path / "out")
    assert answer.code == 0
    assert "in order, but without recorded times" in answer.out
    assert " ms" not in answer.out
    report = verify(trace)
    assert report.total("trace", 0) == 2 * 4000 * 3 // 4 + 256 - 4 * 40  # its own part stays
    for args in (
        ("replay", tmp_path / "out", "--no-open"),
        ("export", tmp_path / "out", "--perfetto", tmp_path / "x"),
        ("export", tmp_path / "out", "--hta", tmp_path / "x"),
    ):
        assert_one_line(command(*args), "an order, but no times")
    answer = command("whatif", tmp_path / "out", "--bandwidth", "x2")
    assert_one_line(answer, "an imported run has no computations and waits")
    plain = command("compare", tmp_path / "out", tmp_path / "out", "--json")
    assert plain.code == 0
    assert json.loads(plain.out)["sides"][0]["times"] is None


def test_one_rank_alone_that_says_whose_it_is(tmp_path):
    file = executed(2, old=False).save(tmp_path)
    assert "rank 2 of 4" in command("import", file, "--out", tmp_path / "out").out


def test_what_does_not_fit_together(tmp_path):
    out = tmp_path / "out"
    other = Executed(0, old=False, pid=70)
    other.call("c10d::broadcast_", "broadcast", 5)
    profile, execution = profiled(0, linked=False).save(tmp_path), other.save(tmp_path)
    answer = command("import", profile, execution, "--out", out)
    assert_one_line(answer, "none of its calls is in")
    (tmp_path / "far").mkdir()
    stranger = executed(3, old=False).save(tmp_path / "far")
    answer = command("import", profile, stranger, profiled(1, linked=False).save(tmp_path),
                     "--out", out)  # fmt: skip
    assert_one_line(answer, "no profile of the same process was given")
    silent = Executed(0, old=False)
    silent.nodes = silent.nodes[:1]
    assert_one_line(
        command("import", silent.save(tmp_path), "--out", out), "does not name its rank"
    )


def test_an_archive_is_read_and_nothing_leaves_it(tmp_path):
    inside = tmp_path / "inside"
    inside.mkdir()
    archive = inside / "all.tar.gz"
    with tarfile.open(archive, "w:gz") as made:
        link = tarfile.TarInfo("../link.json")
        link.type, link.linkname = tarfile.SYMTYPE, "/etc/passwd"
        made.addfile(link)
        for rank in range(4):
            content = executed(rank, old=False).content().encode()
            info = tarfile.TarInfo(f"../../../outside/{rank}.json")
            info.size = len(content)
            made.addfile(info, io.BytesIO(content))
    assert command("import", archive, "--out", tmp_path / "out").code == 0
    assert sorted(one.name for one in tmp_path.iterdir()) == ["inside", "out"]
    assert [one.name for one in inside.iterdir()] == ["all.tar.gz"]
    for content in (archive.read_bytes()[:-40], b"", b"\x1f\x8b" + b"x" * 99):
        archive.write_bytes(content)
        assert_one_line(command("import", archive, "--out", tmp_path / "no"), "all.tar.gz")


@pytest.mark.skipif(not REAL.is_dir(), reason=f"real traces of others are not in {REAL}")
def test_the_exchanges_of_a_real_recommendation_model(tmp_path):
    files = [REAL / f"nccl-dlrm-8ranks-{kind}.tar.gz" for kind in ("kineto", "et")]
    import_run(files, tmp_path / "out")
    trace = load(tmp_path / "out")
    exchanges = [e for e in trace.ranks[0].events if e.op is Op.ALL_TO_ALL]
    assert [e.payload_bytes for e in exchanges] == [24_576, 192, 1_536, 13_568, 24_576]
    assert exchanges[3].parts == (96, 224, 288, 1664, 592, 96, 192, 240)
    assert {e.group for e in exchanges} == {"everyone"}
    answer = command("graph", tmp_path / "out")
    assert answer.code == 0
    assert "8 collectives" in answer.out
    assert verify(trace).num_parameters == 621_313
