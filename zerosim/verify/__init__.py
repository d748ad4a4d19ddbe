"""The only place where theory meets measurement: three ledgers and memory, named causes, verdicts.

configured, strategies   what a trace says that was asked for: its workload, or its strategies
measure    who carried the calls out, and what the kernel counted outside of them
meter      what each recorded call and copy moved
attribution  each call and copy: planned, named overheads, or unexplained
steps      each iteration of all ranks, planned and attributed
rows       the ledger: theory, trace and kernel, a row for each reason
links      what of it went within nodes and between them
interfaces what left each node by its network interfaces
laws       the law of each system, and the causes from it to the wire
claims     each claim held against all complete iterations; activations, bubbles, link_verdicts
verdicts   what can be said of every trace
report     the result as data
outcome    what a verdict comes to: as predicted, explained, unexplained

memory_plan  what each rank should keep, by the law of its system
memory     what is alive, held against it
states     model states: each role and unit, tier, rank and iteration
temporary, residency  what our engine keeps for a while: gathered units, whole gradients
peaks      the most that a rank held, and what made it; tier_report beyond the device
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
