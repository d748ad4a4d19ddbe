"""An address as a QR code, to be scanned from a projected page."""

from __future__ import annotations

import io

import segno

_QUIET = 4
"""White modules around the code, as ISO/IEC 18004 requires."""


def qr_svg(address: str) -> bytes:
    """An SVG that fills its container; always black on white, as few readers accept the inverse."""
    drawn = io.BytesIO()
    code = segno.make(address, error="m", micro=False)
    code.save(drawn, kind="svg", border=_QUIET, light="white", xmldecl=False, omitsize=True)
    return drawn.getvalue()
