"""Imported by every Python process of a traced program at its start.

It hooks one import, that of `torch.distributed.distributed_c10d`, and does nothing in a process
without it. There it makes PyTorch report that the process has joined a process group; only then is
zerosim imported and the trace begins (`zerosim.trace.bootstrap`).

No function that a program calls is replaced, so no traceback has an additional frame: PyTorch
itself calls `_update_default_pg` after joining. The program's own `sitecustomize` is imported as if
this one did not exist.

It runs in the Python 3 of the program, whichever version that is, so it uses only common syntax.
"""

import os
import sys

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import Any

_VARIABLE = "ZEROSIM_TRACE"
_MODULE = "torch.distributed.distributed_c10d"
_NAME = "sitecustomize"
_OLDEST = (3, 11)


class _ImportFinder:
    """Finds one module like the other finders, and hooks its execution."""

    def find_spec(self, name: str, path: "Any" = None, target: "Any" = None) -> "Any":
        if name != _MODULE:
            return None
        sys.meta_path.remove(self)
        spec = _find_spec(name, path, target)
        if spec is not None and hasattr(spec.loader, "exec_module"):
            _follow(spec.loader)
        return spec


def _find_spec(name: str, path: "Any" = None, target: "Any" = None) -> "Any":
    for finder in sys.meta_path:
        find = getattr(finder, "find_spec", None)
        spec = None if find is None else find(name, path, target)
        if spec is not None:
            return spec
    return None


def _follow(loader: "Any") -> None:
    """Let a loader report joins after it has executed its module."""
    import atexit

    # registered before handlers of PyTorch and most of the program's, so it is called after them
    atexit.register(_at_exit)
    execute = loader.exec_module

    def exec_module(module: "Any") -> None:
        del loader.exec_module  # restores the method of the class
        execute(module)
        _listen(module)

    loader.exec_module = exec_module


def _listen(c10d: "Any") -> None:
    update = getattr(c10d, "_update_default_pg", None)
    if update is None:
        _say("this PyTorch does not report when a process joins a group: torch 2.11 to 2.13 do")
        return

    def joined(group: "Any") -> None:
        update(group)
        if group is not None:
            _call(_begin)

    c10d._update_default_pg = joined  # noqa: SLF001


def _begin() -> None:
    if sys.version_info < _OLDEST:
        _say(
            "the program runs in Python %d.%d: zerosim traces %d.%d and later"  # noqa: UP031
            % (sys.version_info[:2] + _OLDEST)
        )
        return
    _bootstrap().joined(_settings(), _say)


def _at_exit() -> None:
    module = sys.modules.get("zerosim.trace.bootstrap")
    if module is not None:
        _call(module.end)


def _call(function: "Callable[[], None]") -> None:
    """Errors of the tracer are reported, and never affect the program."""
    try:
        function()
    except Exception as error:  # noqa: BLE001
        _say("{}: {}".format(type(error).__name__, error))  # noqa: UP032


def _settings() -> "Any":
    import json

    return json.loads(os.environ[_VARIABLE])


def _bootstrap() -> "Any":
    """The tracing module, of the program's own zerosim if it has one, else of the command's."""
    import importlib.util as imports

    own = imports.find_spec("zerosim")
    if "zerosim" not in sys.modules and (own is None or own.origin is None):
        # only this package, not its folder, which may contain other modules
        home = _settings()["package"]
        start = os.path.join(home, "__init__.py")  # noqa: PTH118
        spec = imports.spec_from_file_location("zerosim", start, submodule_search_locations=[home])
        if spec is None or spec.loader is None:
            raise ImportError("there is no zerosim in " + home)
        module = imports.module_from_spec(spec)
        sys.modules["zerosim"] = module
        spec.loader.exec_module(module)
    from zerosim.trace import bootstrap

    return bootstrap


def _say(what: str) -> None:
    """Write a line for the command, which prints it after the program's end."""
    line = " ".join(what.split()) + "\n"
    try:
        folder = _settings()["folder"]
        os.makedirs(folder, exist_ok=True)  # noqa: PTH103
        path = os.path.join(folder, "note-" + str(os.getpid()) + ".txt")  # noqa: PTH118
        with open(path, "a") as file:  # noqa: PTH123
            file.write(line)
    except (OSError, ValueError, KeyError):
        sys.stderr.write("zerosim: " + line)


def _import_next() -> None:
    """Import the `sitecustomize` that would have been imported without this one.

    Raises:
        ImportError: there is none; Python then continues without it.
    """
    here = os.path.dirname(os.path.abspath(__file__))  # noqa: PTH100, PTH120
    sys.path[:] = [path for path in sys.path if path != here]
    spec = _find_spec(_NAME)
    if spec is None:
        raise ImportError("there is none", name=_NAME)
    import importlib.util as imports

    module = imports.module_from_spec(spec)
    sys.modules[_NAME] = module
    spec.loader.exec_module(module)


if _VARIABLE in os.environ:
    sys.meta_path.insert(0, _ImportFinder())
_import_next()
