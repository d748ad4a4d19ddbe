"""Who is at fault, in a sentence: of a run that ended badly, that hangs, or that went well.

    calls       the calls of each group, and the first place where ranks disagree
    ranks       how far each rank came and how it ended; `processes` whether it still runs
    values      where checksums begin to differ; `speed` who is slow
    structure   who did not call what the others call: `contradictions`, `endings`, `waiting`, and
                the `evidence` that they share
    findings    what is said; `wording` how

It stands on the trace as `verify` and `graph` read it. What was made to go wrong on purpose
(`zerosim.schema.faults`) it does not look at.
"""

from zerosim.verify.diagnosis.diagnose import diagnose, diagnose_dumps, diagnose_folder
from zerosim.verify.diagnosis.findings import Diagnosis, Finding, Place, Wrong
from zerosim.verify.diagnosis.processes import ProcessStates, look

__all__ = [
    "Diagnosis",
    "Finding",
    "Place",
    "ProcessStates",
    "Wrong",
    "diagnose",
    "diagnose_dumps",
    "diagnose_folder",
    "look",
]
