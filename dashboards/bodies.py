"""Response bodies: bytes, compressed once, identified by a tag."""

from __future__ import annotations

import gzip
import hashlib
from dataclasses import dataclass

_LEVEL = 6


@dataclass(frozen=True, slots=True)
class Body:
    """The content of a response.

    Attributes:
        packed: the content, gzipped; every browser accepts this.
        media_type: media type of the content.
        tag: changes with the content.
    """

    packed: bytes
    media_type: str
    tag: str

    @property
    def content(self) -> bytes:
        """The original content."""
        return gzip.decompress(self.packed)


def make_body(content: bytes, media_type: str) -> Body:
    """Compress a content; equal contents have equal tags."""
    tag = hashlib.sha256(content).hexdigest()[:32]
    return Body(gzip.compress(content, _LEVEL, mtime=0), media_type, tag)
