"""A run as people see it: tables, figures, replays, files.

    reading      `zerosim.load`: a `Run`, which every command and page asks
    replay       an iteration as a document that the player shows
    plots        a figure for each kind of table
    export       files for other programs, pages that need no server, pictures

It is given a loaded trace and computes nothing that `analysis` and `verify` do not give.
Begin with `reading.run`.
"""
