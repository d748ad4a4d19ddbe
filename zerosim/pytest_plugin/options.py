"""Options of a test's recordings."""

from __future__ import annotations

from dataclasses import dataclass, fields
from typing import Any

from zerosim.base.errors import ConfigError


@dataclass(frozen=True, slots=True, kw_only=True)
class Options:
    """The options of a test's marker `zerosim`.

    Attributes:
        memory: record live tensors, by role, at each event.
        wire: read the kernel's counters.
        allocations: also record PyTorch's allocations on the CPU.
        timeout_s: timeout for ranks to reach an assert or the end of `run`.
    """

    memory: bool = True
    wire: bool = True
    allocations: bool = False
    timeout_s: float = 120.0


def read_marker(marker: Any) -> Options:
    """The options of a test's marker `zerosim`; the defaults if it has none.

    Raises:
        ConfigError: there is no such option, or it does not accept the value.
    """
    if marker is None:
        return Options()
    args: tuple[Any, ...] = marker.args
    given: dict[str, Any] = marker.kwargs
    known = {field.name: type(field.default) for field in fields(Options)}
    expected = f"expected one of {', '.join(known)}, by name"
    if args:
        raise ConfigError(f"the marker zerosim was given {args[0]!r}: {expected}")
    for name, value in given.items():
        if name not in known:
            raise ConfigError(f"the marker zerosim was given {name}: {expected}")
        is_flag = known[name] is bool
        if isinstance(value, bool) != is_flag or not isinstance(value, bool | int | float):
            kind = "True or False" if is_flag else "a number of seconds"
            raise ConfigError(f"the marker zerosim was given {name}={value!r}: expected {kind}")
    return Options(**given)
