"""Graph: the dependencies between events of one iteration; the page's modules draw them."""

PATH = "/graph"
TITLE = "pages.graph"
MAIN = "graph/main.js"
"""The page's first module, in the player."""
