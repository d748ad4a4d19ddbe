"""The dry run: the same code on fake tensors, at any number of ranks.

    work      the work of operators: FLOPs and bytes
    known     the values that a user's program may know
    mode      tensors without memory, with counted operators
    backend   collectives that complete at once; post: their contents
    rank      one of N ranks in a single process
    turns     ranks one after another; alike: equal ranks
    simulate  a dry run of a job, placed in time
    script    a user's program as one rank; programs: as all ranks

Order, bytes and memory are not modelled but executed: the calls are those of the program. Times are
predicted.
"""

from zerosim.predict.simulate.programs import DryProgram, simulate_program
from zerosim.predict.simulate.script import script_of
from zerosim.predict.simulate.simulate import require_nodes, require_simulated, simulate_job

__all__ = [
    "DryProgram",
    "require_nodes",
    "require_simulated",
    "script_of",
    "simulate_job",
    "simulate_program",
]
