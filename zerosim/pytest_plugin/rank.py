"""The work of each rank of `zerosim_trace.run`: it calls the test's function, traced.

The function is found by the file that defines it: pytest imports test files in its own way.
"""

from __future__ import annotations

import importlib
import importlib.util
import io
import pickle
import sys
from collections.abc import Mapping
from pathlib import Path
from types import ModuleType
from typing import Any

from zerosim.pytest_plugin.options import Options
from zerosim.trace.session import trace
from zerosim.train.launch.rendezvous import joined


def call_traced(
    call: bytes, files: Mapping[str, str], traces: str, program: str, options: Options
) -> Any:
    """Call a function as one of the ranks; returns its result.

    Args:
        call: function, arguments and keyword arguments, pickled.
        files: the files of the project's modules in the test's process, by module name.
        traces: the folder of the trace.
    """
    ranks = joined()  # whatever the function does with its process groups
    function, args, kwargs = _Reader(io.BytesIO(call), files).load()
    with trace(
        traces,
        program=program,
        memory=options.memory,
        wire=options.wire,
        allocations=options.allocations,
    ):
        value = function(*args, **kwargs)
        # read the kernel's counters last when nothing is in flight
        ranks.meet("the function has returned")
    return value


class _Reader(pickle.Unpickler):
    """Finds functions and classes in the modules of the test's process."""

    def __init__(self, file: io.BytesIO, files: Mapping[str, str]) -> None:
        super().__init__(file)
        self._files = files

    def find_class(self, module: str, name: str) -> Any:
        """The function or class, with its module imported."""
        if module not in sys.modules and module in self._files:
            _import(module, self._files[module])
        return super().find_class(module, name)


def _import(name: str, file: str) -> None:
    """Import a module by its name if that refers to this file, else from the file."""
    try:
        spec = importlib.util.find_spec(name)
    except (ImportError, ValueError):
        spec = None
    if spec is not None and spec.origin is not None and Path(spec.origin) == Path(file):
        importlib.import_module(name)
        return
    place = Path(file).parent
    for parent in reversed(_parents(name)):
        if parent not in sys.modules:
            package = ModuleType(parent)
            package.__path__ = []
            sys.modules[parent] = package
    if "." in name:
        # so that it can import its sibling modules
        vars(sys.modules[name.rpartition(".")[0]])["__path__"] = [str(place)]
    spec = importlib.util.spec_from_file_location(name, file)
    assert spec is not None, "the test's process has imported it from there"
    assert spec.loader is not None, "likewise"
    module = importlib.util.module_from_spec(spec)
    sys.modules[name] = module
    spec.loader.exec_module(module)


def _parents(name: str) -> list[str]:
    """The packages that a module is in, from the innermost."""
    parts = name.split(".")
    return [".".join(parts[:count]) for count in range(len(parts) - 1, 0, -1)]
