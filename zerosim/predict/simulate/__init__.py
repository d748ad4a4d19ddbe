"""The dry run: the same code on fake tensors, at any number of ranks.

    work      what operators have to do: FLOPs and bytes
    known     which values a program that is not ours may know
    mode      tensors without memory, whose operators are counted
    backend   collectives that are over at once; post: what they carry
    rank      one of N ranks in a process that is alone
    turns     ranks one after another; alike: which of them do the same
    simulate  a job done dry, and placed in time
    script    a program of a user's as one rank; programs: as all of them

Order, bytes and memory are not modelled but executed: what is issued is what the program issues.
Times are predicted.
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
