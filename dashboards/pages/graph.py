"""Graph: who waits for whom? The event graph of one iteration; the page's modules draw it."""

PATH = "/graph"
TITLE = "pages.graph"
MAIN = "graph/main.js"
"""The page's first module, in the player."""
