"""The dashboard: web pages that read recorded traces. Never imports torch or the engine.

    entry        one trace in a list
    library      the traces in folders that may gain more
    shelf        traces besides the user's: those of the lessons
    bodies       response bodies: bytes, compressed once, with a tag
    results      results of a trace, each computed once for all browsers
    documents    replays as bodies
    guard        access control, and the browser's permissions
    api          the addresses of the player's requests
    exchange     JSON requests and responses
    classroom    the lessons of a server
    lessonapi    the addresses of lessons
    workbench    runs of a lesson, recorded here; simulated layouts
    planapi      the addresses of a simulated layout
    markdown     Markdown as HTML
    handouts     assignments on paper
    words/       texts of pages, one file per language
    pages/       one page per module: its address, its title, its contents
    figures/     geometry of figures: numbers in, positions out
    templates/   other pages as HTML, without a script of their own
    site         common parts of all pages: tabs, the list of runs
    components/  parts of pages that Dash renders
    callbacks/   Dash's requests to the server
    routes       the pages, each at its address
    page         a page as HTML: the player at once, Dash once painted
    app          all of it as one WSGI application
    server       the application on a port

The player (`player/`) is plain ES modules and does not depend on Dash, so that the file and the
server show the same.

The server reads traces by name and never by path, refuses requests under another host's name, and
does not let a page load anything from elsewhere. The requests that do more than read are listed in
`dashboards/guard.py`. Programs started by a page (a lesson's runs, a puzzle's program, a layout of
Plan) are children of one workbench (`workbench.py`), for the serving machine only. Pages show
puzzles through `puzzles.puzzle` and `puzzles.promised`, which need no torch. A lesson's page has no
right answers, but they are folded in the file that `zerosim export --lesson` writes; a room keeps
answers in bounded memory for a limited time, and does not reveal whether one is right before the
lecturer shows it to all.
"""
