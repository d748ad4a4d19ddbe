"""The pictures of README.md and docs/, drawn by our own export from the committed traces.

python -m tests.pictures docs   the film and the pictures in docs/images (make pictures)
python -m tests.pictures DIR    every system in forward, backward and update, as it looks at a desk
                                in light and dark, and on a wall
"""

from __future__ import annotations

import itertools
import sys
from collections.abc import Iterator
from pathlib import Path

import zerosim
from zerosim.view.export.files import write
from zerosim.view.export.gif import animation
from zerosim.view.export.pictures import FRAME_MS, Look, Pictures, Stretch, pictures

ROOT = Path(__file__).parents[1]
TRACES = ROOT / "lessons" / "traces"
IMAGES = ROOT / "docs" / "images"
SYSTEMS = {
    "ddp": "profiles/ddp",
    "zero-1": "ring/stage-1",
    "zero-2": "ring/stage-2",
    "zero-3": "ring/stage-3",
    "fsdp2": "profiles/fsdp2",
    "zero-redundancy-optimizer": "profiles/ddp-zero",
    "deepspeed-2": "deepspeed/deepspeed-2",
    "tensor-parallel": "parallel/tensor-parallel",
    "pipeline": "parallel/1f1b",
    "offload": "offload/stage-2",
    "infinity": "infinity/stage-3",
    "zero-plus-plus": "plusplus/stage-3",
}
"""Each system that there is a committed trace of."""
LOOKS = {"light": Look(), "dark": Look(theme="dark"), "present": Look(present=True)}
PHASES = ("forward", "backward", "update")
TOLD = (
    ("ddp", "backward", "light"),
    ("zero-1", "update", "light"),
    ("zero-2", "backward", "light"),
    ("zero-3", "forward", "present"),
    ("fsdp2", "backward", "dark"),
    ("tensor-parallel", "forward", "light"),
    ("offload", "update", "dark"),
    ("zero-plus-plus", "forward", "light"),
)
"""Those of docs/pictures.md."""
FILM = "replay.gif"
FILMED = ("zero-3", Look(present=True, size=(1000, 560)))
STRETCHES = (("forward", "gather"), ("backward", "reduce"), ("update", "update"))
"""What the film shows of an iteration: in each phase, a beat with this sign and the next one."""


def moment(document: dict, phase: str) -> int | None:
    """The step that a picture of a phase shows: of the beats that send a unit, the middle one."""
    own = [beat for beat in document["beats"] if beat["phase"] == phase]
    sending = [
        beat for beat in own if beat["units"] and document["steps"][beat["main"]]["collective"] >= 0
    ]
    chosen = sending if phase != "update" and sending else own[-1:]
    return chosen[len(chosen) // 2]["main"] if chosen else None


def stretches(document: dict) -> Iterator[Stretch]:
    """The beats of the film."""
    beats = document["beats"]
    for phase, sign in STRETCHES:
        of_sign = [
            k for k, beat in enumerate(beats) if beat["phase"] == phase and sign in beat["signs"]
        ]
        first = of_sign[min(1, len(of_sign) - 1)]  # of several the second: a block, no embedding
        yield Stretch(first, min(len(beats) - 1, first + 1))


def film(camera: Pictures, document: dict, look: Look) -> bytes:
    """Its stretches one after another."""
    shown = (camera.frames(each, look, lambda _: None) for each in stretches(document))
    return animation(itertools.chain.from_iterable(shown), FRAME_MS)


def draw(folder: Path, form: str, wanted: list[tuple[str, str, str]], films: bool) -> None:
    """Draw pictures into a folder as png or svg, each named by its system, phase and look."""
    folder.mkdir(parents=True, exist_ok=True)
    for system in dict.fromkeys(name for name, _, _ in wanted):
        replay = zerosim.load(TRACES / SYSTEMS[system]).replay()
        with pictures(replay.html) as camera:
            for name, phase, look in wanted:
                step = moment(replay.document, phase) if name == system else None
                if step is not None:
                    drawn = getattr(camera, form)(step, LOOKS[look])
                    _write(folder / f"{system}-{phase}-{look}.{form}", drawn)
            if films and system == FILMED[0]:
                _write(folder / FILM, film(camera, replay.document, FILMED[1]))


def _write(file: Path, content: bytes) -> None:
    write(file, content)
    print(f"{file}: {len(content) / 1e6:.2f} MB", flush=True)


def main(where: str) -> None:
    if where == "docs":
        draw(IMAGES, "svg", list(TOLD), films=True)
    else:
        draw(Path(where), "png", list(itertools.product(SYSTEMS, PHASES, LOOKS)), films=False)


if __name__ == "__main__":
    if len(sys.argv) != 2:
        sys.exit(__doc__)
    main(sys.argv[1])
