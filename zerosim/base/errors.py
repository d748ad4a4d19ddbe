"""Every error that zerosim raises on purpose.

ZerosimError                   carries the exit code that the command line returns
├── InputError (ValueError)    exit 2: an input cannot be used
│   ├── ConfigError            an option, a model name, a combination that does not exist
│   │   └── UnplannedError     it exists, but theory cannot predict its traffic
│   ├── UnknownValue           a program needs a computed value in a dry run
│   ├── TraceError             a trace that is missing, damaged, truncated or unreadable
│   └── EnvironmentFault       this machine lacks something: a port, a dtype, a folder
├── ClaimFailed                exit 1: a claim contradicts a measurement
└── RunError                   exit 3: a rank failed, was killed, or stopped answering
    ├── CollectiveError        raised in a rank whose collective did not complete
    ├── OutOfMemory            the device has no room for an allocation
    └── DiskError              a full disk, a file that is gone, short, or damaged

A message is one line: what was given, what was expected, what to try.
"""

from __future__ import annotations


class ZerosimError(Exception):
    """Base of all errors meant for a user.

    Attributes:
        exit_code: the status that the command line returns for this error.
    """

    exit_code = 2


class InputError(ZerosimError, ValueError):
    """An input cannot be used."""


class ConfigError(InputError):
    """An option, a name, or a combination of options that does not exist."""


class UnplannedError(ConfigError):
    """An option of a program's system for which theory has no plan."""


class UnknownValue(InputError):
    """In a dry run, a program needs a result that depends on computed values."""


class TraceError(InputError):
    """A trace that is missing, damaged, truncated, or written by another schema."""


class EnvironmentFault(InputError):
    """This machine lacks something that the request needs."""


class ClaimFailed(ZerosimError):
    """A claim contradicts a measurement."""

    exit_code = 1


class RunError(ZerosimError):
    """A rank failed, was killed, or stopped responding."""

    exit_code = 3


class CollectiveError(RunError):
    """A collective did not complete on this rank, because a peer is gone or does not respond."""


class DiskError(RunError):
    """State on a disk could not be written, or differs from what was written."""


class OutOfMemory(RunError):
    """The device's memory, or its limit, has no room for an allocation of this rank."""


def cannot_load(error: BaseException) -> str:
    """One line on a failed import or allocation in Python."""
    while error.__cause__ is not None:  # NumPy prints a page of advice before it
        error = error.__cause__
    return (
        f"this machine cannot load a library that zerosim needs ({type(error).__name__}: "
        f"{first_line(error)}): expected PyTorch, and memory for it; see ulimit -v, and try "
        "zerosim doctor"
    )


def first_line(error: BaseException) -> str:
    """The first line of an error's message."""
    lines = str(error).split("\n")
    return next(filter(str.strip, lines), type(error).__name__)
