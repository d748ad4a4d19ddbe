"""The words of theory, in the current language."""

from __future__ import annotations

from zerosim.base.language import Words

said = Words.beside(__file__)
"""A sentence, or a part of one, by its key in `words.toml`."""
