"""The only place where theory meets measurement: three ledgers, named causes, verdicts.

    measure    the trace and wire ledgers, from a trace
    ledgers    theory beside them, a row for each reason
    verdicts   each claim held against all complete iterations
    report     the result as data

Imports zerosim's L0, record and theory; never torch or the engine.
"""

from zerosim.verify.report import CauseBytes, LedgerRow, RankBytes, Report, Verdict
from zerosim.verify.verify import verify

__all__ = ["CauseBytes", "LedgerRow", "RankBytes", "Report", "Verdict", "verify"]
