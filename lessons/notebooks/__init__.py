"""Notebooks: every lesson and every puzzle, for a machine where nothing is installed yet.

    python -m zerosim.lessons.notebooks    writes them anew, beside this file

    making    their cells
    desk      what the cells of a puzzle's notebook call: check a program, watch it

`first_steps.ipynb` is written by hand.
"""

from zerosim.lessons.notebooks.desk import check, watch

__all__ = ["check", "watch"]
