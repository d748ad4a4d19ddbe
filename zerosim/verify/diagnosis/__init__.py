"""The diagnosis of a run that failed, hangs or succeeded: the culprit in a sentence.

    calls       the calls of each group, and the first position where ranks disagree
    ranks       the progress and end of each rank; `processes` whether it still runs
    values      the first difference of checksums; `speed` slow ranks and links
    structure   ranks with missing or different calls: `contradictions`, `endings`, `waiting`, and
                their shared `evidence`
    findings    the result; `wording` its words

It reads the trace through `verify` and `graph`. It does not look at the injected faults
(`zerosim.schema.faults`).
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
