"""What finds out where a program is and why it communicates. Imports torch and zerosim's L0."""

from __future__ import annotations

from zerosim.trace.recorder import Recorder


class Guide:
    """Labels a program that says nothing of itself, from `install` to `remove`."""

    def __init__(self, recorder: Recorder) -> None:
        """Begin with nothing known; `recorder` is told what is found."""
        self._recorder = recorder

    def install(self) -> None:
        """Begin to look."""

    def remove(self) -> None:
        """Stop looking; nothing of the program was changed."""
