"""The secrets of a room: its code for a class, its key for the owner, a student's own token."""

from __future__ import annotations

import re
import secrets
from typing import TypeGuard

ALPHABET = "23456789ABCDEFGHJKMNPQRSTUVWXYZ"
"""Characters that cannot be confused on a projector: no 0 and O, no 1, I and L."""
CODE_LENGTH = 6
KEY_BYTES = 24
_WHO = re.compile(r"[A-Za-z0-9_-]{16,64}")


def new_code() -> str:
    """A random code, not guessable while a room is open: one of 900 million."""
    return "".join(secrets.choice(ALPHABET) for _ in range(CODE_LENGTH))


def new_key() -> str:
    """A random key."""
    return secrets.token_urlsafe(KEY_BYTES)


def read_code(given: object) -> str:
    """The code of a class, from a student's input; "" if it is not one."""
    if not isinstance(given, str) or len(given) > 4 * CODE_LENGTH:
        return ""
    return "".join(given.upper().replace("-", " ").split())


def is_same_key(one: str, other: str) -> bool:
    """Compare keys in constant time."""
    return secrets.compare_digest(one.encode(), other.encode(errors="replace"))


def is_who(given: object) -> TypeGuard[str]:
    """Whether this is a token as created by a student's page."""
    return isinstance(given, str) and _WHO.fullmatch(given) is not None
