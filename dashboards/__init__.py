"""The dashboard: web pages that read recorded traces. Never imports torch or the engine.

    entry        one trace as it stands in a list
    library      which traces there are, in folders that may gain more
    bodies       what is answered with: bytes, compressed once, known by a tag
    documents    replays as bodies, each made once however many browsers ask
    playerfiles  the player's modules, style and page, read from `player/`
    guard        who may ask, and what a browser may do with the answer
    api          the addresses that the player reads
    pages/       one page a module: its address, its title, what Dash renders of it
    components/  parts of pages that Dash renders
    callbacks/   what Dash asks the server for
    page         a page as HTML: the player at once, Dash when it is shown
    app          all of it as one WSGI application
    server       the application on a port
    offline      a replay as one file

The player (`player/`) is plain ES modules and knows nothing of Dash, so that the file and the
server show the same.
"""
