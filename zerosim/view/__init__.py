"""Views of a run: tables, figures, replays, files.

    reading      `zerosim.load`: a `Run`, used by every command and page
    replay       an iteration as the document of the player
    plots        a figure for each kind of table
    export       files for other programs, standalone pages, pictures

It takes a loaded trace and computes nothing that `analysis` and `verify` do not provide.
Begin with `reading.run`.
"""
