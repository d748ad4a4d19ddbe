"""The only place where theory meets measurement: three ledgers and memory, named causes, verdicts.

    measure    the trace and wire ledgers, from a trace
    ledgers    theory beside them, a row for each reason
    links      what of it went within nodes and between them
    copies     copies between device, host and disk, and what the kernel counted
    interfaces what left each node by its network interfaces
    verdicts   each claim held against all complete iterations; link_verdicts, copy_verdicts
    report     the result as data
    outcome    what a verdict comes to: as predicted, explained, unexplained

    programs   the same of a program that zerosim's engine did not run, by its strategies
    attribution  each of its calls: planned, named beside the law, or unexplained
    program_strategies, program_steps, program_rows, program_verdicts, program_report  what it says
               of itself, its iterations, ledgers and claims, and the result as data

    memory     what is alive, held against the laws
    states     model states: each role and unit, rank and iteration
    residency  what exists only for a while: gathered units, whole gradients
    peaks      the most that a rank held, and what made it
    memory_report  the result as data

    comparison several traces side by side; each is a `side`
    differences  what that amounts to, in words

Imports zerosim's L0, record, theory and analysis; never torch or the engine.
"""

from zerosim.verify.memory import verify_memory
from zerosim.verify.memory_report import MemoryReport, RankPeak, RolePart, RoleRow
from zerosim.verify.outcome import Outcome
from zerosim.verify.program_report import ProgramReport, RankWire, SourceBytes, SystemLaw
from zerosim.verify.report import (
    CauseBytes,
    CopyBytes,
    CopyLedger,
    InterfaceBytes,
    LedgerRow,
    LinkRow,
    RankBytes,
    Report,
    Verdict,
)
from zerosim.verify.verify import verify

__all__ = [
    "CauseBytes",
    "CopyBytes",
    "CopyLedger",
    "InterfaceBytes",
    "LedgerRow",
    "LinkRow",
    "MemoryReport",
    "Outcome",
    "ProgramReport",
    "RankBytes",
    "RankPeak",
    "RankWire",
    "Report",
    "RolePart",
    "RoleRow",
    "SourceBytes",
    "SystemLaw",
    "Verdict",
    "verify",
    "verify_memory",
]
