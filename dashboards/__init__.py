"""The dashboard: web pages that read recorded traces. Never imports torch or the engine.

    entry        one trace as it stands in a list
    library      which traces there are, in folders that may gain more
    shelf        traces beside the user's: those of the lessons
    bodies       what is answered with: bytes, compressed once, known by a tag
    results      what is made of a trace, each made once however many browsers ask
    documents    replays as bodies
    guard        who may ask, and what a browser may do with the answer
    api          the addresses that the player reads
    exchange     JSON that is sent and answered
    classroom    the lessons as a server teaches them
    lessonapi    the addresses of lessons
    workbench    a lesson's runs, recorded anew here; layouts, simulated
    planapi      the addresses of a layout that is simulated
    markdown     Markdown as HTML
    handouts     assignments on paper
    words/       what pages say themselves, for one language a file
    pages/       one page a module: its address, its title, what it shows
    figures/     where things stand in a figure: numbers in, places out
    templates/   pages beside Replay as HTML, without a script of their own
    site         what all pages have in common: tabs, the list of runs
    components/  parts of pages that Dash renders
    callbacks/   what Dash asks the server for
    routes       the pages, each at its address
    page         a page as HTML: the player at once, Dash when it is shown
    app          all of it as one WSGI application
    server       the application on a port

The player (`player/`) is plain ES modules and knows nothing of Dash, so that the file and the
server show the same.

The server reads traces by name and never by path, refuses requests under another host's name, and
lets a page load nothing from elsewhere. What is not only read is a list in `dashboards/guard.py`.
What runs for a page (a lesson's runs, a program for a puzzle, a layout of Plan) is a child of one
workbench (`workbench.py`), for the machine that serves alone. Pages show puzzles through
`puzzles.puzzle` and `puzzles.promised`, which need no torch. No right answer of a lesson is in its
page, but folded in the file that `zerosim export --lesson` writes; a room keeps answers in memory,
bounded, forgets them, and tells nobody whether one is right before the lecturer shows it to all.
"""
