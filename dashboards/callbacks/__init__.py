"""Dash's requests to the server; few, each with a purpose for the user.

A page with controls that need Python (Verify, Plan) is a Dash page and a function of its address,
which a callback follows (`callbacks/pages.py`). The server writes the same components as HTML
(`components/markup.py`), so numbers are visible at once; Dash starts after the first paint. It is
slow per component, so Plan's folded tables are loaded when they are unfolded, and `assets/dash.js`
fits figures to the page, each drawn once. Figures are those of `zerosim/plots`, drawn by plotly's
basic bundle (0.39 MB compressed, all of it 1.47), which evaluates no text. No other page loads
either: Compare's bars follow the cursor, where three charts of plotly take 32 ms per step and the
page's canvases 6 (a frame has 17); a lesson's bars and drawings need no script, for the phones of a
class.
"""
