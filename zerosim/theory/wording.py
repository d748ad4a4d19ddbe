"""What theory says, in the language that is spoken.

May import the standard library and layer L0.
"""

from __future__ import annotations

from zerosim.language import Words

said = Words.beside(__file__)
"""A sentence, or a part of one, by its key in `words.toml`."""
