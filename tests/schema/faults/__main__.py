"""`python -m tests.schema.faults`: faults x seeds x systems, which rank is blamed, and which was.

python -m tests.schema.faults run OUT [SEEDS] [CLEAN] [SYSTEM...]
                                                   does them; goes on where it was stopped. SEEDS
                                                   is a number, or as 4-11; CLEAN as well
python -m tests.schema.faults table OUT...                the table of docs/diagnose.md
python -m tests.schema.faults look SYSTEM FAULT...        single cases, in words
"""

from __future__ import annotations

import json
import shutil
import sys
import tempfile
import zlib
from dataclasses import asdict
from pathlib import Path

from tests.schema.faults.judge import SYSTEMS, Case, run_case
from tests.schema.faults.table import table
from zerosim.schema.events import Op
from zerosim.schema.faults import OF_CALLS, FaultKind

RANKS = 3
_OF_MESSAGES = {
    *(FaultKind.SKIP, FaultKind.REPEAT, FaultKind.SWAP, FaultKind.SIZE, FaultKind.DTYPE),
    *(FaultKind.PEER, FaultKind.DIE, FaultKind.HANG),
}
_OF = {
    "engine": {*FaultKind} - {FaultKind.GROUP, FaultKind.PEER},
    "ddp": {*FaultKind} - {FaultKind.SLOW_LINK, FaultKind.PEER},
    "fsdp2": {*FaultKind} - {FaultKind.SLOW_LINK, FaultKind.PEER},
    "pipeline": _OF_MESSAGES,
}


def fault_of(kind, seed, system):
    """Where it happens depends on the seed; of a pipeline it is at a send or a receive."""
    draw = zlib.crc32(f"{kind} {seed}".encode())
    words = [kind, f"rank={draw % RANKS}"]
    if system == "pipeline":
        words.append(f"op={(Op.SEND, Op.RECEIVE)[draw // 256 % 2]}")
    if kind not in (FaultKind.SEED, FaultKind.BATCH):
        words.append(f"iteration={2 + draw // 8 % 2}")
    if kind in OF_CALLS:
        words.append(f"call={draw // 64 % 2}")
    if kind is FaultKind.SLOW:
        words[2:] = ["iteration=1", "ms=40"]
    if kind is FaultKind.SLOW_LINK:
        words[2:] = ["iteration=1", "ms=30"]
    return ",".join(words)


def cases(seeds, clean, systems=SYSTEMS):
    for seed in sorted({*seeds, *clean}):
        for system in systems if seed in clean else ():
            yield Case(system, None, seed, RANKS, check=seed // 4 % 2)
        for kind in FaultKind if seed in seeds else ():
            for system in systems:
                if kind in _OF[system]:
                    yield Case(system, fault_of(kind, seed, system), seed, RANKS)


def _seeds(text):
    first, dash, last = text.partition("-")
    return range(int(first) if dash else 1, int(last or first) + 1)


def run(out, seeds="3", clean="10", *systems):
    out.mkdir(parents=True, exist_ok=True)
    book = out / "cases.jsonl"
    done = {line.split("\t")[0] for line in book.read_text().splitlines()} if book.exists() else {}
    for case in cases(_seeds(seeds), _seeds(clean), systems or SYSTEMS):
        name = f"{case.system}-{case.fault or 'clean'}-{case.seed}".replace(",", "-")
        if name in done:
            continue
        shutil.rmtree(out / name, ignore_errors=True)  # of one that was stopped
        told = run_case(case, out / name)
        plain = asdict(told) | {"dumps": str(told.dumps)}
        with book.open("a") as file:
            file.write(f"{name}\t{json.dumps(plain)}\n")


def look(system, faults):
    with tempfile.TemporaryDirectory() as folder:
        for number, text in enumerate(faults):
            case = Case(system, None if text == "clean" else text, 1)
            told = run_case(case, Path(folder, str(number)))
            print(
                f"== {system} {text}: culprit {told.culprit} event {told.event} line {told.line} "
                f"seconds {told.seconds}\n   did: {told.happened}\n   said: {told.sentence}",
                flush=True,
            )


def main():
    what, *words = sys.argv[1:]
    if what == "run":
        run(Path(words[0]), *words[1:])
    elif what == "table":
        print(table([*map(Path, words)]))
    else:
        look(words[0], words[1:])


if __name__ == "__main__":
    main()
