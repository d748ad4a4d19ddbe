"""The only place where theory meets measurement: three ledgers and memory, named causes, verdicts.

configured, strategies   the declared workload or strategies of a trace
measure    the backend of the calls, and the kernel's counts outside of them
meter      the bytes of each recorded call and copy
attribution  each call and copy: planned, named overhead, or unexplained
steps      each iteration of all ranks, planned and attributed
rows       the ledger: theory, trace and kernel, one row per reason
links      the traffic within nodes and between them
interfaces the traffic of each node's network interfaces
laws       the law of each system, and the causes from it to the wire
claims     each claim, checked in all complete iterations; activations, bubbles, link_verdicts
verdicts   checks that apply to every trace
report     the result as data
outcome    the outcome of a verdict: as predicted, explained, unexplained

    memory_plan  the memory that each rank should keep, by the law of its system
    memory     its comparison with live tensors
    states     model states: each role and unit, tier, rank and iteration
    temporary, residency  temporary memory of our engine: gathered units, whole gradients
    peaks      the peak of a rank and its parts; tier_report for tiers off the device
    memory_report  the result as data
"""

from zerosim.verify.memory_check import verify_memory
from zerosim.verify.memory_report import MemoryReport, RankPeak, RolePart, RoleRow
from zerosim.verify.outcome import Outcome
from zerosim.verify.report import (
    CauseBytes,
    InterfaceBytes,
    LedgerRow,
    RankBytes,
    RankWire,
    Report,
    SourceBytes,
    SystemLaw,
    Verdict,
)
from zerosim.verify.steps import planned_calls
from zerosim.verify.verify import verify

__all__ = [
    "CauseBytes",
    "InterfaceBytes",
    "LedgerRow",
    "MemoryReport",
    "Outcome",
    "RankBytes",
    "RankPeak",
    "RankWire",
    "Report",
    "RolePart",
    "RoleRow",
    "SourceBytes",
    "SystemLaw",
    "Verdict",
    "planned_calls",
    "verify",
    "verify_memory",
]
