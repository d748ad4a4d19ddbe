"""The course and the documentation as a folder that any web host serves: `zerosim export --site`.

This package draws nothing of its own: lessons, puzzles and replays are the server's pages as files
(`away.py`), and documents are Markdown, like lessons. `book.py` lists the contents, `addresses.py`
the places of pages and the targets of links, `writing.py` makes the files, and `index.py` the index
of the search.
"""
