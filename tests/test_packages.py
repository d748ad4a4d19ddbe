"""What is installed: `zerosim` and nothing else, which works beside anybody's own `lessons`."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
import tomllib
import zipfile
from collections import Counter
from email.parser import Parser
from html import unescape
from pathlib import Path
from urllib.error import HTTPError
from urllib.request import urlopen

import pytest
from hatchling.builders.sdist import SdistBuilder
from hatchling.builders.wheel import WheelBuilder

from tests.deadlines import RANKS_S
from zerosim.base.version import VERSION
from zerosim.lessons.course import course
from zerosim.lessons.recordings import COMMITTED

REPOSITORY = Path(__file__).parents[1]
PLACES = {
    "zerosim": "zerosim",
    "dashboards": "zerosim/dashboards",
    "lessons": "zerosim/lessons",
}
OF_PAGES = ("dash", "flask", "plotly", "waitress", "werkzeug")
"""What comes with the extra; rich brings markdown-it-py as well."""
ALL_COMMANDS = """
import sys
from zerosim.cli import main

sys.modules.update(dict.fromkeys(sys.argv[1].split()))
for line in sys.argv[2].splitlines():
    sys.argv[1:] = line.split()
    try:
        main()
    except SystemExit as end:
        print(f"{sys.argv[1]} ended with {end.code}", file=sys.stderr)
"""
PAGES = (
    *("/replay", "/compare", "/graph", "/verify", "/lessons", "/lessons/notes", "/room"),
    *("/join", "/api/traces", "/api/replay"),
)
IN_PAGES = re.compile(r'(?:href|src)="(/[^"#]*)"|"(/player/[^"]+[^"/])"')


def build(builder, root, folder, version="standard"):
    return Path(next(builder(str(root)).build(directory=str(folder), versions=[version])))


def names_in(wheel):
    with zipfile.ZipFile(wheel) as archive:
        names = archive.namelist()
    assert len(names) == len(set(names))
    return {name for name in names if ".dist-info/" not in name}


def sources():
    """Every file of our packages, by the name under which it is installed."""
    return {
        f"{place}/{path.relative_to(REPOSITORY / package)}"
        for package, place in PLACES.items()
        for path in (REPOSITORY / package).rglob("*")
        if path.is_file() and "__pycache__" not in path.parts
    }


@pytest.fixture(scope="module")
def wheel(tmp_path_factory):
    return build(WheelBuilder, REPOSITORY, tmp_path_factory.mktemp("wheel"))


@pytest.fixture(scope="module")
def site(wheel, tmp_path_factory):
    """A folder that the wheel's content lies in, as where packages are installed."""
    folder = tmp_path_factory.mktemp("site")
    with zipfile.ZipFile(wheel) as archive:
        archive.extractall(folder)
    return folder


@pytest.fixture
def own(tmp_path):
    """Somebody's folder: packages of their own that have our names, and two traces."""
    for name in ("lessons", "dashboards"):
        (tmp_path / name).mkdir()
        (tmp_path / name / "__init__.py").write_text("OWN = True\n")
    for name in ("stage-0", "stage-3"):  # as the notes for lecturers have them
        shutil.copytree(COMMITTED / "ring" / name, tmp_path / "t" / name)
    return tmp_path


def started(folder, site, *args):
    """Python in a folder, with what is installed but this checkout: no .pth file is read."""
    installed = [path for path in sys.path if path.endswith("site-packages")]
    return subprocess.Popen(
        [sys.executable, "-S", *args],
        cwd=folder,
        env=os.environ | {"PYTHONPATH": os.pathsep.join([str(folder), str(site), *installed])},
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )


def ended(*args):
    process = started(*args)
    out, err = process.communicate(timeout=RANKS_S)
    return process.returncode, out, err


def test_the_wheel_holds_zerosim_and_nothing_beside_it(wheel):
    assert names_in(wheel) == sources()
    with zipfile.ZipFile(wheel) as archive:
        tops = {name.partition("/")[0] for name in archive.namelist()}
        metadata = archive.read(f"zerosim-{VERSION}.dist-info/METADATA").decode()
    assert tops == {"zerosim", f"zerosim-{VERSION}.dist-info"}
    found = Parser().parsestr(metadata)
    assert found["Description-Content-Type"] == "text/markdown"
    assert found.get_payload().strip() == (REPOSITORY / "README.md").read_text().strip()
    needed = [word for word in found.get_all("Requires-Dist") if "extra ==" not in word]
    assert {re.match(r"[\w-]+", word)[0] for word in needed} == {
        "torch", "msgspec", "networkx", "numpy", "typer", "rich", "simpleeval",
    }  # fmt: skip
    assert {"pages", "dev"} <= set(found.get_all("Provides-Extra"))


