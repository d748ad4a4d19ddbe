"""What a plan says, in the language that is spoken: `words.toml` beside it."""

from __future__ import annotations

from zerosim.base.language import Words

WORDS = Words.beside(__file__)
