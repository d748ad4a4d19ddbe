"""The lessons: ZeRO taught with traces. Never imports torch or the engine.

lessonNN_*.py    a lesson: percent-format Python that runs as a script and opens as a notebook
lessonNN_*.toml  its questions, and the texts around it
course       reads both: a lesson as steps of blocks
questions    a question: its form, its check and its explanation
expressions  the right answer: an expression over traces and theory
facts        the names available in such expressions
recordings   the runs of the lessons, recorded and committed, or recorded again
views        figures: bars and tables, printed by a script and drawn by the page
lab          the functions called by a lesson's own code

    runs.toml            how each run is recorded
    misconceptions.toml  common mistakes of students, by name, with a hint for each
    claims.toml          claims about ZeRO on the web, each to be tested
    coverage.md          topics of other courses, and where they are taught here; checked by a test
"""
