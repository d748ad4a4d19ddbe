"""Protocol Buffers' encoding, as far as files of other tools need it.

Source: protobuf.dev, "Encoding": a field is its number and wire type, then a varint, eight bytes,
or a length and that many bytes.
"""

from __future__ import annotations

_VARINT, _EIGHT_BYTES, _COUNTED = 0, 1, 2


def varint(number: int) -> bytes:
    """A whole number, seven bits a byte, the lowest first; negative ones as 64-bit integers."""
    number &= (1 << 64) - 1
    found = bytearray()
    while number > 0x7F:
        found.append(number & 0x7F | 0x80)
        number >>= 7
    found.append(number)
    return bytes(found)


def integer(field: int, number: int) -> bytes:
    """An int32, int64, uint64, bool or enum."""
    return varint(field << 3 | _VARINT) + varint(number)


def fixed64(field: int, number: int) -> bytes:
    """A fixed64."""
    return varint(field << 3 | _EIGHT_BYTES) + number.to_bytes(8, "little")


def counted(field: int, content: str | bytes) -> bytes:
    """A string, bytes, or a message that is encoded already."""
    raw = content.encode() if isinstance(content, str) else content
    return varint(field << 3 | _COUNTED) + varint(len(raw)) + raw


def packed(field: int, numbers: tuple[int, ...]) -> bytes:
    """A repeated integer; empty if there is none."""
    return counted(field, b"".join(map(varint, numbers))) if numbers else b""
