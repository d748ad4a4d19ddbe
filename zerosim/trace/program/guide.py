"""What finds out where a program is and why it communicates. Imports torch and zerosim's L0."""

from __future__ import annotations


class Guide:
    """Labels a program that says nothing of itself, from `install` to `remove`."""

    def install(self) -> None:
        """Begin to look."""

    def remove(self) -> None:
        """Stop looking; nothing of the program was changed."""
