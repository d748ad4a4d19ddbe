"""An address as a QR code, read off a wall."""

from __future__ import annotations

import io

import segno

_QUIET = 4
"""Modules of white around it, as ISO/IEC 18004 wants them."""


def qr_svg(address: str) -> bytes:
    """An SVG that fills its container; always black on white, as few readers accept the inverse."""
    drawn = io.BytesIO()
    code = segno.make(address, error="m", micro=False)
    code.save(drawn, kind="svg", border=_QUIET, light="white", xmldecl=False, omitsize=True)
    return drawn.getvalue()
