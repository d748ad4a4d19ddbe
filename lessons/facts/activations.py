"""Activations: those that a block keeps for backward, measured, and by Korthikanti et al.'s law.

Bytes of one rank, activations of two bytes.
"""

from __future__ import annotations

from zerosim.base.config import RunConfig
from zerosim.base.config.shapes import GPTConfig, shape_of
from zerosim.lessons.facts.memory import MemoryFacts
from zerosim.schema.memory import Role
from zerosim.theory.operators import Computing
from zerosim.theory.saved import (
    KeptActivations,
    Recompute,
    Saved,
    block_bytes,
    formula,
    kept_in_block,
)
from zerosim.theory.transformer import LayerCut

THEIRS = KeptActivations(has_scores=True, has_dropout=True)
"""As in the paper's transformer: with scores of all pairs of tokens, and with dropout."""
VARIANTS = {
    "none": (False, Recompute.NONE),
    "sequence": (True, Recompute.NONE),
    "selective": (False, Recompute.SELECTIVE),
    "both": (True, Recompute.SELECTIVE),
    "full": (False, Recompute.FULL),
}
"""Besides tensor parallelism: whether the sequence is sharded, and the recomputed part."""
Sizes = tuple[int, int, int, int, int]
"""Layers, width, heads, sequences of a micro-batch, tokens of each."""


class ActivationFacts(MemoryFacts):
    """Facts of activations."""

    # measured, of zerosim's own runs

    def kept_by(self, run: str, unit: str, rank: int = 0) -> int:
        """Activations that a rank keeps of a unit at the start of backward."""
        return self.held_at(run, "backward", Role.ACTIVATIONS, unit, rank)

    def sbh(self, run: str) -> int:
        """The elements between two blocks, b s h, of one micro-batch of a rank."""
        computing = self._computing(run)
        return computing.tokens * computing.shape.width

    def block_law(self, run: str) -> int:
        """Activations of a run's block under the law: no dropout, no scores."""
        return block_bytes(self._computing(run), KeptActivations())

    # laws, for models that are not trained here

    def kept_law(self, sizes: Sizes, tensor: int = 1, variant: str = "none") -> int:
        """Activations of all blocks of a GPT on a rank, by the law, in one of the `VARIANTS`."""
        layers, width, heads, batch, sequence = sizes
        is_cut, recompute = VARIANTS[variant]
        shape = GPTConfig(layers=layers, width=width, heads=heads, context=sequence)
        computing = Computing(shape, batch, sequence, LayerCut(tensor, is_cut))
        keeping = KeptActivations(recompute, THEIRS.has_scores, THEIRS.has_dropout)
        return layers * block_bytes(computing, keeping)

    def paper_kept(self, sizes: Sizes) -> int:
        """The ZeRO paper's estimate, section 3.2: 12 b s h elements of two bytes for each block."""
        layers, width, _, batch, sequence = sizes
        return 2 * 12 * batch * sequence * width * layers

    def least_first(self, sizes: Sizes, tensor: int) -> list[str]:
        """The variants in order: the one that keeps least first."""
        return sorted(VARIANTS, key=lambda each: self.kept_law(sizes, tensor, each))

    def block_parts(self, run: str) -> tuple[Saved, ...]:
        """All activations of a block of a run's shape, with dropout and with scores."""
        return kept_in_block(self._computing(run), THEIRS)

    def block_with_all(self, run: str) -> int:
        """The same, together."""
        return block_bytes(self._computing(run), THEIRS)

    def activation_formula(self, run: str) -> str:
        """The law in symbols, of a block with dropout and scores."""
        return formula(self._computing(run).shape, THEIRS, "")

    def _computing(self, run: str) -> Computing:
        config = RunConfig.from_plain(self._run(run).trace.manifest.run)
        shape, cut = shape_of(config.model), LayerCut(config.tensor_parallel, ends=False)
        return Computing(shape, config.batch, shape.context, cut, self.element_bytes(run))
