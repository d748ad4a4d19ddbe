"""Facts of tiers and nodes are what zerosim's own commands say, and what one works out by hand."""

from __future__ import annotations

import pytest

from tests.lessons.committed import facts, said
from zerosim.base.tiers import Link
from zerosim.lessons.recordings import COMMITTED, HERE, committed, settings
from zerosim.lessons.views import view
from zerosim.record import load

PSI = 271_360
"""Parameters of the MLP of all these runs."""


@pytest.mark.parametrize("run", ["offload/stage-2", "infinity/stage-3", "divided-cpu/stage-1"])
def test_copies_are_those_of_zerosim_verify(run):
    rows = said("verify", run)["copies"]
    for link in (Link.BUS, Link.STORAGE):
        for rank in range(facts().num_ranks(run)):
            cells = [row["sent"][rank] for row in rows if row["link"] == link]
            assert facts().copied(run, link, rank=rank) == sum(cell["trace"] for cell in cells)
            kernel = sum(cell["kernel"] or 0 for cell in cells)
            assert facts().kernel_copied(run, link, rank) == kernel


def test_bytes_of_offload_and_infinity_by_hand():
    assert facts().psi("offload/stage-2") == facts().psi("infinity/stage-3") == PSI
    assert facts().copied("offload/stage-2", "bus") == (2 + 2) * PSI // 2
    assert facts().kept_in("offload/stage-2", "device") == 2 * PSI
    assert facts().kept_in("offload/stage-2", "host") == 14 * PSI // 2
    assert facts().copied("infinity/stage-3", "storage") == (2 + 2 + 12 + 12 + 2) * PSI // 2
    assert facts().kept_in("infinity/stage-3", "disk") == 14 * PSI // 2
    kernel = facts().kernel_copied("infinity/stage-3", "storage")
    content = facts().copied("infinity/stage-3", "storage")
    assert kernel == content + facts().beside_content("infinity/stage-3") > content


def test_the_cheapest_cut_is_that_of_the_paper():
    assert facts().cut_bytes("update", "moments", "master", "rounding") == 4
    assert facts().cut_bytes("update", "moments", "master") == 6
    assert facts().cut_bytes("moments") == 16
    assert facts().cut_bytes(*facts().cheapest_cut()) == 4
    assert {"update", "moments", "master", "rounding"} <= set(facts().cheapest_cut())
    assert facts().second_cheapest() == 6


def test_a_run_without_room_says_so_on_each_rank():
    said = [facts().failure("full/stage-2", rank) for rank in (0, 1)]
    assert said[0] == said[1]
    assert "no room" in said[0]
    assert "in update of iteration 0" in facts().first_clause(said[0])
    assert facts().failure("offload/stage-2") == ""
    assert facts().limit("full/stage-2") == facts().limit("offload/stage-2")
    assert facts().peak("offload/stage-2") < facts().limit("offload/stage-2")


def test_checkpoints_and_what_is_sent_for_them_by_hand():
    one = 4 * 64 * 256 * 2  # b s h in bf16
    assert facts().checkpoints("sums/stage-1") == 4 * one
    assert facts().checkpoints("divided/stage-1") * 2 == 4 * one
    sums = facts().sent("divided/stage-1", purpose="activations")
    gathered = facts().sent("divided/stage-1", purpose="gather activations")
    assert (sums, gathered) == (4 * 6 * one, 4 * one // 2)


def test_a_killed_run_goes_on_with_the_same_bits():
    assert facts().first_iteration("resumed/stage-3") == 1
    assert facts().loss("resumed/stage-3", 1) == facts().loss("infinity/stage-3", 1)


def test_what_leaves_a_node_and_what_stays_is_all_that_is_sent():
    for run in ("nodes/stage-3", "qwz/stage-3", "hpz/stage-3", "qgz/stage-3", "plusplus/stage-3"):
        nodes = range(facts().num_nodes(run))
        away = sum(facts().leaves(run, node=node) for node in nodes)
        near = sum(facts().stays(run, node=node) for node in nodes)
        ranks = range(facts().num_ranks(run))
        assert away + near == sum(facts().sent(run, rank) for rank in ranks)
    assert facts().node_payloads("plusplus/stage-3") * 4 == facts().node_payloads("nodes/stage-3")
    assert facts().scale_share("plusplus/stage-3", 4) == 4 / 128


def test_a_table_of_copies_is_of_the_links_that_it_is_asked_for():
    assert [row[0] for row in view(facts(), "copies", "infinity/stage-3", "storage").rows] == [
        "fetch parameters, disk → host",
        "fetch optimizer states, disk → host",
        "store optimizer states, host → disk",
        "store parameters, host → disk",
        "in total to and from the disk",
    ]


def test_runs_on_a_disk_name_no_folder_of_a_machine():
    on_disk = [
        run for run in committed() if "--nvme-path" in settings()[run.split("/")[0]]["options"]
    ]
    assert on_disk
    for run in on_disk:
        assert load(COMMITTED / run).manifest.config["nvme_path"] == "disk"


def test_programs_of_settings_are_there():
    named = {
        entry[key] for entry in settings().values() for key in ("program", "before") if key in entry
    }
    models = {"gpt2.py"}  # what a program trains
    found = {path.name for path in (HERE / "programs").glob("*.py")}
    assert named == {f"programs/{name}" for name in found - models}
