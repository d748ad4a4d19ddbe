"""`zerosim export`: traces as files for people without zerosim."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from enum import StrEnum
from functools import partial
from pathlib import Path
from typing import Annotated, Any

import typer

from zerosim.analysis import choose_iteration
from zerosim.base.errors import ConfigError, EnvironmentFault
from zerosim.base.quantities import format_bytes, format_exact
from zerosim.cli.options import ReplaceFile, integer, open_run, require_no_file
from zerosim.cli.pictures import PictureFile, draw, files_of, with_pictures
from zerosim.cli.serve import file_of_lesson, file_of_page, is_site, site_in
from zerosim.schema.events import Kind, Phase
from zerosim.view.export.chakra import chakra_files
from zerosim.view.export.columns import csv_file, parquet_file
from zerosim.view.export.files import write
from zerosim.view.export.hta import hta_files
from zerosim.view.export.paper import paper
from zerosim.view.export.perfetto import perfetto_file
from zerosim.view.reading import Run
from zerosim.view.replay.alignment import FEWEST, MOST

_PANEL = "For other tools"


def _tool(words: str) -> Any:
    return Annotated[Path | None, typer.Option(help=words, rich_help_panel=_PANEL)]


_TOOLS = {
    "perfetto": Annotated[
        Path | None, typer.Option(help="Write a run for ui.perfetto.dev.", rich_help_panel=_PANEL)
    ],
    "chakra": Annotated[
        Path | None,
        typer.Option(
            metavar="PREFIX",
            help="Write an iteration for ASTRA-sim and others: PREFIX.RANK.et, PREFIX.groups.json.",
            rich_help_panel=_PANEL,
        ),
    ],
    "hta": _tool("Write a run for HTA and TraceLens into this folder, one profile per rank."),
    "graphml": _tool("Write an iteration's event graph for Gephi, yEd and networkx."),
    "csv": _tool("Write the events of all iterations, or of --iteration, as CSV, one line each."),
    "parquet": _tool("Write the same events as Parquet (needs pyarrow)."),
}
_SLIDES = "slides"
"""The other page of a lesson."""


_COLUMNS = {"csv": csv_file, "parquet": parquet_file}


class Page(StrEnum):
    """The page that `--html` writes."""

    REPLAY = "replay"
    VERIFY = "verify"
    COMPARE = "compare"


@partial(with_pictures, more=_TOOLS)
def export(
    folders: Annotated[
        list[Path] | None,
        typer.Argument(help="A trace's folder; several folders give a Compare page."),
    ] = None,
    *,
    html: Annotated[
        Path | None, typer.Option(help="Write a self-contained page to this file.")
    ] = None,
    page: Annotated[
        str | None,
        typer.Option(help="Page to write: replay, verify, compare (several traces) or slides."),
    ] = None,
    lesson: Annotated[
        int | None,
        integer("Write this lesson with replays and answers, or its slides; needs no trace."),
    ] = None,
    site: Annotated[
        Path | None,
        typer.Option(
            help=(
                "Write the documentation, all lessons, puzzles and replays into this "
                "folder as a web site; needs no trace."
            )
        ),
    ] = None,
    iteration: Annotated[
        int | None, integer("Iteration to export; the last complete one by default.")
    ] = None,
    overwrite: ReplaceFile = False,
    **options: Any,
) -> int:
    """Write offline pages, a whole site, pictures and videos, and files for other tools."""
    if site is not None:
        _require_alone(site, folders, options, html, page, lesson, iteration)
        return _export_site(site, overwrite=overwrite)
    if lesson is not None:
        return _export_lesson(
            lesson, html, options, slides=_slides_of(lesson, page, folders), overwrite=overwrite
        )
    traces = folders or []
    images = files_of(options)
    given = {"html": html, **{name: options[name] for name in _TOOLS}, **images}
    files = {form: file for form, file in given.items() if file is not None}
    kind = _page_of(page, traces, files)
    require_no_file(((f, one) for f, one in files.items() if f != "hta"), overwrite=overwrite)
    runs = [open_run(folder) for folder in traces]
    where = " ".join(map(str, traces))
    made = _for_tools(runs[0], options, iteration)
    more = ((_form_of(file, options), file) for file in made if file not in files.values())
    require_no_file(more, overwrite=overwrite)
    if kind is Page.REPLAY and (html is not None or images):
        replay = runs[0].replay(iteration=iteration)
        made |= draw(replay, options)
        where = f"iteration {replay.document['run']['iteration']} of {where}"
    if html is not None:
        text = replay.html if kind is Page.REPLAY else file_of_page(kind, traces, iteration)
        made = {html: PictureFile(text.encode(), ""), **made}
    if (folder := options["hta"]) is not None:
        _make_folder(folder)
    _write(made, where, runs)
    if html is not None:
        all_of_it = f"zerosim serve {' '.join(map(str, traces))}"
        typer.echo(f"next: open {html} in a browser, or {all_of_it} for all iterations")
    return 0


def _make_folder(folder: Path) -> None:
    try:
        folder.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise EnvironmentFault(
            f"cannot create the folder {folder}: {error.strerror}; give one that can be written"
        ) from None


def _form_of(file: Path, options: Mapping[str, Path | None]) -> str:
    """The option to which a file belongs, if an option writes several files."""
    return "hta" if file.parent == options["hta"] else "chakra"


def _write(made: Mapping[Path, PictureFile], where: str, runs: Sequence[Run]) -> None:
    for file, one in made.items():
        write(file, one.content)
        what = f"{one.what}, " if one.what else ""
        typer.echo(f"wrote {file}: {what}{where}, {format_bytes(len(one.content))}")
    for warning in (warning for run in runs for warning in run.trace.warnings):
        typer.echo(f"note: {warning}", err=True)


def _for_tools(
    run: Run, options: Mapping[str, Path | None], iteration: int | None
) -> dict[Path, PictureFile]:
    """The exports for other programs, by file."""
    made = {}
    perfetto, chakra = options["perfetto"], options["chakra"]
    if perfetto is not None:
        content, num_slices = perfetto_file(run.graph)
        made[perfetto] = PictureFile(content, f"{format_exact(num_slices)} slices")
    if chakra is not None:
        number = choose_iteration(run.trace, iteration)
        for file, content in chakra_files(run.graph, number, chakra).items():
            made[file] = PictureFile(content, f"iteration {number}")
    if (folder := options["hta"]) is not None:
        made |= {f: PictureFile(content, "") for f, content in hta_files(run.graph, folder).items()}
    if (graphml := options["graphml"]) is not None:
        made[graphml] = _graph(run, iteration)
    return made | _tables(run, options, iteration)


def _graph(run: Run, iteration: int | None) -> PictureFile:
    from zerosim.view.export.graphs import (  # networkx takes a tenth of a second
        annotated,
        graphml_file,
    )

    number = choose_iteration(run.trace, iteration)
    graph = annotated(run.graph.within(number))
    counts = f"{graph.number_of_nodes():,} nodes, {graph.number_of_edges():,} edges"
    return PictureFile(graphml_file(graph), f"iteration {number}, {counts}")


def _tables(
    run: Run, options: Mapping[str, Path | None], iteration: int | None
) -> dict[Path, PictureFile]:
    """Events as columns."""
    wanted = {form: options[form] for form in _COLUMNS if options[form] is not None}
    if not wanted:
        return {}
    which = (run.iterations or None) if iteration is None else iteration
    table = run.events(kind=tuple(Kind), phase=tuple(Phase), iteration=which)
    count = f"{format_exact(len(table))} events"
    return {
        file: PictureFile(_COLUMNS[form](table), count) for form, file in wanted.items() if file
    }


def _export_lesson(
    number: int, html: Path | None, options: Mapping[str, Any], *, slides: bool, overwrite: bool
) -> int:
    """Write a lesson, its slides, or both: on paper it is always slides."""
    images = files_of(options)
    pdf = images.pop("pdf", None)
    if (html is None and pdf is None) or images or any(options[name] for name in _TOOLS):
        raise ConfigError(
            f"lesson is {number}: give --html FILE, or for its slides --pdf FILE, and nothing else"
        )
    named = {"html": html, "pdf": pdf}
    files = {form: file for form, file in named.items() if file is not None}
    require_no_file(files.items(), overwrite=overwrite)
    deck = file_of_lesson(number, as_slides=True) if slides or pdf is not None else ""
    made = {}
    if html is not None:
        made[html] = (deck if slides else file_of_lesson(number, as_slides=False)).encode()
    if pdf is not None:
        made[pdf] = paper(deck)
    for file, content in made.items():
        write(file, content)
        what = f"the slides of lesson {number}" if slides or file == pdf else f"lesson {number}"
        typer.echo(f"wrote {file}: {what}, {format_bytes(len(content))}")
    if html is not None:
        how = "arrow keys move, n shows notes" if slides else "each step prints as one page"
        typer.echo(f"next: open {html} in a browser; {how}")
    return 0


def _require_alone(site: Path, folders: object, options: Mapping[str, Any], *given: object) -> None:
    if folders or files_of(options) or any(options[name] for name in _TOOLS) or any(given):
        raise ConfigError(
            f"site is {site}: a site is exported alone; leave out traces and other files"
        )


def _export_site(folder: Path, *, overwrite: bool) -> int:
    if folder.exists() and (not folder.is_dir() or any(folder.iterdir())):
        if not overwrite:
            raise ConfigError(f"site is {folder}: it already exists; try --overwrite")
        if not is_site(folder):
            raise ConfigError(
                f"site is {folder}: it contains files that are not part of a site; "
                "give another folder"
            )
    count, num_bytes = site_in(folder)
    typer.echo(f"wrote {folder}: {count} files, {format_bytes(num_bytes)}")
    typer.echo(f"next: open {folder / 'index.html'} in a browser, or put the folder on a web host")
    return 0


def _slides_of(number: int, page: str | None, folders: object) -> bool:
    """Whether a lesson's page is that of its slides.

    Raises:
        ConfigError: the page is not that of slides, or traces are given.
    """
    if folders:
        raise ConfigError(f"lesson is {number}: it takes no trace")
    if page not in (None, _SLIDES):
        raise ConfigError(f"page is {page[:40]!r}: for a lesson expected {_SLIDES}, or no --page")
    return page is not None


def _page_of(name: str | None, folders: Sequence[Path], files: Collection[str]) -> Page:
    """The page that is written, if one is.

    Raises:
        ConfigError: it is none, or one of another number of traces; nothing is to be written.
    """
    if not folders:
        raise ConfigError("no trace is given: expected a trace's folder, or --lesson")
    if not files:
        raise ConfigError(
            "nothing to write: give --html FILE, --png, --svg, --pdf, --gif, --webm, --perfetto, "
            "--chakra, --hta, --graphml, --csv or --parquet"
        )
    several = len(folders) > 1
    count = len({folder.resolve() for folder in folders})
    found = name or (Page.COMPARE if several else Page.REPLAY)
    if found not in list(Page):
        raise ConfigError(f"page is {found[:40]!r}: expected one of {', '.join(Page)}")
    least, most = (FEWEST, MOST) if found == Page.COMPARE else (1, 1)
    if not least <= count <= most or (several and most == 1):
        needs = f"{least} to {most} different traces" if most > 1 else "one trace"
        raise ConfigError(f"page is {found}: it needs {needs}, {count} given")
    if found != Page.REPLAY and {*files} != {"html"}:
        raise ConfigError(
            f"page is {found}: pictures and files for other tools show one run; "
            "give them in a separate command"
        )
    return Page(found)
