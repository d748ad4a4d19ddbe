"""What opens a room: its code for a class, its key for who opened it, a student's own token."""

from __future__ import annotations

import re
import secrets
from typing import TypeGuard

ALPHABET = "23456789ABCDEFGHJKMNPQRSTUVWXYZ"
"""What is not taken for something else on a wall: no 0 and O, no 1, I and L."""
CODE_LENGTH = 6
KEY_BYTES = 24
_WHO = re.compile(r"[A-Za-z0-9_-]{16,64}")


def new_code() -> str:
    """A code that nobody guesses while a room is open: one of 900 million."""
    return "".join(secrets.choice(ALPHABET) for _ in range(CODE_LENGTH))


def new_key() -> str:
    """A key that nobody guesses."""
    return secrets.token_urlsafe(KEY_BYTES)


def read_code(given: object) -> str:
    """A code as it was given to a class, from how a student types it; "" if it is none."""
    if not isinstance(given, str) or len(given) > 4 * CODE_LENGTH:
        return ""
    return "".join(given.upper().replace("-", " ").split())


def is_same_key(one: str, other: str) -> bool:
    """Compare keys, in a time that tells nothing of them."""
    return secrets.compare_digest(one.encode(), other.encode(errors="replace"))


def is_who(given: object) -> TypeGuard[str]:
    """Whether this is a token as a student's page makes it."""
    return isinstance(given, str) and _WHO.fullmatch(given) is not None
