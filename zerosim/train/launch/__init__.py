"""Launching a run: the ranks, and the work of each.

Modules:

    forkserver    a process that has imported PyTorch and forks ranks: the owner's side
    forking       the server's side
    rendezvous    the rendezvous of ranks; `reachable` lists the sockets open to other hosts
    ranks         starts ranks, waits for them, ends them
    launcher, worker, job   a run of zerosim's own: from the command line, and on a rank
    calls         a function on ranks, for tests
    command, injected   a user's command, with traced ranks
"""
