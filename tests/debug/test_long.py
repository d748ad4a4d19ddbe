"""Ranks held for ten minutes at each kind of event, with timeouts of half a minute.

Both Gloo's groups and torchrun's agent give up after that. All places are held at the same time:
a stopped rank needs no processor.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path
from threading import Thread
from typing import Any

import pytest

from tests.debug import programs
from tests.ranks import free_port, run_ranks
from zerosim.debug import Controller, Door, Goal
from zerosim.debug.outcomes import Why
from zerosim.schema.events import Kind, Op, Phase
from zerosim.schema.stands import DEBUG_VARIABLE, Stand

pytestmark = [pytest.mark.ranks, pytest.mark.long, pytest.mark.timeout(3600)]

HELD_S = 600.0
AHEAD_S = 150.0
"""How long one rank waits in a call for the others that stand, beside it."""
TIMEOUT_S = 30
DEADLINE_S = 300.0
ROOT = Path(__file__).parents[2]
RING = {"stage": 1, "overlap": False}
OF_THE_AGENT = ",".join(
    f"{name}={TIMEOUT_S}" for name in ("timeout", "join_timeout", "close_timeout", "read_timeout")
)


def is_forward(stand: Stand) -> bool:
    return stand.kind is Kind.COMPUTE and stand.phase is Phase.FORWARD


def is_hop(stand: Stand) -> bool:
    return stand.kind is Kind.TRANSFER


def is_reduction(stand: Stand) -> bool:
    return stand.op is Op.ALL_REDUCE and stand.phase is Phase.BACKWARD


def is_gather(stand: Stand) -> bool:
    return stand.op is Op.ALL_GATHER


def is_update(stand: Stand) -> bool:
    return stand.kind is Kind.COMPUTE and stand.phase is Phase.UPDATE


@dataclass(frozen=True)
class Place:
    """Where ranks are held.

    Attributes:
        function: of `programs`, with its arguments.
    """

    function: str
    arguments: tuple[Any, ...]
    num_ranks: int
    is_there: Callable[[Stand], bool]


PLACES = {
    "a forward": Place("engine", (RING,), 2, is_forward),
    "a hop": Place("engine", (RING,), 3, is_hop),
    "DDP's all-reduce": Place("ddp", (), 2, is_reduction),
    "FSDP2's gather": Place("fsdp2", (), 2, is_gather),
    "an update": Place("ddp", (), 2, is_update),
}


@pytest.fixture(scope="module")
def all_held(tmp_path_factory: pytest.TempPathFactory) -> Iterator[dict[str, Future[float]]]:
    """Each place's run, and how long it was held when it is over."""
    folders = {name: tmp_path_factory.mktemp("held") for name in PLACES}
    free = {name: never_held(place, folders[name]) for name, place in PLACES.items()}
    with ThreadPoolExecutor(len(PLACES)) as pool:
        yield {
            name: pool.submit(hold, place, folders[name], free[name])
            for name, place in PLACES.items()
        }


def never_held(place: Place, folder: Path) -> list[str]:
    """The results of the ranks of a place without a debugger."""
    function = getattr(programs, place.function)
    return run_ranks(function, place.num_ranks, str(folder / "free"), *place.arguments)


@pytest.mark.parametrize("name", PLACES)
def test_ranks_that_are_held_for_long_end_with_the_same_bits(name, all_held):
    held_s = all_held[name].result()
    print(f"{name}: held for {held_s:.0f} s; Gloo and the agent wait {TIMEOUT_S} s")
    assert held_s >= HELD_S + AHEAD_S


def hold(place: Place, folder: Path, free: list[str]) -> float:
    """Hold all ranks at a place for HELD_S, then all but one, which waits for them, for AHEAD_S."""
    door = Door()
    controller = Controller(door)
    agent = started(place, folder / "held", door)
    Thread(target=lambda: controller.program_ended(f"ended ({agent.wait()})")).start()
    try:
        controller.begin()
        while not place.is_there(controller.steps()[0].stand):
            assert controller.step(Goal.INTO).why is Why.REACHED
        began = time.monotonic()
        time.sleep(HELD_S)
        ahead = controller.step(Goal.ITERATION, only=place.num_ranks - 1)
        while ahead.why is Why.REACHED:  # DDP's forward waits for no other rank
            ahead = controller.step(Goal.ITERATION, only=place.num_ranks - 1)
        assert ahead.why is Why.WAITS
        assert f"rank {place.num_ranks - 1} waits for " in ahead.said
        time.sleep(AHEAD_S)
        held_s = time.monotonic() - began
        assert controller.step(Goal.PHASE).why is Why.REACHED
        controller.detach()
        assert agent.wait(DEADLINE_S) == 0
        ended = [
            json.loads((folder / "held" / f"result-{rank}").read_text())
            for rank in range(place.num_ranks)
        ]
        assert ended == free
        return held_s
    finally:
        door.close()
        agent.kill()
        agent.wait()


def started(place: Place, folder: Path, door: Door) -> subprocess.Popen[bytes]:
    """torchrun's agent, whose ranks are held."""
    return subprocess.Popen(
        (
            *(sys.executable, "-m", "torch.distributed.run"),
            *("--nproc-per-node", str(place.num_ranks), "--rdzv-backend", "c10d"),
            *("--rdzv-endpoint", f"127.0.0.1:{free_port()}", "--rdzv-conf", OF_THE_AGENT),
            *("--local-addr", "127.0.0.1", "-m", "tests.debug.agent"),
            *(str(TIMEOUT_S), place.function, str(folder), json.dumps(place.arguments)),
        ),
        cwd=ROOT,
        env={**os.environ, "OMP_NUM_THREADS": "1", DEBUG_VARIABLE: str(door.path)},
    )
