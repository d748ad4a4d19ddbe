"""What is answered with: bytes, compressed once, known by a tag.

Imports the standard library and flask.
"""

from __future__ import annotations

import gzip
import hashlib
from dataclasses import dataclass

from flask import Request, Response

_LEVEL = 6


@dataclass(frozen=True, slots=True)
class Body:
    """An answer's content.

    Attributes:
        packed: the content, gzipped; every browser takes it so.
        media_type: of the content.
        tag: changes with the content.
    """

    packed: bytes
    media_type: str
    tag: str

    @property
    def content(self) -> bytes:
        """The content as it was."""
        return gzip.decompress(self.packed)


def make_body(content: bytes, media_type: str) -> Body:
    """Compress a content; equal contents have equal tags."""
    tag = hashlib.sha256(content).hexdigest()[:32]
    return Body(gzip.compress(content, _LEVEL, mtime=0), media_type, tag)


def respond(body: Body, request: Request) -> Response:
    """Answer with a body, or that the browser has it already.

    It is asked for again each time ("no-cache"), so that a page never shows what is no longer so.
    """
    response = Response(mimetype=body.media_type)
    if request.accept_encodings["gzip"]:
        response.set_data(body.packed)
        response.headers["Content-Encoding"] = "gzip"
    else:
        response.set_data(body.content)
    response.set_etag(body.tag, weak=True)
    response.headers["Cache-Control"] = "no-cache"
    response.headers["Vary"] = "Accept-Encoding"
    response.make_conditional(request)
    return response
