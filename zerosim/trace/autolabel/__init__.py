"""What a program that says nothing does: phases, units, purposes, and how it divides its training.

    labeler      installs and removes all of it; steps aside where an engine speaks for itself
    phases       forward, backward, update: from modules, autograd and optimizers
    units        which modules compute, and in which model
    names        what parameters, gradients and the loss are called
    discovery    what memory is for
    by_hand      what a program calls on its parameters and gradients itself
    rules        the purpose of a collective, from the functions of frameworks that asked for it
    observer     how a system is found in a program, whichever it is (`zerosim.systems`)
    strategies   which of that is new, as rows `Strategy`
    modules, entries   the calls of PyTorch that all this is seen in
    fail_safe    keeps a mistake in all this from the program

Everything here is a label: the operators are intercepted in `zerosim.trace.intercept`, and what
cannot be attributed stays unlabelled. Nothing of the program is changed: hooks of PyTorch that
return nothing, and functions that pass everything on. The core of `zerosim.trace` knows of it what
`zerosim.trace.labeler` says; `session` puts the two together.
"""
