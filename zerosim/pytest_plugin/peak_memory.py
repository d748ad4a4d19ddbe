"""`assert_peak_memory`: an upper bound on a rank's memory.

Without a role it covers all live bytes: all roles together, and the further bytes counted by
PyTorch's allocator if it was queried (on CUDA, and on the CPU with `allocations=True`). With a role
it covers that role's bytes.
"""

from __future__ import annotations

from fractions import Fraction

import numpy as np

from zerosim.analysis.memory import ROLES, Timeline, in_steps, peak
from zerosim.base.errors import ConfigError
from zerosim.base.quantities import PSI, format_exact, format_exact_bytes
from zerosim.pytest_plugin.failure import place_words
from zerosim.schema.events import WHOLE
from zerosim.schema.memory import MODEL_STATES, Role
from zerosim.verify.memory_check import timelines
from zerosim.verify.peaks import when
from zerosim.view.reading.quantity import Quantity
from zerosim.view.reading.selection import Selection

MODEL_STATES_NAME = "model states"


def parse_role(given: object) -> tuple[Role, ...]:
    """The roles of an assert; empty for all together.

    Raises:
        ConfigError: there is no such role.
    """
    if given is None:
        return ()
    if given == MODEL_STATES_NAME:
        return MODEL_STATES
    known = {role.value: role for role in ROLES}
    if not isinstance(given, str) or given not in known:
        names = ", ".join(repr(name) for name in (*known, MODEL_STATES_NAME))
        raise ConfigError(f"role is {given!r}: expected one of {names}")
    return (known[given],)


def check_peak(selection: Selection, limit: Quantity, roles: tuple[Role, ...], psi: int) -> str:
    """Compare the peak of each rank with a limit.

    Args:
        roles: the roles to count; all live bytes if empty.
        psi: number of parameters; 0 if not needed.

    Returns:
        Why it is exceeded, with the parts of the peak; "" if it is not.

    Raises:
        TraceError: no memory was recorded.
    """
    lines = timelines(selection.trace)
    num_ranks = selection.trace.manifest.num_ranks
    bound = Fraction(limit.num_bytes or 0) if limit.is_bytes else limit.in_psi(num_ranks) * psi
    peaks = [_peak(lines[rank.rank], selection, roles) for rank in selection.ranks]
    wrong = [peak for peak in peaks if peak[0] > bound]
    if not wrong:
        return ""
    size, line, position = max(wrong, key=lambda found: found[0])
    name = " and ".join(roles) if len(roles) == 1 else MODEL_STATES_NAME if roles else "everything"
    sample = line.samples[position]
    told = f"{limit.text} = {format_exact_bytes(bound)}" if not limit.is_bytes else limit.text
    more = f" ({len(wrong)} of {len(peaks)} ranks keep too much)" if len(peaks) > 1 else ""
    place = place_words(line.rank, sample.iteration)
    found = [
        f"peak memory is {format_exact_bytes(size)}, expected at most {told}: {place}{more}",
        f"  compared  {name}, {_source(line, roles)}",
        f"  when      {when(line, position).removeprefix('when ')}",
    ]
    if not limit.is_bytes:
        found.append(f"  {PSI} is     {format_exact(psi)} parameters, N is {num_ranks}")
    found.append("  by role at that moment:")
    parts = {role: held for role, held in line.roles_at(position).items() if held}
    for role, held in sorted(parts.items(), key=lambda part: -part[1]):
        mark = " <" if role in roles else ""
        found.append(f"    {role:<24}{format_exact_bytes(held):>20}{mark}")
    other = line.other(position)
    if other:
        found.append(f"    {Role.OTHER:<24}{format_exact_bytes(other):>20}")
    return "\n".join(found)


def _peak(
    line: Timeline, selection: Selection, roles: tuple[Role, ...]
) -> tuple[int, Timeline, int]:
    """The maximum bytes of the selection, and the sample with them."""
    if selection.iterations == (WHOLE,):
        positions = np.arange(len(line.samples), dtype=np.int64)
    else:
        positions = in_steps(line, selection.iterations)
    phases = {number for number in positions if line.samples[number].phase in selection.phases}
    chosen = np.array(sorted(phases), dtype=np.int64)
    top = peak(line, chosen, roles)
    return (0, line, 0) if top is None else (top.bytes, line, top.position)


def _source(line: Timeline, roles: tuple[Role, ...]) -> str:
    if roles:
        return "by live storages"
    if line.is_measured:
        return "all roles together and the rest of PyTorch's allocator"
    return "all roles together (without the allocator's count)"
