"""Labels for a program without labels: phases, units, purposes, and its partitioning.

    labeler      installs and removes the rest; yields to an engine with labels of its own
    phases       forward, backward, update: from modules, autograd and optimizers
    units        the computing module and its model
    names        the names of parameters, gradients and the loss
    discovery    the roles of memory
    by_hand      the program's own collectives on its parameters and gradients
    rules        the purpose of a collective, from the functions of frameworks that called it
    observer     the interface that finds a system in a program (`zerosim.systems`)
    strategies   changes of the partitioning, as rows `Strategy`
    modules, entries   the intercepted calls of PyTorch
    fail_safe    isolates the program from errors in this package

Everything here is a label: the operators are intercepted in `zerosim.trace.intercept`, and events
that cannot be attributed stay unlabelled. The program is not changed: hooks return nothing, and
wrapped functions pass everything on. The core of `zerosim.trace` uses only the interface
`zerosim.trace.labeler`; `session` connects the two.
"""
