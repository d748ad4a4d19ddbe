"""Assignments on paper: `python -m zerosim.dashboards.handouts docs/assignments.md FOLDER`.

Each part of the file, starting at its heading, is a separate hand-out; `make assignments` writes
all of them. The text before the first part is for the lecturer, and is left out.
"""

from __future__ import annotations

import re
import sys
from html import escape
from pathlib import Path
from string import Template

from zerosim.base.errors import ZerosimError, first_line
from zerosim.base.quantities import format_bytes
from zerosim.dashboards.markdown import to_html
from zerosim.view.export.files import write
from zerosim.view.export.paper import paper

_HEADING = re.compile(r"^## ", re.MULTILINE)
_SHEET = Path(__file__).parent / "templates" / "handout.html"


def handouts(markdown: str) -> dict[str, str]:
    """The parts of a file of assignments as HTML, by file name."""
    sheet = Template(_SHEET.read_text(encoding="utf-8"))
    made = {}
    for part in _HEADING.split(markdown)[1:]:
        title = part.partition("\n")[0].strip()
        name = "-".join(re.findall(r"\w+", title.lower()))
        made[name] = sheet.substitute(title=escape(title), body=to_html(f"# {part}"))
    return made


def main(source: Path, folder: Path) -> int:
    """Print each part; files of an earlier call are replaced."""
    folder.mkdir(parents=True, exist_ok=True)
    try:
        for name, html in handouts(source.read_text(encoding="utf-8")).items():
            content = paper(html)
            write(folder / f"{name}.pdf", content)
            sys.stdout.write(f"wrote {folder / name}.pdf: {format_bytes(len(content))}\n")
    except ZerosimError as error:
        sys.stderr.write(f"error: {first_line(error)}\n")
        return 2
    return 0


if __name__ == "__main__":
    sys.exit(main(*map(Path, sys.argv[1:])))
