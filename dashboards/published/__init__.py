"""The course and the documentation as a folder that any web host serves: `zerosim export --site`.

Nothing is drawn here that a page does not draw already: lessons, puzzles and replays are the
server's pages as files (`away.py`), documents are Markdown as lessons are. `book.py` lists the
contents, `addresses.py` the places of pages and the targets of links, `writing.py` makes the files,
and `index.py` the index of the search.
"""
