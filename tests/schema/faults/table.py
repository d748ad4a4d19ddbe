"""The table of docs/diagnose.md, made of what was told of each case, and of PyTorch's own tool."""

from __future__ import annotations

import contextlib
import io
import json
import logging
import pickle
import re
import tempfile
from collections import defaultdict
from pathlib import Path
from statistics import median

from tests.schema.faults.judge import SYSTEMS, Case, has_dumps
from zerosim.base.errors import TraceError
from zerosim.schema.faults import Fault, FaultKind
from zerosim.verify.diagnosis import diagnose_dumps

_MISSING = re.compile(r"missing ranks: \{([\d, ]+)\}")
_CULPRIT = re.compile(r"[Cc]ulprit rank[s]? \[?(\d+)")


def table(outs):
    """Markdown: a row for each fault, the clean runs, and the sums; of all folders together."""
    told = [
        json.loads(line.split("\t")[1]) for out in outs for line in (out / "cases.jsonl").open()
    ]
    by_kind = defaultdict(list)
    for one in told:
        fault = one["case"]["fault"]
        by_kind[Fault.read(fault).kind if fault else None].append(one)
    lines = [
        "| fault | runs | culprit | event | line | seconds | from dumps | torchfrtrace |",
        "| --- | --- | --- | --- | --- | --- | --- | --- |",
    ]
    sums = defaultdict(lambda: [0, 0])
    lines += [_row(kind.value, by_kind[kind], sums) for kind in FaultKind if kind in by_kind]
    total = [_share(sums[name]) for name in ("culprit", "event", "line")]
    dumps = [_share(sums[name]) for name in ("ours", "torch")]
    runs = sum(len(ones) for kind, ones in by_kind.items() if kind)
    lines.append(f"| **all** | {runs} | {' | '.join(total)} | | {' | '.join(dumps)} |")
    clean = by_kind[None]
    silent = sum(bool(one["culprit"]) for one in clean)
    seeds = len({one["case"]["seed"] for one in told if one["case"]["fault"]})
    known = {one["case"]["system"] for one in told}
    systems = ", ".join(one for one in SYSTEMS if one in known)
    return "\n".join(
        [
            *lines,
            "",
            (
                f"{seeds} seeds, systems {systems}, 3 ranks; {len(clean)} clean runs: "
                f"{len(clean) - silent} false alarms."
            ),
        ]
    )


def _share(counted):
    right, of = counted
    return f"{right} of {of}" if of else ""


def _row(name, ones, sums):
    cells = []
    for what in ("culprit", "event", "line"):
        known = [one[what] for one in ones if one[what] is not None]
        sums[what][0] += sum(known)
        sums[what][1] += len(known)
        cells.append(_share([sum(known), len(known)]))
    seconds = [one["seconds"] for one in ones if one["culprit"] and one["seconds"] is not None]
    with_dumps = [one for one in ones if has_dumps(Case(**one["case"]))]
    ours = [_ours(one) for one in with_dumps]
    theirs = [_torch(one) for one in with_dumps]
    for what, known in (("ours", ours), ("torch", theirs)):
        sums[what][0] += sum(known)
        sums[what][1] += len(known)
    said = f"{median(seconds):.1f}" if seconds else ""
    dumps = [_share([sum(known), len(known)]) for known in (ours, theirs)]
    return f"| `{name}` | {len(ones)} | {' | '.join(cells)} | {said} | {' | '.join(dumps)} |"


def _ours(one):
    """Whether zerosim names the culprit from the dumps alone."""
    try:
        found = diagnose_dumps([Path(one["dumps"])]).findings
    except TraceError:
        return False
    return bool(found) and found[0].ranks == (Fault.read(one["case"]["fault"]).rank,)


@contextlib.contextmanager
def _heard(said):
    """All that torchfrtrace says; its logger holds the streams that were there at first."""
    handler = logging.StreamHandler(said)
    loggers = [one for one in map(logging.getLogger, logging.root.manager.loggerDict) if one]
    before = [(one, one.handlers, one.propagate) for one in loggers]
    for one in loggers:
        one.handlers, one.propagate = [handler], False
    try:
        with contextlib.redirect_stdout(said), contextlib.redirect_stderr(said):
            yield
    finally:
        for one, handlers, propagate in before:
            one.handlers, one.propagate = handlers, propagate


def _torch(one):
    """Whether torchfrtrace does, of dumps whose groups were written in, without which it fails."""
    from torch.distributed.flight_recorder import fr_trace

    said = io.StringIO()
    with tempfile.TemporaryDirectory() as folder:
        for path in Path(one["dumps"]).glob("rank_*"):
            plain = pickle.loads(path.read_bytes())  # noqa: S301 - our own rank wrote it
            ranks = str(list(range(one["case"]["ranks"])))
            names = {entry["process_group"][0] for entry in plain["entries"]}
            plain["pg_config"] = {
                name: {"name": name, "desc": "default_pg", "ranks": ranks} for name in names
            }
            Path(folder, path.name).write_bytes(pickle.dumps(plain, 2))
        with _heard(said):
            try:
                fr_trace.main([folder, "-p", "rank_"])
            except (Exception, SystemExit):  # noqa: BLE001 - it fails on what it does not know
                return False
    text = said.getvalue()
    named = [int(n) for group in _MISSING.findall(text)[:1] for n in group.split(",")]
    named = named or [int(n) for n in _CULPRIT.findall(text)[:1]]
    return named == [Fault.read(one["case"]["fault"]).rank]
