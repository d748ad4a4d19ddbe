"""Spans of threads and their nesting."""

from __future__ import annotations

from collections import defaultdict
from dataclasses import dataclass, field
from typing import Any

_DEEPEST = 1000
"""Maximum nesting; no program's calls are this deep."""


@dataclass(slots=True, eq=False)
class ProfileSpan:
    """One span of one thread.

    Attributes:
        thread: process and thread, as named in the file.
        start_ns, end_ns: start and end, since 1970.
        args: its further arguments in the file.
        inside: the innermost kept span of the thread around this one.
    """

    name: str
    thread: tuple[int | str, int | str]
    start_ns: int
    end_ns: int
    args: dict[str, Any]
    inside: ProfileSpan | None = None
    contents: list[ProfileSpan] = field(default_factory=list)

    def around(self) -> list[ProfileSpan]:
        """The spans around this one, from the innermost."""
        found, one = [], self.inside
        while one is not None:
            found.append(one)
            one = one.inside
        return found

    def within(self) -> list[ProfileSpan]:
        """The spans inside of this one, in their order."""
        found, left = [], self.contents[::-1]
        while left:
            one = left.pop()
            found.append(one)
            left += one.contents[::-1]
        return found


def nest(spans: list[ProfileSpan]) -> None:
    """Set the enclosing span of each span on its thread; the spans are sorted."""
    threads: dict[tuple[int | str, int | str], list[ProfileSpan]] = defaultdict(list)
    for span in spans:
        threads[span.thread].append(span)
    for some in threads.values():
        open_: list[ProfileSpan] = []
        for span in some:
            while open_ and open_[-1].end_ns <= span.start_ns:
                open_.pop()
            if len(open_) > _DEEPEST:
                raise ValueError(f"spans of one thread, nested {_DEEPEST:,} deep")
            if open_ and span.end_ns <= open_[-1].end_ns:
                span.inside = open_[-1]
                open_[-1].contents.append(span)
            open_.append(span)


def in_order(span: ProfileSpan) -> tuple[int, int]:
    """The sort key of spans: enclosing spans come first."""
    return span.start_ns, -span.end_ns
