"""Frames as a GIF: one palette for all of them, and only the changed part of each frame."""

from __future__ import annotations

import io
from collections.abc import Iterable

import numpy as np
from numpy.typing import NDArray
from PIL import Image

Colours = NDArray[np.uint8]
"""Rows of red, green and blue."""
_PLACES = np.array([1 << 16, 1 << 8, 1], dtype=np.int32)
_NUM_COLOURS = 255
"""One of 256 colours is reserved for unchanged pixels."""
_SAMPLES = 12
"""Number of frames from which the palette is computed."""


def animation(frames: Iterable[bytes], frame_ms: int) -> bytes:
    """A GIF that repeats.

    Args:
        frames: PNGs of one size, at least one.
        frame_ms: duration of each frame; equal frames are merged into a longer one.
    """
    drawn: list[tuple[Image.Image, int]] = []
    before = b""
    for frame in frames:
        if frame == before:
            drawn[-1] = (drawn[-1][0], drawn[-1][1] + frame_ms)
        else:
            drawn.append((Image.open(io.BytesIO(frame)).convert("RGB"), frame_ms))
        before = frame
    palette = _palette([image for image, _ in drawn])
    nearest = _Nearest(palette)
    first, *others = (nearest.image(image) for image, _ in drawn)
    file = io.BytesIO()
    first.save(
        file,
        "GIF",
        save_all=True,
        append_images=others,
        duration=[shown for _, shown in drawn],
        loop=0,
        optimize=True,
    )
    return file.getvalue()


class _Nearest:
    """Pictures in the colours of a palette; pillow's own search is only exact to four levels."""

    def __init__(self, palette: Colours) -> None:
        self._palette = palette
        self._known: dict[int, int] = {}

    def image(self, image: Image.Image) -> Image.Image:
        """One picture, each pixel in the nearest colour."""
        pixels = np.asarray(image).astype(np.int32)
        codes, where = np.unique(pixels @ _PLACES, return_inverse=True)
        for code in codes.tolist():
            if code not in self._known:
                colour = np.array([code >> 16, code >> 8 & 255, code & 255], dtype=np.int32)
                away = ((self._palette.astype(np.int32) - colour) ** 2).sum(axis=1)
                self._known[code] = int(away.argmin())
        numbers = np.array([self._known[code] for code in codes.tolist()], dtype=np.uint8)
        found = Image.fromarray(numbers[where].reshape(pixels.shape[:2]), mode="P")
        found.putpalette(self._palette.tobytes())
        return found


def _palette(images: list[Image.Image]) -> Colours:
    """The commonest colours of some frames: drawings are flat, so these are exact."""
    some = images[:: max(1, len(images) // _SAMPLES)]
    found = np.concatenate([np.asarray(image).reshape(-1, 3) for image in some])
    colours, counts = np.unique(found, axis=0, return_counts=True)
    return colours[np.argsort(-counts, kind="stable")[:_NUM_COLOURS]]
