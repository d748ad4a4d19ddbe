"""Labels: the description of a thread's work; nothing at all while no tracer listens."""

import subprocess
import sys
import threading
from pathlib import Path

import pytest

import zerosim
from zerosim.schema.events import Algorithm, Op, Phase, Purpose
from zerosim.trace import labels
from zerosim.trace.sink import CollectiveRequest, Labels, Position

REQUEST = CollectiveRequest(Op.ALL_GATHER, Algorithm.RING, "g", (1,), "float32", 4, 16)


class Sink:
    """Notes every call."""

    def __init__(self):
        self.calls = []
        self.time = 0

    def now_ns(self):
        self.time += 1
        return self.time

    def __getattr__(self, name):
        def note(*arguments, **named):
            self.calls.append((name, *arguments, *named.values()))
            return len(self.calls)

        return note


@pytest.fixture
def sink():
    made = Sink()
    labels.attach(made)
    yield made
    labels.attach(None)


@pytest.fixture(autouse=True)
def outside():
    yield
    labels.attach(None)
    labels.enter(-1, Phase.OUTSIDE)


def in_thread(function):
    answers = []
    thread = threading.Thread(target=lambda: answers.append(function()))
    thread.start()
    thread.join()
    return answers[0]


def test_a_thread_keeps_its_labels_to_itself():
    with labels.scope(unit="a", purpose=Purpose.REDUCE_GRADIENTS, tensors=("w",)):
        assert in_thread(labels.current).unit == ""
        with labels.scope(unit="b"):
            here = labels.current()
            assert (here.unit, here.purpose, here.tensors) == (
                "b",
                Purpose.REDUCE_GRADIENTS,
                ("w",),
            )
        assert labels.current().unit == "a"
    assert labels.current() == Labels(position=Position())


def test_labels_end_with_an_exception():
    with pytest.raises(KeyError), labels.scope(unit="a"):
        raise KeyError
    assert labels.current().unit == ""


def test_a_snapshot_is_where_and_when_the_work_was_asked_for(sink):
    labels.enter(4, Phase.BACKWARD, 1)
    with labels.scope(unit="a"):
        taken = labels.snapshot()
    labels.enter(4, Phase.UPDATE, 1)

    def later():
        with labels.restored(taken):
            return labels.current(), labels.snapshot(), labels.position()

    current, again, position = in_thread(later)
    assert (current.unit, current.issue_ns, again.issue_ns) == ("a", 1, 1)
    assert position == Position(4, 1, Phase.BACKWARD)
    assert current.source.startswith("trace/test_labels.py:")
    assert current.source.endswith("in test_a_snapshot_is_where_and_when_the_work_was_asked_for")
    assert labels.position() == Position(4, 1, Phase.UPDATE)
    assert labels.current().unit == ""


def test_a_thread_without_a_snapshot_follows_the_process():
    labels.enter(2, Phase.FORWARD)
    assert in_thread(labels.position) == Position(2, 0, Phase.FORWARD)


def test_a_phase_is_entered_once(sink):
    labels.enter(0, Phase.FORWARD)
    labels.enter(0, Phase.FORWARD)
    labels.enter(0, Phase.FORWARD, 1)
    entered = [call[1] for call in sink.calls if call[0] == "entered"]
    assert entered == [Position(0, 0, Phase.FORWARD), Position(0, 1, Phase.FORWARD)]


def test_without_a_sink_nothing_happens():
    assert labels.begin_compute("a") is None
    labels.end(None)
    labels.metric("loss", 1.0)
    with labels.collective(REQUEST), labels.exclusive(), labels.compute("a"):
        assert labels.open_collective() is None
        with labels.hop(0, 1, 2) as hop:
            assert labels.open_hop() is hop
            hop.finish(Op.SEND)
    assert labels.open_hop() is None
    taken = labels.snapshot()
    assert (taken.issue_ns, taken.source) == (None, "")


def test_a_collective_is_open_for_its_own_thread_only(sink):
    with labels.collective(REQUEST):
        opened = labels.open_collective()
        assert opened is not None
        assert in_thread(labels.open_collective) is None
    assert labels.open_collective() is None
    assert sink.calls[-1] == ("close", opened, "")


def test_a_failed_collective_is_closed_with_its_first_line(sink):
    with pytest.raises(RuntimeError), labels.collective(REQUEST):
        raise RuntimeError("peer\nis gone")
    assert sink.calls[-1][2] == "peer"
    with pytest.raises(KeyError), labels.exclusive():
        raise KeyError
    assert sink.calls[-1] == ("end_exclusive", "KeyError")


def test_ids_of_another_sink_mean_nothing(sink):
    with labels.collective(REQUEST):
        labels.attach(Sink())
        assert labels.open_collective() is None
        labels.attach(sink)
        assert labels.open_collective() is not None


def test_the_source_is_the_callers_line(sink):
    with labels.collective(REQUEST):
        pass
    (opened,) = [call for call in sink.calls if call[0] == "open_collective"]
    here = Path(__file__)
    assert opened[1].source.startswith(f"{here.parent.name}/{here.name}:")


def test_the_functions_of_an_engine_are_told_beside_it(sink):
    folder = Path(zerosim.__file__).parent / "train" / "engine"
    space = {"labels": labels, "REQUEST": REQUEST}
    text = """
def reduce():
    with labels.collective(REQUEST):
        pass

def step():
    reduce()
"""
    exec(compile(text, str(folder / "pretended.py"), "exec"), space)  # noqa: S102
    space["step"]()
    (opened,) = [call for call in sink.calls if call[0] == "open_collective"]
    assert opened[1].source.endswith("in test_the_functions_of_an_engine_are_told_beside_it")
    assert opened[1].functions == (
        "zerosim/train/engine/pretended.py:7 in step",
        "zerosim/train/engine/pretended.py:3 in reduce",
    )


def test_a_program_in_a_folder_named_torch_is_no_machinery(tmp_path):
    folder = tmp_path / "torch" / "zerosim" / "engine"
    folder.mkdir(parents=True)
    script = folder / "train.py"
    script.write_text(
        "from zerosim.trace.source import caller\ndef step():\n    print(caller())\nstep()\n"
    )
    root = str(Path(__file__).parents[2])
    done = subprocess.run(
        [sys.executable, str(script)],
        check=True,
        capture_output=True,
        text=True,
        env={"PYTHONPATH": root},
    )
    assert done.stdout == "engine/train.py:3 in step\n"
