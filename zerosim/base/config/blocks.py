"""The structure of a transformer for theory: blocks, their matrices, embedding and head.

The built-in models and the configurations of other models have the same description, so that
parameters, floating point operations and activations are counted in one way (`theory.transformer`,
`theory.saved`). Routing is assumed balanced: each expert gets equally many tokens.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum


class MatrixCut(StrEnum):
    """How tensor parallel ranks divide a matrix (M. Shoeybi et al., arXiv 1909.08053)."""

    COLUMNS = "columns"
    """By its outputs, with the bias."""
    ROWS = "rows"
    """By its inputs; the bias is whole on each rank."""
    WHOLE = "whole"


@dataclass(frozen=True, slots=True)
class Matrix:
    """A matrix that is applied to each token, or several equal ones."""

    inputs: int
    outputs: int
    cut: MatrixCut = MatrixCut.COLUMNS
    has_bias: bool = False
    count: int = 1

    @property
    def elements(self) -> tuple[int, int]:
        """Weights and biases: those that tensor parallel ranks divide, and those of each rank."""
        weights = self.count * self.inputs * self.outputs
        biases = self.count * self.outputs if self.has_bias else 0
        match self.cut:
            case MatrixCut.COLUMNS:
                return weights + biases, 0
            case MatrixCut.ROWS:
                return weights, biases
        return 0, weights + biases


@dataclass(frozen=True, slots=True, kw_only=True)
class Experts:
    """The MLPs (experts) among which a router chooses for each token.

    Attributes:
        count: E, number of experts.
        active: k, number of experts that are active for a token.
        matrices: the matrices of one expert.
        inner: f, the inner width of one expert.
    """

    count: int
    active: int
    matrices: tuple[Matrix, ...]
    inner: int

    @property
    def elements_each(self) -> int:
        """Parameters of one expert."""
        return sum(sum(one.elements) for one in self.matrices)


@dataclass(frozen=True, slots=True, kw_only=True)
class BlockShape:
    """One block.

    Attributes:
        matrices: those applied to every token: attention, MLP, shared experts, the router.
        norms: norms over the width of a token; norm_elements: all their weights and biases.
        between: tensors as wide as a token that backward needs: the inputs of norms and layers.
        queries, keys, values, mixed: elements per token of the inputs and output of attention.
        latent: elements per token between two matrices of attention (MLA).
        inner: width of the dense MLP; 0 if there is none.
        is_gated: the MLP has a gate (SwiGLU, GeGLU).
        has_rotary: positions are rotations of queries and keys.
        has_fused_norms: norms are LayerNorm, one operator in PyTorch; else RMSNorm.
        windows: pairs (tokens, layers): in `layers` of the layers, attention is limited to a window
            of `tokens` tokens.
    """

    matrices: tuple[Matrix, ...]
    heads: int
    norms: int
    norm_elements: int
    between: int = 4
    queries: int
    keys: int
    values: int
    mixed: int
    latent: int = 0
    inner: int
    is_gated: bool
    has_rotary: bool
    has_fused_norms: bool
    experts: Experts | None = None
    windows: tuple[tuple[int, int], ...] = ()
    layers: int

    def elements(self, tensor: int = 1, *, experts: bool = True) -> int:
        """Parameters per tensor-parallel rank; `experts`: including all experts."""
        cut, whole = self._parts
        found = cut // tensor + whole
        return found + (self.expert_elements(tensor) if experts else 0)

    def expert_elements(self, tensor: int = 1) -> int:
        """Parameters of all experts per tensor-parallel rank."""
        return self.experts.count * self.experts.elements_each // tensor if self.experts else 0

    @property
    def _parts(self) -> tuple[int, int]:
        """Parameters that are sharded, and those that are not."""
        cut, whole = 0, self.norm_elements
        for one in self.matrices:
            parts = one.elements
            cut, whole = cut + parts[0], whole + parts[1]
        return cut, whole

    @property
    def active_elements(self) -> int:
        """Parameters that are applied to one token."""
        idle = 0
        if self.experts:
            idle = (self.experts.count - self.experts.active) * self.experts.elements_each
        return self.elements() - idle

    @property
    def active_inner(self) -> int:
        """Width of all MLPs that are applied to one token."""
        return self.inner + (self.experts.active * self.experts.inner if self.experts else 0)

    def attended(self, sequence: int) -> float:
        """Tokens to which a token attends, averaged over layers; s of s as the papers count.

        Causal attention attends to half of them on average. A window attends to w tokens, or fewer
        at the beginning: (2 w - w^2 / s) by the same counting.
        """
        seen = float(self.layers * sequence)
        for window, layers in self.windows:
            if window < sequence:
                seen -= layers * (sequence - 2 * window + window**2 / sequence)
        return min(float(sequence), seen / self.layers)


@dataclass(frozen=True, slots=True, kw_only=True)
class Ends:
    """Parameters before the first block and after the last, without the token embedding.

    Attributes:
        tied: whether the head's matrix is the token embedding.
        positions: elements of the position embedding.
        first, last: elements of norms and biases, before the blocks and in the head.
    """

    tied: bool
    positions: int = 0
    first: int = 0
    last: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Architecture:
    """The structure of a model according to its configuration.

    Attributes:
        family: the model type in the configuration.
        width: h; heads: of queries; key_heads: of keys, which tensor parallel ranks divide.
        context: longest sequence, s.
        blocks: kinds of blocks; the first kind is that of most layers.
        left_out: settings of the configuration that are not counted here, in whole phrases.
    """

    family: str
    width: int
    heads: int
    key_heads: int
    context: int
    vocabulary: int
    blocks: tuple[BlockShape, ...]
    ends: Ends
    left_out: tuple[str, ...] = ()

    @property
    def layers(self) -> int:
        """The number of layers, L."""
        return sum(one.layers for one in self.blocks)

    @property
    def num_parameters(self) -> int:
        """All parameters, including those of experts that are seldom active."""
        return count_parameters(self.blocks, self.ends, self.vocabulary, self.width)


def count_parameters(
    blocks: tuple[BlockShape, ...], ends: Ends, vocabulary: int, width: int, *, active: bool = False
) -> int:
    """Parameters of a model; `active`: only those applied to one token."""
    tables = vocabulary * width * (1 if ends.tied else 2)
    of_blocks = sum(
        one.layers * (one.active_elements if active else one.elements()) for one in blocks
    )
    return of_blocks + tables + ends.positions + ends.first + ends.last
