"""Starting a run: the ranks, and what each of them does.

`launcher` has `nursery` fork processes, `worker` is one of them. Imports engine, models, trace and
L0; what ended a failed run is read from its traces by the command line.
"""