def test_the_source_archive_is_whole_and_makes_the_same_wheel(wheel, tmp_path):
    archive = build(SdistBuilder, REPOSITORY, tmp_path)
    # tarfile's own way differs between releases of Python 3.11
    subprocess.run(("tar", "xzf", archive, "-C", tmp_path), check=True)  # noqa: S607
    tree = tmp_path / f"zerosim-{VERSION}"
    there = {str(path.relative_to(tree)) for path in tree.rglob("*") if path.is_file()}
    assert there >= sources()
    for name in ("README.md", "LICENSE", "Makefile", "docs/pytest.md", "tests/test_packages.py"):
        assert name in there
    # pictures and pages that README.md points to
    links = re.findall(r"\]\((?!http)([\w./-]+)\)", (REPOSITORY / "README.md").read_text())
    inside = {f"zerosim/{link}" if link.startswith("lessons/") else link for link in links}
    assert inside <= there
    assert names_in(build(WheelBuilder, tree, tmp_path / "again")) == names_in(wheel)


def test_an_editable_install_adds_zerosim_alone(own, tmp_path_factory):
    folder = tmp_path_factory.mktemp("editable")
    with zipfile.ZipFile(build(WheelBuilder, REPOSITORY, folder, "editable")) as archive:
        archive.extractall(folder)
    # without __init__.py: any other package of the name would come before it
    (own / "lessons" / "__init__.py").rename(own / "lessons" / "mine.py")
    program = (
        f"import site; site.addsitedir({str(folder)!r}); import lessons.mine, dashboards; "
        "import zerosim.lessons.course as course; print(dashboards.OWN, len(course.course()))"
    )
    code, out, err = ended(own, folder, "-c", program)
    assert (code, out, err) == (0, f"True {len(course())}\n", "")


def test_without_the_extra_all_works_but_serve(own, site):
    lines = """
        verify t/stage-3
        show t/stage-3
        graph t/stage-3 --graphml g.graphml --nodelink g.json
        memory t/stage-3
        compare t/stage-0 t/stage-3
        table paper
        export t/stage-3 --html x.html
        notebook 5
        serve t
    """
    hidden = " ".join(OF_PAGES)
    code, out, err = ended(own, site, "-c", ALL_COMMANDS, hidden, lines.strip())
    assert code == 0
    *ends, last, ending = err.splitlines()
    assert ends == [f"{line.split()[0]} ended with 0" for line in lines.split("\n")[1:-2]]
    assert ending == "serve ended with 2"
    assert last.startswith("zerosim: ")
    assert " needs dash, plotly, waitress, not installed here; " in last
    assert last.endswith("try pip install 'zerosim[pages]'")
    assert {"x.html", "g.graphml", "g.json", "lesson05_zero3.ipynb"} <= {
        path.name for path in own.iterdir()
    }
    assert "wrote x.html" in out


def test_the_example_is_read_from_the_wheel(own, site):
    program = "import zerosim; print(zerosim.load(zerosim.EXAMPLE).verify().headline)"
    code, out, err = ended(own, site, "-c", program)
    assert (code, err) == (0, "")
    assert "This run of ZeRO-3 sends 3Ψ(N-1)/N a step" in out


def test_a_lesson_runs_from_the_wheel(own, site):
    lesson = course()[5]
    module = f"zerosim.lessons.{lesson.path.stem}"
    code, out, err = ended(own, site, "-m", module, "--recorded")
    assert (code, err) == (0, "")
    assert f"Lesson {lesson.number}: {lesson.title}" in out
    assert out.count("\nAnswer:") == len(list(lesson.calls("reveal")))


def test_pages_are_served_from_the_wheel_beside_somebodys_own_packages(own, site):
    process = started(own, site, "-m", "zerosim", "serve", "t", "--port", "0")
    kinds, broken = Counter(), {}
    try:
        url = re.search(r"http://127\.0\.0\.1:\d+", process.stdout.readline())[0]
        first, *others = (f"/lessons/{lesson.id}" for lesson in course())
        waiting = [*PAGES, first]
        asked = {*waiting, *others}  # one lesson is like another
        while waiting:
            path = waiting.pop()
            try:
                with urlopen(f"{url}{path}") as answer:  # noqa: S310 - our own server
                    text = answer.read().decode("utf-8", "replace")
                    kind = answer.headers.get_content_type()
            except HTTPError as error:
                broken[path] = error.code
                continue
            kinds[kind] += 1
            found = IN_PAGES.findall(text) if kind == "text/html" else ()
            new = {unescape(address) for pair in found for address in pair if address}
            # a page of one run is like that of another, and comes from the same files
            new = {address.partition("?")[0]: address for address in sorted(new)}
            waiting += [address for path, address in new.items() if path not in asked]
            asked |= new.keys()
    finally:
        process.terminate()
        _, err = process.communicate(timeout=RANKS_S)
    assert (err.strip(), broken) == ("", {})
    assert kinds["text/html"] >= len(PAGES) - 1
    assert kinds["text/css"] >= 5
    assert kinds["text/javascript"] >= 50


def test_what_make_installs_serves_pages():
    with (REPOSITORY / "pyproject.toml").open("rb") as file:
        extras = tomllib.load(file)["project"]["optional-dependencies"]
    assert "zerosim[pages]" in extras["dev"]
    assert "'.[dev]'" in (REPOSITORY / "Makefile").read_text()
