"""The contents of a site: the documentation as a book, and the runs with a replay."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path, PurePosixPath

from zerosim.base.errors import EnvironmentFault
from zerosim.base.language import Language, sibling, spoken
from zerosim.dashboards.texts import words
from zerosim.lessons.recordings import HERE

ROOT = HERE.parent
"""The root of a checkout: an installed zerosim has no documentation."""
FIRST, NOTES = "README.md", "lessons/instructor.md"
PARTS: tuple[tuple[str, ...], ...] = (
    (FIRST, "docs/start.md"),
    (
        *("docs/debug.md", "docs/diagnose.md", "docs/import.md", "docs/plan.md"),
        *("docs/simulate.md", "docs/nodes.md", "docs/pytest.md", "docs/deepspeed.md"),
        *("docs/puzzles.md", "docs/assignments.md", NOTES, "docs/systems.md"),
    ),
    (
        *("docs/commands.md", "docs/api.md", "docs/deepspeed-config.md"),
        *("docs/language.md", "docs/terms.md", "docs/pictures.md"),
    ),
    (
        *("docs/questions.md", "docs/family.md", "docs/profiles.md", "docs/fit.md"),
        *("docs/bench.md", "docs/gpu.md", "docs/security.md", "ARCHITECTURE.md"),
        "lessons/coverage.md",
    ),
    ("CONTRIBUTING.md", "CHANGELOG.md"),
)
"""Files of each part of the book, in order: introduction, guides, reference, explanation."""
RUNS: tuple[tuple[str, ...], ...] = (
    tuple(f"ring/stage-{stage}" for stage in range(4)),
    ("offload/stage-2", "infinity/stage-3", "plusplus/stage-3", "accumulate/stage-3"),
    (
        *("profiles/ddp", "profiles/ddp-zero", "profiles/fsdp2"),
        *(f"deepspeed/deepspeed-{stage}" for stage in (1, 2, 3)),
    ),
    ("parallel/tensor-parallel", "parallel/gpipe", "parallel/1f1b"),
)
"""The committed runs with a page of their whole replay."""
_TITLE = re.compile(r"^# (.+)$", re.MULTILINE)


@dataclass(frozen=True, slots=True)
class Document:
    """A file of the book in one language.

    Attributes:
        file: from the root of the checkout; for a page in two languages, the English one.
        source: the file to read.
        language: the language of the file, regardless of the current one.
    """

    file: str
    source: Path
    language: Language

    @property
    def text(self) -> str:
        """Its whole text, as Markdown."""
        return self.source.read_text(encoding="utf-8")

    @property
    def title(self) -> str:
        """Its first heading; in the other language's site, a title that is understood there."""
        own = said()["titles"].get(self.name)  # type: ignore[attr-defined]
        if own and self.language is not spoken():
            return str(own)
        found = _TITLE.search(self.text)
        assert found is not None, self.source
        return found[1].replace("`", "")

    @property
    def name(self) -> str:
        """Its name in addresses."""
        return PurePosixPath(self.file).stem.lower()


def document(file: str) -> Document:
    """A file in the current language, or in the other one if missing."""
    english, chinese = ROOT / file, (ROOT / file).with_suffix(".zh.md")
    if not chinese.exists():
        chinese = sibling(english, Language.CHINESE)
    prefers_chinese = spoken() is Language.CHINESE or not english.exists()
    if prefers_chinese and chinese.exists():
        return Document(file, chinese, Language.CHINESE)
    return Document(file, english, Language.ENGLISH)


def parts() -> Iterator[tuple[str, tuple[Document, ...]]]:
    """The parts of the book with their titles.

    Raises:
        EnvironmentFault: the documentation is not installed.
    """
    if not (ROOT / FIRST).exists() or not (ROOT / "docs").is_dir():
        raise EnvironmentFault(
            "the documentation is not installed with zerosim: a site can only be built in a "
            "checkout of its sources"
        )
    for title, files in zip(said()["parts"], PARTS, strict=True):
        yield title, tuple(map(document, files))


def documents() -> tuple[Document, ...]:
    """All of them, in reading order, without the lecturer's notes: the course has their page."""
    return tuple(one for _, files in parts() for one in files if one.file != NOTES)


def said() -> dict[str, str]:
    """The texts of a site around its pages."""
    return dict(words("book"))  # type: ignore[arg-type]
