"""Notebooks: every lesson and every puzzle, for a machine without an installation.

    zerosim notebook 5    writes one; `make notebooks` writes all of them

    making    their cells
    desk      the functions called by a puzzle's notebook: check a program, watch it

`first_steps.md` is the one of no lesson: its text and its blocks of Python are the cells.
"""

from zerosim.lessons.notebooks.desk import check, watch

__all__ = ["check", "watch"]
