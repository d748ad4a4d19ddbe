"""The paper's Table 1, as printed and as computed from the law.

Source: S. Rajbhandari et al., "ZeRO" (arXiv 1910.02054), Table 1.
"""

from __future__ import annotations

from dataclasses import dataclass
from fractions import Fraction

from zerosim.theory.zero_states import stage_states


@dataclass(frozen=True, slots=True)
class TableCell:
    """One cell of the paper's Table 1.

    Attributes:
        num_ranks: degree of data parallelism.
        model: "7.5B", "128B" or "1T".
        num_parameters: Psi of that model.
        stage: 1, 2, 3: P_os, P_os+g, P_os+g+p.
        printed: GB (10^9 B) as the paper prints it.
        exact_gb: GB by the law.
    """

    num_ranks: int
    model: str
    num_parameters: int
    stage: int
    printed: str
    exact_gb: Fraction

    @property
    def last_place(self) -> Fraction:
        """One unit in the last printed place; the paper rounds some cells and truncates others."""
        return Fraction(1, 10 ** len(self.printed.partition(".")[2]))


_MODELS = (("7.5B", 7_500_000_000), ("128B", 128 * 10**9), ("1T", 10**12))
_TABLE_1 = {
    1: "120 120 120 2048 2048 2048 16000 16000 16000",
    4: "52.5 41.3 30 896 704 512 7000 5500 4000",
    16: "35.6 21.6 7.5 608 368 128 4750 2875 1000",
    64: "31.4 16.6 1.88 536 284 32 4187 2218 250",
    256: "30.4 15.4 0.47 518 263 8 4046 2054 62.5",
    1024: "30.1 15.1 0.12 513 257 2 4011 2013 15.6",
}


def paper_table_1() -> tuple[TableCell, ...]:
    """The 54 cells of Table 1 (arXiv 1910.02054), each with the value of the law.

    Returns:
        Row by row, in the paper's order. Every cell is within `last_place` of `exact_gb`.
    """
    cells = []
    for num_ranks, row in _TABLE_1.items():
        columns = ((model, psi, stage) for model, psi in _MODELS for stage in (1, 2, 3))
        for (model, psi, stage), printed in zip(columns, row.split(), strict=True):
            exact_gb = stage_states(stage, num_ranks, psi).law_bytes() / 10**9
            cells.append(TableCell(num_ranks, model, psi, stage, printed, exact_gb))
    return tuple(cells)
