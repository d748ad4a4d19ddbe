"""The words of a plan, in the current language; they are in `words.toml`."""

from __future__ import annotations

from zerosim.base.language import Words

WORDS = Words.beside(__file__)
