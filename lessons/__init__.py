"""The lessons: ZeRO taught with traces. Never imports torch or the engine.

lessonNN_*.py    a lesson: percent-format Python that runs as a script and opens as a notebook
lessonNN_*.toml  its questions, and what stands around its text
course       reads both: a lesson as steps of blocks
questions    a question: how it is asked, checked and explained
expressions  what a right answer is: an expression over traces and theory
facts        the names that such expressions know
recordings   the runs that the lessons look at, recorded and committed, or made anew
views        figures: bars and tables, printed by a script and drawn by the page
lab          what a lesson's own code calls

runs.toml            how each run is recorded
misconceptions.toml  what students get wrong, by name, with a hint that leads on
claims.toml          what is said of ZeRO on the web, each to be tested
coverage.md          what is spoken of elsewhere, and where it is taught here; held by a test
"""
